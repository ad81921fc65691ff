"""Compare: two stacks in, the paired test of one against the other out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackgen.campaign.backend import Backend
from stackgen.campaign.candidates import (
    FRAMEWORKS,
    Candidate,
    GivenStacks,
    pinned,
    read_pins,
    select,
)
from stackgen.campaign.comparison import nothing_runs
from stackgen.campaign.options import SearchOptions
from stackgen.campaign.plan import SelectedStacks
from stackgen.campaign.request import CampaignRequest
from stackgen.commands.explore import explore
from stackgen.commands.kb import one_stack
from stackgen.errors import BuildError, EvidenceError, ResolutionError, StackgenError, UsageError
from stackgen.index import PackageIndex
from stackgen.knowledge.database import open_database
from stackgen.model.choices import Prereleases, Strategy
from stackgen.model.identity import content_id
from stackgen.model.packages import Artifact, Lock, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ExplorePlan, ExploreReport, FailedStack
from stackgen.model.stacks import Base, Stack
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.storage.paths import Paths

# The pair that is compared: from what the user named to what is installed

_STACK = re.compile(r"[0-9a-f]{4,64}")
_EXAMPLE = '"numpy==1.26.4" "numpy==2.3.5"; or: old.lock new.lock'
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A stack as the user named it: a lock, a stack of the knowledge base, or versions.

    text: in the user's words.
    """

    text: str
    lockfile: LockFile | None = None
    stack: Stack | None = None
    versions: Requirements | None = None

    @property
    def title(self) -> str:
        """Return what it is called before its versions; "" where the versions are all."""
        if self.lockfile is not None:
            return Path(self.text).name
        return f"stack {self.stack.id[:12]}" if self.stack is not None else ""


def named(text: str, paths: Paths) -> Named:
    """Read which stack was named; nothing is looked up at an index.

    Raises:
        UsageError: it is neither a lock, nor a stack of the knowledge base, nor versions.
    """
    if _is_file(text) or ("==" not in text and re.search(r"/|\.(lock|toml|txt)$", text)):
        return Named(text=text, lockfile=read_pins(Path(text)))
    if "==" in text:
        return Named(text=text, versions=parse_requirements(*map(str, _versions(text))))
    if _STACK.fullmatch(text) is None:
        raise UsageError(
            f"cannot compare with {text!r}",
            why="it is no file, no beginning of a stack's id (4 hexadecimal digits or more), and "
            "no list of versions",
            fix=f"name both stacks as in: {_EXAMPLE}",
        )
    with open_database(paths.knowledge, reading=True) as database:
        return Named(text=text, stack=one_stack(database, text, paths))


def _is_file(text: str) -> bool:
    """Return whether a file has this name; the versions of a whole stack are too long for one."""
    try:
        return Path(text).is_file()
    except OSError:
        return False


