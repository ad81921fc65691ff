"""Advise: a lock file in, the best known versions out, from evidence alone."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from stackgen.campaign.candidates import read_lock_file, select
from stackgen.campaign.installed import read_environment
from stackgen.campaign.request import CampaignRequest, StackRequest, file_identity
from stackgen.campaign.targets import find_target
from stackgen.campaign.user_input import index_config
from stackgen.commands.advise_admission import Admission
from stackgen.commands.advise_explain import explain
from stackgen.commands.advise_next import (
    NextMeasurement,
    by_conda,
    explore_command,
    free_requirements,
    nothing_varies,
    own_pins,
    python_with_wheels,
)
from stackgen.commands.advise_request import ADVISE, AdviseRequest
from stackgen.commands.advise_security import Security
from stackgen.commands.lock_changes import completed
from stackgen.errors import (
    BuildError,
    IndexUnavailableError,
    ResolutionError,
)
from stackgen.executors.machine import this_machine
from stackgen.images.metadata_builds import SandboxMetadataBuilder
from stackgen.images.targets import stated_target
from stackgen.images.unpack import stack_size
from stackgen.index import PackageIndex
from stackgen.index.config import uv_variables
from stackgen.knowledge.advice import Advisor
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.derived import judged_controls
from stackgen.knowledge.equivalence import LockedOn, filled
from stackgen.knowledge.loading import load_knowledge
from stackgen.knowledge.recommendation import alpha_after
from stackgen.knowledge.seed import load_shipped
from stackgen.measure import MARGIN
from stackgen.measure.goals import compare_goals
from stackgen.model.choices import (
    AdviceType,
    Granularity,
)
from stackgen.model.evidence import Advice, Answer, CampaignIdentity, Scope
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
from stackgen.model.stacks import Stack
from stackgen.provenance.vulnerabilities import refuse_no_records
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements
from stackgen.storage.paths import Paths
from stackgen.storage.wheels import WheelStore

_ENVIRONMENT = (
    "an environment is not measured as it is; to measure its versions, write them as a lock: "
    "PYTHON -m pip freeze > requirements.txt"
)
_MOST_EXCLUDED = 30  # releases, before --type latest ends without an answer
_EVERY_GOAL = Goals(wanted=tuple((goal, 1.0) for goal in Goal))


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
            named = "" if python or builder else python_with_wheels(lockfile, index)
            if named:
                progress.note(
                    f"{request.path} is resolved for Python {named}: Python {target.python} has "
                    "not all wheels that it pins; --python chooses another."
                )
                target = stated_target(python=named, platform="linux")
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
            other_build=admission.other_build,
            size_of=lambda stack: self._size(stack).installed_bytes,
            added_risk=self.security.added,
            policy=self.request.options.policy,
            python=".".join(self.request.options.python.split(".")[:2]),
            alpha=alpha_after(len(self._deciding_campaigns())),
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
            if each.machine_id == machine and each.request_values.get("lock") == own
        ]

    def _deciding_campaigns(self) -> frozenset[CampaignId]:
        """Return the campaigns that were run to decide an answer for this lock, and count.

        Those of other locks with the same versions decided the same: an answer that goes on until
        it is another one has to count them, whatever else of the file changed meanwhile.
        """
        machine = this_machine().id
        every = {x.id for x in self.database.campaigns(kind=ADVISE) if x.machine_id == machine}
        own = {each.id for each in self.own_campaigns()}
        locked = LockedOn(self.lockfile)
        alike = {
            each.campaign_id
            for each in self.known.summaries
            if each.is_baseline and each.campaign_id in every - own
            if self.known.nodes.stands_for(each.indicator_id, each.stack_id, locked)
        }
        return frozenset(each for each in own | alike if each in self.trusted)

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
        varies = bool(only or explore_command(self.lockfile, self.request.path))
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
        command = explore_command(self.lockfile, request.path)
        if request.environment:
            command = ""
            advice = replace(advice, caveats=(*advice.caveats, _ENVIRONMENT))
        elif self.lockfile.conda:
            advice = replace(advice, caveats=(*advice.caveats, by_conda(self.lockfile)))
        elif advice.answer is Answer.UNKNOWN and not command:
            caveat = nothing_varies(self.lockfile, request.path)
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
        command_that_measures, download, disk = "", None, None
        if self.measures(advice):
            following = NextMeasurement(
                request=request,
                lockfile=self.lockfile,
                update=self.update is not None,
                target=self.target,
                index=self.index,
                store=self.store,
            )
            is_open = advice.answer is Answer.UNKNOWN and not advice.next and self.update is None
            if is_open and following.is_pinned:
                command = ""
                caveats = (*advice.caveats, own_pins(self.lockfile))
                advice = replace(advice, caveats=caveats)
            else:
                if not self.own_campaigns():  # of what goes on, most is there
                    download, disk = following.needs(advice)
                measuring = following.command(advice, download or 0)
                command_that_measures = measuring + self.paths.kb_option
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
            measure_command=command_that_measures,
            measure_download_bytes=download,
            measure_disk_bytes=disk,
            inspections=count,
            merged=tuple(merged.items()),
            runs=tuple(runs),
            explanation=explain(self.database, self.known, advice) if request.explain else (),
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
                against=each.against,
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
