"""PEP 508 lines, read once and evaluated on a target.

An extra is a package of its own here, written ``name[extra]``: it depends on the same version of
``name`` and on what the extra adds. So a space with extras is a space without.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.errors import UsageError
from stackgen.model.packages import Metadata, Target

# Most lines are for an extra that is not required. To see that takes no parser: such a line ends in
# a condition on the extra, and in no "or" that could hold without it.
_EXTRA = re.compile(r"\bextra\s*==\s*(['\"])([^'\"]+)\1")
# Python converts numbers of up to 4,300 digits; a longer one fails where versions are compared.
_ENDLESS = re.compile(r"\d{1000}")
_ONLY_EXTRA = re.compile(r";(?:(?!\bor\b).)*\bextra\s*==\s*(['\"])[^'\"]+\1[\s)]*$")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package, perhaps with an extra (``requests[socks]``), and the versions that will do.

    specifier: canonical text; "" admits every version, ``@ URL`` the file at that address alone.
    """

    package: str
    specifier: str

    def __str__(self) -> str:
        space = " " if self.specifier.startswith("@") else ""
        return f"{self.package}{space}{self.specifier}"


def parse_requirement(text: str) -> Requirement:
    """Read a requirement of the user.

    Raises:
        UsageError: it is not PEP 508, or has a number that is too long for a version.
    """
    if _ENDLESS.search(text):
        raise UsageError(
            f"cannot read the requirement {text[:60]}...",
            why="a number in it has a thousand digits or more",
            fix='write it as in "tensorflow>=2.7", in quotes',
        )
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"cannot read the requirement {text!r}",
            why="a name is expected, then versions such as >=2.7 or ==2.12.*, perhaps a marker",
            fix='write it as in "tensorflow>=2.7", in quotes',
        ) from error


def base_name(package: str) -> str:
    """Return the package without its extra: ``requests`` for ``requests[socks]``."""
    return package.partition("[")[0]


def dependencies(requirement: Requirement) -> tuple[Dependency, ...]:
    """Return the package that a requirement names, and each of its extras."""
    name = canonicalize_name(requirement.name)
    url = requirement.url
    specifier = f"@ {plain_url(url)}" if url else str(requirement.specifier)
    extras = sorted(canonicalize_name(extra) for extra in requirement.extras)
    return (
        Dependency(name, specifier),
        *(Dependency(f"{name}[{extra}]", specifier) for extra in extras),
    )


def plain_url(url: str) -> str:
    """Return an address without its fragment, where the hash of the file may stand."""
    return url.partition("#")[0]


