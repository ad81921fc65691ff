"""Advise: a lock file in, the fastest known versions out, from evidence alone."""

import platform
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.campaign.candidates import may_vary, pin, read_lock_file
from stackgen.campaign.installed import read_environment
from stackgen.campaign.options import IndexOptions
from stackgen.campaign.targets import find_target
from stackgen.campaign.user_input import index_config
from stackgen.commands.lock_changes import completed
from stackgen.errors import IndexUnavailableError, ResolutionError, UsageError
from stackgen.executors.machine import this_machine
from stackgen.images.targets import stated_target
from stackgen.index import PackageIndex
from stackgen.index.closure import resolve
from stackgen.knowledge.advice import advise as recommend
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.derived import controls_hold
from stackgen.knowledge.judgement import Knowledge
from stackgen.knowledge.seed import load_seeds
from stackgen.locks import in_target
from stackgen.model.choices import Prereleases
from stackgen.model.evidence import Advice, Answer, Change
from stackgen.model.identity import CampaignId, InspectionId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.packages import LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import NOISE
from stackgen.model.reports.locks import AdviceReport
from stackgen.model.stacks import BaseFacts
from stackgen.resolve import Policy, Requirements, parse_requirement
from stackgen.storage.paths import Paths


def advise(
    path: Path,
    index_options: IndexOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    environment: bool = False,
    allow_downgrade: bool = False,
) -> AdviceReport:
    """Return the advice for a lock file.

    Args:
        path: of the lock file.
        index_options: where the rest of the lock is looked up.
        paths: where the knowledge base is.
        environ: for the configuration of the indexes.
        progress: is told what goes on.
        environment: the path is that of an environment, whose installed packages are the lock.
        allow_downgrade: recommend older versions as well.

    Raises:
        UsageError: it is no lock file that we read.
    """
    lockfile = read_environment(path) if environment else read_lock_file(path, partial=True)
    command = _explore_command(lockfile, path)
    with (
        open_database(paths.knowledge, reading=True) as database,
        PackageIndex(index_config(index_options, environ), paths.cache) as index,
    ):
        if added := load_seeds(database, paths.seeds):
            progress.note(
                f"{added:,} inspections that come with stackgen were loaded; they were measured on "
                "another machine (stackgen kb origins)."
            )
        if lockfile.unpinned:
            target = find_target(base="", python="", platform="", paths=paths, progress=progress)
            lockfile = completed(lockfile, target, index=index, progress=progress)
        for note in lockfile.notes:
            progress.note(f"{path}: {note}.")
        calls = database.calls()
        inspections = database.inspections()
        trusted = trusted_campaigns(database, inspections, calls)
        known = Knowledge(
            stacks=database.stacks(),
            inspections=inspections,
            calls=calls,
            contrasts=database.contrasts(),
            machine=this_machine(),
            machines=database.machines(),
            trusted=trusted,
        )
        admission = Admission(index=index, progress=progress)
        advice = recommend(
            known,
            lockfile=lockfile,
            trusted=trusted,
            admits=admission.refusal,
            exists=admission.exists,
            inspections=inspections,
            allow_downgrade=allow_downgrade,
        )
        origins = database.origins()
    if advice.answer is Answer.UNKNOWN and not command:
        advice = replace(advice, caveats=(*advice.caveats, _nothing_varies(path)))
    behind = _behind(advice, inspections)
    return AdviceReport(
        lockfile=lockfile,
        advice=advice,
        indicators=tuple((call.id, call.label) for call in calls),
        knowledge_base=str(paths.knowledge),
        explore_command=command,
        inspections=len(behind),
        merged=tuple(
            Counter(origin for each in behind for origin in origins.get(each, ())).items()
        ),
    )


def _behind(advice: Advice, inspections: Iterable[Inspection]) -> Collection[InspectionId]:
    """Return what the effects of an advice were computed from: all blocks of their campaigns."""
    carrying = {
        (campaign, each.indicator_id) for each in advice.provenance for campaign in each.campaigns
    }
    return [
        each.id
        for each in inspections
        if (each.campaign_id, each.indicator_id) in carrying
        and each.block
        and each.role is not Role.SEARCH
    ]


@dataclass(slots=True, kw_only=True)
class Admission:
    """Whether the rest of a lock admits changes to it, as far as metadata tells."""

    index: PackageIndex
    progress: Progress
    _unavailable: str = field(default="", init=False)

    def refusal(
        self, lockfile: LockFile, changes: Sequence[Change], facts: BaseFacts
    ) -> str | None:
        """Return why the rest of a lock does not admit changes on a base; None where it does.

        An index that cannot be reached is a reason, too, and is not asked again.
        """
        if self._unavailable:
            return self._unavailable
        try:
            return self._refusal(lockfile, changes, _target(facts))
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
        needed = self._installed(changed.values(), _readable(lockfile), target)
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


def _readable(lockfile: LockFile) -> tuple[Requirement, ...]:
    """Return what the user asked for, without what no index has."""
    found = []
    for line in lockfile.requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.url is None:
            found.append(requirement)
    return tuple(found)


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


def _explore_command(lockfile: LockFile, path: Path) -> str:
    """Return the command that measures around a lock, "" where nothing in it would vary."""
    locked = {each.name for each in lockfile.packages if each.group == "default"}
    return f"stackgen explore --from {shlex.quote(str(path))}" if any(may_vary(locked)) else ""


def _nothing_varies(path: Path) -> str:
    return (
        "nothing in it varies by itself (it holds neither TensorFlow, PyTorch nor NumPy); name "
        f"what may: stackgen explore NAME --from {shlex.quote(str(path))}"
    )


def trusted_campaigns(
    database: Database,
    inspections: tuple[Inspection, ...],
    calls: tuple[IndicatorCall, ...],
) -> frozenset[CampaignId]:
    """Return the campaigns whose controls were judged and hold; no others feed advice.

    Nor do those that measured one stack against itself: it is not known to be better than others.
    """
    by_campaign: dict[CampaignId, list[Inspection]] = {}
    for each in inspections:
        by_campaign.setdefault(each.campaign_id, []).append(each)
    return frozenset(
        campaign.id
        for campaign in database.campaigns()
        if campaign.kind != NOISE and controls_hold(by_campaign.get(campaign.id, []), calls)
    )
