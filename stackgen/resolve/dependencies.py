"""PEP 508 lines, read once and evaluated on a target.

An extra is a package of its own here, written ``name[extra]``: it depends on the same version of
``name`` and on what the extra adds. So a space with extras is a space without.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.errors import UsageError
from stackgen.values import Target

# Most lines are for an extra that nobody asks for. To see that takes no parser: such a line ends in
# a condition on the extra, and in no "or" that could hold without it.
_ONLY_EXTRA = re.compile(r";(?:(?!\bor\b).)*\bextra\s*==\s*(['\"])[^'\"]+\1[\s)]*$")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package, perhaps with an extra (``requests[socks]``), and the versions that will do.

    specifier: canonical text; "" admits every version.
    """

    package: str
    specifier: str


def parse_requirement(text: str) -> Requirement:
    """Read what the user gave.

    Raises:
        UsageError: it is not PEP 508, or it names a URL.
    """
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"cannot read the requirement {text!r}",
            why=str(error).splitlines()[0],
            fix='write it as in "tensorflow>=2.7", in quotes',
        ) from error
    if found.url:
        raise UsageError(
            f"cannot take the requirement {text!r}",
            why="it names an address instead of versions",
            fix="put the wheel into a folder and give that folder with --find-links",
        )
    return found


def base_name(package: str) -> str:
    """Return the package without its extra: ``requests`` for ``requests[socks]``."""
    return package.partition("[")[0]


def dependencies(requirement: Requirement) -> tuple[Dependency, ...]:
    """Return the package that a requirement names, and each of its extras."""
    name = canonicalize_name(requirement.name)
    specifier = str(requirement.specifier)
    extras = sorted(canonicalize_name(extra) for extra in requirement.extras)
    return (
        Dependency(name, specifier),
        *(Dependency(f"{name}[{extra}]", specifier) for extra in extras),
    )


class Reader:
    """Evaluates requirement lines on one target, each distinct line once."""

    def __init__(self, target: Target) -> None:
        self._environment = dict(target.markers)
        self._holds: dict[tuple[str, str], bool] = {}
        self._lines: dict[tuple[str, str], tuple[Dependency, ...]] = {}

    def needed(self, lines: tuple[str, ...], extra: str = "") -> tuple[Dependency, ...]:
        """Return what a release needs here.

        Args:
            lines: its ``Requires-Dist``; lines that are not PEP 508 are passed over, as pip does.
            extra: "" for the release itself; otherwise only what this extra adds is returned.
        """
        found: list[Dependency] = []
        for line in lines:
            if (line, extra) not in self._lines:
                self._lines[line, extra] = self._needed(line, extra)
            found += self._lines[line, extra]
        return tuple(found)

    def _needed(self, line: str, extra: str) -> tuple[Dependency, ...]:
        if not extra and _ONLY_EXTRA.search(line):
            return ()
        requirement = _read(line)
        if requirement is None or requirement.url:
            return ()
        plain = self._applies(requirement.marker, "")
        holds = plain if not extra else not plain and self._applies(requirement.marker, extra)
        return dependencies(requirement) if holds else ()

    def applies(self, requirement: Requirement) -> bool:
        """Return whether a requirement's marker holds on the target."""
        return self._applies(requirement.marker, "")

    def _applies(self, marker: Marker | None, extra: str) -> bool:
        if marker is None:
            return True
        key = (str(marker), extra)
        if key not in self._holds:
            self._holds[key] = marker.evaluate({**self._environment, "extra": extra})
        return self._holds[key]


@lru_cache(maxsize=100_000)
def _read(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


@lru_cache(maxsize=100_000)
def specifier_set(text: str) -> SpecifierSet:
    """Return the parsed specifier; which prereleases are candidates is decided elsewhere."""
    return SpecifierSet(text, prereleases=True)


@lru_cache(maxsize=200_000)
def parsed_version(text: str) -> Version:
    """Return the parsed version."""
    return Version(text)


def names_prerelease(specifier: str) -> bool:
    """Return whether a specifier mentions a prerelease, as in ``>=2.0rc1``."""
    return any(_is_prerelease(each.version) for each in specifier_set(specifier))


def pins_exactly(specifier: str, version: str) -> bool:
    """Return whether a specifier names just this version (``==`` or ``===``, no wildcard)."""
    wanted = parsed_version(version)
    return any(
        each.operator in ("==", "===")
        and not each.version.endswith(".*")
        and _same_version(each.version, wanted)
        for each in specifier_set(specifier)
    )


def _same_version(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:
        return False


def _is_prerelease(text: str) -> bool:
    try:
        return Version(text.removesuffix(".*")).is_prerelease
    except InvalidVersion:
        return False
