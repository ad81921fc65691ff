"""Selects the stacks that take part in a campaign, newest first."""

import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TypeAlias

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.campaign.request import CampaignRequest
from stackgen.campaign.spread import (
    Pick,
    Settings,
    defaults_of,
    left_out,
    releases_of,
    spread,
    within_download,
    without_larger,
)
from stackgen.campaign.targets import refuse_python
from stackgen.campaign.user_input import read_user_file
from stackgen.errors import ResolutionError, UsageError
from stackgen.index import PackageIndex, artifact_key
from stackgen.index.closure import read_universe, resolve
from stackgen.locks.reading import ACCEPTED, in_target, read_lock
from stackgen.model.choices import Completion, Order, Prereleases
from stackgen.model.identity import LockId, StackId
from stackgen.model.packages import BUILT_HERE, Artifact, Lock, LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ChosenStack, FailedStack
from stackgen.model.stacks import BaseFacts, Environment, Stack
from stackgen.resolve.candidates import Policy, Selector
from stackgen.resolve.choose import contemporary, newest_first, newest_working
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements
from stackgen.resolve.space import Slice, Space

FRAMEWORKS = ("tensorflow", "tensorflow-cpu", "intel-tensorflow", "torch")


class CandidateState(str, Enum):
    """What became of a candidate.

    PLANNED: it is not built yet. READY: it is installed, and was tried. FAILED: it does not run.
    EXCLUDED: it is the same stack as another candidate.
    """

    PLANNED = "planned"
    READY = "ready"
    FAILED = "failed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A stack that takes part in a campaign, with its state.

    choice: the versions of the varied packages; None for a user's lock as it stands.
    selection: what it is taken from; None where it is not completed otherwise if it fails.
    held_back: packages older than the newest that fit, since those did not run.
    environment: where it is installed, once it is ready.
    failure: how it failed.
    excluded: whether another candidate is the same stack.
    """

    lock: Lock
    label: str
    completion: str
    settings: Settings
    choice: Slice | None
    selection: "Selection | None" = field(default=None, repr=False, compare=False)
    held_back: Settings = ()
    environment: Environment | None = None
    failure: FailedStack | None = None
    excluded: bool = False

    @property
    def state(self) -> CandidateState:
        """Return what became of it."""
        if self.excluded:
            return CandidateState.EXCLUDED
        if self.failure is not None:
            return CandidateState.FAILED
        return CandidateState.PLANNED if self.environment is None else CandidateState.READY

    @property
    def may_run(self) -> bool:
        """Return whether it is ready, or may be once it is built."""
        return self.state in (CandidateState.PLANNED, CandidateState.READY)

    @property
    def may_search(self) -> bool:
        """Return whether it may be completed otherwise where it does not run."""
        return (
            self.selection is not None
            and self.selection.completion is Completion.NEWEST_WORKING
            and self.choice is not None
            and self.completion == Completion.NEWEST.value
        )

    def search(self, works: Callable[["Candidate"], bool]) -> "Candidate | None":
        """Return its newest completion that works; None where there is none.

        Args:
            works: tries one; what it raises ends the search.
        """
        selection, choice = self.selection, self.choice
        if selection is None or choice is None:
            return None

        def completed(lock: Lock) -> Candidate:
            return replace(self, lock=lock, completion="newest-working")

        lock = newest_working(
            selection.space,
            choice,
            self.lock,
            lambda other: works(completed(other)),
            preferred=selection.preferred,
        )
        return None if lock is None else completed(lock)

    def stack(self, facts: BaseFacts) -> Stack:
        """Return the stack that it is on a base."""
        return Stack(lock=self.lock, facts=facts, settings=self.settings)

    def versions(self, varied: tuple[str, ...]) -> Settings:
        """Return its versions of what varies, settings included: what the model knows of it."""
        versions = dict(self.choice.versions) if self.choice else self.lock.versions
        given = [("", "as given")] if self.choice is None else []
        return _sorted_versions(versions, varied, (*self.settings, *given))

    @property
    def stack_id(self) -> StackId:
        """Return the identity of the stack, which is ready."""
        assert self.environment is not None  # noqa: S101 # nothing else is compared
        return self.environment.stack.id

    @property
    def row(self) -> ChosenStack:
        """Return its row in a report; it is ready."""
        return ChosenStack(
            stack_id=self.stack_id,
            label=self.label,
            completion=self.completion,
            lock=self.lock,
            held_back=self.held_back,
            settings=self.settings,
        )


def versions_of(stack: Stack, varied: tuple[str, ...]) -> Settings:
    """Return a stack's versions of what varies, settings included."""
    return _sorted_versions(stack.lock.versions, varied, stack.settings)


