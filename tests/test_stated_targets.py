"""A stated target is the target that such a system would tell of itself.

Interpreters of this host and uv judge: uv knows the same platforms by its own names.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.utils import parse_wheel_filename
from uv import find_uv_bin

from stackgen.errors import UsageError
from stackgen.images.targets import ACCEPTED, find_interpreters, probe, stated_target
from stackgen.index import PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.model.packages import Target
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.paths import find_paths

GLIBC, MUSL = "manylinux_2_36_x86_64", "musllinux_1_2_x86_64"
MAC, WINDOWS, ARM = "macosx_14_0_arm64", "win_amd64", "manylinux_2_28_aarch64"
EVERYWHERE = (GLIBC, MUSL, MAC, WINDOWS, ARM)

# Each wheel with the platforms, of those five, on whose Python 3.11 it fits.
WHEELS = [
    ("a-1-py3-none-any.whl", EVERYWHERE),
    ("a-1-py2.py3-none-any.whl", EVERYWHERE),
    ("a-1-py2-none-any.whl", ()),
    ("a-1-cp311-none-any.whl", EVERYWHERE),
    ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", (GLIBC,)),
    ("a-1-cp311-cp311-manylinux1_x86_64.whl", (GLIBC,)),
    ("a-1-cp311-cp311-manylinux_2_36_x86_64.whl", (GLIBC,)),
    ("a-1-cp311-cp311-manylinux_2_37_x86_64.whl", ()),
    ("a-1-cp311-cp311-linux_x86_64.whl", (GLIBC, MUSL)),
    ("a-1-cp310-cp310-manylinux2014_x86_64.whl", ()),
    ("a-1-cp312-cp312-manylinux2014_x86_64.whl", ()),
    ("a-1-cp311-cp311t-manylinux2014_x86_64.whl", ()),
    ("a-1-cp311-cp311d-manylinux2014_x86_64.whl", ()),
    ("a-1-cp38-abi3-manylinux2014_x86_64.whl", (GLIBC,)),
    ("a-1-cp312-abi3-manylinux2014_x86_64.whl", ()),
    ("a-1-py3-none-manylinux2014_x86_64.whl", (GLIBC,)),
    ("a-1-pp310-pypy310_pp73-manylinux2014_x86_64.whl", ()),
    ("a-1-cp311-cp311-manylinux2014_i686.whl", ()),
    ("a-1-cp311-cp311-musllinux_1_1_x86_64.whl", (MUSL,)),
    ("a-1-cp311-cp311-musllinux_1_3_x86_64.whl", ()),
    ("a-1-cp311-cp311-musllinux_1_2_aarch64.whl", ()),
    ("a-1-cp311-cp311-manylinux_2_28_aarch64.whl", (ARM,)),
    ("a-1-cp311-cp311-manylinux2014_aarch64.whl", (ARM,)),
    ("a-1-cp311-cp311-manylinux_2_34_aarch64.whl", ()),
    ("a-1-cp311-cp311-macosx_11_0_arm64.whl", (MAC,)),
    ("a-1-cp311-cp311-macosx_10_9_universal2.whl", (MAC,)),
    ("a-1-cp311-cp311-macosx_14_0_arm64.whl", (MAC,)),
    ("a-1-cp311-cp311-macosx_15_0_arm64.whl", ()),
    ("a-1-cp311-cp311-macosx_11_0_x86_64.whl", ()),
    ("a-1-cp311-cp311-win_amd64.whl", (WINDOWS,)),
    ("a-1-cp37-abi3-win_amd64.whl", (WINDOWS,)),
    ("a-1-py3-none-win_amd64.whl", (WINDOWS,)),
    ("a-1-cp311-cp311-win32.whl", ()),
    ("a-1-cp311-cp311-win_arm64.whl", ()),
]


def fits(wheel: str, on: Target) -> bool:
    return not {str(tag) for tag in parse_wheel_filename(wheel)[3]}.isdisjoint(on.tags)


@pytest.mark.parametrize(("wheel", "platforms"), WHEELS)
def test_a_wheel_fits_where_its_name_says_so(wheel: str, platforms: tuple[str, ...]) -> None:
    found = [p for p in EVERYWHERE if fits(wheel, stated_target(python="3.11", platform=p))]
    assert found == list(platforms)


def host_platform(tags: Sequence[str]) -> str:
    """Return what of this host's tags one would state: the newest that names a C library."""
    names = (tag.split("-", 2)[2] for tag in tags)
    return next(name for name in names if not name.startswith("linux_"))


