"""Enumerations that a user chooses from; each is declared in this module alone."""

from enum import Enum


class ExecutorChoice(str, Enum):
    """Where stacks run."""

    AUTO = "auto"
    VIRTUALENV = "virtualenv"
    DOCKER = "docker"


class Strategy(str, Enum):
    """Which stacks are measured in which block.

    RACING, RANDOM, PAIRWISE: a few stacks in each block, chosen by what is known, at random, or so
    that all pairs of versions are seen; the best ones are then compared in blocks of their own.
    EXHAUSTIVE, NEWEST: all of them in every block, or the newest ones alone.
    """

    RACING = "racing"
    EXHAUSTIVE = "exhaustive"
    RANDOM = "random"
    PAIRWISE = "pairwise"
    NEWEST = "newest"

    @property
    def searches(self) -> bool:
        """Return whether some stacks are measured before the best ones are compared."""
        return self not in (Strategy.EXHAUSTIVE, Strategy.NEWEST)


class Order(str, Enum):
    """Which stacks take part first.

    AUTO: SPREAD where a command names a framework and says nothing else about stacks, else NEWEST.
    NEWEST: newest first. SPREAD: over releases, major versions of NumPy, and
    settings; the newest release without any settings is the baseline.
    """

    AUTO = "auto"
    NEWEST = "newest"
    SPREAD = "spread"


class Granularity(str, Enum):
    """Which versions count as different: of each minor release the newest patch alone, or all."""

    MINOR = "minor"
    PATCH = "patch"


class AuditService(str, Enum):
    """A vulnerability service of pip-audit."""

    NONE = "none"
    PYPI = "pypi"
    OSV = "osv"
    ESMS = "esms"


class Completion(str, Enum):
    """How the packages that do not vary are chosen.

    NEWEST: the newest version at each decision, dependents first.
    CONTEMPORARY: the same, of what was uploaded at most a year after the varied release.
    NEWEST_WORKING: as NEWEST; where that does not run, with as little held back as it takes.
    """

    NEWEST = "newest"
    CONTEMPORARY = "contemporary"
    NEWEST_WORKING = "newest-working"


class Better(str, Enum):
    """Which figures of a program are better."""

    LOWER = "lower"
    HIGHER = "higher"


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


class Listing(str, Enum):
    """Which stacks are listed.

    CHOICES: of each choice of the varied packages the newest completion, newest choices first.
    STACKS: every stack, newest first, in the order of decision.
    STRATIFIED: a sample spread over the versions of the varied packages.
    UNIFORM: a sample of all stacks.
    COVER: so few choices that every feasible pair of varied versions is among them.
    """

    CHOICES = "newest of each choice"
    STACKS = "newest first"
    STRATIFIED = "sampled, spread over the varied versions"
    UNIFORM = "sampled uniformly"
    COVER = "covering all pairs of varied versions"


class AdviceType(str, Enum):
    """What ``advise`` recommends of what was measured; each but LATEST is shown not to be slower.

    PERFORMANCE: what is shown to be faster, the fastest first.
    STABLE: the newest versions that never failed, and compute what the lock computes.
    LATEST: the newest versions that the rest of the lock admits, measured or not.
    SIZE: the smallest installed size.
    SECURITY: the fewest known vulnerabilities.
    """

    PERFORMANCE = "performance"
    STABLE = "stable"
    LATEST = "latest"
    SIZE = "size"
    SECURITY = "security"


class AdviceFormat(str, Enum):
    """How an advice is printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
