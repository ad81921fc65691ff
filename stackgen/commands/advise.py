"""Advise: a lock file in, the best known versions out, from evidence alone."""

import json
import platform
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.campaign.backend import DEFAULT_BASE
from stackgen.campaign.candidates import may_vary, pin, pinned, read_lock_file, select
from stackgen.campaign.installed import read_environment
from stackgen.campaign.options import IndexOptions, IndicatorOptions, SourceOptions, TargetOptions
from stackgen.campaign.prepare import rough_estimate
from stackgen.campaign.request import CampaignRequest, StackRequest, file_identity
from stackgen.campaign.targets import find_target
from stackgen.campaign.user_input import index_config
from stackgen.commands.advise_explain import explain
from stackgen.commands.advise_security import Security
from stackgen.commands.lock_changes import completed, index_requirements
from stackgen.commands.options import AdviceOptions, MeasureOptions, VulnerabilityOptions
from stackgen.errors import (
    BuildError,
    IndexUnavailableError,
    ResolutionError,
    UsageError,
)
from stackgen.executors.machine import this_machine
from stackgen.images.base_definitions import read_definitions
from stackgen.images.metadata_builds import SandboxMetadataBuilder
from stackgen.images.targets import stated_target
from stackgen.images.unpack import stack_size
from stackgen.index import PackageIndex
from stackgen.index.closure import resolve
from stackgen.index.config import uv_variables
from stackgen.knowledge.advice import Advisor
from stackgen.knowledge.allowed import listed
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.derived import judged_controls
from stackgen.knowledge.equivalence import VARIED, default_versions, filled, varied_in, versions_of
from stackgen.knowledge.loading import load_knowledge
from stackgen.knowledge.recommendation import alpha_after
from stackgen.knowledge.seed import load_shipped
from stackgen.locks.direct import without_credentials
from stackgen.locks.reading import admits_python, in_target
from stackgen.measure import MARGIN
from stackgen.measure.goals import compare_goals
from stackgen.model.choices import (
    AdviceType,
    AuditService,
    ExecutorChoice,
    Granularity,
    Prereleases,
)
from stackgen.model.evidence import Advice, Answer, CampaignIdentity, Change, ChangePolicy, Scope
from stackgen.model.goals import Goal, Goals
from stackgen.model.identity import CampaignId, StackId
from stackgen.model.packages import Lock, LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import (
    GoalReport,
    RunSummary,
    StackQuantities,
    StackSize,
)
from stackgen.model.reports.locks import AdviceReport, AdvisedStack
from stackgen.model.stacks import BaseFacts, Stack
from stackgen.provenance.vulnerabilities import refuse_no_records
from stackgen.resolve.candidates import Policy, Selector
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

ADVISE = "advise"
"""The kind of the campaigns that decide an advice (``stackgen.commands.advise_measure``)."""
CANDIDATES = 2
"""How many stacks one such campaign compares with the lock at most."""
_ENVIRONMENT = (
    "an environment is not measured as it is; to measure its versions, write them as a lock: "
    "PYTHON -m pip freeze > requirements.txt"
)
_MOST_EXCLUDED = 30  # releases, before --type latest ends without an answer
_EVERY_GOAL = Goals(wanted=tuple((goal, 1.0) for goal in Goal))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseRequest:
    """What is to be advised on, once the command line was read.

    path: of the lock file, or of an environment whose installed packages are the lock.
    new: another lock that is compared with it; None where versions are to be recommended.
    sources: of which packages metadata may be built.
    explain: down to raw samples.
    """

    path: Path
    new: Path | None = None
    environment: bool = False
    options: AdviceOptions = AdviceOptions()
    sources: SourceOptions = SourceOptions()
    index: IndexOptions = IndexOptions()
    vulnerabilities: VulnerabilityOptions = VulnerabilityOptions()
    measure: MeasureOptions = MeasureOptions()
    indicators: IndicatorOptions = IndicatorOptions()
    target: TargetOptions = TargetOptions()
    explain: bool = False

    def __post_init__(self) -> None:
        if self.options.kind is AdviceType.SECURITY and not self.vulnerabilities.requested:
            raise UsageError(
                "--type security has nothing to search for vulnerabilities",
                why="neither --osv nor --audit was given",
                fix="run: stackgen advise LOCK --type security --osv DIR",
            )
        latest = self.options.kind is AdviceType.LATEST
        if self.environment and (latest or self.measure.budget_s is not None):
            raise UsageError(
                "an environment can be advised on from what is known alone",
                why=f"{'--type latest resolves' if latest else '--measure installs'} a lock file",
                fix="write one first: PYTHON -m pip freeze > requirements.txt",
            )


