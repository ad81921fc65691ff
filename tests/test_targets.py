"""A target is read off the interpreter itself, and agrees with what packaging says of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.tags import sys_tags

from stackgen.errors import BuildError
from stackgen.images.targets import (
    PROBE_SOURCE,
    Probe,
    facts_from_probe,
    find_interpreters,
    parse_probe,
    probe,
    run_probe,
    target_from_probe,
)
from tests.interpreters import each_python

SOURCE = PROBE_SOURCE.read_text(encoding="utf-8")


def answer(python: str = sys.executable) -> dict[str, object]:
    done = subprocess.run([python, "-I", "-c", SOURCE], capture_output=True, text=True, check=True)
    reported: dict[str, object] = json.loads(done.stdout)
    return reported


def reported(**changes: object) -> Probe:
    return parse_probe(json.dumps({**answer(), **changes}), where="here")


def platforms_of(found: Probe) -> list[str]:
    """Return the platforms of the first tags, up to the first that comes again."""
    names = [tag.split("-", 2)[2] for tag in target_from_probe(found).tags]
    return names[: names.index(names[0], 1)]


def test_the_tags_are_those_of_packaging_in_its_order() -> None:
    ours = target_from_probe(reported()).tags
    theirs = [str(tag) for tag in sys_tags()]
    assert set(ours) == set(theirs)
    # Where a plain linux tag stands differs between versions of packaging.
    assert [t for t in ours if "-linux" not in t] == [t for t in theirs if "-linux" not in t]


def test_the_markers_are_those_of_packaging() -> None:
    assert dict(target_from_probe(reported()).markers) == dict(default_environment())


def test_the_same_answer_comes_through_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-"], input=SOURCE, capture_output=True, text=True, check=True
    )
    assert parse_probe(done.stdout, where="here").version == reported().version


def test_our_own_interpreter_is_probed_without_a_process_of_its_own() -> None:
    assert run_probe(sys.executable) == reported()


def test_musl_takes_no_manylinux_wheel() -> None:
    found = platforms_of(reported(platform="linux-x86_64", libc=["musl", "1.2"], macos=""))
    assert found == [
        *("linux_x86_64", "musllinux_1_2_x86_64", "musllinux_1_1_x86_64", "musllinux_1_0_x86_64")
    ]


def test_manylinux_goes_back_as_far_as_its_machine_allows() -> None:
    arm = platforms_of(
        reported(platform="linux-aarch64", libc=["glibc", "2.18"], macos="", bits=64)
    )
    assert arm == [
        *("linux_aarch64", "manylinux_2_18_aarch64", "manylinux_2_17_aarch64"),
        "manylinux2014_aarch64",
    ]


def test_a_32_bit_interpreter_takes_32_bit_wheels() -> None:
    found = platforms_of(reported(platform="linux-x86_64", libc=["", ""], macos="", bits=32))
    assert found == ["linux_i686"]


def test_a_mac_takes_the_wheels_of_older_systems() -> None:
    found = platforms_of(reported(platform="macosx-11.0-arm64", macos="14.1", machine="arm64"))
    assert found[0] == "macosx_14_0_arm64"
    assert "macosx_11_0_universal2" in found


def test_python_before_3_8_names_pymalloc_in_its_abi() -> None:
    old = {**dict(reported().markers), "python_version": "3.7"}
    tags = target_from_probe(reported(markers=old, abiflags="m", implementation="CPython")).tags
    assert tags[0].startswith("cp37-cp37m-")


def test_a_free_threaded_build_takes_no_stable_abi() -> None:
    new = {**dict(reported().markers), "python_version": "3.13"}
    tags = target_from_probe(
        reported(markers=new, gil_disabled=True, implementation="CPython")
    ).tags
    assert tags[0].startswith("cp313-cp313t-")
    assert not any("-abi3-" in tag for tag in tags)


def test_a_build_from_a_branch_has_a_version_all_the_same() -> None:
    assert target_from_probe(reported(version="3.13.0+")).python == "3.13.0"


def test_system_packages_that_matter_are_facts() -> None:
    blas = [["libopenblas0", "0.3.21"]]
    assert facts_from_probe(reported(system_packages=blas)).system_packages == (
        ("libopenblas0", "0.3.21"),
    )


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"version": "3.11"}'])
def test_what_is_no_interpreter_is_named(text: str) -> None:
    with pytest.raises(BuildError, match=r"oddity does not answer"):
        parse_probe(text, where="oddity")


def test_a_file_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"nothing-here does not run"):
        probe(str(tmp_path / "nothing-here"))


def test_the_interpreter_below_this_virtualenv_is_found_and_is_its_own_base() -> None:
    base = probe(sys.executable)
    assert base.reference in find_interpreters()
    assert probe(base.reference) == base


@pytest.mark.parametrize("python", each_python())
def test_every_interpreter_found_answers(python: str) -> None:
    base = probe(python)
    minor = base.target.python_minor.replace(".", "")
    assert any(tag.startswith(f"cp{minor}-") for tag in base.target.tags)
    assert base.facts.libc