@pytest.mark.parametrize("python", find_interpreters())
def test_an_interpreter_that_is_stated_is_the_one_that_is_probed(python: str) -> None:
    found = probe(python).target
    if found.environment["implementation_name"] != "cpython":
        pytest.skip("only CPython can be stated")
    stated = stated_target(python=found.python, platform=host_platform(found.tags))
    assert stated.tags == found.tags
    unstated = ("platform_release", "platform_version")
    assert {k: v for k, v in stated.markers if k not in unstated} == {
        k: v for k, v in found.markers if k not in unstated
    }


@pytest.mark.parametrize(
    ("platform", "reported"),
    [
        (GLIBC, ("posix", "linux", "Linux", "x86_64")),
        (MUSL, ("posix", "linux", "Linux", "x86_64")),
        (ARM, ("posix", "linux", "Linux", "aarch64")),
        (MAC, ("posix", "darwin", "Darwin", "arm64")),
        ("macosx_10_15_x86_64", ("posix", "darwin", "Darwin", "x86_64")),
        (WINDOWS, ("nt", "win32", "Windows", "AMD64")),
        ("win_arm64", ("nt", "win32", "Windows", "ARM64")),
        ("win32", ("nt", "win32", "Windows", "x86")),
    ],
)
def test_the_markers_are_those_that_python_says_there(
    platform: str, reported: tuple[str, str, str, str]
) -> None:
    markers = stated_target(python="3.11.7", platform=platform).environment
    names = ("os_name", "sys_platform", "platform_system", "platform_machine")
    assert tuple(markers[name] for name in names) == reported
    assert markers["python_full_version"] == markers["implementation_version"] == "3.11.7"
    assert len(markers) == 11
    assert list(markers) == sorted(markers)


def test_unstated_facts_harm_no_marker() -> None:
    markers = dict(stated_target(python="3.11", platform=MAC).markers)
    assert not Marker('platform_release >= "20.9.0"').evaluate(markers)
    assert not Marker('"tegra" in platform_release').evaluate(markers)


def test_a_version_without_its_patch_level_is_the_first_of_its_line() -> None:
    assert stated_target(python="3.11", platform=GLIBC) == stated_target(
        python="3.11.0", platform=GLIBC
    )


@pytest.mark.parametrize(
    ("alias", "platform"),
    [("linux", "manylinux_2_28_x86_64"), ("macos", "macosx_13_0_arm64"), ("windows", WINDOWS)],
)
def test_an_alias_means_one_platform(alias: str, platform: str) -> None:
    assert stated_target(python="3.12", platform=alias) == stated_target(
        python="3.12", platform=platform
    )


def test_an_old_name_of_manylinux_is_a_glibc() -> None:
    assert stated_target(python="3.8", platform="manylinux2014_x86_64") == stated_target(
        python="3.8", platform="manylinux_2_17_x86_64"
    )


def test_the_closest_wheel_comes_first() -> None:
    tags = stated_target(python="3.11", platform=GLIBC).tags
    assert tags[:3] == (
        "cp311-cp311-linux_x86_64",
        "cp311-cp311-manylinux_2_36_x86_64",
        "cp311-cp311-manylinux_2_35_x86_64",
    )
    order = ["cp311-cp311-manylinux1_x86_64", "cp311-abi3-manylinux_2_36_x86_64"]
    order += ["cp311-none-linux_x86_64", "cp310-abi3-linux_x86_64", "py311-none-linux_x86_64"]
    order += ["py3-none-manylinux1_x86_64", "cp311-none-any", "py311-none-any", "py3-none-any"]
    assert sorted(order, key=tags.index) == order


def test_python_before_3_8_names_pymalloc_in_its_abi() -> None:
    assert stated_target(python="3.6", platform=WINDOWS).tags[0] == "cp36-cp36m-win_amd64"


