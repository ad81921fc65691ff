"""What a user chooses about the stacks of a search space: enumerations shared by all commands."""

from enum import Enum


class Prereleases(str, Enum):
    """The policy on prereleases; names and meanings are those of ``--prerelease`` in uv.

    DISALLOW: none, whatever pins them.
    ALLOW: all, beside final releases.
    IF_NECESSARY: where no final release will do.
    EXPLICIT: the same, of packages of which a requirement of the user names a prerelease.
    IF_NECESSARY_OR_EXPLICIT: another name of IF_NECESSARY.
    """

    DISALLOW = "disallow"
    ALLOW = "allow"
    IF_NECESSARY = "if-necessary"
    EXPLICIT = "explicit"
    IF_NECESSARY_OR_EXPLICIT = "if-necessary-or-explicit"

    @property
    def prefers_final(self) -> bool:
        """Return whether a prerelease is taken only where no final release will do."""
        return self not in (Prereleases.DISALLOW, Prereleases.ALLOW)


class Granularity(str, Enum):
    """Which versions are distinct: the newest patch of each minor release, or every version."""

    MINOR = "minor"
    PATCH = "patch"


class Completion(str, Enum):
    """How the versions of packages that are not varied are chosen.

    NEWEST: the newest version at each decision, dependents first.
    CONTEMPORARY: the same, of what was uploaded at most a year after the varied release.
    NEWEST_WORKING: as NEWEST; where that does not run, with as few older versions as possible.
    """

    NEWEST = "newest"
    CONTEMPORARY = "contemporary"
    NEWEST_WORKING = "newest-working"
