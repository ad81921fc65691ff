"""The two sides of a comparison: from what the user named to what is installed."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackgen.database import open_database
from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex
from stackgen.pipeline.export import one_stack
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.pinned import pinned, read_pins
from stackgen.pipeline.places import Places
from stackgen.pipeline.progress import Progress
from stackgen.pipeline.selection import FRAMEWORKS, Candidate, Selection, select
from stackgen.resolve import Policy, Request, asked, parse_requirement
from stackgen.values import Artifact, Base, Lock, LockFile, Prereleases, Stack, Target

_STACK = re.compile(r"[0-9a-f]{4,64}")
_EXAMPLE = 'stackgen compare "numpy==1.26.4" "numpy==2.3.5"; or: stackgen compare old.lock new.lock'
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A side as the user named it: a lock, a stack of the knowledge base, or versions.

    text: in the user's words.
    """

    text: str
    lockfile: LockFile | None = None
    stack: Stack | None = None
    versions: Request | None = None

    @property
    def title(self) -> str:
        """Return what it is called before its versions; "" where the versions are all."""
        if self.lockfile is not None:
            return Path(self.text).name
        return f"stack {self.stack.id[:12]}" if self.stack is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A side as it is installed.

    selection: looks for other versions of what was not named; None for what is taken as it stands.
    """

    candidate: Candidate
    selection: Selection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two stacks; the first is what the second is compared with.

    varied: the packages in which they differ, what was named first.
    """

    sides: tuple[Side, Side]
    varied: tuple[str, ...]

    def candidates(self) -> Iterator[Candidate]:
        """Yield both."""
        return (each.candidate for each in self.sides)

    def may_search(self, candidate: Candidate) -> bool:
        """Return whether one that does not run may be completed otherwise."""
        selection = self._selection(candidate)
        return selection is not None and selection.may_search(candidate)

    def search(self, candidate: Candidate, works: Callable[[Candidate], bool]) -> Candidate | None:
        """Return the newest completion of what was named that works; None where there is none."""
        selection = self._selection(candidate)
        if selection is None:
            return None

        def called_alike(found: Candidate) -> Candidate:
            return replace(found, label=candidate.label)

        found = selection.search(candidate, lambda other: works(called_alike(other)))
        return None if found is None else called_alike(found)

    def _selection(self, candidate: Candidate) -> Selection | None:
        labels = {each.candidate.label: each.selection for each in self.sides}
        return labels[candidate.label]


def named(text: str, places: Places) -> Named:
    """Read what a side is; nothing is looked up at an index.

    Raises:
        UsageError: it is neither a lock, nor a stack of the knowledge base, nor versions.
    """
    path = Path(text)
    if path.is_file() or ("==" not in text and re.search(r"/|\.(lock|toml|txt)$", text)):
        return Named(text=text, lockfile=read_pins(path))
    if "==" in text:
        return Named(text=text, versions=asked(*map(str, _versions(text))))
    if _STACK.fullmatch(text) is None:
        raise UsageError(
            f"cannot compare with {text!r}",
            why="it is no file, no beginning of a stack's id (4 hexadecimal digits or more), and "
            "no list of versions",
            fix=f"name both sides as in: {_EXAMPLE}",
        )
    with open_database(places.knowledge, reading=True) as database:
        return Named(text=text, stack=one_stack(database, text, places))


