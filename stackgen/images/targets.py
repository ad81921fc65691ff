"""Targets and facts of interpreters, from the output of a probe or from what the user states."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from packaging.tags import Tag, compatible_tags, cpython_tags, generic_tags, mac_platforms

from stackgen.errors import BuildError, UsageError
from stackgen.images.probe import probe as own_probe
from stackgen.model.packages import Target
from stackgen.model.stacks import Base, BaseFacts, EnvironmentKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Properties of an interpreter, as ``probe.py`` prints them.

    build: ``sys.version`` on one line.
    libc: (name, version), both "" if unknown.
    distribution: (id, version) of the Linux distribution, such as ("debian", "12").
    platform: of ``sysconfig.get_platform()``, such as ``linux-x86_64``.
    macos: version of macOS, "" elsewhere.
    base_executable: of the interpreter below the virtualenv, if it is one.
    paths: where a wheel's parts go, by the scheme's own keys (``purelib``, ``scripts``, ...).
    """

    version: str
    implementation: str
    build: str
    markers: dict[str, str]
    soabi: str
    abiflags: str
    debug: bool
    gil_disabled: bool
    platform: str
    machine: str
    bits: int
    libc: tuple[str, str]
    distribution: tuple[str, str]
    system_packages: tuple[tuple[str, str], ...]
    macos: str
    base_executable: str
    prefix: str
    paths: dict[str, str]


def parse_probe(text: str, *, where: str) -> Probe:
    """Read the line of JSON that ``probe.py`` printed.

    Args:
        text: everything that was printed; the last line counts.
        where: the interpreter or image, for messages.

    Raises:
        BuildError: the text is no output of the probe.
    """
    try:
        return msgspec.convert(json.loads(text.strip().splitlines()[-1]), Probe)
    except (IndexError, ValueError, msgspec.ValidationError) as error:
        raise BuildError(
            f"{where} does not answer as a Python interpreter",
            why=f"its answer ends with {text.strip()[-80:]!r} ({error!r})",
            fix="give an interpreter or a base with Python 3.6 or newer; see: stackgen doctor",
        ) from error


def target_from_probe(probe: Probe) -> Target:
    """Return the target of a probed interpreter, the most preferred tags first."""
    return Target(
        python=_plain_version(probe.version),
        markers=tuple((key, _plain_version(value)) for key, value in sorted(probe.markers.items())),
        tags=tuple(str(tag) for tag in _tags(probe)),
    )


def facts_from_probe(probe: Probe) -> BaseFacts:
    """Return the facts of a probed base that can change timings."""
    libc = " ".join(probe.libc).strip()
    return BaseFacts(
        python=f"{probe.implementation} {_plain_version(probe.version)}",
        python_build=probe.build,
        libc=libc or f"{probe.platform} {probe.macos}".strip(),
        distribution=" ".join(probe.distribution).strip() or f"macos {probe.macos}".strip(),
        system_packages=probe.system_packages,
    )


def _plain_version(version: str) -> str:
    """Drop the plus of a build from a branch (``3.13.0+``): it is no version by PEP 440."""
    return version.removesuffix("+")


def _tags(probe: Probe) -> Iterator[Tag]:
    major, minor = (int(part) for part in probe.markers["python_version"].split("."))
    version = (major, minor)
    platforms = list(_platforms(probe))
    if probe.implementation == "CPython":
        yield from cpython(version, abis=_cpython_abis(probe, version), platforms=platforms)
        return
    short = {"PyPy": "pp"}.get(probe.implementation, probe.implementation.lower())
    abi = "_".join(probe.soabi.split("-")[:2])
    yield from generic_tags(f"{short}{major}{minor}", [abi] if abi else [], platforms)
    yield from compatible_tags(version, "pp3" if short == "pp" else None, platforms)


def _cpython_abis(probe: Probe, version: tuple[int, int]) -> list[str]:
    """Return the ABIs of a CPython; flags stand in the order of PEP 3149."""
    name = f"cp{version[0]}{version[1]}"
    if version < (3, 8):
        return [name + probe.abiflags]
    threading = "t" if probe.gil_disabled else ""
    release = f"{name}{threading}"
    # A debug build loads the modules of a release build as well since 3.8.
    return [f"{release}d", release] if probe.debug else [release]


def _platforms(probe: Probe) -> Iterator[str]:
    if probe.macos:
        yield from macos_platforms(probe.macos, probe.machine)
        return
    plain = probe.platform.replace("-", "_").replace(".", "_")
    if not plain.startswith("linux_"):
        yield plain
        return
    machines = _machines(plain.removeprefix("linux_"), probe.bits)
    yield from linux_platforms(probe.libc, machines)


def _machines(machine: str, bits: int) -> tuple[str, ...]:
    """Return the machines of an interpreter: a 32-bit one may run on a 64-bit kernel."""
    if bits == 32 and machine == "x86_64":
        return ("i686",)
    if bits == 32 and machine == "aarch64":
        return "armv8l", "armv7l"
    return (machine,)