class DependencyReader:
    """Evaluates requirement lines on one target, each distinct line once.

    Args:
        target: where the packages are installed.
        overrides: what counts in place of every requirement of these packages.
        excluded: packages that are left out wherever something requires them.
    """

    def __init__(
        self,
        target: Target,
        *,
        overrides: Iterable[Requirement] = (),
        excluded: Iterable[str] = (),
    ) -> None:
        self._environment = dict(target.markers)
        self._excluded = {canonicalize_name(name) for name in excluded}
        self._overrides: dict[str, list[Requirement]] = {}
        for each in overrides:
            self._overrides.setdefault(canonicalize_name(each.name), []).append(each)
        self._holds: dict[tuple[str, str], bool] = {}
        self._lines: dict[tuple[str, str], tuple[Dependency, ...]] = {}

    def needed(self, lines: tuple[str, ...], extra: str = "") -> tuple[Dependency, ...]:
        """Return what a release needs here.

        Args:
            lines: its ``Requires-Dist``, each of them readable (see `defect`).
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
        if requirement is None:
            raise ValueError(f"malformed requirement: {line!r}")
        if canonicalize_name(requirement.name) in self._overrides:
            holds = self._is_of_extra(requirement.marker, extra)
        else:
            plain = self._applies(requirement.marker, "")
            holds = plain if not extra else not plain and self._applies(requirement.marker, extra)
        return self.adjusted(requirement) if holds else ()

    def _is_of_extra(self, marker: Marker | None, extra: str) -> bool:
        """Return whether a line is about an extra; an override replaces the rest of its marker."""
        named = {canonicalize_name(name) for _, name in _EXTRA.findall(str(marker or ""))}
        return extra in named if named else not extra

    def adjusted(self, requirement: Requirement) -> tuple[Dependency, ...]:
        """Return a requirement as dependencies, after overrides and exclusions."""
        name = canonicalize_name(requirement.name)
        if name in self._excluded:
            return ()
        if name not in self._overrides:
            return dependencies(requirement)
        # As in uv: an override brings its own extras, and takes the dependency away where its
        # marker does not hold.
        return tuple(
            each
            for override in self._overrides[name]
            if self.applies(override)
            for each in dependencies(override)
        )

    def overriding(self) -> tuple[Dependency, ...]:
        """Return the overrides whose markers hold."""
        every = (each for overrides in self._overrides.values() for each in overrides)
        return tuple(d for each in every if self.applies(each) for d in dependencies(each))

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


# Most lines are written as in these patterns: to see that they can be read takes no parser.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_NUMBER = r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?"
_CLAUSE = rf"(?:(?:<=|>=|<|>)\s*{_NUMBER}|[=!]=\s*{_NUMBER}(?:\.\*)?)"
_CLAUSES = rf"{_CLAUSE}(?:\s*,\s*{_CLAUSE})*"
_VARIABLE = r"(?:python_version|python_full_version|sys_platform|platform_system|extra)"
_TERM = rf"{_VARIABLE}\s*(?:[=!]=|<=|>=|<|>)\s*(?:\"[^\"\\]*\"|'[^'\\]*')"
_PLAIN = re.compile(
    rf"{_NAME}\s*(?:\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\])?\s*(?:{_CLAUSES}|\({_CLAUSES}\))?\s*"
    rf"(?:;\s*{_TERM}(?:\s+(?:and|or)\s+{_TERM})*)?\s*"
)

# What releases of the time before PEP 440 wrote, and what it means; uv reads these forms, too.
_REPAIRS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"([<>=~!]\s*[\w.*]*[\d*])\s*(?=[<>=!~])", r"\1,"),  # >=1.0<2
        (r"!=\s*~\s*(\d+(?:\.\d+)*)", r"!=\1.*"),  # !=~5.0
        (r"([<>]=?)\s*(\d+(?:\.\d+)*)\.\*(?![\w.])", r"\1\2"),  # >=1.*
        (r"(?<=\d)\*", ".*"),  # !=3.0*
        (r",\s*(?=\)?\s*$)", ""),  # >=3.6,
        (r">\s*dev\b", ">0.dev0"),  # >dev
        (r"((?:a|b|rc|post|dev)\d+)(?:\.0)+", r"\1"),  # >=9.0.0a1.0
        (r"['\"]", ""),  # >=2.7'
    )
)


@lru_cache(maxsize=100_000)
def _read(line: str) -> Requirement | None:
    """Return a requirement of a release, repaired where that takes a known form; or None."""
    if _ENDLESS.search(line):
        return None
    demand, semicolon, marker = line.partition(";")
    for repaired in _repaired(demand):
        try:
            return Requirement(f"{repaired}{semicolon}{marker}")
        except InvalidRequirement:
            continue
    return None


def _repaired(text: str) -> Iterator[str]:
    yield text
    for pattern, replacement in _REPAIRS:
        found = pattern.sub(replacement, text)
        if found != text:
            yield found
        text = found


@lru_cache(maxsize=10_000)
def read_specifier(text: str) -> SpecifierSet | None:
    """Return a ``Requires-Python``, repaired where that takes a known form; or None."""
    if _ENDLESS.search(text):
        return None
    for repaired in _repaired(text):
        try:
            return SpecifierSet(repaired, prereleases=True)
        except InvalidSpecifier:
            continue
    return None


def defect(metadata: Metadata) -> str:
    """Return which line of a release's metadata is malformed, "" where none is.

    As in uv, one such line is enough, under any marker: what the release requires is unknown.
    """
    python = metadata.requires_python
    if python and read_specifier(python) is None:
        return malformed_python(python)
    bad = next((line for line in metadata.requires_dist if not _is_readable(line)), None)
    return "" if bad is None else f"malformed metadata: Requires-Dist {bad!r}"


def malformed_python(requires: str) -> str:
    """Return why a release with such a ``Requires-Python`` is no candidate."""
    return f"malformed metadata: Requires-Python {requires!r}"


@lru_cache(maxsize=200_000)
def _is_readable(line: str) -> bool:
    plain = _PLAIN.fullmatch(line) is not None and _ENDLESS.search(line) is None
    return plain or _read(line) is not None


@lru_cache(maxsize=100_000)
def specifier_set(text: str) -> SpecifierSet:
    """Return the parsed specifier; which prereleases are candidates is decided elsewhere."""
    return SpecifierSet(text, prereleases=True)


@lru_cache(maxsize=200_000)
def parsed_version(text: str) -> Version:
    """Return the parsed version."""
    return Version(text)


def admits(specifier: str, version: str) -> bool:
    """Return whether a specifier admits a version, under any policy on prereleases."""
    return not specifier or specifier_set(specifier).contains(parsed_version(version))


@lru_cache(maxsize=10_000)
def python_admits(requires: str, python: str) -> bool:
    """Return whether a ``Requires-Python`` admits a Python."""
    wanted = read_specifier(requires)
    return wanted is not None and wanted.contains(python)


def names_prerelease(specifier: str) -> bool:
    """Return whether a specifier mentions a prerelease, as in ``>=2.0rc1``, but to forbid it."""
    named = (each.version for each in specifier_set(specifier) if each.operator != "!=")
    found = (_version_or_none(text.removesuffix(".*")) for text in named)
    return any(version is not None and version.is_prerelease for version in found)


def pins_exactly(specifier: str, version: str) -> bool:
    """Return whether a specifier names just this version (``==`` or ``===``, no wildcard)."""
    wanted = parsed_version(version)
    return any(
        each.operator in ("==", "===")
        and not each.version.endswith(".*")
        and _version_or_none(each.version) == wanted
        for each in specifier_set(specifier)
    )


def _version_or_none(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:  # also a number of too many digits
        return None


class Versions:
    """Versions of one package, newest first; bit 0 of a mask is the newest."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._versions = tuple(parsed_version(text) for text in texts)
        self._all = (1 << len(texts)) - 1
        self._known: dict[str, int] = {"": self._all}
        self._clauses: dict[Specifier, int] = {}

    def mask(self, specifier: str) -> int:
        """Return the versions that a specifier admits, under any policy on prereleases."""
        known = self._known.get(specifier)
        if known is None:
            known = self._all
            for clause in specifier_set(specifier):
                known &= self._admitted(clause)
            self._known[specifier] = known
        return known

    def _admitted(self, clause: Specifier) -> int:
        known = self._clauses.get(clause)
        if known is None:
            self._clauses[clause] = known = self._stretch(clause)
        return known

    def _stretch(self, clause: Specifier) -> int:
        def admits(place: int) -> bool:
            return clause.contains(self._versions[place], prereleases=True)

        size = len(self._versions)
        operator, text = clause.operator, clause.version
        if operator == "!=":
            return self._all & ~self._admitted(Specifier(f"=={text}"))
        if operator == ">=" or (operator == ">" and _is_plain(text)):
            return (1 << _first(lambda place: not admits(place), 0, size)) - 1
        if operator == "<=" or (operator == "<" and _is_plain(text)):
            return self._all & -(1 << _first(admits, 0, size))
        if operator in ("==", "~="):
            # The oldest that a wildcard can admit is a development release.
            wild = text.endswith(".*")
            floor = Version(f"{text[:-2]}.dev0" if wild else text)
            end = _first(lambda place: self._versions[place] < floor, 0, size)
            return ((1 << end) - 1) & -(1 << _first(admits, 0, end))
        return sum(1 << place for place in range(size) if admits(place))


def _is_plain(text: str) -> bool:
    """Return whether a version is final: what < and > admit near any other is no stretch."""
    version = parsed_version(text)
    return not (version.is_prerelease or version.is_postrelease or version.local)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place where something holds that goes on to hold; `high` where none is."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def newest_bit(mask: int) -> int:
    """Return the number of the lowest bit that is set; a mask of 0 has none, and gives -1."""
    return (mask & -mask).bit_length() - 1
