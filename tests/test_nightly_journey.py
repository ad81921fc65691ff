"""Nights end to end: an index on loopback with planted releases, real builds, real measurements."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import laboratory
from tests.laboratory import Laboratory
from tests.receiver import receiving
from tests.tiny_index import TinyIndex, make_wheel, serving, sha256

INDICATOR = laboratory.INDICATOR.replace("1.0", "float(speedy.VALUE)")
CONFIG = """
[watch.speedy]
requirements = ["speedy"]
vary = ["helper"]
executor = "virtualenv"
pi = ["work.py"]
budget = "{budget}"
metrics = ["file:."]
"""
LOOPS = 40_000


@dataclass(frozen=True, kw_only=True)
class Release:
    """A wheel as it is planted. work: relative to the first release; it is computed, not slept."""

    work: float = 1.0
    value: float = 1.0
    head: str = ""
    padding: int = 0
    tag: str = "py3-none-any"
    yanked: bool = False

    def source(self, name: str) -> bytes:
        if name == "helper":
            lines = [f"EXTRA = {round(LOOPS * (self.work - 1))}"]
        else:
            lines = [
                "import helper",
                f"VALUE = {self.value}",
                "def work():",
                f"    return sum(i * i for i in range({round(LOOPS * self.work)} + helper.EXTRA))",
            ]
        return "\n".join([self.head, *lines, ""]).encode()


def plant(index: TinyIndex, name: str, releases: dict[str, Release]) -> None:
    """Replace the page of a package."""
    lines = ["<!DOCTYPE html>"]
    for version, each in releases.items():
        filename = f"{name}-{version}-{each.tag}.whl"
        members = {
            f"{name}.py": each.source(name),
            f"{name}_data.bin": bytes(each.padding),
            f"{name}-{version}.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {each.tag}\n".encode(),
        }
        requires = ("helper",) if name == "speedy" else ()
        content = make_wheel(name, version, requires=requires, members=members)
        index.files[f"/files/{filename}"] = content
        yanked = ' data-yanked="broken"' if each.yanked else ""
        link = f"../../files/{filename}#sha256={sha256(content)}"
        lines.append(f'<a href="{link}"{yanked}>{filename}</a>')
    page = f"/simple/{name}/"
    index.files[page] = "\n".join(lines).encode()
    index.types[page] = "text/html"
    index.headers[page] = {"ETag": f'"{sha256(index.files[page])[:16]}"'}


@dataclass
class World:
    """An index, a laboratory that uses it, and what is released by now."""

    index: TinyIndex
    laboratory: Laboratory
    speedy: dict[str, Release]
    helper: dict[str, Release]

    def night(self, *options: str) -> Any:
        plant(self.index, "speedy", self.speedy)
        plant(self.index, "helper", self.helper)
        done = self.laboratory.run("nightly", "--json", *options)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 3, 7), done.stderr
        (night,) = json.loads(done.stdout)["nights"]
        return night

    @contextmanager
    def begun(self, phase: str) -> Iterator[subprocess.Popen[str]]:
        """Begin a night; the block runs when it reports a phase."""
        plant(self.index, "speedy", self.speedy)
        with subprocess.Popen(
            self.laboratory.command("nightly", "--json"), cwd=self.laboratory.root,
            env=self.laboratory.environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            assert any(phase in line for line in process.stderr), f"it never was at {phase}"
            yield process

    @contextmanager
    def killed_at(self, phase: str) -> Iterator[None]:
        """Begin a night, kill it (SIGKILL) when it reports a phase and the block is done."""
        with self.begun(phase) as process:
            process.send_signal(signal.SIGSTOP)
            yield
            process.kill()
            assert process.stdout is not None
            assert process.stdout.read() == ""

    def ended_at(self, phase: str, number: signal.Signals) -> tuple[int, Any]:
        """Return the exit code and the report of a night that gets a signal at a phase."""
        with self.begun(phase) as process:
            process.send_signal(number)
            output, _ = process.communicate(timeout=120)
            return process.returncode, json.loads(output)

    def decided(self) -> Any:
        """Return a night after which all is decided, with the results of those before it.

        Other tests measure beside this one: a night whose controls fail decides nothing, as it
        should, and the next one begins anew.
        """
        events: list[str] = []
        findings: list[Any] = []
        for _ in range(4):
            night = self.night()
            night["events"] = events = [*events, *night["events"]]
            night["findings"] = findings = [*findings, *night["findings"]]
            if not night["undecided"]:
                break
        return night


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "work.py").write_text(INDICATOR)
    (tmp_path / "stackgen.toml").write_text(CONFIG.format(budget="90s"))
    with serving() as index:
        yield World(
            index=index,
            laboratory=Laboratory(root=tmp_path, index=index.simple),
            speedy={"1.0": Release()},
            helper={"1.0": Release()},
        )


BROKEN = {("speedy", "1.1", "broken")}


@pytest.mark.journey
def test_nights_that_are_killed_or_lose_the_index_lose_nothing_and_send_nothing_twice(
    world: World,
) -> None:
    world.night()
    world.speedy["1.1"] = Release(head="import no_such_module")
    with receiving() as receiver:
        (world.laboratory.root / "hook").write_text(receiver.url)
        with (world.laboratory.root / "stackgen.toml").open("a") as file:
            file.write(f'notify = ["webhook:file:{world.laboratory.root / "hook"}"]\n')
        wheel = "/files/speedy-1.1-py3-none-any.whl"
        world.index.faults[wheel] = [503] * 99
        night = world.night()
        assert (found(night), night["outcome"]) == (set(), "undecided")
        world.index.faults.clear()
        with world.killed_at("building B"):
            other = world.laboratory.run("nightly")
            assert other.returncode == 3, other.stderr
            assert "another night of this watch is under way" in other.stdout
        with world.killed_at("A difference"):
            pass
        assert found(world.night()) == BROKEN
        after = world.night()
        assert (found(after), after["outcome"]) == (set(), "nothing new")
        assert any(each.startswith("persists: speedy 1.1") for each in after["events"])
        assert len(receiver.received) == 1


@pytest.mark.journey
def test_a_signal_ends_all_watches_and_the_next_night_goes_on(world: World) -> None:
    with (world.laboratory.root / "stackgen.toml").open("a") as file:
        file.write('[watch.other]\nrequirements = ["helper"]\nexecutor = "virtualenv"\n')
    plant(world.index, "helper", world.helper)
    plant(world.index, "speedy", world.speedy)
    assert world.laboratory.run("nightly").returncode == 0
    world.speedy["1.1"] = Release(head="import no_such_module")
    code, report = world.ended_at("building A", signal.SIGTERM)
    assert code == report["exit_code"] == 128 + signal.SIGTERM
    nights = {each["watch"]: each["error"] for each in report["nights"]}
    assert nights["speedy"] == "you interrupted it"
    assert nights["other"].startswith("it did not begin")
    done = world.laboratory.run("nightly")
    assert (done.returncode, "speedy 1.1 is broken" in done.stdout) == (7, True), done.stderr


def found(night: Any) -> set[tuple[str, str, str]]:
    return {(e["package"], e["version"], e["kind"]) for e in night["findings"]}


@pytest.mark.journey
def test_nights_find_what_was_planted(world: World) -> None:
    first = world.night()
    assert first["outcome"] == "nothing new"
    world.index.requested.clear()
    assert world.night()["outcome"] == "nothing new"
    assert world.index.paths("/files/") == []  # one page of each watched package, no more
    assert sorted(world.index.paths("/simple/")) == ["/simple/helper/", "/simple/speedy/"]

    world.speedy["1.1"] = Release(work=1.4)
    world.helper["1.1"] = Release(tag="py3-none-win_amd64")
    night = world.decided()
    assert "helper 1.1: no wheel for this platform yet" in night["events"]
    assert found(night) == {("speedy", "1.1", "slower")}, (
        night["undecided"],
        night["error"],
        night["events"],
    )
    (finding,) = night["findings"]
    assert 1 / 1.6 < finding["ratio"] < 1 / 1.2
    listed = world.laboratory.run("findings", "list")
    assert "speedy 1.1 is slower than 1.0" in listed.stdout
    assert (world.laboratory.root / "stackgen-speedy.prom").exists()

    world.speedy["1.2"] = Release(work=1.4, head="import no_such_module")
    night = world.decided()
    assert found(night) == {("speedy", "1.2", "broken")}
    persists = [each for each in night["events"] if each.startswith("persists: speedy 1.1")]
    assert persists, (night["undecided"], night["events"])
