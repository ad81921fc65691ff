"""Whether the rest of a lock admits what is recommended, asked of an index in a folder."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.candidates import installable, read_lock_file, select
from stackgen.commands.advise_admission import Admission
from stackgen.errors import ResolutionError
from stackgen.index import PackageIndex, load_config
from stackgen.model.evidence import Change
from stackgen.model.packages import Lock, LockedPackage, LockFile
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Stack
from stackgen.resolve.candidates import Policy
from stackgen.resolve.requirements import parse_requirements
from tests.campaign_requests import campaign_request
from tests.local_index import Published, publish
from tests.samples import FACTS
from tests.spaces import TARGET
from tests.test_measuring_faults import Noting

NO_CONFIG = {"PIP_CONFIG_FILE": os.devnull}
PACKAGES = {
    "numpy": {"1.23.5": Published(), "1.26.4": Published()},
    "frame": {
        "2.12": Published(requires=["numpy<1.24", "helper"]),
        "2.15": Published(requires=["numpy>=1.26"]),
    },
    "helper": {"1.0": Published()},
    "strict": {"1.0": Published(requires=["numpy<1.25"])},
    "user": {"1.0": Published(requires=["helper"])},
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    config = load_config(environ=NO_CONFIG, index_url=publish(tmp_path, PACKAGES))
    with PackageIndex(config, tmp_path / "cache") as found:
        yield found


def lock(requirements: tuple[str, ...] = (), /, **versions: str) -> LockFile:
    packages = tuple(LockedPackage(name=name, version=v) for name, v in versions.items())
    return LockFile(
        path="Pipfile.lock", format="pipfile", packages=packages, requirements=requirements
    )


def refusal(
    index: PackageIndex, lockfile: LockFile, changes: Mapping[str, str | None]
) -> str | None:
    locked = {each.name: each.version for each in lockfile.packages}
    return Admission(index=index, progress=NullProgress()).refusal(
        lockfile,
        [Change(name=n, current=locked.get(n), recommended=v) for n, v in changes.items()],
        FACTS,
    )


OLD = {"frame": "2.12", "numpy": "1.23.5", "helper": "1.0"}
NEW = {"frame": "2.15", "numpy": "1.26.4", "helper": None}


def test_changes_that_the_rest_of_the_lock_admits_are_not_refused(index: PackageIndex) -> None:
    assert refusal(index, lock(**OLD), NEW) is None
    assert refusal(index, lock(("frame>=2", "numpy"), **OLD), NEW) is None


@pytest.mark.parametrize(
    ("lockfile", "changes", "why"),
    [
        (lock(numpy="1.23.5", strict="1.0"), {"numpy": "1.26.4"}, "strict 1.0 requires numpy<1.25"),
        (lock(**OLD), {"numpy": "1.26.4"}, "frame 2.12 requires numpy<1.24"),
        (lock(**OLD, user="1.0"), NEW, "the rest of the lock requires helper"),
        (lock(("helper",), **OLD), NEW, "the rest of the lock requires helper"),
        (
            lock(frame="2.15", numpy="1.26.4", helper="1.0"),
            {"helper": None},
            "no other package of the lock brings",
        ),
        (lock(**OLD), NEW | {"frame": "2.16"}, "frame"),
    ],
)
def test_changes_that_it_does_not_admit_are_refused_with_the_reason(
    index: PackageIndex, lockfile: LockFile, changes: Mapping[str, str | None], why: str
) -> None:
    found = refusal(index, lockfile, changes)
    assert found is not None
    assert why in found


def test_an_index_that_cannot_be_reached_is_a_reason(tmp_path: Path) -> None:
    config = load_config(environ=NO_CONFIG, index_url="http://127.0.0.1:9/simple", offline=True)
    with PackageIndex(config, tmp_path / "cache") as index:
        found = refusal(index, lock(**OLD), NEW)
    assert found is not None
    assert found.startswith("whether the rest of the lock admits it is not known")


def test_another_kind_of_c_library_is_no_traceback(index: PackageIndex) -> None:
    found = Admission(index=index, progress=NullProgress()).refusal(
        lock(**OLD), [], replace(FACTS, libc="uclibc 1")
    )
    assert found is not None
    assert "uclibc" in found


@pytest.mark.parametrize(
    ("pins", "installed", "why"),
    [
        ("frame==2.15 numpy==1.26.4 user==1.0 helper==1.0", None, ""),
        ("frame==2.15 numpy==1.26.4 strict==1.0", ["frame", "numpy"], "strict 1.0 requires"),
        ("frame==2.12 numpy==1.23.5 helper==1.0 user==9", ["frame", "helper", "numpy"], "user==9"),
    ],
)
def test_of_a_lock_that_cannot_be_installed_what_is_measured_needs_will_do(
    tmp_path: Path, index: PackageIndex, pins: str, installed: list[str] | None, why: str
) -> None:
    path, progress = tmp_path / "requirements.txt", Noting()
    path.write_text(pins.replace(" ", "\n"))
    found = installable(index, read_lock_file(path), ["frame"], TARGET, Policy(), progress)
    names = [each.split("==")[0] for each in pins.split()]
    assert sorted(each.name for each in found.packages) == sorted(installed or names)
    assert bool(progress.notes) == bool(installed)
    assert all(why in each for each in progress.notes)


@pytest.mark.parametrize("wanted", ["frame>=2.12", "frame==2.15"])
@pytest.mark.parametrize(
    ("rest", "kept"), [({}, {}), ({"user": "1.0"}, {"user": "1.0", "helper": "1.0"})]
)
def test_what_only_the_locked_version_needs_goes_with_it_whatever_range_is_named(
    tmp_path: Path, index: PackageIndex, wanted: str, rest: dict[str, str], kept: dict[str, str]
) -> None:
    """A stack is the same whether a range or a pin leads to it, so that campaigns repeat it."""
    path = tmp_path / "requirements.txt"
    locked = {"frame": "2.12", "numpy": "1.23.5", "helper": "1.0", **rest}
    path.write_text("\n".join(f"{name}=={version}" for name, version in locked.items()))
    request = campaign_request(requirements=parse_requirements(wanted, "numpy"), lock=path)
    found = select(index, request, TARGET, NullProgress())
    stacks = [dict(each.lock.versions) for each in found.candidates()]
    assert stacks[0] == locked
    assert {"frame": "2.15", "numpy": "1.26.4", **kept} in stacks[1:]


def test_a_lock_without_the_file_that_is_to_be_measured_is_refused(
    tmp_path: Path, index: PackageIndex
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("frame==2.12+rocm\nnumpy==1.23.5\n")
    with pytest.raises(ResolutionError, match=r"frame 2\.12\+rocm: no index has this version"):
        installable(index, read_lock_file(path), ["frame"], TARGET, Policy(), NullProgress())


def test_a_lock_for_another_python_names_the_ones_that_have_wheels(tmp_path: Path) -> None:
    page = tmp_path / "simple" / "frame"
    page.mkdir(parents=True)
    wheels = [f"frame-1.0-cp3{n}-cp3{n}-manylinux_2_17_x86_64.whl" for n in (8, 9)]
    links = [f'<a href="{each}#sha256={"0" * 64}">{each}</a>' for each in wheels]
    (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    path = tmp_path / "requirements.txt"
    path.write_text("frame==1.0\n")
    config = load_config(environ=NO_CONFIG, index_url=(tmp_path / "simple").as_uri())
    with PackageIndex(config, tmp_path / "cache") as index, pytest.raises(ResolutionError) as error:
        installable(index, read_lock_file(path), ["frame"], TARGET, Policy(), NullProgress())
    assert error.value.fix.endswith("--base 3.9 (of 3.8, 3.9)")


def test_another_build_of_the_measured_version_is_named(index: PackageIndex) -> None:
    """Two indexes may have one version in two builds, and a lock takes that of its own index."""
    offered = index.candidates_many(["numpy"])["numpy"] or ()
    same = next(each for each in offered if each.version == "1.26.4")
    compiled = replace(same, filename="numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl")
    admission = Admission(index=index, progress=NullProgress())
    found = {
        case: admission.other_build([Stack(lock=Lock(artifacts=(each,)), facts=FACTS)])
        for case, each in {"pure": same, "another file": compiled}.items()
    }
    assert found["pure"] is None
    assert (
        found["another file"] == "numpy 1.26.4 was measured in another build than the index offers"
    )
