"""Turn what a probe printed into a target and into facts; pure, so that it works for any base."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.tags import Tag, compatible_tags, generic_tags

from stackgen.builders import tags
from stackgen.errors import BuildError
from stackgen.values import BaseFacts, Target


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
    major, minor = (int(part) for part in dict(probe.markers)["python_version"].split("."))
    version = (major, minor)
    platforms = list(_platforms(probe))
    if probe.implementation == "CPython":
        yield from tags.cpython(version, abis=_cpython_abis(probe, version), platforms=platforms)
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
        yield from tags.macos_platforms(probe.macos, probe.machine)
        return
    plain = probe.platform.replace("-", "_").replace(".", "_")
    if not plain.startswith("linux_"):
        yield plain
        return
    machines = _machines(plain.removeprefix("linux_"), probe.bits)
    yield from tags.linux_platforms(probe.libc, machines)


def _machines(machine: str, bits: int) -> tuple[str, ...]:
    """Return what runs: a 32-bit interpreter may sit on a 64-bit kernel."""
    if bits == 32 and machine == "x86_64":
        return ("i686",)
    if bits == 32 and machine == "aarch64":
        return "armv8l", "armv7l"
    return (machine,)