def _versions(text: str) -> Iterator[Requirement]:
    for token in filter(None, re.split(r"[\s,]+", text)):
        each = parse_requirement(token)
        if [pin.operator for pin in each.specifier] not in (["=="], ["==="]):
            raise UsageError(
                f"cannot read {token!r} in {text!r}",
                why="a side says which versions it has, as NAME==VERSION, with blanks between them",
                fix=f"name both sides as in: {_EXAMPLE}",
            )
        yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Turns what was named into what is installed."""

    index: PackageIndex
    options: ExploreOptions
    base: Base
    progress: Progress

    def pair(self, a: Named, b: Named) -> Pair:
        """Return both sides with names that tell them apart.

        Raises:
            ResolutionError: a side cannot be installed here.
            UsageError: a lock is for another Python, or a package has no such version.
        """
        sides = (self._side(a), self._side(b))
        locks = (sides[0].candidate.lock, sides[1].candidate.lock)
        wanted = [name for each in (a, b) if each.versions for name in each.versions.names]
        varied = differing(*locks, first=wanted)
        likely = dict.fromkeys((*wanted, *FRAMEWORKS, "numpy"))
        told = [name for name in likely if name in varied] or varied
        both = [
            replace(side, candidate=replace(side.candidate, label=_label(letter, name, side, told)))
            for letter, name, side in zip("AB", (a, b), sides, strict=True)
        ]
        return Pair(sides=(both[0], both[1]), varied=tuple(varied))

    def _side(self, given: Named) -> Side:
        if given.versions is not None:
            return self._completed(given.versions)
        if given.stack is not None:
            return self._known(given.stack)
        assert given.lockfile is not None  # noqa: S101 # one of the three is given
        built = self.options.asked.policy.allow_build
        policy = Policy(prereleases=Prereleases.ALLOW, allow_build=built)
        lock = pinned(self.index, given.lockfile, self.base.target, policy)
        return Side(candidate=_as_it_stands(lock))

    def _completed(self, versions: Request) -> Side:
        """Return the newest stack with these versions; what else it holds may be older."""
        framework = set(versions.names) & set(FRAMEWORKS)
        options = replace(
            self.options,
            asked=replace(versions, policy=self.options.asked.policy),
            fixed=("numpy",) if framework and "numpy" not in versions.names else (),
        )
        selection = select(self.index, options, self.base.target, self.progress)
        candidate = next(selection.candidates(), None)
        if candidate is None:
            raise ResolutionError(
                f"no stack has {', '.join(versions.texts)}",
                why="what these versions need cannot be had together",
                fix=f"ask why: stackgen resolve {' '.join(versions.texts)}",
            )
        return Side(candidate=candidate, selection=selection)

    def _known(self, stack: Stack) -> Side:
        refuse_unfit(stack, self.base.target)
        if stack.facts != self.base.facts:
            self.progress.note(
                f"Stack {stack.id[:12]} was measured on {stack.facts.python} "
                f"({stack.facts.distribution}); here its packages are installed on "
                f"{self.base.facts.python} ({self.base.facts.distribution})."
            )
        return Side(candidate=replace(_as_it_stands(stack.lock), settings=stack.settings))


def differing(a: Lock, b: Lock, *, first: list[str]) -> list[str]:
    """Return the packages that are not the same file on both sides, what is named first."""
    files = [{each.name: each.sha256 for each in lock.artifacts} for lock in (a, b)]
    names = sorted({*files[0], *files[1]})
    found = [name for name in names if files[0].get(name) != files[1].get(name)]
    return sorted(found, key=lambda name: first.index(name) if name in first else len(first))


def _label(letter: str, given: Named, side: Side, told: list[str]) -> str:
    versions = side.candidate.lock.versions
    own = [name for name in told if name in versions]
    if not own:  # all that differs is on the other side
        likely = given.versions.names if given.versions else (*FRAMEWORKS, "numpy", *versions)
        own = [name for name in likely if name in versions][:1]
    parts = [f"{name} {versions[name]}" for name in own[:_SHOWN]]
    parts += [f"{name}={value}" for name, value in side.candidate.settings]
    text = ", ".join(parts)
    return f"{letter}: {f'{given.title} ({text})' if given.title else text}"


def _as_it_stands(lock: Lock) -> Candidate:
    return Candidate(lock=lock, label="", completion="lock", settings=(), choice=None)


def refuse_unfit(stack: Stack, target: Target) -> None:
    """Refuse wheels that are for another Python or platform."""
    unfit = [each for each in stack.lock.artifacts if each.is_wheel and not _fits(each, target)]
    if unfit:
        raise ResolutionError(
            f"stack {stack.id[:12]} cannot be installed here",
            why=f"{unfit[0].filename} does not fit Python {target.python} of this base",
            fix=f"name another base with --base; it was measured on {stack.facts.python} "
            f"({stack.facts.distribution})",
        )


def _fits(artifact: Artifact, target: Target) -> bool:
    try:
        _, _, _, tags = parse_wheel_filename(artifact.filename)
    except InvalidWheelFilename:
        return True  # an old name; whether it can be installed is seen then
    return bool({str(tag) for tag in tags} & set(target.tags))
