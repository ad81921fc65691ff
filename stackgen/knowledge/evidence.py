"""Which measured stacks stand for a user's lock, and what they were measured against."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.locks import admits_python, in_target
from stackgen.measure import (
    BlockKey,
    Seen,
    block_times,
    by_place,
    deviation,
    exclude_disturbed,
    not_repeatable,
)
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.packages import Artifact, LockFile, Target
from stackgen.model.stacks import PROGRAM, BaseFacts, Machine, Stack

CONTROL_COMPONENT = "python"
FRAMEWORKS = {
    "tensorflow": frozenset({"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow"}),
    "torch": frozenset({"torch"}),
    "jax": frozenset({"jax", "jaxlib"}),
    "mxnet": frozenset({"mxnet"}),
    "paddlepaddle": frozenset({"paddlepaddle", "paddlepaddle-gpu"}),
}
"""The distributions of each framework; any other component of an indicator has its own name."""

Versions = Mapping[str, str]
Times = Mapping[tuple[CampaignId, int], float]
Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Observations of one machine about a lock, on one base and with the same settings.

    Stacks that differ in base or settings are never compared: the effect of either would be
    attributed to the versions.

    stacks: of this base and these settings, each with the frameworks of the lock and no other.
    inspections: of these stacks, on this machine, in blocks of trusted campaigns.
    calls: the indicators that were measured on a stack that stands for the lock.
    current: per indicator, the stacks that stand for the lock. A lock that agrees with a stack on
        what NumPy's indicator loads need not agree with it on what TensorFlow's does.
    computed: what stacks computed, by machine: on any one, in any campaign, in blocks or not.
    baselines: the stacks that others were compared with.
    disturbed: blocks that are excluded.
    """

    machine: Machine
    same_machine: bool
    facts: BaseFacts
    settings: Settings
    stacks: Mapping[StackId, Stack]
    inspections: Sequence[Inspection]
    calls: Sequence[IndicatorCall]
    current: Mapping[IndicatorId, tuple[StackId, ...]]
    computed: Sequence[Seen] = ()
    baselines: frozenset[StackId] = frozenset()
    disturbed: frozenset[BlockKey] = frozenset()

    @property
    def python(self) -> str:
        """Return the full version of the Python that was measured."""
        return self.facts.python.split()[-1]

    @property
    def representative(self) -> Stack:
        """Return the measured stack that stands for the lock on most indicators."""
        standing = [stack for stacks in self.current.values() for stack in stacks]
        return self.stacks[min(standing, key=lambda stack: (-standing.count(stack), stack))]

    def current_times(self, indicator: IndicatorId) -> Times:
        """Return the fastest sample of each block among the lock's own stacks, in seconds."""
        merged: dict[tuple[CampaignId, int], float] = {}
        for stack in self.current[indicator]:
            for block, seconds in self.times(indicator, stack).items():
                merged.setdefault(block, seconds)
        return dict(sorted(merged.items()))

    def times(self, indicator: IndicatorId, stack: StackId) -> Times:
        """Return the fastest sample in each block of a stack, in seconds."""
        return block_times(
            self.inspections, indicator=indicator, stack=stack, excluded=self.disturbed
        )

    def computes_otherwise(self, stack: StackId) -> bool:
        """Return whether a stack was ever seen to compute something else than the lock's own.

        It is compared within each machine, with what stands for the lock; on an indicator where
        nothing does, or never beside it, with what others were compared with.
        """
        indicators = {what for seen in self.computed for what, other in seen if other == stack}
        return any(self._otherwise(stack, indicator) for indicator in indicators)

    def _otherwise(self, stack: StackId, indicator: IndicatorId) -> bool:
        for right in (self.current.get(indicator, ()), sorted(self.baselines)):
            beside = [
                (theirs, expected)
                for seen in self.computed
                if (theirs := seen.get((indicator, stack)))
                and (expected := [e for one in right for e in seen.get((indicator, one), ())])
            ]
            if beside and stack not in right:
                return any(
                    not_repeatable(expected, indicator) is None
                    and deviation(theirs, expected, indicator) is not None
                    for theirs, expected in beside
                )
        return False


