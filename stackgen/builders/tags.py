"""Which wheel tags fit, told from a few facts about a system; pure, so that it holds for any."""

from collections.abc import Iterator, Sequence

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms

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
    """Yield what a CPython takes, most preferred first; abis and platforms are in that order."""
    yield from cpython_tags(version, abis, platforms)
    yield from compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)


def linux_platforms(libc: tuple[str, str], machines: Sequence[str]) -> Iterator[str]:
    """Yield the platforms of a Linux.

    Args:
        libc: ("glibc" or "musl", version); another name adds no platform.
        machines: as the kernel names them, the closest first.
    """
    # What was built for this very system comes first, as in packaging 26.
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
