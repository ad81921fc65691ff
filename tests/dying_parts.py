"""Explorations that are watched from outside, and an index on 127.0.0.1 that can die."""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Inspection, Role
from tests.containers.wheels import make_wheel
from tests.laboratory import Laboratory
from tests.store_parts import until
from tests.tiny_index import TinyIndex

SIZE = 20_000


def serve(
    index: TinyIndex, folder: Path, version: str, source: str, *, lie: str = "", hashed: str = ""
) -> str:
    """Serve a release of ``speedy`` whose metadata needs no wheel; return the wheel's path."""
    folder.mkdir(exist_ok=True)
    _, wheel = make_wheel(folder, "speedy", {"speedy.py": source}, version=version, lie=lie)
    attributes = 'data-core-metadata="true" data-requires-python="&gt;=3.6"'
    path = index.add(wheel.name, wheel.read_bytes(), attributes=attributes, hashed=hashed)
    path = path.removeprefix(index.url)
    metadata = f"Metadata-Version: 2.1\nName: speedy\nVersion: {version}\n"
    index.files[f"{path}.metadata"] = metadata.encode()
    return path


def downloads(index: TinyIndex) -> Counter[str]:
    """Return how often each wheel was asked for; HEAD asks for its size alone."""
    return Counter(
        path for method, path, _ in index.requested if method == "GET" and path.endswith(".whl")
    )


def recorded(laboratory: Laboratory) -> tuple[Inspection, ...]:
    if not laboratory.kb.exists():
        return ()
    with open_database(laboratory.kb) as database:
        return database.inspections()


def versions(laboratory: Laboratory) -> dict[str, str]:
    """Return the version of ``speedy`` in each stack."""
    with open_database(laboratory.kb) as database:
        return {each.id: each.lock.versions["speedy"] for each in database.stacks()}


def watch(
    laboratory: Laboratory,
    running: "subprocess.Popen[str]",
    condition: Callable[[tuple[Inspection, ...]], object],
) -> None:
    """Wait for something in the knowledge base while an exploration goes on."""

    def seen() -> bool:
        if running.poll() is not None:
            pytest.fail(f"it ended early: {running.communicate()[1]}")
        return bool(condition(recorded(laboratory)))

    until(seen, timeout_s=120)


def built(laboratory: Laboratory) -> dict[str, int]:
    """Return the marker of each finished virtualenv, as a number: one built anew has another."""
    found = (laboratory.root / "cache").glob("virtualenvs/environments/*/.complete")
    return {path.parent.name: path.stat().st_ino for path in found}


def spans(inspections: Iterable[Inspection]) -> dict[tuple[str, int], tuple[float, float]]:
    """Return when each block began and ended, in seconds."""
    from datetime import datetime

    found: dict[tuple[str, int], tuple[float, float]] = {}
    for each in inspections:
        start = datetime.fromisoformat(each.started_at).timestamp()
        first, last = found.get((each.campaign_id, each.block), (start, start))
        span = (min(first, start), max(last, start + each.duration_s))
        if each.block:
            found[each.campaign_id, each.block] = span
    return found


def assert_nothing_twice(inspections: tuple[Inspection, ...]) -> None:
    """Assert that no place of a block is taken twice, and no stack was tried again."""
    places = Counter((e.campaign_id, e.block, e.position) for e in inspections if e.block)
    assert set(places.values()) <= {1}
    tried = Counter(
        (e.campaign_id, e.stack_id, e.indicator_id)
        for e in inspections
        if e.role is Role.CALIBRATION
    )
    assert set(tried.values()) <= {1}


def assert_clean(laboratory: Laboratory) -> None:
    """Assert that the store is whole."""
    done = laboratory.run("images", "fsck")
    assert done.returncode == 0, done.stdout + done.stderr