def test_a_free_threaded_python_takes_its_own_wheels_and_no_stable_abi() -> None:
    on = stated_target(python="3.13t", platform=GLIBC)
    assert on.python == "3.13.0"
    assert fits("a-1-cp313-cp313t-manylinux2014_x86_64.whl", on)
    assert not fits("a-1-cp313-cp313-manylinux2014_x86_64.whl", on)
    assert not fits("a-1-cp38-abi3-manylinux2014_x86_64.whl", on)


@pytest.mark.parametrize(
    "python", ["", "3", "2.7", "3.5", "3.15", "3.12t", "3.11.x", "pypy3.10", "3.11+", "3.14.0rc1"]
)
def test_a_python_that_cannot_be_stated_is_refused(python: str) -> None:
    with pytest.raises(UsageError, match="no Python that can be stated"):
        stated_target(python=python, platform=GLIBC)


@pytest.mark.parametrize(
    "platform",
    [
        *(
            "",
            "amiga",
            "linux_x86_64",
            "manylinux_2_36",
            "manylinux_2_36_m68k",
            "manylinux_3_1_i686",
        ),
        *("manylinux_2_4_x86_64", "manylinux_2_16_aarch64", "manylinux2021_x86_64"),
        *("musllinux_2_0_x86_64", "macosx_10_15_arm64", "macosx_14_arm64", "macosx_9_0_x86_64"),
        *("win64", "win_ia64", "any"),
    ],
)
def test_an_unknown_platform_is_refused_with_what_is_known(platform: str) -> None:
    with pytest.raises(UsageError) as caught:
        stated_target(python="3.11", platform=platform)
    assert ACCEPTED in caught.value.fix


@pytest.mark.parametrize("platform", ACCEPTED.split(", "))
def test_every_form_that_the_error_lists_is_taken(platform: str) -> None:
    assert stated_target(python="3.11", platform=platform).tags


@given(st.integers(6, 14), st.integers(5, 60))
def test_a_newer_glibc_takes_all_that_an_older_one_takes(minor: int, glibc: int) -> None:
    python = f"3.{minor}"
    older = stated_target(python=python, platform=f"manylinux_2_{glibc}_x86_64").tags
    newer = stated_target(python=python, platform=f"manylinux_2_{glibc + 1}_x86_64").tags
    assert [tag for tag in newer if tag in set(older)] == list(older)
    assert len(newer) == len(set(newer))


# What we call a platform, and what uv calls it.
JUDGED = [
    (GLIBC, "x86_64-manylinux_2_36"),
    (ARM, "aarch64-manylinux_2_28"),
    ("macosx_13_0_arm64", "macos"),
    (WINDOWS, "windows"),
]
REQUESTED = ("numpy", 'pywin32; sys_platform == "win32"', "scikit-learn>=1.4", "tqdm")


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with PackageIndex(load_config(environ=os.environ), find_paths(os.environ).cache) as each:
        yield each


def newest(index: PackageIndex, on: Target) -> set[str]:
    """Return the pins of our newest stack."""
    space = resolve(index, parse_requirements(*REQUESTED), on)
    lock = space.newest()
    assert lock is not None
    return {f"{name}=={version}" for name, version in lock.versions.items()}


def uv(requirements: Sequence[str], *, python: str, platform: str) -> set[str]:
    """Return what uv would install there."""
    options = ["--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
    options += ["--python-version", python, "--python-platform", platform]
    done = subprocess.run(
        [find_uv_bin(), "pip", "compile", "-", *options],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.split(" ;")[0] for line in done.stdout.splitlines()}


@pytest.mark.network
@pytest.mark.parametrize("python", ["3.10", "3.12"])
@pytest.mark.parametrize(("platform", "theirs"), JUDGED)
def test_uv_would_install_our_newest_stack_there(
    index: PackageIndex, platform: str, theirs: str, python: str
) -> None:
    pins = newest(index, stated_target(python=python, platform=platform))
    assert uv([*REQUESTED, *pins], python=python, platform=theirs) == pins
    assert any(pin.startswith("pywin32==") for pin in pins) == (platform == WINDOWS)
