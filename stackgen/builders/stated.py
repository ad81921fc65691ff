"""A target that the user states instead of an interpreter or an image; pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from stackgen.builders import tags
from stackgen.errors import UsageError
from stackgen.values import Target

ACCEPTED = (
    "manylinux_2_36_x86_64, manylinux2014_aarch64, musllinux_1_2_x86_64, macosx_14_0_arm64, "
    "macosx_10_15_x86_64, win_amd64, win_arm64, win32, linux, macos, windows"
)
"""One example of each form that a platform may take."""

_OLDEST, _NEWEST, _FREE_THREADED = (3, 6), (3, 14), (3, 13)
_PYTHON = re.compile(r"(3)\.(\d{1,2})(?:\.(\d{1,3}))?(t?)")

# What uv 0.13 means by these words for --python-platform.
_ALIASES = {
    "linux": "manylinux_2_28_x86_64",
    "macos": "macosx_13_0_arm64",
    "windows": "win_amd64",
}
# What platform.machine() says on each; a 32-bit Python on 64-bit Windows says AMD64 as well.
_WINDOWS_MACHINES = {"win_amd64": "AMD64", "win_arm64": "ARM64", "win32": "x86"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Platform:
    """A system: its wheel platforms, most preferred first, and what its Python says of it."""

    platforms: tuple[str, ...]
    os_name: str
    sys_platform: str
    system: str
    machine: str


def stated_target(*, python: str, platform: str) -> Target:
    """Return the target that a CPython would be on such a system.

    Args:
        python: ``3.11``, which stands for 3.11.0, or ``3.11.7``; from 3.6 to 3.14. A ``t`` behind
            it means the free-threaded build (``3.13t``).
        platform: the newest wheel platform that the system takes (older ones follow from it), such
            as ``manylinux_2_36_x86_64``, ``musllinux_1_2_aarch64``, ``macosx_14_0_arm64`` or
            ``win_amd64``; or ``linux`` (manylinux_2_28_x86_64), ``macos`` (macosx_13_0_arm64),
            ``windows`` (win_amd64), which mean what uv means by them.

    The markers ``platform_release`` and ``platform_version`` are "": nobody stated them.

    Raises:
        UsageError: no such Python or platform is known; the error lists what is.
    """
    version, patch, threading = _parsed_python(python)
    system = _parsed_platform(platform)
    minor = f"{version[0]}.{version[1]}"
    full = f"{minor}.{patch}"
    fitting = tags.cpython(version, abis=[_abi(version, threading)], platforms=system.platforms)
    return Target(
        python=full,
        markers=_markers(system, minor=minor, full=full),
        tags=tuple(str(tag) for tag in fitting),
    )


def _parsed_python(python: str) -> tuple[tuple[int, int], int, str]:
    """Return (major and minor, patch, "t" for a free-threaded build or "")."""
    found = _PYTHON.fullmatch(python.strip())
    if found is None:
        raise _unknown_python(python, "a version such as 3.11 or 3.11.7 is expected")
    version = int(found[1]), int(found[2])
    if not _OLDEST <= version <= _NEWEST:
        raise _unknown_python(python, "CPython 3.6 to 3.14 are known")
    if found[4] and version < _FREE_THREADED:
        raise _unknown_python(python, "the first free-threaded Python is 3.13t")
    return version, int(found[3] or 0), found[4]


def _unknown_python(python: str, why: str) -> UsageError:
    return UsageError(
        f"{python!r} is no Python that can be stated",
        why=why,
        fix="give a version of CPython, for example: --python 3.11",
    )


def _abi(version: tuple[int, int], threading: str) -> str:
    # Before 3.8 the name told of pymalloc, which every usual build has.
    return f"cp{version[0]}{version[1]}{threading}{'m' if version < (3, 8) else ''}"


def _markers(system: _Platform, *, minor: str, full: str) -> tuple[tuple[str, str], ...]:
    return (
        ("implementation_name", "cpython"),
        ("implementation_version", full),
        ("os_name", system.os_name),
        ("platform_machine", system.machine),
        ("platform_python_implementation", "CPython"),
        ("platform_release", ""),
        ("platform_system", system.system),
        ("platform_version", ""),
        ("python_full_version", full),
        ("python_version", minor),
        ("sys_platform", system.sys_platform),
    )


def _parsed_platform(platform: str) -> _Platform:
    plain = platform.strip().lower()
    name = _ALIASES.get(plain, plain).replace("-", "_").replace(".", "_")
    for pattern, reader in _FORMS:
        found = pattern.fullmatch(name)
        system = reader(found) if found else None
        if system:
            return system
    raise UsageError(
        f"{platform!r} is no platform that can be stated",
        why="the newest platform tag of a wheel that fits is expected",
        fix=f"give --platform one of these forms: {ACCEPTED}",
    )


def _windows(found: re.Match[str]) -> _Platform:
    return _Platform(
        platforms=(found[0],),
        os_name="nt",
        sys_platform="win32",
        system="Windows",
        machine=_WINDOWS_MACHINES[found[0]],
    )


def _macos(found: re.Match[str]) -> _Platform | None:
    major, minor, machine = int(found[1]), int(found[2]), found[3]
    if major < 10 or (machine == "arm64" and major < 11):
        return None  # the first Macs with ARM came with macOS 11
    return _Platform(
        platforms=tuple(tags.macos_platforms(f"{major}.{minor}", machine)),
        os_name="posix",
        sys_platform="darwin",
        system="Darwin",
        machine=machine,
    )


def _glibc(found: re.Match[str]) -> _Platform | None:
    return _linux("glibc", f"2.{found[1]}", found[2])


def _old_glibc(found: re.Match[str]) -> _Platform | None:
    minors = {name: minor for minor, name in tags.LEGACY_MANYLINUX.items()}
    return _linux("glibc", f"2.{minors[found[1]]}", found[2]) if found[1] in minors else None


def _musl(found: re.Match[str]) -> _Platform | None:
    return _linux("musl", f"1.{found[1]}", found[2])


def _linux(libc: str, version: str, machine: str) -> _Platform | None:
    platforms = tuple(tags.linux_platforms((libc, version), [machine]))
    if len(platforms) < 2:  # a machine, or a C library, of which no such wheel can exist
        return None
    return _Platform(
        platforms=platforms, os_name="posix", sys_platform="linux", system="Linux", machine=machine
    )


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Platform | None]], ...] = (
    (re.compile(r"manylinux_2_(\d{1,3})_(\w+)"), _glibc),
    (re.compile(r"(manylinux\d+)_(\w+)"), _old_glibc),
    (re.compile(r"musllinux_1_(\d{1,3})_(\w+)"), _musl),
    (re.compile(r"macosx_(\d{1,2})_(\d{1,2})_(arm64|x86_64)"), _macos),
    (re.compile("|".join(_WINDOWS_MACHINES)), _windows),
)
