"""Which prereleases may be part of a stack."""

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