def gather(
    lockfile: LockFile,
    *,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall],
    machine: Machine,
    machines: Iterable[Machine],
    trusted: Collection[CampaignId],
) -> tuple[Evidence, ...]:
    """Return the evidence about a lock: this machine's first, then that of the nearest.

    On one machine, stacks without settings come before those with, then the Python that the lock
    asks for, then what was measured most. Only campaigns whose controls hold count, and only
    stacks with the frameworks of the lock. What knows nothing of the lock is left out.
    """
    inspections = list(inspections)
    known = {c.id: c for c in calls if c.indicator.component != CONTROL_COMPONENT}
    locked = _LockedOn(lockfile)
    by_id = {stack.id: stack for stack in stacks if locked.has_frameworks_of(stack)}
    places = {place.id: place for place in (machine, *machines)}
    groups: dict[tuple[MachineId, BaseFacts, Settings], list[Inspection]] = {}
    for each in inspections:
        stack = by_id.get(each.stack_id)
        counts = each.campaign_id in trusted and each.block > 0 and each.indicator_id in known
        if counts and stack is not None and each.machine_id in places:
            groups.setdefault((each.machine_id, stack.facts, stack.settings), []).append(each)
    computed = _computed(inspections, known)
    baselines = frozenset(e.stack_id for e in inspections if e.role is Role.BASELINE)
    disturbed = frozenset(exclude_disturbed(inspections).excluded)
    found = [
        Evidence(
            machine=places[where],
            same_machine=where == machine.id,
            facts=facts,
            settings=settings,
            stacks={each.stack_id: by_id[each.stack_id] for each in own},
            inspections=own,
            calls=tuple(known[i] for i in sorted({each.indicator_id for each in own})),
            current=_current(own, by_id, known, locked.versions(facts)),
            computed=computed,
            baselines=baselines,
            disturbed=disturbed,
        )
        for (where, facts, settings), own in groups.items()
    ]
    standing = [each for each in found if each.current]
    return tuple(sorted(standing, key=lambda each: _order(each, machine, lockfile)))


def why_unknown(
    lockfile: LockFile,
    *,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall],
    trusted: Collection[CampaignId],
) -> str:
    """Return why nothing that was measured answers for a lock: the first reason that holds."""
    known = {c.id: c for c in calls if c.indicator.component != CONTROL_COMPONENT}
    by_id = {stack.id: stack for stack in stacks}
    locked = _LockedOn(lockfile)
    seen = [
        each
        for each in inspections
        if each.block > 0 and each.indicator_id in known and each.stack_id in by_id
    ]
    measured = {by_id[each.stack_id] for each in seen}
    comparable = {stack.id for stack in measured if locked.has_frameworks_of(stack)}
    current: set[tuple[IndicatorId, StackId]] = set()
    for facts in {stack.facts for stack in measured}:
        own = [e for e in seen if e.stack_id in comparable and by_id[e.stack_id].facts == facts]
        found = _current(own, by_id, known, locked.versions(facts))
        current |= {(call, stack) for call, standing in found.items() for stack in standing}
    if current:
        return _why_no_block_counts(seen, by_id, current, comparable, trusted)
    why = "no measured stack has the same framework, NumPy and compiled packages"
    if measured and not comparable:
        others = {
            " and ".join(sorted(frameworks(each.lock.versions))) or "none" for each in measured
        }
        why += f"; the frameworks of all that was measured: {' or '.join(sorted(others))}"
    return why


