"""What disqualifies a measured stack, and why nothing that was measured answers for a lock."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.utils import canonicalize_name

from stackgen.knowledge.allowed import listed
from stackgen.knowledge.equivalence import (
    VARIED,
    Equivalence,
    LockedOn,
    Setting,
    component_distributions,
    frameworks,
)
from stackgen.measure import Computed, Seen, deviation, not_repeatable
from stackgen.measure.retry_policy import blamed
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, LoadedDistribution, Role
from stackgen.model.stacks import BaseFacts, Stack

CONTROL_COMPONENT = "python"
StacksByIndicator = Mapping[IndicatorId, Collection[StackId]]
"""The measured stacks that stand for a lock, by indicator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSummary:
    """What a campaign recorded of a stack on an indicator and a machine: all but its times.

    loaded: the distributions that decide the timing. computed: in blocks or not.
    blocks: how many inspections in blocks there are. is_baseline: whether others were compared with
    it. failed: whether it failed in a block so that it is excluded (the retry policy).
    """

    campaign_id: CampaignId
    indicator_id: IndicatorId
    machine_id: MachineId
    stack_id: StackId
    loaded: tuple[str, ...]
    computed: Computed
    blocks: int
    is_baseline: bool
    failed: bool


def summaries(
    inspections: Iterable[Inspection], calls: Iterable[IndicatorCall]
) -> tuple[StackSummary, ...]:
    """Return what inspections say of stacks; those of controls are left out."""
    known = {c.id: c for c in calls if c.indicator.component != CONTROL_COMPONENT}
    groups: dict[tuple[CampaignId, IndicatorId, MachineId, StackId], list[Inspection]] = {}
    for each in inspections:
        if each.indicator_id in known:
            key = each.campaign_id, each.indicator_id, each.machine_id, each.stack_id
            groups.setdefault(key, []).append(each)
    every = [each for own in groups.values() for each in own]
    failed = {
        (each.campaign_id, each.indicator_id, each.machine_id, each.stack_id)
        for each in blamed(every, tuple(known.values()))
    }
    return tuple(
        StackSummary(
            campaign_id=key[0],
            indicator_id=key[1],
            machine_id=key[2],
            stack_id=key[3],
            loaded=tuple(sorted({n for each in own for n in decisive(each, known[key[1]])})),
            computed=Computed.of(each.observation for each in own if each.observation),
            blocks=sum(each.block > 0 for each in own),
            is_baseline=any(each.role is Role.BASELINE for each in own),
            failed=key in failed,
        )
        for key, own in groups.items()
    )


@dataclass(frozen=True, slots=True)
class Results:
    """What stacks computed: on any machine, in any campaign, in blocks or not.

    Noise makes timings doubtful, not results (docs/adr/0019).

    computed: by machine. baselines: the stacks that others were compared with.
    indicators: that each stack was seen on.
    """

    computed: Sequence[Seen]
    baselines: frozenset[StackId]
    indicators: Mapping[StackId, Collection[IndicatorId]]

    @classmethod
    def of(cls, found: Iterable[StackSummary]) -> "Results":
        """Put together what campaigns recorded."""
        machines: dict[MachineId, dict[tuple[IndicatorId, StackId], Computed]] = {}
        baselines = set()
        indicators: dict[StackId, set[IndicatorId]] = {}
        for each in found:
            indicators.setdefault(each.stack_id, set()).add(each.indicator_id)
            if each.computed:
                seen = machines.setdefault(each.machine_id, {})
                place = each.indicator_id, each.stack_id
                known = seen.get(place)
                seen[place] = each.computed if known is None else known | each.computed
            if each.is_baseline:
                baselines.add(each.stack_id)
        return cls(tuple(machines.values()), frozenset(baselines), indicators)

    def differ(self, stack: StackId, current: StacksByIndicator) -> bool:
        """Return whether a stack was ever seen to compute something else than a lock's own.

        It is compared within each machine, with what stands for the lock; on an indicator where
        nothing does, or never beside it, with what others were compared with.
        """
        known = self.indicators.get(stack, ())
        return any(self._differ_on(stack, indicator, current) for indicator in known)

    def _differ_on(
        self, stack: StackId, indicator: IndicatorId, current: StacksByIndicator
    ) -> bool:
        for right in (current.get(indicator, ()), sorted(self.baselines)):
            beside = [
                (theirs, expected)
                for seen in self.computed
                if (theirs := seen.get((indicator, stack)))
                and (expected := _of_all(seen, indicator, right))
            ]
            if beside and stack not in right:
                return any(
                    not_repeatable(expected, indicator) is None
                    and deviation(theirs, expected, indicator) is not None
                    for theirs, expected in beside
                )
        return False


def _of_all(seen: Seen, indicator: IndicatorId, stacks: Iterable[StackId]) -> Computed:
    found = Computed()
    for each in stacks:
        found |= seen.get((indicator, each), Computed())
    return found