def _sorted_versions(
    versions: Mapping[str, str], varied: tuple[str, ...], others: Settings
) -> Settings:
    pairs = [(name, versions[name]) for name in varied if name in versions]
    return tuple(sorted([*pairs, *others]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenStacks:
    """Stacks that were named one by one; the first is the baseline.

    varied: the packages in which they differ.
    """

    members: tuple[Candidate, ...]
    varied: tuple[str, ...]

    def candidates(self) -> Iterator[Candidate]:
        """Yield each of them."""
        return iter(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The space, what varies in it, and the user's own lock where one was given.

    baseline_name: what the baseline is called where it is a given lock.
    preferred: versions that a completion keeps where it can (those of the user's lock).
    picks: choices with settings that take part, in this order; none means all choices.
    too_large: releases that take no part because their wheels exceed the download budget.
    """

    space: Space
    varied: tuple[str, ...]
    choices: tuple[Slice, ...]
    settings: tuple[Settings, ...]
    baseline: Lock | None
    preferred: Mapping[str, str]
    completion: Completion
    baseline_name: str = "your lock"
    picks: tuple[Pick, ...] = ()
    too_large: tuple[str, ...] = ()

    def candidates(self) -> Iterator[Candidate]:
        """Yield every candidate, first of all to be measured; the baseline comes first.

        A given lock is the baseline as it stands, without settings; then with each of them.
        What comes twice (the user's own lock among the choices) is yielded once.
        """
        given: set[tuple[LockId, Settings]] = set()
        for each in self._every():
            if (each.lock.id, each.settings) not in given:
                given.add((each.lock.id, each.settings))
                yield each

    def _every(self) -> Iterator[Candidate]:
        if self.baseline is not None:
            for settings in dict.fromkeys(((), *self.settings)):
                yield self._candidate(self.baseline, "lock", settings, None)
        completion = "contemporary" if self.completion is Completion.CONTEMPORARY else "newest"
        for choice, settings in self.picks or product(self.choices, self.settings):
            lock = self.complete(choice)
            if lock is not None:
                yield self._candidate(lock, completion, settings, choice)

    def complete(self, choice: Slice) -> Lock | None:
        """Return the lock of a choice as it is tried first; None where there is none."""
        old = self.completion is Completion.CONTEMPORARY
        complete = partial(contemporary, self.space) if old else self.space.complete
        return complete(choice, preferred=self.preferred)

    def _candidate(
        self, lock: Lock, completion: str, settings: Settings, choice: Slice | None
    ) -> Candidate:
        # A choice also distinguishes what two indexes have of the same version.
        versions = dict(choice.versions) if choice else lock.versions
        sources = {each.name for each in lock.artifacts if not each.is_wheel}
        parts = [
            f"{name} {versions[name]}{f' ({BUILT_HERE})' if name in sources else ''}"
            for name in self.varied
            if name in versions
        ]
        parts += [f"{name}={value}" for name, value in settings]
        if completion == "lock":
            label = ": ".join(filter(None, (self.baseline_name, ", ".join(parts))))
        else:
            label = ", ".join(parts) or "the only stack"
        return Candidate(
            lock=lock,
            label=label,
            completion=completion,
            settings=settings,
            choice=choice,
            selection=self,
        )


CandidateSource: TypeAlias = GivenStacks | Selection


def select(
    index: PackageIndex,
    request: CampaignRequest,
    target: Target,
    progress: Progress,
    *,
    lockfile: LockFile | None = None,
) -> Selection:
    """Resolve the requirements, and order the choices.

    Args:
        lockfile: that counts in place of the one that the request names (`needed_part`).

    Raises:
        ResolutionError: nothing satisfies it here.
        UsageError: a package to be varied is not part of any stack.
    """
    if request.stacks.lock is None:
        space = resolve(index, _with_varied(request), target, progress=progress)
        found = _selection(space, request, request.stacks.baseline, {})
        _note_unused(found, request, progress)
        return _spread(found, index, request, progress)
    lockfile = lockfile or read_lock_file(request.stacks.lock)
    packages = in_target(lockfile, target)
    allowed = request.stacks.requirements.policy.allow_build
    baseline = _as_it_stands(index, packages, target, progress, allow_build=allowed)
    around = _around(index, request, packages, target, progress)
    space = resolve(index, around, target, progress=progress)
    found = _selection(space, request, baseline, baseline.versions)
    _note_unused(found, request, progress)
    return _spread(found, index, request, progress)


def _note_unused(selection: Selection, request: CampaignRequest, progress: Progress) -> None:
    """Note each --fix that names nothing: it may be misspelt."""
    for each in request.stacks.fixed if request.kind == "explore" else ():
        if canonicalize_name(each) not in selection.space.packages:
            progress.note(f"--fix {each} has no effect: no stack has such a package.")


def _spread(
    selection: Selection, index: PackageIndex, request: CampaignRequest, progress: Progress
) -> Selection:
    """Return a selection of stacks that are spread, where the request wants that."""
    if request.search.order is not Order.SPREAD:
        return selection
    own = defaults_of(request)

    releases = own.releases if own else None
    most = request.search.download_bytes or (own.download_bytes if own else None)

    @cache
    def wheels(choice: Slice) -> Mapping[str, int] | None:
        lock = selection.complete(choice)
        if lock is None:
            return None
        progress.doing("choosing stacks: sizes of their wheels")
        found = index.sizes(lock.artifacts)
        return {each.sha256: found.get(artifact_key(each)) or 0 for each in lock.artifacts}

    choices = without_larger(selection.choices, wheels, most, releases=releases)
    every = spread(choices, selection.settings, releases=releases)
    picks = within_download(every, wheels, most, wanted=request.search.wanted)
    newest = releases_of(selection.choices)[:releases]
    return replace(
        selection,
        picks=picks,
        settings=tuple(dict.fromkeys(((), *selection.settings))),
        too_large=left_out(newest, picks, wheels, most, wanted=request.search.wanted),
    )


def _with_varied(request: CampaignRequest) -> Requirements:
    """Return the requirements, with --vary, and NumPy beside a framework.

    PyTorch runs without NumPy, but hardly any program that uses it does.
    """
    named = set(request.stacks.requirements.names)
    wanted = [str(canonicalize_name(each)) for each in request.stacks.vary]
    wanted += ["numpy"] if named & set(FRAMEWORKS) else []
    fixed = {str(canonicalize_name(each)) for each in request.stacks.fixed}
    added = dict.fromkeys(name for name in wanted if name not in named | fixed)
    requirements = (
        *request.stacks.requirements.requirements,
        *(parse_requirement(name) for name in added),
    )
    return replace(request.stacks.requirements, requirements=requirements)


def read_lock_file(path: Path, *, partial: bool = False) -> LockFile:
    """Read a lock, with the file of requirements beside it that it was made from, if any.

    Args:
        partial: accept one that does not say all that is installed (`read_lock`).

    Raises:
        UsageError: it cannot be read, or is none.
    """
    return read_lock(read_text(path), path=str(path), companion=_beside(path), partial=partial)


def read_text(path: Path) -> str:
    """Return the text of a lock file.

    Raises:
        UsageError: it cannot be read.
    """
    fix = f"give the path of a {ACCEPTED}"
    return read_user_file(path, fix=fix)


_COMPANIONS = {
    "Pipfile.lock": "Pipfile",
    "poetry.lock": "pyproject.toml",
    "pdm.lock": "pyproject.toml",
}


def _beside(path: Path) -> str | None:
    """Return what the file holds from which a lock was made; pip-tools' has the lock's own name."""
    other = path.with_name(_COMPANIONS.get(path.name, f"{path.stem}.in"))
    fix = f"correct it, or move it away: it is read because it lies beside {path.name}"
    return read_user_file(other, fix=fix) if other.is_file() else None


def _selection(
    space: Space, request: CampaignRequest, baseline: Lock | None, preferred: Mapping[str, str]
) -> Selection:
    varied = _varied(space, request, preferred)
    if not varied:
        raise UsageError(
            "nothing is left to vary",
            why="every requirement is fixed by --fix, comes from the project's own file, or does "
            "not apply to this Python",
            fix="take away a --fix, or name a package that may vary: stackgen explore NAME ...",
        )
    return Selection(
        space=space,
        varied=varied,
        choices=newest_first(space.slices(varied), granularity=request.stacks.granularity),
        settings=_settings(request),
        baseline=baseline,
        preferred={name: v for name, v in preferred.items() if name not in varied},
        completion=request.stacks.completion,
        baseline_name="your lock"
        if request.stacks.lock or request.stacks.baseline_file
        else "best known",
    )


def _varied(space: Space, request: CampaignRequest, locked: Mapping[str, str]) -> tuple[str, ...]:
    """Return what varies: what the user named, and numpy where it is part of the closure."""
    named = [
        name for name in request.stacks.requirements.names if name not in request.stacks.project
    ]
    if not named:
        named = [name for name in FRAMEWORKS if name in {*locked, *request.stacks.project}]
    added = [str(canonicalize_name(each)) for each in request.stacks.vary]
    fixed = {canonicalize_name(each) for each in request.stacks.fixed}
    wanted = dict.fromkeys([*named, *added, "numpy"])
    return tuple(name for name in wanted if name in space.packages and name not in fixed)


def _settings(request: CampaignRequest) -> tuple[Settings, ...]:
    """Return every combination of the values of the settings; the first is the default one."""
    names = [name for name, _ in request.stacks.settings]
    combined = product(*(values for _, values in request.stacks.settings))
    return tuple(tuple(sorted(zip(names, values, strict=True))) for values in combined)


def _as_it_stands(
    index: PackageIndex,
    packages: Sequence[LockedPackage],
    target: Target,
    progress: Progress,
    *,
    allow_build: frozenset[str],
) -> Lock:
    """Return a user's lock with its artifacts for the target, hashes honoured."""
    pins = Requirements(
        requirements=tuple(parse_requirement(pin(each)) for each in packages),
        policy=Policy(
            prereleases=Prereleases.ALLOW, hashes=_hashes(packages), allow_build=allow_build
        ),
    )
    lock = resolve(index, pins, target, progress=progress).newest()
    assert lock is not None  # noqa: S101 # resolve refuses an empty space
    return lock


def installable(
    index: PackageIndex,
    lockfile: LockFile,
    names: Collection[str],
    target: Target,
    policy: Policy,
    progress: Progress,
) -> LockFile:
    """Return a lock or, where a target cannot install all of it, what some packages need of it.

    A lock may hold packages without a wheel, from a repository, or against what others of it
    require. That does not matter where what is measured never loads them.

    Args:
        names: of the packages that are to be measured.

    Raises:
        ResolutionError: neither all of it nor that part can be installed.
    """
    packages = {each.name: each for each in in_target(lockfile, target)}
    allowed = policy.allow_build
    try:
        if not lockfile.skipped:
            _as_it_stands(index, [*packages.values()], target, progress, allow_build=allowed)
            return lockfile
        why = "; ".join(lockfile.skipped[:_SHOWN])
    except ResolutionError as error:
        why = f"{error.what}: {' '.join(error.why.split())}"
    wanted = [each for each in packages.values() if each.name in names]
    _files(index, lockfile, wanted, target, policy)
    pins = Requirements(
        requirements=tuple(parse_requirement(pin(each)) for each in wanted),
        constraints=tuple(parse_requirement(f"{e.name}=={e.version}") for e in packages.values()),
        policy=replace(policy, prereleases=Prereleases.ALLOW, hashes=_hashes([*packages.values()])),
    )
    lock = resolve(index, pins, target, progress=progress).newest()
    own = lock.versions if lock is not None else {}
    part = tuple(each for each in packages.values() if each.name in own)
    progress.note(
        f"Of the {len(packages)} packages of {lockfile.path}, only the {len(part)} that "
        f"{' and '.join(each.name for each in wanted)} need are installed; all cannot be: {why}."
    )
    return replace(lockfile, packages=part, skipped=())


def _hashes(packages: Sequence[LockedPackage]) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((each.name, frozenset(each.hashes)) for each in packages if each.hashes)


def may_vary(names: Container[str]) -> Iterator[str]:
    """Yield which of these packages vary where none is named, the most likely one first."""
    return (name for name in (*FRAMEWORKS, "numpy") if name in names)


def _around(
    index: PackageIndex,
    request: CampaignRequest,
    packages: Sequence[LockedPackage],
    target: Target,
    progress: Progress,
) -> Requirements:
    """Return a request that varies a part of a lock; the rest of it stays pinned.

    What the varied packages themselves depend on is left to them, so that a newer framework can
    bring its own; a completion still prefers the locked versions. What stays pinned stays the
    same file, too: another build of it would be another package.
    """
    locked = {each.name for each in packages}
    requested = request.stacks.requirements
    given = set(requested.names)
    fixed = {canonicalize_name(each) for each in request.stacks.fixed}
    own = list(may_vary(locked - fixed))[:1]
    wanted = ([] if given else own) + [canonicalize_name(each) for each in request.stacks.vary]
    added = [name for name in dict.fromkeys(wanted) if name not in given | fixed]
    roots = (*requested.requirements, *(parse_requirement(name) for name in added))
    if not roots and not requested.alternatives:
        raise UsageError(
            f"nothing to vary in {request.stacks.lock}",
            why="it names neither TensorFlow, PyTorch nor NumPy",
            fix="name what may change: stackgen explore NAME --from LOCK",
        )
    varied = replace(requested, requirements=roots)
    universe = read_universe(index, varied, target, progress=progress)
    # What only the locked versions depend on goes with them, whichever versions are in the range.
    names = {each.name for each in roots}
    locked_ones = Requirements(
        requirements=tuple(parse_requirement(pin(each)) for each in packages if each.name in names),
        constraints=tuple(parse_requirement(f"{e.name}=={e.version}") for e in packages),
        policy=replace(requested.policy, prereleases=Prereleases.ALLOW, hashes=_hashes(packages)),
    )
    free = {*universe.releases}
    if locked_ones.requirements:
        free |= read_universe(index, locked_ones, target, progress=progress).releases.keys()
    pinned = tuple(each for each in packages if each.name not in free or each.name in fixed)
    return replace(
        varied,
        requirements=(*roots, *(parse_requirement(pin(each)) for each in pinned)),
        policy=replace(requested.policy, hashes=_hashes(pinned)),
    )


def pin(package: LockedPackage) -> str:
    """Return the requirement that a package of a lock stands for."""
    extras = f"[{','.join(package.extras)}]" if package.extras else ""
    return f"{package.name}{extras}=={package.version}"


# A user's lock as it stands: the very files that a target takes of it

_SHOWN = 5
_CPYTHON = re.compile(r"-cp(3)(\d+)-cp3\d+m?-")
_WHEELS_ALONE = Policy(prereleases=Prereleases.ALLOW)


def read_pins(path: Path) -> LockFile:
    """Read a lock of which all that it holds can be installed.

    Raises:
        UsageError: it is no lock, or holds what no index has.
    """
    lockfile = read_lock_file(path)
    if lockfile.skipped:
        raise UsageError(
            f"{path} holds what no index has",
            why="; ".join(lockfile.skipped[:_SHOWN]),
            fix="build a wheel of it, put it into a folder (--find-links FOLDER), and lock that",
        )
    return lockfile


def pinned(
    index: PackageIndex, lockfile: LockFile, target: Target, policy: Policy = _WHEELS_ALONE
) -> Lock:
    """Return exactly what a lock says; what its packages require is not resolved.

    Raises:
        UsageError: it is for another Python, or installs nothing there.
        ResolutionError: no index has a file of some package that lock and target admit.
        IndexUnavailableError: an index does not answer.
    """
    refuse_python(lockfile, target.python, "the base")
    packages = in_target(lockfile, target)
    if not packages:
        raise UsageError(
            f"{lockfile.path} installs nothing here",
            why=f"no package of it is for Python {target.python}",
            fix="name another base with --base (stackgen images lists them)",
        )
    return Lock(artifacts=_files(index, lockfile, packages, target, policy))


def _files(
    index: PackageIndex,
    lockfile: LockFile,
    packages: Sequence[LockedPackage],
    target: Target,
    policy: Policy,
) -> tuple[Artifact, ...]:
    """Return the file that the target takes of each package.

    Raises:
        ResolutionError: there is none of some package.
    """
    index.candidates_many([each.name for each in packages])  # together, not one by one
    found = [(each, _artifact(index, each, target, policy)) for each in packages]
    if missing := [p.name for p, why in found if isinstance(why, str)]:
        index.renew(missing)  # a cached page counts for minutes, and a file may be younger
        found = [(each, _artifact(index, each, target, policy)) for each in packages]
    if problems := [(p, why) for p, why in found if isinstance(why, str)]:
        shown = "; ".join(f"{p.name} {p.version}: {why}" for p, why in problems[:_SHOWN])
        more = f", and {len(problems) - _SHOWN} more" * (len(problems) > _SHOWN)
        raise ResolutionError(
            f"{lockfile.path} cannot be installed here",
            why=shown + more,
            fix=_fix([(p.name, why) for p, why in problems], _pythons(index, problems)),
        )
    return tuple(a for _, a in found if isinstance(a, Artifact))


def _artifact(
    index: PackageIndex, package: LockedPackage, target: Target, policy: Policy
) -> Artifact | str:
    """Return the file that the target takes, or why there is none."""
    files = index.candidates_many([package.name])[package.name]
    if files is None:
        return "no index has it"
    hashes = ((package.name, frozenset(package.hashes)),) if package.hashes else ()
    policy = replace(policy, hashes=hashes)
    pin = SpecifierSet(f"=={package.version}", prereleases=True)
    offered = Selector(target, policy).select(files, [str(pin)])
    fitting = [each.found for each in offered if pin.contains(each.version)]
    why = next((each for each in fitting if isinstance(each, str)), "no index has this version")
    found = next((each for each in fitting if isinstance(each, Artifact)), None)
    return found or why.partition(" (--allow-build")[0]  # the fix says how


def _pythons(index: PackageIndex, problems: Sequence[tuple[LockedPackage, str]]) -> list[str]:
    """Return the Pythons for which all of these releases have wheels, oldest first."""
    found: list[set[tuple[int, int]]] = []
    for package, why in problems:
        files = index.candidates_many([package.name])[package.name] or ()
        own = [
            each.filename
            for each in files
            if each.version == package.version and each.sha256 in (package.hashes or (each.sha256,))
        ]
        tags = {(int(t[1]), int(t[2])) for name in own for t in _CPYTHON.finditer(name)}
        if tags or "no wheel for Python" in why:  # else it is missing whatever the Python
            found.append(tags)
    common = set.intersection(*found) if found else set()
    return [f"{major}.{minor}" for major, minor in sorted(common)]


def _fix(problems: Sequence[tuple[str, str]], pythons: Sequence[str] = ()) -> str:
    if pythons:
        others = f" (of {', '.join(pythons)})" if len(pythons) > 1 else ""
        return f"name a Python that they have wheels for: --base {pythons[-1]}{others}"
    sources = [name for name, why in problems if "only a source distribution" in why]
    parts = [
        "lock again for this base, take another one (--base), or name the index that has it "
        "(--extra-index-url)"
    ] * (len(sources) < len(problems))
    if sources:
        options = " ".join(f"--allow-build {name}" for name in sources[:_SHOWN])
        parts.append(f"if you trust their authors, let sources be built here: add {options}")
    return "; ".join(parts)