def _why_no_block_counts(
    seen: Iterable[Inspection],
    stacks: Mapping[StackId, Stack],
    current: Collection[tuple[IndicatorId, StackId]],
    comparable: Collection[StackId],
    trusted: Collection[CampaignId],
) -> str:
    """Return why no block compares what stands for a lock with anything else."""
    blocks: dict[tuple[MachineId, CampaignId, IndicatorId, int], list[Inspection]] = {}
    for each in seen:
        key = each.machine_id, each.campaign_id, each.indicator_id, each.block
        blocks.setdefault(key, []).append(each)
    pairs = [
        (mine, other)
        for own in blocks.values()
        for mine in own
        for other in own
        if (mine.indicator_id, mine.stack_id) in current and other.stack_id != mine.stack_id
    ]
    if not pairs:
        return "these versions were measured, but never beside others in the same blocks"

    def differs_otherwise(mine: Inspection, other: Inspection) -> bool:
        one, two = stacks[mine.stack_id], stacks[other.stack_id]
        same = (one.facts, one.settings) == (two.facts, two.settings)
        return not same or other.stack_id not in comparable

    reasons: tuple[tuple[str, Callable[[Inspection, Inspection], bool]], ...] = (
        (
            "the others have the same framework, NumPy and compiled packages",
            lambda _, other: (other.indicator_id, other.stack_id) in current,
        ),
        ("the others differ in base, variables or frameworks as well", differs_otherwise),
        (
            "the controls of these campaigns failed, or were not judged yet",
            lambda mine, _: mine.campaign_id not in trusted,
        ),
        (
            "a search ran them, which only chooses what is compared",
            lambda mine, other: Role.SEARCH in (mine.role, other.role),
        ),
    )
    shared = len({(mine.campaign_id, mine.block) for mine, _ in pairs})
    count = "1 block" if shared == 1 else f"{shared} blocks"
    text = f"these versions shared {count} with others, but none of them counts"
    for reason, excludes in reasons:
        pairs = [pair for pair in pairs if not excludes(*pair)]
        if not pairs:
            return f"{text}: {reason}"
    return f"{text}: a run failed there, or something disturbed the machine"


def target_of(facts: BaseFacts) -> Target:
    """Return what of a base decides the markers of a lock; the rest is this machine's own."""
    python = facts.python.split()[-1]
    minor = ".".join(python.split(".")[:2])
    markers = (("python_full_version", python), ("python_version", minor))
    return Target(python=python, markers=markers, tags=())


@dataclass(frozen=True, slots=True)
class _LockedOn:
    """The versions that a lock installs, by base."""

    lockfile: LockFile
    _known: dict[BaseFacts, Versions] = field(default_factory=dict)

    def versions(self, facts: BaseFacts) -> Versions:
        """Return the version of each package that the lock installs on such a base."""
        if facts not in self._known:
            packages = in_target(self.lockfile, target_of(facts))
            self._known[facts] = {canonicalize_name(p.name): _normal(p.version) for p in packages}
        return self._known[facts]

    def has_frameworks_of(self, stack: Stack) -> bool:
        """Return whether a stack has the same frameworks as the lock, in any version."""
        return frameworks(stack.lock.versions) == frameworks(self.versions(stack.facts))


def frameworks(names: Iterable[str]) -> frozenset[str]:
    """Return the frameworks whose distributions are among these.

    JAX beside TensorFlow is not one of them: TensorFlow 2.12 requires it, other versions do not.
    """
    installed = frozenset(names)
    found = frozenset(name for name, own in FRAMEWORKS.items() if own & installed)
    return found - {"jax"} if "tensorflow" in found else found