def advise(
    request: AdviseRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> AdviceReport:
    """Return the advice for a lock file.

    Raises:
        UsageError: it is no lock file that we read.
    """
    with open_sources(request, paths, environ, progress) as sources:
        for note in sources.lockfile.notes:
            progress.note(f"{request.path}: {note}.")
        report = sources.report(answer(sources))
        for note in sources.index.notes:
            progress.note(note)
        return report


def answer(sources: "Sources", *, most_next: int = 1) -> Advice:
    """Return the answer that a request wants.

    Args:
        sources: what it is made of.
        most_next: how many comparisons that would decide it are named at most.
    """
    request, advisor = sources.request, sources.advisor(most_next=most_next)
    if sources.update is not None:
        return advisor.update(sources.lockfile, sources.update)
    if request.options.kind is AdviceType.LATEST:
        return sources.latest(advisor)
    return advisor.advise(sources.lockfile)


@contextmanager
def open_sources(
    request: AdviseRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> Iterator["Sources"]:
    """Open the knowledge base and the index, and read the lock.

    Raises:
        UsageError: it is no lock file that we read, or the Python is none.
    """
    if request.options.python:
        stated_target(python=request.options.python, platform="linux")  # refuses what is none
    if request.vulnerabilities.osv is not None:
        refuse_no_records(request.vulnerabilities.osv)  # an answer may not need them
    lockfile = (
        read_environment(request.path)
        if request.environment
        else read_lock_file(request.path, partial=True)
    )
    config = index_config(request.index, environ)
    python = request.options.python
    allowed = frozenset(str(canonicalize_name(each)) for each in request.sources.allow_build)
    target = None
    if allowed or lockfile.unpinned or request.options.kind is AdviceType.LATEST:
        target = find_target(base="", python=python, platform="", paths=paths, progress=progress)
    builder = None
    if allowed and target is not None:
        builder = SandboxMetadataBuilder(
            target=target,
            allowed=allowed,
            environ=uv_variables(config),
            scratch=paths.cache,
            progress=progress,
        )
    with (
        open_database(paths.knowledge, reading=True) as database,
        PackageIndex(config, paths.cache, builder=builder) as index,
    ):
        load_shipped(database, paths.seeds, notify=progress.note)
        if lockfile.unpinned and target is not None:
            lockfile = completed(lockfile, target, index=index, progress=progress)
        for note in _without_effect(request, lockfile):
            progress.note(note)
        yield Sources(
            request=request,
            lockfile=lockfile,
            target=target,
            database=database,
            index=index,
            paths=paths,
            environ=environ,
            progress=progress,
        )


def _without_effect(request: AdviseRequest, lockfile: LockFile) -> Iterator[str]:
    """Yield a note on each option that changes nothing: of a campaign that is not run, for one."""
    given = {
        "--pi": request.indicators.indicators,
        "--param": request.indicators.parameters,
    }
    if request.measure.budget_s is None:
        for option in (option for option, values in given.items() if values):
            yield f"{option} chooses what --measure runs; without that, all indicators count."
    locked = {canonicalize_name(each.name) for each in lockfile.packages}
    for option, names in (("--only", request.options.only), ("--keep", request.options.keep)):
        for name in names:
            if canonicalize_name(name) not in locked:
                yield f"{option} {name} has no effect: {request.path} has no such package."


@dataclass(kw_only=True)
class Sources:
    """What an answer is made of: the lock, the knowledge base, and the package index.

    target: what is resolved for, where that was needed.
    """

    request: AdviseRequest
    lockfile: LockFile
    target: Target | None
    database: Database
    index: PackageIndex
    paths: Paths
    environ: Mapping[str, str]
    progress: Progress

    def __post_init__(self) -> None:
        database = self.database
        self.calls = database.calls()
        self.store = WheelStore(self.paths.cache, notify=self.progress.note)
        request = self.request
        self.update = read_lock_file(request.new, partial=True) if request.new else None
        self.security = Security(
            options=request.vulnerabilities,
            environ=self.environ,
            index=self.index,
            lockfile=self.lockfile,
            names=frozenset(str(canonicalize_name(each.name)) for each in self.lockfile.packages),
            allow_vulnerable=request.options.allow_vulnerable,
        )
        self.newest = self._newest() if request.options.kind is AdviceType.LATEST else None
        locks = [self.lockfile, *filter(None, [self.update, self.newest])]
        self.known, _, self.trusted = load_knowledge(database, this_machine(), locks=locks)
        python = ".".join((request.options.python or platform.python_version()).split(".")[:2])
        known = [*self.known.stacks.values()]
        self.lockfile, *others = (filled(each, known, python) for each in locks)
        if [self.lockfile, *others] != locks:  # other stacks are near to it now
            self.update = others[0] if self.update else None
            locks = [self.lockfile, *others]
            self.known, _, self.trusted = load_knowledge(database, this_machine(), locks=locks)
        measured = {name for x in self.known.stacks.values() for name in x.lock.versions}
        self.security.names |= measured

    def advisor(self, *, most_next: int = 1) -> Advisor:
        """Return what answers from all that is known."""
        admission = Admission(index=self.index, progress=self.progress, security=self.security)
        return Advisor(
            known=self.known,
            trusted=self.trusted,
            inspections_of=lambda campaign: self.database.inspections(campaign=campaign),
            admits=admission.refusal,
            exists=admission.exists,
            size_of=lambda stack: self._size(stack).installed_bytes,
            added_risk=self.security.added,
            policy=self.request.options.policy,
            python=".".join(self.request.options.python.split(".")[:2]),
            alpha=alpha_after(sum(each.id in self.trusted for each in self.own_campaigns())),
            most_next=most_next,
        )

    def own_campaigns(self) -> list[CampaignIdentity]:
        """Return the campaigns that were run to decide the answer for this lock, latest first."""
        every = self.database.campaigns(kind=ADVISE)
        if not every or self.request.environment:
            return []
        own = file_identity(self.request.path)
        machine = this_machine().id
        return [
            each
            for each in reversed(every)
            if each.machine_id == machine and json.loads(each.request).get("lock") == own
        ]

    def measures(self, advice: Advice) -> bool:
        """Return whether a campaign could decide an answer."""
        open_answers = (Answer.UNKNOWN, Answer.UNDECIDED, Answer.ELSEWHERE)
        if self.request.environment or advice.scope is Scope.PROGRAM or advice.lock is not None:
            return False
        if self.lockfile.conda:  # containers and virtualenvs would lack what conda installs
            return False
        if self.request.new is not None:
            return advice.answer in open_answers
        only = self.request.options.only
        varies = bool(only or _explore_command(self.lockfile, self.request.path))
        admitted = advice.answer is Answer.ELSEWHERE and bool(advice.option)
        return bool(advice.next) or admitted or (advice.answer is Answer.UNKNOWN and varies)

    def latest(self, advisor: Advisor) -> Advice:
        """Return what is known of the newest versions that the rest of the lock admits."""
        assert self.newest is not None  # noqa: S101 # it was resolved for this type
        found = advisor.update(self.lockfile, self.newest)
        locked = {canonicalize_name(each.name) for each in self.lockfile.packages}
        moves = any(each.recommended and each.current for each in found.changes)
        return replace(
            found,
            # What the lock holds for other platforms and groups stays.
            changes=tuple(c for c in found.changes if c.recommended or c.name not in locked),
            lock=self._resolved if moves else None,
        )

    def _newest(self) -> LockFile:
        """Resolve the newest versions that the rest of the lock admits.

        Raises:
            ResolutionError: nothing fits the rest of the lock.
        """
        excluded: list[str] = []
        self._resolved = self._resolve(excluded)
        while bad := self.security.excluded(self._resolved):
            excluded += bad
            if len(excluded) > _MOST_EXCLUDED:
                raise ResolutionError(
                    f"{self.request.path} has no newer versions without known vulnerabilities",
                    why=f"the newest {len(excluded)} have some",
                    fix="name what may change with --only, or add --allow-vulnerable",
                )
            self._resolved = self._resolve(excluded)
        packages = tuple(
            LockedPackage(name=name, version=version)
            for name, version in self._resolved.versions.items()
        )
        return LockFile(path=self.lockfile.path, format="pylock", packages=packages)

    def _resolve(self, excluded: Sequence[str]) -> Lock:
        assert self.target is not None  # noqa: S101 # it was found for this type
        policy = self.request.options.policy
        wanted = free_requirements(self.lockfile, policy, self.target)
        stacks = StackRequest(
            requirements=Requirements(
                requirements=tuple(map(parse_requirement, (*wanted, *excluded))),
                policy=Policy(allow_build=frozenset(self.request.sources.allow_build)),
            ),
            lock=self.request.path,
            fixed=policy.keep,
            granularity=Granularity.PATCH,
        )
        request = CampaignRequest(kind=ADVISE, stacks=stacks)
        selection = select(self.index, request, self.target, self.progress)
        found = next(filter(None, map(selection.complete, selection.choices)), None)
        return found or Lock(artifacts=())

    def report(self, advice: Advice, runs: Sequence[RunSummary] = ()) -> AdviceReport:
        """Return an advice with all that is known of its stacks."""
        request = self.request
        command = _explore_command(self.lockfile, request.path)
        if request.environment:
            command = ""
            advice = replace(advice, caveats=(*advice.caveats, _ENVIRONMENT))
        elif self.lockfile.conda:
            advice = replace(advice, caveats=(*advice.caveats, _by_conda(self.lockfile)))
        elif advice.answer is Answer.UNKNOWN and not command:
            caveat = _nothing_varies(self.lockfile, request.path)
            advice = replace(advice, caveats=(*advice.caveats, caveat))
        risks = (
            *self._not_yet(runs),
            *self._yanked(advice),
            *self.security.caveats(advice),
        )
        advice = replace(advice, caveats=(*advice.caveats, *risks))
        count, merged = self.database.count_evidence(
            dict.fromkeys(
                (campaign, each.indicator_id)
                for each in advice.provenance
                for campaign in each.campaigns
            )
        )
        stacks, conflicting = self._stacks(advice)
        measures = self.measures(advice)
        download, disk = self._measuring_needs(advice) if measures else (None, None)
        return AdviceReport(
            lockfile=self.lockfile,
            advice=advice,
            kind=request.options.kind,
            new=str(request.new or ""),
            stacks=stacks,
            conflicting=conflicting,
            indicators=tuple((call.id, call.label) for call in self.calls),
            knowledge_base=str(self.paths.knowledge),
            explore_command=command,
            measure_command=self._measure_command(advice) if measures else "",
            measure_download_bytes=download,
            measure_disk_bytes=disk,
            inspections=count,
            merged=tuple(merged.items()),
            runs=tuple(runs),
            explanation=explain(self.database, self.known, advice) if request.explain else (),
        )

    def _measure_command(self, advice: Advice) -> str:
        command = _measure_command(self.request, self._admitting(advice), self._base)
        return command + self.paths.kb_option

    @cached_property
    def _base(self) -> str:
        """Return the Python to name, where the one that is taken by itself has not all wheels.

        Where the lock names wheels or a range of Pythons, these decide; others are looked up.
        """
        if self.request.target.base or self.request.options.python:
            return ""
        pythons = {each.name: each.python for each in read_definitions() if each.python}
        first = {platform.python_version(), pythons.get(DEFAULT_BASE, "3.11")}
        admitted = [e for e in (*first, *pythons.values()) if admits_python(self.lockfile, e)]
        if all(map(self._has_wheels, first.intersection(admitted) or admitted)):
            return ""
        shipped = sorted(pythons.values(), key=Version, reverse=True)
        others = dict.fromkeys((*shipped, *(f"3.{minor}" for minor in range(14, 5, -1))))
        return next(filter(self._has_wheels, others), "")

    def _has_wheels(self, python: str) -> bool:
        """Return whether the index has a file of each pin that varies for a Python."""
        if not admits_python(self.lockfile, python):
            return False
        target = stated_target(python=python, platform="linux")
        try:
            installed = in_target(self.lockfile, target)
            if not varied_in([e.name for e in installed]):
                return not varied_in(default_versions(self.lockfile))
            locked = {e.name: e for e in installed if not e.wheels}
            pins = {name: locked[name].version for name in varied_in(locked)}
            offered = self.index.candidates_many(pins)
        except (IndexUnavailableError, UsageError):
            return True  # as far as is known
        selector = Selector(target, Policy(prereleases=Prereleases.ALLOW))
        for name, version in pins.items():
            files = [e for e in offered[name] or () if e.version == version and e.is_wheel]
            found = selector.select(files, ())
            if files and all(isinstance(each.found, str) for each in found):
                return False
        return True

    def _measuring_needs(self, advice: Advice) -> tuple[int | None, int | None]:
        """Return about what measuring will download, and take on disk; None where not known.

        Nothing is said of what goes on: most of it is there.
        """
        if self.own_campaigns():
            return None, None
        varied = {each.name for following in advice.next for each in following.changes}
        varied |= {*varied_in(versions_of(self.lockfile)), *self.request.options.only}
        others = 1 if self.update is not None else CANDIDATES
        try:
            own = pinned(self.index, self.lockfile, self._here())
            needs = rough_estimate(own, varied, others, index=self.index, store=self.store)
        except (IndexUnavailableError, ResolutionError, UsageError):
            return None, None
        return needs or (None, None)

    def _here(self) -> Target:
        """Return the target, or that of the newest Python here that the lock admits."""
        own = self.request.options.python or platform.python_version()
        pythons = (own, *(f"3.{minor}" for minor in range(14, 5, -1)))
        python = next((p for p in pythons if admits_python(self.lockfile, p)), own)
        python = self._base or python
        return self.target or stated_target(python=python, platform="linux")

    def _admitting(self, advice: Advice) -> str:
        """Return the option without which nothing is measured beside the lock; "" for none.

        Of a lock that nothing is known of, the newest versions are measured; it may hold them.
        """
        if advice.answer is Answer.ELSEWHERE and not advice.next:
            return advice.option
        if advice.answer is not Answer.UNKNOWN or advice.next or self.update is not None:
            return ""
        policy = self.request.options.policy
        wider = {
            "": policy,
            "--allow-major": replace(policy, allow_major=True),
            "--allow-downgrade": replace(policy, allow_downgrade=True),
        }
        try:
            return next((o for o, each in wider.items() if self._admits_another(each)), "")
        except (IndexUnavailableError, UsageError):
            return ""

    def _admits_another(self, policy: ChangePolicy) -> bool:
        """Return whether anything of the lock has another version that may be taken.

        Raises:
            IndexUnavailableError: an index cannot be read.
            UsageError: nothing may change.
        """
        target = self._here()
        locked = versions_of(self.lockfile)
        ranges: dict[str, SpecifierSet] = {}
        for each in map(parse_requirement, free_requirements(self.lockfile, policy, target)):
            name = str(canonicalize_name(each.name))
            ranges[name] = ranges.get(name, SpecifierSet()) & each.specifier
        selector = Selector(target, Policy())
        return any(
            not (isinstance(one.found, str) or one.barred or one.is_fallback)
            and Version(one.version).public != Version(locked[name]).public
            and ranges[name].contains(one.version)
            for name, files in self.index.candidates_many(ranges).items()
            for one in selector.select(files or (), ())
        )

    def _not_yet(self, runs: Sequence[RunSummary]) -> Iterator[str]:
        """Yield a caveat on a campaign that was run for the answer, and is no part of it."""
        for run in runs[-1:]:
            if CampaignId(run.campaign_id) in self.trusted:
                continue
            inspections = self.database.inspections(campaign=CampaignId(run.campaign_id))
            missing = run.to_analysis
            if judged_controls(inspections, self.calls):
                yield "the campaign that was run for this answer does not count: a control failed"
            elif missing:
                yield (
                    "the campaign that was run for this answer does not count yet: its controls "
                    f"are judged after {missing} more block{'s' * (missing > 1)}; the same command "
                    "goes on"
                )

    def _yanked(self, advice: Advice) -> Iterator[str]:
        """Yield a caveat on each recommended release that its index has yanked."""
        changed = {c.name: c.recommended for c in advice.changes if c.recommended is not None}
        if advice.lock is None or not changed:
            return
        try:
            offered = self.index.candidates_many(changed)
        except IndexUnavailableError as error:
            yield f"whether a release was yanked is not known: {error.what}"
            return
        for name, version in changed.items():
            files = [each for each in offered[name] or () if each.version == version]
            if files and all(each.yanked is not None for each in files):
                why = next((each.yanked for each in files if each.yanked), "")
                yield f"{name} {version} was yanked{f': {why}' if why else ''}"

    def _stacks(self, advice: Advice) -> tuple[tuple[AdvisedStack, ...], bool]:
        """Return the lock's own stack and the others, and whether goals favour different ones."""
        if advice.current is None:
            return (), False
        ids = [advice.current, *(each.stack_id for each in advice.alternatives)]
        goals = self._needs(advice, ids)
        own = AdvisedStack(stack_id=ids[0], changes=(), needs=self._of(goals, ids[0]))
        others = [
            AdvisedStack(
                stack_id=each.stack_id,
                changes=each.changes,
                needs=self._of(goals, each.stack_id),
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                is_faster=each.is_faster,
            )
            for each in advice.alternatives
        ]
        return (own, *others), bool(others) and _is_worse(others[0].needs, own.needs)

    def _needs(self, advice: Advice, ids: Sequence[StackId]) -> GoalReport:
        """Return what stacks need besides time, by the campaign that measured most of them."""
        campaigns = {campaign for each in advice.provenance for campaign in each.campaigns}
        counts: dict[CampaignId, dict[StackId, int]] = {}
        for each in self.known.summaries:
            if each.campaign_id in campaigns and each.blocks:
                blocks = counts.setdefault(each.campaign_id, {})
                blocks[each.stack_id] = blocks.get(each.stack_id, 0) + each.blocks
        fitting = [campaign for campaign, blocks in counts.items() if ids[0] in blocks]
        if not fitting:
            return GoalReport()
        found = max(
            fitting,
            key=lambda each: (
                len(counts[each].keys() & {*ids}),
                sum(counts[each].values()),
                each,
            ),
        )
        inspections = [e for e in self.database.inspections(campaign=found) if e.block]
        used = {each.indicator_id for each in inspections}
        own = [each for each in ids if each in counts[found]]
        return compare_goals(
            inspections,
            stacks=own,
            baseline=ids[0],
            calls=[call for call in self.known.calls.values() if call.id in used],
            goals=_EVERY_GOAL,
            sizes={each: self._size(self.known.stacks[each]) for each in own},
        )

    def _of(self, goals: GoalReport, stack: StackId) -> StackQuantities:
        return replace(goals.of(stack), size=self._size(self.known.stacks[stack]))

    def _size(self, stack: Stack) -> StackSize:
        try:
            return stack_size(stack.lock, self.store)
        except BuildError:  # what others measured may come from an index without hashes
            return StackSize()


def _is_worse(needs: StackQuantities, than: StackQuantities) -> bool:
    """Return whether a stack is shown to need more than another one of anything but time."""
    if any(e is not None and e.high < 1 for e in (needs.import_effect, needs.memory_effect)):
        return True
    size, other = needs.size.installed_bytes, than.size.installed_bytes
    return size is not None and other is not None and size > (1 + MARGIN) * other


@dataclass(slots=True, kw_only=True)
class Admission:
    """Whether the rest of a lock admits changes to it, as far as metadata tells."""

    index: PackageIndex
    progress: Progress
    security: Security | None = None
    _unavailable: str = field(default="", init=False)

    def refusal(
        self, lockfile: LockFile, changes: Sequence[Change], facts: BaseFacts
    ) -> str | None:
        """Return why the rest of a lock does not admit changes on a base; None where it does.

        An index that cannot be reached is a reason, too, and is not tried again.
        """
        if self._unavailable:
            return self._unavailable
        try:
            found = self._refusal(lockfile, changes, _target(facts))
            return found or (self.security.refusal(changes) if self.security else None)
        except IndexUnavailableError as error:
            self._unavailable = (
                f"whether the rest of the lock admits it is not known: {error.what} ({error.why})"
            )
            return self._unavailable
        except (ResolutionError, UsageError) as error:
            why = " ".join(error.why.split())
            return f"the rest of the lock does not admit it: {error.what}: {why}"

    def exists(self, pins: Sequence[tuple[str, str]], facts: BaseFacts) -> bool:
        """Return whether versions can be installed together on a base, as far as is known."""
        packages = [LockedPackage(name=name, version=version) for name, version in pins]
        try:
            return bool(self._installed(packages, (), _target(facts)))
        except (IndexUnavailableError, ResolutionError, UsageError):
            return False

    def _refusal(self, lockfile: LockFile, changes: Sequence[Change], target: Target) -> str | None:
        locked = {canonicalize_name(each.name): each for each in in_target(lockfile, target)}
        removed = {each.name for each in changes if each.recommended is None}
        changed = dict(locked)
        for each in changes:
            if each.recommended is None:
                changed.pop(canonicalize_name(each.name), None)
            else:
                package = locked.get(canonicalize_name(each.name)) or LockedPackage(
                    name=each.name, version=each.recommended
                )
                changed[canonicalize_name(each.name)] = replace(package, version=each.recommended)
        needed = self._installed(changed.values(), index_requirements(lockfile), target)
        if still := sorted(removed & needed):
            return f"the rest of the lock requires {still[0]}"
        if not removed:
            return None
        rest = [each for name, each in locked.items() if name not in removed]
        if own := sorted(removed - self._installed(rest, (), target)):
            return f"it has no {own[0]}, which no other package of the lock brings"
        return None

    def _installed(
        self,
        packages: Iterable[LockedPackage],
        requirements: Sequence[Requirement],
        target: Target,
    ) -> frozenset[str]:
        """Return all that these packages bring, in just these versions.

        Raises:
            ResolutionError: they exclude each other, or a file is not there.
        """
        pins = [parse_requirement(pin(each)) for each in packages]
        names = frozenset(str(canonicalize_name(each.name)) for each in pins)
        request = Requirements(
            requirements=(*pins, *requirements),
            policy=Policy(prereleases=Prereleases.ALLOW, allow_build=names),
        )
        lock = resolve(self.index, request, target, progress=self.progress).newest()
        return frozenset(lock.versions) if lock is not None else frozenset()


def _target(facts: BaseFacts) -> Target:
    """Return the target that a base was; its machine is taken to be of our own kind.

    Raises:
        UsageError: its Python or C library is none that can be stated.
    """
    libc = re.fullmatch(r"(glibc|musl) (\d+)\.(\d+).*", facts.libc)
    if libc is None:
        raise UsageError(
            f"what fits {facts.distribution} is not known",
            why=f"{facts.libc!r} is neither glibc nor musl",
            fix="measure on another base",
        )
    kind = "manylinux" if libc[1] == "glibc" else "musllinux"
    return stated_target(
        python=facts.python.split()[-1],
        platform=f"{kind}_{libc[2]}_{libc[3]}_{platform.machine()}",
    )


def free_requirements(lockfile: LockFile, policy: ChangePolicy, target: Target) -> tuple[str, ...]:
    """Return the ranges of the packages of a lock that may change, as a policy admits them.

    Raises:
        UsageError: nothing may change.
    """
    locked = {str(canonicalize_name(e.name)): e.version for e in in_target(lockfile, target)}
    ranges = {
        name: [str(e) for e in index_requirements(lockfile) if canonicalize_name(e.name) == name]
        for name in policy.only or varied_in(locked)
        if name in locked and name not in policy.keep
    }
    if not ranges:
        why = "--only and --keep leave none of its packages"
        fix = "name a package that it holds with --only, and not with --keep"
        if not (policy.only or policy.keep):
            why = f"it has neither TensorFlow, PyTorch nor NumPy for Python {target.python}"
            fix = (
                "name a Python that it is for, as in: --base 3.12; or what may change: --only NAME"
            )
        raise UsageError(f"nothing in {lockfile.path} may change", why=why, fix=fix)
    found = []
    for name, own in ranges.items():
        version = Version(locked[name])
        limits = [] if policy.allow_downgrade else [f">={version.public}"]  # PEP 440: no "+cpu"
        guarded = not policy.allow_major and (own or name in VARIED)
        if guarded and not any(">" in line or "~" in line for line in own):
            limits.append(f"<{version.major + 1}")
        found += [f"{name}{','.join(limits)}", *own]
    return tuple(found)


def _explore_command(lockfile: LockFile, path: Path) -> str:
    """Return the command that measures around a lock, "" where nothing in it would vary."""
    if lockfile.conda:
        return ""
    locked = {each.name for each in lockfile.packages if each.group == "default"}
    return f"stackgen explore --from {shlex.quote(str(path))}" if any(may_vary(locked)) else ""


def _measure_command(request: AdviseRequest, admitting: str, base: str) -> str:
    """Return the command that measures what would decide, with all options of a request.

    admitting: an option that is needed beside those; "" for none. base: for --base, too.
    """
    options, risks, index = request.options, request.vulnerabilities, request.index
    executor = request.target.executor
    valued: list[tuple[str, Iterable[object]]] = [
        ("--python", [options.python]),
        ("--type", [options.kind.value] * (options.kind is not AdviceType.PERFORMANCE)),
        ("--allow-build", request.sources.allow_build),
        ("--osv", [risks.osv or ""]),
        ("--audit", [risks.audit.value] * (risks.audit is not AuditService.NONE)),
        ("--osv-url", [risks.osv_url]),
        ("--pi", request.indicators.indicators),
        ("--param", [f"{name}={value}" for name, value in request.indicators.parameters]),
        ("--base", [request.target.base or base]),
        ("--executor", [executor.value] * (executor is not ExecutorChoice.AUTO)),
        ("--index-url", [without_credentials(index.index_url)]),
        ("--extra-index-url", map(without_credentials, index.extra_index_urls)),
        ("--find-links", map(without_credentials, index.find_links)),
        ("--compare-index", map(without_credentials, index.compared)),
    ]
    flags = {
        "--allow-major": options.allow_major,
        "--allow-downgrade": options.allow_downgrade,
        "--allow-vulnerable": options.allow_vulnerable,
        "--no-index": index.no_index,
    }
    words = ["stackgen", "advise", str(request.path), *([str(request.new)] if request.new else [])]
    words += ["--measure", "15m"]
    words += [word for each in options.only for word in ("--only", each)]
    words += [word for each in options.keep for word in ("--keep", each)]
    words += [flag for flag, given in flags.items() if given]
    words += [word for name, values in valued for v in values if v for word in (name, str(v))]
    return shlex.join([*words, *filter(None, [admitting])])


def _by_conda(lockfile: LockFile) -> str:
    own = [f"{name} {v}" for name, v in lockfile.conda if name in (*VARIED, "pytorch")]
    return (
        f"conda installs {', '.join(own) or 'part of it'}, and only packages of an index are "
        "measured and changed; to measure them in its place, inside the environment: pip list "
        "--format=freeze > requirements.txt"
    )


def _nothing_varies(lockfile: LockFile, path: Path) -> str:
    groups = {each.group for each in lockfile.packages if any(may_vary({each.name}))}
    why = "it holds neither TensorFlow, PyTorch nor NumPy"
    if groups:
        why = f"TensorFlow, PyTorch and NumPy are in its groups {listed(sorted(groups))} alone"
    return (
        f"nothing in it varies by itself ({why}); name what may: stackgen explore NAME --from "
        f"{shlex.quote(str(path))}"
    )