# Wheel tags that fit a system

# PEP 600 gave the older names of manylinux a glibc version each.
LEGACY_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# PEP 599, PEP 600 and what packaging added since.
_MACHINES = frozenset(
    ("x86_64", "i686", "aarch64", "armv7l", "ppc64", "ppc64le", "s390x", "riscv64", "loongarch64")
)
# The oldest glibc 2.x that a tag may name: 2.5 on x86, 2.17 wherever manylinux came later.
_OLDEST_GLIBC = {"x86_64": 5, "i686": 5}


def cpython(
    version: tuple[int, int], *, abis: Sequence[str], platforms: Sequence[str]
) -> Iterator[Tag]:
    """Yield the tags of a CPython, most preferred first; abis and platforms are in that order."""
    yield from cpython_tags(version, abis, platforms)
    yield from compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)


def linux_platforms(libc: tuple[str, str], machines: Sequence[str]) -> Iterator[str]:
    """Yield the platforms of a Linux.

    Args:
        libc: ("glibc" or "musl", version); another name adds no platform.
        machines: as the kernel names them, the closest first.
    """
    # The tag of this very system comes first, as in packaging 26.
    yield from (f"linux_{machine}" for machine in machines)
    for machine in machines:
        yield from _libc_platforms(libc, machine)


def macos_platforms(version: str, machine: str) -> Iterator[str]:
    """Yield the platforms of a macOS; of the version only the first two numbers count."""
    major, minor = [*version.split("."), "0"][:2]
    yield from mac_platforms((int(major), int(minor)), machine)


def _libc_platforms(libc: tuple[str, str], machine: str) -> Iterator[str]:
    """Yield the manylinux (PEP 600) or musllinux (PEP 656) tags, newest first."""
    name, version = libc
    if name not in ("glibc", "musl") or machine not in _MACHINES:
        return
    major, minor = (int(part) for part in version.split(".")[:2])
    if name == "musl":
        yield from (f"musllinux_{major}_{older}_{machine}" for older in range(minor, -1, -1))
        return
    for older in range(minor, _OLDEST_GLIBC.get(machine, 17) - 1, -1):
        yield f"manylinux_{major}_{older}_{machine}"
        if older in LEGACY_MANYLINUX:
            yield f"{LEGACY_MANYLINUX[older]}_{machine}"


# Targets that the user states

ACCEPTED = (
    "manylinux_2_36_x86_64, manylinux2014_aarch64, musllinux_1_2_x86_64, macosx_14_0_arm64, "
    "macosx_10_15_x86_64, win_amd64, win_arm64, win32, linux, macos, windows"
)
"""One example of each form of a platform."""

_OLDEST, _NEWEST, _FREE_THREADED = (3, 6), (3, 14), (3, 13)
_PYTHON = re.compile(r"(3)\.(\d{1,2})(?:\.(\d{1,3}))?(t?)")

# As in --python-platform of uv 0.13.
_ALIASES = {
    "linux": "manylinux_2_28_x86_64",
    "macos": "macosx_13_0_arm64",
    "windows": "win_amd64",
}
# platform.machine() on each; a 32-bit Python on 64-bit Windows has AMD64 as well.
_WINDOWS_MACHINES = {"win_amd64": "AMD64", "win_arm64": "ARM64", "win32": "x86"}


_SYSTEMS = {
    "Linux": ("posix", "linux"),
    "Darwin": ("posix", "darwin"),
    "Windows": ("nt", "win32"),
}
"""``os.name`` and ``sys.platform``, by ``platform.system()``."""


@dataclass(frozen=True, slots=True)
class _Platform:
    """A system: its wheel platforms, most preferred first, and two of its markers."""

    platforms: tuple[str, ...]
    system: str
    machine: str


def stated_target(*, python: str, platform: str) -> Target:
    """Return the target of a CPython on a system.

    Args:
        python: ``3.11``, which stands for 3.11.0, or ``3.11.7``; from 3.6 to 3.14. A ``t`` behind
            it means the free-threaded build (``3.13t``).
        platform: the newest wheel platform that the system takes (older ones follow from it), such
            as ``manylinux_2_36_x86_64``, ``musllinux_1_2_aarch64``, ``macosx_14_0_arm64`` or
            ``win_amd64``; or ``linux`` (manylinux_2_28_x86_64), ``macos`` (macosx_13_0_arm64),
            ``windows`` (win_amd64), as in uv.

    The markers ``platform_release`` and ``platform_version`` are "": they are unknown.

    Raises:
        UsageError: the Python or the platform is unknown; the message lists the known ones.
    """
    version, patch, threading = _parsed_python(python)
    system = _parsed_platform(platform)
    minor = f"{version[0]}.{version[1]}"
    full = f"{minor}.{patch}"
    fitting = cpython(version, abis=[_abi(version, threading)], platforms=system.platforms)
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
    # Before 3.8 the name contains m for pymalloc, which every usual build has.
    return f"cp{version[0]}{version[1]}{threading}{'m' if version < (3, 8) else ''}"