def decisive(inspection: Inspection, call: IndicatorCall) -> frozenset[str]:
    """Return the distributions that decide an inspection's timing."""
    loaded = inspection.observation.loaded if inspection.observation else ()
    return _decisive(loaded, component_distributions(call))


@lru_cache(maxsize=4096)
def _decisive(loaded: tuple[LoadedDistribution, ...], brings: frozenset[str]) -> frozenset[str]:
    always = brings | {"numpy"}
    return frozenset(
        name
        for each in loaded
        if (name := str(canonicalize_name(each.name))) in always or each.compiled
    )


def why_unknown(
    locked: LockedOn,
    *,
    stacks: Mapping[StackId, Stack],
    measured: Collection[StackId],
    summaries: Iterable[StackSummary],
    inspections_of: Callable[[CampaignId], Iterable[Inspection]],
    nodes: Equivalence,
    trusted: Container[CampaignId],
    place: BaseFacts | None = None,
) -> str:
    """Return why nothing that was measured answers for a lock: the first reason that holds.

    Args:
        place: of a lock with several versions of a package, those for this base are named.
    """
    indicators = set(nodes.indicators)
    seen = [
        each
        for each in summaries
        if each.blocks and each.indicator_id in indicators and each.stack_id in stacks
    ]
    in_blocks = {each: stack for each, stack in stacks.items() if each in measured}
    comparable = {
        stack_id
        for stack_id, stack in in_blocks.items()
        if frameworks(stack.lock.versions) == frameworks(locked.versions(stack.facts))
    }
    current: set[tuple[IndicatorId, StackId]] = set()
    for facts, variables in {(stack.facts, stack.settings) for stack in in_blocks.values()}:
        found = nodes.find_all(locked.versions(facts), Setting.of(facts, variables))
        for indicator, key in found.items():
            current |= {(indicator, stack) for stack in nodes.stacks[indicator][key]}
    if current:
        campaigns = {e.campaign_id for e in seen if (e.indicator_id, e.stack_id) in current}
        blocks = [
            each
            for campaign in sorted(campaigns)
            for each in inspections_of(campaign)
            if each.block > 0 and each.indicator_id in indicators and each.stack_id in stacks
        ]
        return _why_no_block_counts(blocks, stacks, current, comparable, trusted)
    return _why_no_stack(locked, in_blocks, comparable, nodes, place)


def _why_no_stack(
    locked: LockedOn,
    measured: Mapping[StackId, Stack],
    comparable: Collection[StackId],
    nodes: Equivalence,
    place: BaseFacts | None,
) -> str:
    """Return why no stack that was measured is like a lock."""
    places = {stack.facts for stack in measured.values()}
    every = {name: v for facts in places for name, v in locked.versions(facts).items()}
    every |= locked.versions(place) if place is not None else {}
    if measured and every.keys().isdisjoint(VARIED):
        if any(each.name in VARIED for each in locked.lockfile.packages):
            pythons = sorted({facts.python for facts in places})
            return f"its packages are for other Pythons than what was measured: {listed(pythons)}"
        return "it holds nothing of what was measured"
    if measured and not comparable:
        others = {
            " and ".join(sorted(frameworks(each.lock.versions))) or "NumPy alone"
            for each in measured.values()
        }
        own = " and ".join(sorted(frameworks(every)))
        own = f" ({own})" if own else ""
        return (
            f"no measured stack has its framework{own}; the frameworks of all that was measured: "
            f"{', '.join(sorted(others))}"
        )
    differing = min(
        (
            nodes.differing(stack_id, locked.versions(stack.facts))
            for stack_id, stack in measured.items()
            if stack_id in comparable and nodes.stands(stack_id)
        ),
        key=lambda names: (len({*VARIED}.intersection(names)), len(names), names),
        default=(),
    )
    if not differing:
        return "no stack of the same kind was measured"
    if {*VARIED}.isdisjoint(differing):
        return (
            "its versions of framework and NumPy were measured, but beside other versions of "
            f"compiled packages that they load: {listed(differing)}"
        )
    return f"no measured stack holds {listed([f'{n} {every[n]}' for n in VARIED if n in every])}"


def _why_no_block_counts(
    seen: Iterable[Inspection],
    stacks: Mapping[StackId, Stack],
    current: Collection[tuple[IndicatorId, StackId]],
    comparable: Collection[StackId],
    trusted: Container[CampaignId],
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
        same = Setting.of(one.facts, one.settings) == Setting.of(two.facts, two.settings)
        return not same or other.stack_id not in comparable

    reasons: tuple[tuple[str, Callable[[Inspection, Inspection], bool]], ...] = (
        (
            "the others have the same framework, NumPy and compiled packages",
            lambda _, other: (other.indicator_id, other.stack_id) in current,
        ),
        ("the others differ in Python, variables or frameworks as well", differs_otherwise),
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
    return f"{text}: a run failed there, something disturbed the machine, or they are too few"