def _versions(text: str) -> Iterator[Requirement]:
    for token in filter(None, re.split(r"[\s,]+", text)):
        each = parse_requirement(token)
        if [pin.operator for pin in each.specifier] not in (["=="], ["==="]):
            raise UsageError(
                f"cannot read {token!r} in {text!r}",
                why="versions are given as NAME==VERSION, with blanks between them",
                fix=f"name both stacks as in: {_EXAMPLE}",
            )
        yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Turns what was named into what is installed."""

    index: PackageIndex
    request: CampaignRequest
    base: Base
    progress: Progress

    def pair(self, a: Named, b: Named) -> GivenStacks:
        """Return both stacks with names that distinguish them.

        Raises:
            ResolutionError: one of them cannot be installed here.
            UsageError: a lock is for another Python, or a package has no such version.
        """
        members = (self.candidate(a), self.candidate(b))
        wanted = [name for each in (a, b) if each.versions for name in each.versions.names]
        varied = differing(*(each.lock for each in members), first=wanted)
        likely = dict.fromkeys((*wanted, *FRAMEWORKS, "numpy"))
        shown = [name for name in likely if name in varied] or varied
        both = [
            replace(each, label=_label(letter, name, each, shown))
            for letter, name, each in zip("AB", (a, b), members, strict=True)
        ]
        return GivenStacks(members=tuple(both), varied=tuple(varied))

    def candidate(self, given: Named) -> Candidate:
        """Return a stack as it is installed.

        Raises:
            ResolutionError: it cannot be installed here.
            UsageError: a lock is for another Python, or a package has no such version.
        """
        if given.versions is not None:
            return self._completed(given.versions)
        if given.stack is not None:
            return self._known(given.stack)
        assert given.lockfile is not None  # noqa: S101 # one of the three is given
        built = self.request.stacks.requirements.policy.allow_build
        policy = Policy(prereleases=Prereleases.ALLOW, allow_build=built)
        lock = pinned(self.index, given.lockfile, self.base.target, policy)
        return _as_it_stands(lock)

    def _completed(self, versions: Requirements) -> Candidate:
        """Return the newest stack with these versions; what else it holds may be older."""
        framework = set(versions.names) & set(FRAMEWORKS)
        request = self.request.with_stacks(
            requirements=replace(versions, policy=self.request.stacks.requirements.policy),
            fixed=("numpy",) if framework and "numpy" not in versions.names else (),
        )
        selection = select(self.index, request, self.base.target, self.progress)
        candidate = next(selection.candidates(), None)
        if candidate is None:
            raise ResolutionError(
                f"no stack has {', '.join(versions.texts)}",
                why="what these versions need cannot be had together",
                fix=f"to see why: stackgen resolve {' '.join(versions.texts)}",
            )
        return candidate

    def _known(self, stack: Stack) -> Candidate:
        refuse_unfit(stack, self.base.target)
        if stack.facts != self.base.facts:
            self.progress.note(
                f"Stack {stack.id[:12]} was measured on {stack.facts.python} "
                f"({stack.facts.distribution}); here its packages are installed on "
                f"{self.base.facts.python} ({self.base.facts.distribution})."
            )
        return replace(_as_it_stands(stack.lock), settings=stack.settings)


def differing(a: Lock, b: Lock, *, first: list[str]) -> list[str]:
    """Return the packages that are not the same file in both stacks, what is named first."""
    files = [{each.name: each.sha256 for each in lock.artifacts} for lock in (a, b)]
    names = sorted({*files[0], *files[1]})
    found = [name for name in names if files[0].get(name) != files[1].get(name)]
    return sorted(found, key=lambda name: first.index(name) if name in first else len(first))


def _label(letter: str, given: Named, candidate: Candidate, shown: list[str]) -> str:
    versions = candidate.lock.versions
    own = [name for name in shown if name in versions]
    if not own:  # all that differs is on the other side
        likely = given.versions.names if given.versions else (*FRAMEWORKS, "numpy", *versions)
        own = [name for name in likely if name in versions][:1]
    parts = [f"{name} {versions[name]}" for name in own[:_SHOWN]]
    parts += [f"{name}={value}" for name, value in candidate.settings]
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


COMPARE = "compare"
_LOG_LINES = 12


def compare(
    a: str,
    b: str,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExplorePlan | ExploreReport:
    """Measure two stacks against each other, both in every block, or only plan it (``dry_run``).

    Args:
        a: what the other is compared with: a lock file, the beginning of a stack's id, or versions.
        b: what is compared with it.
        request: as of an exploration; the requirements come from A and B.

    Raises:
        EvidenceError: both are the same stack.
        StackgenError: one of its kinds for whatever stops it; what was measured is stored.
    """
    request = replace(request, kind=COMPARE)
    found = _explore_pair(a, b, request, paths, environ, progress)
    if isinstance(found, ExplorePlan):
        return found
    if not found.run.interrupted and len(found.stacks) < 2:
        raise _not_two(found, request, paths, progress)
    return found


def measure_pair(
    a: str,
    b: str,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExploreReport:
    """Measure two stacks as ``compare`` does; what does not run is reported as failed.

    Raises:
        EvidenceError: both are the same stack.
        StackgenError: one of its kinds for whatever stops it, or where neither runs.
    """
    found = _explore_pair(a, b, request, paths, environ, progress)
    assert isinstance(found, ExploreReport)  # noqa: S101 # it is never a dry run
    return found


def _explore_pair(
    a: str,
    b: str,
    request: CampaignRequest,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ExplorePlan | ExploreReport:
    operands = (named(a, paths), named(b, paths))
    request = replace(request, search=SearchOptions(strategy=Strategy.NEWEST, stacks=2))

    def select_pair(
        index: PackageIndex, request: CampaignRequest, backend: Backend, progress: Progress
    ) -> SelectedStacks:
        resolver = Resolver(index=index, request=request, base=backend.base, progress=progress)
        return _chosen(operands, resolver.pair(*operands), request)

    return explore(request, paths, environ, progress, select_stacks=select_pair)


def _chosen(
    operands: tuple[Named, Named], pair: GivenStacks, request: CampaignRequest
) -> SelectedStacks:
    """Return what is measured; an indicator without a package's name must run on both stacks.

    Raises:
        EvidenceError: both are the same stack.
    """
    first, second = pair.candidates()
    ids = [content_id("side", [each.lock.id, list(each.settings)]) for each in (first, second)]
    if ids[0] == ids[1]:
        raise _same(", ".join(f"{a.name} {a.version}" for a in first.lock.artifacts))
    packages = [frozenset(each.lock.versions) for each in (first, second)]
    by_package = any("/" in each for each in request.measurement.indicators)
    return SelectedStacks(
        request=request.with_stacks(pair=tuple(ids)),
        source=pair,
        packages=packages[0] | packages[1] if by_package else packages[0] & packages[1],
        count=2,
        choices=2,
        requirements=tuple(each.text for each in operands),
    )


def _same(holding: str) -> EvidenceError:
    return EvidenceError(
        "both are the same stack",
        why=f"each holds {holding}",
        fix="name another version in one of them; to see how much one stack differs from itself: "
        "stackgen noise",
    )


def _not_two(
    found: ExploreReport, request: CampaignRequest, paths: Paths, progress: Progress
) -> StackgenError:
    """Explain why there was nothing to compare with."""
    ready = {each.label for each in found.stacks}
    lacking = [label for label, _ in found.plan.chosen if label not in ready]
    for each in found.failed:
        if each.label in lacking:
            _note_log(each, progress)
            program = request.measurement.program.program if request.measurement.program else None
            error = nothing_runs([each], paths, program)
            why = f"{each.outcome.value}: {each.reason}"
            return type(error)(f"{each.label} does not run here", why=why, fix=error.fix)
    if found.run.seconds > request.budget.budget_s:
        return BuildError(
            f"{' and '.join(lacking)} was not ready in time",
            why="twice the budget was spent before",
            fix="give more time with --budget; what was built and downloaded stays",
        )
    pins = found.stacks[0].lock.artifacts if found.stacks else ()
    return _same(", ".join(f"{each.name} {each.version}" for each in pins))


def _note_log(failed: FailedStack, progress: Progress) -> None:
    lines = failed.log.rstrip().splitlines()[-_LOG_LINES:]
    if lines:
        shown = "\n".join(f"  {line}" for line in lines)
        progress.note(f"{failed.label}, the end of the log:\n{shown}")