def _markers(system: _Platform, *, minor: str, full: str) -> tuple[tuple[str, str], ...]:
    os_name, sys_platform = _SYSTEMS[system.system]
    return (
        ("implementation_name", "cpython"),
        ("implementation_version", full),
        ("os_name", os_name),
        ("platform_machine", system.machine),
        ("platform_python_implementation", "CPython"),
        ("platform_release", ""),
        ("platform_system", system.system),
        ("platform_version", ""),
        ("python_full_version", full),
        ("python_version", minor),
        ("sys_platform", sys_platform),
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
    return _Platform((found[0],), "Windows", _WINDOWS_MACHINES[found[0]])


def _macos(found: re.Match[str]) -> _Platform | None:
    major, minor, machine = int(found[1]), int(found[2]), found[3]
    if major < 10 or (machine == "arm64" and major < 11):
        return None  # the first Macs with ARM came with macOS 11
    return _Platform(tuple(macos_platforms(f"{major}.{minor}", machine)), "Darwin", machine)


def _glibc(found: re.Match[str]) -> _Platform | None:
    return _linux("glibc", f"2.{found[1]}", found[2])


def _old_glibc(found: re.Match[str]) -> _Platform | None:
    minors = {name: minor for minor, name in LEGACY_MANYLINUX.items()}
    return _linux("glibc", f"2.{minors[found[1]]}", found[2]) if found[1] in minors else None


def _musl(found: re.Match[str]) -> _Platform | None:
    return _linux("musl", f"1.{found[1]}", found[2])


def _linux(libc: str, version: str, machine: str) -> _Platform | None:
    platforms = tuple(linux_platforms((libc, version), [machine]))
    # Fewer: a machine, or a C library, of which no such wheel can exist.
    return _Platform(platforms, "Linux", machine) if len(platforms) > 1 else None


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Platform | None]], ...] = (
    (re.compile(r"manylinux_2_(\d{1,3})_(\w+)"), _glibc),
    (re.compile(r"(manylinux\d+)_(\w+)"), _old_glibc),
    (re.compile(r"musllinux_1_(\d{1,3})_(\w+)"), _musl),
    (re.compile(r"macosx_(\d{1,2})_(\d{1,2})_(arm64|x86_64)"), _macos),
    (re.compile("|".join(_WINDOWS_MACHINES)), _windows),
)


# Local interpreters

PROBE_SOURCE = Path(__file__).with_name("probe.py")
_NAME = re.compile(r"python3\.(\d+)t?")
_PROBE_TIMEOUT_S = 60


def find_interpreters() -> tuple[str, ...]:
    """Return local interpreters, newest first: the running one, on PATH, of pyenv and of uv.

    Paths are resolved: each interpreter is listed once, and virtualenvs are not.
    """
    found = {str(path.resolve()) for path in _candidates() if os.access(path, os.X_OK)}
    return tuple(sorted(found, key=lambda path: (-_minor(path), path)))


def run_probe(python: str) -> Probe:
    """Probe an interpreter.

    Raises:
        BuildError: it does not run, or is no Python 3.6 or newer.
    """
    return parse_probe(_probe_output(python), where=python)


def probe(python: str) -> Base:
    """Return an interpreter as a base; for that of a virtualenv, the one it was created with.

    Raises:
        BuildError: it does not run, or is no Python 3.6 or newer.
    """
    found = run_probe(python)
    path = str(Path(found.base_executable).resolve())
    return Base(
        name=f"{found.implementation.lower()}-{found.version}",
        kind=EnvironmentKind.VIRTUALENV,
        reference=path,
        python=path,
        facts=facts_from_probe(found),
        target=target_from_probe(found),
    )


def _candidates() -> Iterator[Path]:
    base = Path(getattr(sys, "_base_executable", sys.executable))
    yield base
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    folders = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    # pyenv's shims are scripts; their interpreters are found anyway.
    folders = [folder for folder in folders if folder.name != "shims"]
    folders += [*sorted(pyenv.glob("*/bin")), *sorted(uv.glob("*/bin"))]
    for folder in folders:
        for path in folder.glob("python3.*"):
            if _NAME.fullmatch(path.name):
                yield path


def _minor(path: str) -> int:
    """Return the minor version in an interpreter's name, -1 where it has none."""
    named = _NAME.fullmatch(Path(path).name)
    return int(named.group(1)) if named else -1


def _probe_output(python: str) -> str:
    if python == sys.executable and sys.platform == "linux":  # we are the answer
        return json.dumps(own_probe(), sort_keys=True)
    command = [python, "-I", "-c", PROBE_SOURCE.read_text(encoding="utf-8")]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"{python} does not run",
            why=getattr(error, "strerror", None) or str(error),
            fix="give an interpreter, or the name of a base; stackgen doctor lists both",
        ) from error
    return done.stdout or done.stderr
