"""Reports on a resolution."""

from dataclasses import dataclass

from stackgen.model.packages import Exclusion, Lock, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageVersions:
    """The versions of a package that are part of any stack, newest first.

    left_out: versions that the user's own requirements admit, and that are no candidates.
    """

    name: str
    versions: tuple[str, ...]
    left_out: tuple[Exclusion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStack:
    """One of the stacks that a report lists.

    varied: versions of the varied packages.
    completions: how many stacks hold just these; 0 where they were not counted.
    """

    lock: Lock
    varied: tuple[tuple[str, str], ...]
    completions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What became of the versions of a package, or of a requirement.

    query: a package or requirement, as the user wrote it.
    count: how many stacks hold it; a lower bound where not exact.
    left_out: versions that are no candidates, and why.
    in_none: versions that are candidates, and part of no stack.
    not_counted: versions that are no part of a space that was cut, and may be part of stacks.
    """

    query: str
    count: int
    versions: tuple[str, ...]
    left_out: tuple[Exclusion, ...] = ()
    in_none: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Whether a lock holds one of the stacks.

    missing: packages that a stack with these versions needs, and the lock lacks.
    superfluous: packages of the lock that nothing requires; they do no harm.
    forbidden: why no stack has these versions; "" where one has.
    fix: what would let it in.
    """

    path: str
    inside: bool
    missing: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()
    forbidden: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A space, and the answers to queries.

    count: of stacks; a lower bound where not exact.
    exact: whether every stack was counted.
    version_limit: how many of the newest versions of each package were counted; 0 where all were.
    choices: how many feasible choices of the varied packages there are, of each minor release the
        newest patch unless patches are distinguished; 0 where not requested.
    patches: how many there are with every patch release.
    listed: in which way the stacks were chosen: ``newest first``, ``sampled``, ...
    notes: what the user should know: yanked releases, unreadable files, lines left out.
    """

    requirements: tuple[str, ...]
    target: Target
    count: int
    exact: bool
    version_limit: int
    packages: tuple[PackageVersions, ...] = ()
    varied: tuple[str, ...] = ()
    choices: int = 0
    patches: int = 0
    listed: str = ""
    stacks: tuple[ListedStack, ...] = ()
    explained: Explained | None = None
    membership: Membership | None = None
    notes: tuple[str, ...] = ()