def _current(
    inspections: Iterable[Inspection],
    stacks: Mapping[StackId, Stack],
    calls: Mapping[IndicatorId, IndicatorCall],
    locked: Versions,
) -> Mapping[IndicatorId, tuple[StackId, ...]]:
    """Return per indicator the stacks that agree with the lock on all that decides its timing.

    Whatever the indicator loads, the frameworks are part of that.
    """
    loaded: dict[IndicatorId, dict[StackId, set[str]]] = {}
    for each in inspections:
        own = loaded.setdefault(each.indicator_id, {}).setdefault(each.stack_id, set())
        own |= _decisive(each, calls[each.indicator_id])
    required = {name for own in FRAMEWORKS.values() for name in own if name in locked}
    current: dict[IndicatorId, tuple[StackId, ...]] = {}
    for indicator, by_stack in sorted(loaded.items()):
        call = calls[indicator]
        if call.indicator.component == PROGRAM:
            decisive = decisive_of_program([stacks[each] for each in by_stack])
        else:
            brings = _brings(call)
            decisive = {stacks[s]: names for s, names in by_stack.items() if names & brings}
        standing = (s.id for s, names in decisive.items() if _agree(s, names | required, locked))
        if found := tuple(sorted(standing)):
            current[indicator] = found
    return current


def decisive_of_program(stacks: Sequence[Stack]) -> Mapping[Stack, set[str]]:
    """Return the distributions that decide the timing of a user's program, by stack.

    What a program loads is not recorded (docs/adr/0016). So everything with compiled code counts,
    and everything in which the stacks that it was measured on differ.
    """
    names = {name for stack in stacks for name in stack.lock.versions}
    varied = {
        name for name in names if len({stack.lock.versions.get(name) for stack in stacks}) > 1
    }
    return {
        stack: varied | {a.name for a in stack.lock.artifacts if not _is_pure(a)}
        for stack in stacks
    }


def _is_pure(artifact: Artifact) -> bool:
    return artifact.filename.endswith("-none-any.whl")


def _computed(
    inspections: Iterable[Inspection], calls: Mapping[IndicatorId, IndicatorCall]
) -> tuple[Seen, ...]:
    """Return what stacks computed, by machine; timings that are not trusted compute right, too."""
    machines: dict[MachineId, list[Inspection]] = {}
    for each in inspections:
        if each.indicator_id in calls:
            machines.setdefault(each.machine_id, []).append(each)
    return tuple(by_place(own) for own in machines.values())


def _brings(call: IndicatorCall) -> frozenset[str]:
    component = call.indicator.component
    return FRAMEWORKS.get(component, frozenset({component}))


def _decisive(inspection: Inspection, call: IndicatorCall) -> frozenset[str]:
    """Return the distributions that decide an inspection's timing.

    They are the framework, NumPy, and everything with compiled code that the process had loaded;
    what else is installed beside them does not matter.
    """
    loaded = inspection.observation.loaded if inspection.observation else ()
    always = _brings(call) | {"numpy"}
    return frozenset(
        name
        for each in loaded
        if (name := str(canonicalize_name(each.name))) in always or each.compiled
    )


def _agree(stack: Stack, names: Iterable[str], locked: Versions) -> bool:
    versions = stack.lock.versions
    installed = {name: _normal(versions[name]) for name in names if name in versions}
    return all(installed.get(name) == locked.get(name) for name in names)


def _order(
    evidence: Evidence, machine: Machine, lockfile: LockFile
) -> tuple[tuple[bool, bool, int, MachineId], bool, bool, int, Settings, str]:
    """Return what puts the evidence that says most about the user's own case first."""
    return (
        _distance(machine, evidence.machine),
        bool(evidence.settings),
        not admits_python(lockfile, evidence.python),
        -len(evidence.inspections),
        evidence.settings,
        str(evidence.facts),
    )


def _distance(machine: Machine, other: Machine) -> tuple[bool, bool, int, MachineId]:
    """Return how unlike a machine is: another one, of another CPU, in how much of its identity."""
    own, theirs = dict(machine.identity), dict(other.identity)
    model = ("cpu_vendor", "cpu_family", "cpu_model")
    other_model = any(own.get(key) != theirs.get(key) for key in model)
    differing = sum(own.get(key) != theirs.get(key) for key in own.keys() | theirs.keys())
    return other.id != machine.id, other_model, differing, other.id


def _normal(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        return version
