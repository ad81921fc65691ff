"""Known vulnerabilities of releases: what a source says, and that nothing was checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Pin = tuple[str, str]
"""A normalised name and a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """A known vulnerability of a release.

    id: the preferred one (PYSEC, then CVE, then others); aliases: its other ids, sorted.
    fixed_in: versions that fix it, ascending; empty where none is known.
    """

    id: str
    aliases: tuple[str, ...] = ()
    fixed_in: tuple[str, ...] = ()
    summary: str = ""

    @property
    def ids(self) -> frozenset[str]:
        """Return every id that it has."""
        return frozenset((self.id, *self.aliases))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVulnerabilities:
    """Result of a vulnerability check for some releases.

    source: what was searched, for reports; "" where nothing was.
    found: of each release that was checked, its vulnerabilities (perhaps none).
    not_checked: why releases outside ``found`` were not checked.
    """

    source: str = ""
    found: Mapping[Pin, tuple[Vulnerability, ...]] = field(default_factory=dict)
    not_checked: str = "no vulnerability source was given (--osv or --audit)"

    def of(self, name: str, version: str) -> tuple[Vulnerability, ...] | None:
        """Return the known vulnerabilities of a release; None where it was not checked."""
        return self.found.get((name, version))


NOT_CHECKED = KnownVulnerabilities()
"""The result where no vulnerability source was given."""
