"""What a lock must hold after some packages change, and an advice applied to files; local index."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.options import IndexOptions
from stackgen.campaign.request import file_identity
from stackgen.campaign.targets import find_target
from stackgen.commands.advise_write import Applied, apply_advice
from stackgen.commands.lock_changes import completed, lock_changes, refuse_excluded
from stackgen.commands.options import WriteOptions
from stackgen.errors import EvidenceError, ResolutionError, UsageError
from stackgen.index import PackageIndex, load_config
from stackgen.locks.reading import read_lock
from stackgen.model.evidence import Change
from stackgen.model.packages import LockChange, LockFile, Target
from stackgen.model.progress import NullProgress
from stackgen.model.reports.locks import AdviceReport
from stackgen.storage.paths import Paths, find_paths
from tests.local_index import Published, publish
from tests.test_render import ADVICE

NO_CONFIG = {"PIP_CONFIG_FILE": os.devnull}
PACKAGES = {
    "numpy": {"1.23.5": Published(), "1.26.4": Published()},
    "frame": {
        "2.10": Published(requires=["numpy<1.24", "middle"]),
        "2.12": Published(requires=["numpy<1.24", "helper"]),
        "2.15": Published(requires=["numpy>=1.26", "fresh>=1", "tz"], requires_python=">=3.9"),
    },
    "helper": {"1.0": Published()},
    "middle": {"1.0": Published(requires=["deep", "tz"])},
    "deep": {"1.0": Published()},
    "fresh": {"0.9": Published(), "1.0": Published(), "1.1": Published()},
    "tz": {"1.0": Published(), "2.0": Published()},
    "strict": {"1.0": Published(requires=["numpy<1.25"])},
}
PINS = 'frame==2.12\nhelper==1.0\nnumpy==1.23.5\ntz==1.0 ; os_name == "nt"\n'


@pytest.fixture
def address(tmp_path: Path) -> str:
    return publish(tmp_path / "index", PACKAGES)


@pytest.fixture
def index(tmp_path: Path, address: str) -> Iterator[PackageIndex]:
    config = load_config(environ=NO_CONFIG, index_url=address)
    with PackageIndex(config, tmp_path / "cache") as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({"HOME": str(tmp_path), "STACKGEN_CACHE": str(tmp_path / "cache")})


@pytest.fixture
def target(paths: Paths) -> Target:
    return find_target(base="", python="", platform="", paths=paths, progress=NullProgress())


def lock(text: str = PINS, *, companion: str | None = "frame\n") -> LockFile:
    return read_lock(text, path="requirements.txt", companion=companion, partial=True)


def found(
    lockfile: LockFile, index: PackageIndex, target: Target, **wanted: str | None
) -> dict[str, LockChange]:
    changes = lock_changes(lockfile, wanted, target, index=index, progress=NullProgress())
    return {each.name: each for each in changes}


def test_new_requirements_are_added_and_those_of_the_old_version_taken_out(
    index: PackageIndex, target: Target
) -> None:
    changes = found(lock(), index, target, frame="2.15", numpy="1.26.4")
    versions = {name: each.version for name, each in changes.items()}
    assert versions == {
        "frame": "2.15",
        "numpy": "1.26.4",
        "fresh": "1.1",  # new, in its newest version
        "helper": "",  # only the old version required it
        "tz": "1.0",  # locked for Windows alone, and now needed here, in the version locked
    }
    assert changes["tz"].widened
    assert not changes["fresh"].widened
    assert changes["frame"].requires_python == ">=3.9"
    assert [len(each.artifacts) for each in changes.values() if each.version] == [1, 1, 1, 1]


def test_what_only_a_package_required_that_is_taken_out_goes_with_it(
    index: PackageIndex, target: Target
) -> None:
    pins = lock("frame==2.10\nmiddle==1.0\ndeep==1.0\nnumpy==1.23.5\ntz==1.0\n")
    changes = found(pins, index, target, frame="2.15", numpy="1.26.4")
    assert {name for name, each in changes.items() if not each.version} == {"middle", "deep"}


def test_nothing_is_taken_out_where_the_lock_does_not_say_what_is_required(
    index: PackageIndex, target: Target
) -> None:
    changes = found(lock(companion=None), index, target, frame="2.15", numpy="1.26.4")
    assert "helper" not in changes


def test_what_the_user_requires_stays(index: PackageIndex, target: Target) -> None:
    both = lock(companion="frame\nhelper\n")
    assert "helper" not in found(both, index, target, frame="2.15", numpy="1.26.4")


def test_a_version_that_is_locked_already_is_no_change(index: PackageIndex, target: Target) -> None:
    assert found(lock(), index, target, numpy="1.23.5") == {}


def test_a_change_that_the_rest_does_not_admit_is_refused(
    index: PackageIndex, target: Target
) -> None:
    with pytest.raises(ResolutionError):
        found(lock(f"{PINS}strict==1.0\n"), index, target, frame="2.15", numpy="1.26.4")


def test_a_version_that_the_project_excludes_is_refused() -> None:
    narrow = lock(companion="frame<2.14\n")
    with pytest.raises(UsageError, match="is not changed") as refused:
        refuse_excluded(narrow, [LockChange(name="frame", version="2.15")])
    assert "frame<2.14" in refused.value.why


def test_lines_that_pin_nothing_are_resolved_first_and_that_is_noted(
    index: PackageIndex, target: Target
) -> None:
    partly = lock("numpy==1.26.4\nfresh<1.1\nframe\n", companion=None)
    whole = completed(partly, target, index=index, progress=NullProgress())
    assert {p.name: p.version for p in whole.packages} == {
        "numpy": "1.26.4",
        "fresh": "1.0",
        "frame": "2.15",
        "tz": "2.0",
    }
    assert whole.notes == (
        "lines that pin nothing: 2, 3; resolved first: frame 2.15, fresh 1.0, tz 2.0",
    )
    assert set(whole.requirements) == {"fresh<1.1", "frame"}


def test_a_file_is_the_same_one_in_another_encoding_and_with_other_line_ends(
    tmp_path: Path,
) -> None:
    path, text = tmp_path / "requirements.txt", "numpy==1.26.4\nfrämework==2.12\n"
    ids = set()
    for encoding in ("utf-8", "utf-16", "utf-8-sig"):
        for content in (text, text.replace("\n", "\r\n")):
            path.write_bytes(content.encode(encoding))
            ids.add(file_identity(path))
    assert len(ids) == 1


def test_a_prerelease_is_resolved_only_where_a_line_pins_it(tmp_path: Path, target: Target) -> None:
    releases = {"1.0": Published(requires=["tz"]), "2.0rc1": Published(requires=["tz"])}
    packages = {"frame": releases, "tz": {"1.0": Published(), "1.1b1": Published()}}
    address = publish(tmp_path / "index", packages)
    config = load_config(environ=NO_CONFIG, index_url=address)
    with PackageIndex(config, tmp_path / "cache") as index:
        for text, version in (("frame\n", "1.0"), ("frame==2.0rc1\ntz\n", "2.0rc1")):
            partly = lock(text, companion=None)
            whole = completed(partly, target, index=index, progress=NullProgress())
            assert {p.name: p.version for p in whole.packages} == {"frame": version, "tz": "1.0"}


def applied(
    path: Path, request: WriteOptions, paths: Paths, address: str, *, recommends: bool = True
) -> Applied:
    text = path.read_text() if path.is_file() else PINS
    advice = replace(
        ADVICE.advice,
        lock=ADVICE.advice.lock if recommends else None,
        changes=(
            Change(name="frame", current="2.12", recommended="2.15"),
            Change(name="numpy", current="1.23.5", recommended="1.26.4"),
        ),
        provenance=(),
    )
    lockfile = replace(lock(text), path=str(path))
    if path.suffix != ".txt":
        lockfile = replace(lockfile, format="pixi")
    report: AdviceReport = replace(ADVICE, lockfile=lockfile, advice=advice)
    return apply_advice(
        report,
        path,
        request,
        index_options=IndexOptions(index_url=address),
        paths=paths,
        environ=NO_CONFIG,
        progress=NullProgress(),
    )


CHANGED = "frame==2.15\nfresh==1.1\nnumpy==1.26.4\ntz==1.0\n"


def test_write_changes_the_file_and_dry_run_only_shows_it(
    tmp_path: Path, paths: Paths, address: str
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(PINS.replace("\n", "\r\n").encode())
    path.chmod(0o640)
    shown = applied(path, WriteOptions(dry_run=True, write=True), paths, address)
    assert path.read_bytes() == PINS.replace("\n", "\r\n").encode()
    done = applied(path, WriteOptions(write=True), paths, address)
    assert path.read_bytes() == CHANGED.replace("\n", "\r\n").encode()
    assert shown.diff == done.diff
    assert "-frame==2.12\n" in done.diff
    assert "+frame==2.15\n" in done.diff
    assert done.notes == (f"Changed {path}.",)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_lock_that_only_its_tool_may_write_gets_the_command(
    tmp_path: Path, paths: Paths, address: str
) -> None:
    path = tmp_path / "pixi.lock"
    done = applied(path, WriteOptions(write=True), paths, address)
    assert done.diff == ""
    (note,) = done.notes
    assert "pixi add --pypi frame==2.15 fresh==1.1 numpy==1.26.4 tz==1.0" in note
    with pytest.raises(UsageError, match="cannot run pixi"):
        applied(path, WriteOptions(write=True, run=True), paths, address)


def test_constraints_are_useful_by_themselves(tmp_path: Path, paths: Paths, address: str) -> None:
    path, file = tmp_path / "requirements.txt", tmp_path / "constraints.txt"
    path.write_text(PINS)
    applied(path, WriteOptions(constraints=file), paths, address)
    assert path.read_text() == PINS
    lines = file.read_text().splitlines()
    assert lines[0] == "# Recommended by stackgen for requirements.txt"
    assert lines[-7:] == [
        "# was 2.12",
        "frame==2.15",
        "fresh==1.1",
        "# helper is not needed any more",
        "# was 1.23.5",
        "numpy==1.26.4",
        "tz==1.0",
    ]


def test_nothing_recommended_changes_nothing(tmp_path: Path, paths: Paths, address: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(PINS)
    with pytest.raises(EvidenceError, match="is not changed"):
        applied(path, WriteOptions(write=True), paths, address, recommends=False)
