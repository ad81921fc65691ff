"""Turn what a probe printed into a target and into facts; pure, so that it works for any base."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.tags import Tag, compatible_tags, cpython_tags, generic_tags, mac_platforms

from stackgen.errors import BuildError
from stackgen.values import BaseFacts, Target

# PEP 600 gave the older names of manylinux a glibc version each.
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# The oldest glibc 2.x that a tag may name: 2.5 on x86, 2.17 wherever manylinux came later.
_OLDEST_GLIBC = {"x86_64": 5, "i686": 5}
_MANYLINUX_MACHINES = {
    *("x86_64", "i686", "aarch64", "armv7l", "ppc64", "ppc64le", "s390x", "riscv64", "loongarch64")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What the interpreter of a base said of itself (see ``probe.py``).

    build: ``sys.version`` on one line.
    libc: (name, version), both "" where it could not be found out.
    distribution: (id, version) of the Linux distribution, such as ("debian", "12").
    platform: as ``sysconfig.get_platform()`` says it, such as ``linux-x86_64``.
    macos: version of macOS, "" elsewhere.
    executable, base_executable: of this interpreter, and of the one below its virtualenv.
    paths: where a wheel's parts go, by the scheme's own keys (``purelib``, ``scripts``, ...).
    """

    version: str
    implementation: str
    build: str
    markers: tuple[tuple[str, str], ...]
    soabi: str
    abiflags: str
    debug: bool
    gil_disabled: bool
    cache_tag: str
    platform: str
    machine: str
    bits: int
    libc: tuple[str, str]
    distribution: tuple[str, str]
    system_packages: tuple[tuple[str, str], ...]
    macos: str
    executable: str
    base_executable: str
    prefix: str
    paths: tuple[tuple[str, str], ...]


def parse_probe(text: str, *, where: str) -> Probe:
    """Read the line of JSON that ``probe.py`` printed.

    Args:
        text: everything that was printed; the last line counts.
        where: the interpreter or image that was asked, for messages.

    Raises:
        BuildError: it is not what the probe prints.
    """
    try:
        document = json.loads(text.strip().splitlines()[-1])
        return _probe_from(document)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BuildError(
            f"{where} does not answer as a Python interpreter",
            why=f"its answer ends with {text.strip()[-80:]!r} ({error!r})",
            fix="give an interpreter or a base with Python 3.6 or newer; see: stackgen doctor",
        ) from error


def _probe_from(document: Mapping[str, object]) -> Probe:
    """Take the fields out of the JSON document, each in its type."""

    def text(key: str) -> str:
        return str(document[key])

    return Probe(
        version=text("version"),
        implementation=text("implementation"),
        build=text("build"),
        markers=_items(document["markers"]),
        soabi=text("soabi"),
        abiflags=text("abiflags"),
        debug=bool(document["debug"]),
        gil_disabled=bool(document["gil_disabled"]),
        cache_tag=text("cache_tag"),
        platform=text("platform"),
        machine=text("machine"),
        bits=int(text("bits")),
        libc=_pair(document["libc"]),
        distribution=_pair(document["distribution"]),
        system_packages=tuple(_pair(row) for row in _sequence(document["system_packages"])),
        macos=text("macos"),
        executable=text("executable"),
        base_executable=text("base_executable"),
        prefix=text("prefix"),
        paths=_items(document["paths"]),
    )


def _sequence(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected: {value!r}")
    return value


def _pair(value: object) -> tuple[str, str]:
    first, second = _sequence(value)
    return str(first), str(second)


def _items(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise TypeError(f"a mapping was expected: {value!r}")
    return tuple(sorted((str(key), str(item)) for key, item in value.items()))


def target_from_probe(probe: Probe) -> Target:
    """Return what fits on the probed interpreter, the most preferred tags first."""
    return Target(
        python=_plain_version(probe.version),
        markers=tuple((key, _plain_version(value)) for key, value in probe.markers),
        tags=tuple(str(tag) for tag in _tags(probe)),
    )


def facts_from_probe(probe: Probe) -> BaseFacts:
    """Return what of the probed base can change a timing."""
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
    version = tuple(int(part) for part in dict(probe.markers)["python_version"].split("."))
    digits = "".join(str(part) for part in version)
    platforms = list(_platforms(probe))
    if probe.implementation == "CPython":
        interpreter = f"cp{digits}"
        yield from cpython_tags(version, _cpython_abis(probe, version), platforms)
        yield from compatible_tags(version, interpreter, platforms)
        return
    short = {"PyPy": "pp"}.get(probe.implementation, probe.implementation.lower())
    abi = "_".join(probe.soabi.split("-")[:2])
    yield from generic_tags(f"{short}{digits}", [abi] if abi else [], platforms)
    yield from compatible_tags(version, "pp3" if short == "pp" else None, platforms)


def _cpython_abis(probe: Probe, version: tuple[int, ...]) -> list[str]:
    """Return the ABIs of a CPython; flags stand in the order of PEP 3149."""
    name = "cp" + "".join(str(part) for part in version)
    if version < (3, 8):
        return [name + probe.abiflags]
    threading = "t" if probe.gil_disabled else ""
    release = f"{name}{threading}"
    # A debug build loads the modules of a release build as well since 3.8.
    return [f"{release}d", release] if probe.debug else [release]


def _platforms(probe: Probe) -> Iterator[str]:
    if probe.macos:
        major, minor = [*probe.macos.split("."), "0"][:2]
        yield from mac_platforms((int(major), int(minor)), probe.machine)
        return
    plain = probe.platform.replace("-", "_").replace(".", "_")
    if not plain.startswith("linux_"):
        yield plain
        return
    architectures = _architectures(plain.removeprefix("linux_"), probe.bits)
    # What was built for this very system comes first, as in packaging 26.
    yield from (f"linux_{arch}" for arch in architectures)
    for arch in architectures:
        yield from _libc_platforms(probe.libc, arch)


def _architectures(arch: str, bits: int) -> tuple[str, ...]:
    """Return what runs: a 32-bit interpreter may sit on a 64-bit kernel."""
    if bits == 32 and arch == "x86_64":
        return ("i686",)
    if bits == 32 and arch == "aarch64":
        return "armv8l", "armv7l"
    return (arch,)


def _libc_platforms(libc: tuple[str, str], arch: str) -> Iterator[str]:
    """Yield the manylinux (PEP 600) or musllinux (PEP 656) tags, newest first."""
    name, version = libc
    if name not in ("glibc", "musl") or arch not in _MANYLINUX_MACHINES:
        return
    major, minor = (int(part) for part in version.split(".")[:2])
    if name == "musl":
        yield from (f"musllinux_{major}_{older}_{arch}" for older in range(minor, -1, -1))
        return
    for older in range(minor, _OLDEST_GLIBC.get(arch, 17) - 1, -1):
        yield f"manylinux_{major}_{older}_{arch}"
        if older in _LEGACY:
            yield f"{_LEGACY[older]}_{arch}"
