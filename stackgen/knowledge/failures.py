"""Failure is knowledge: what all failures of one kind share, and no success has."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from stackgen.knowledge.evidence import StackSummary
from stackgen.measure import Computed, deviations_in, not_repeatable
from stackgen.measure.retry_policy import FailureCause, cause_of
from stackgen.model.evidence import Difference
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome
from stackgen.model.stacks import Stack
from stackgen.resolve.dependencies import parsed_version

_LOG_LINES = 5
# Errors of uv and zipfile about a file that is no longer the wheel that was downloaded. A wheel
# that was damaged at its index is refused by its download, in other words; so is a source's build.
_DAMAGED_CACHE = re.compile(
    r"(uv pip failed: |the wheel \S+ was refused: ).*("
    r"Bad CRC|Bad (un)?compressed size|Bad magic number for|not a zip file|Truncated file header"
    r"|unexpected end of file|Invalid zip file structure|end of central directory"
    r"|corrupt deflate stream|Error -\d+ while decompressing|does not match its digest in RECORD"
    r"|dist-info directory)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Trait:
    """Something that stacks have.

    kind: ``package`` (a version), ``setting`` (a variable's value) or ``base`` (a fact of it).
    """

    kind: str
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """A package of which the failing stacks have other versions than those that run.

    given: all of the failing stacks have it, and only those that run with it are meant; None
        where all that run are.
    """

    name: str
    failing: tuple[str, ...]
    running: tuple[str, ...]
    given: Trait | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Stacks that fail in the same way on the same machine, or compute something else.

    outcome: how they failed, or in what their result differs; then those that compute the same
        are what is called running.
    reason: the last error of their logs, numbers and paths left out; of results, the indicator.
    stacks: those that never ran what they failed at; with ``sometimes``, those that also did.
    runs: how many inspections ended so.
    running: how many stacks ran, on this machine, what these failed at.
    shared: what all of the stacks have, and none of those that ran.
    pairs: where nothing alone is that, what is together, the most varied names first.
    separations: packages whose versions separate the two, though the stacks differ in them.
    log: the end of the latest log.
    """

    outcome: Outcome | Difference
    reason: str
    machine_id: MachineId
    stacks: tuple[StackId, ...]
    runs: int
    running: int
    shared: tuple[Trait, ...] = ()
    pairs: tuple[tuple[Trait, Trait], ...] = ()
    separations: tuple[Separation, ...] = ()
    log: str = ""
    sometimes: bool = False


_RunOf = tuple[MachineId, IndicatorId, StackId]
_FailureKind = tuple[MachineId, Outcome | Difference, str, bool]
Traits = frozenset[Trait]


def explain_failures(
    stacks: Iterable[Stack], inspections: Iterable[Inspection]
) -> tuple[FailureGroup, ...]:
    """Return the groups of failing stacks, the largest first.

    A stack fails at an indicator on a machine; where it also ran there, its versions cannot be
    the reason, and its group is one of those that fail ``sometimes``. Infrastructure faults and
    damage of the cache are no failures, nor is what was killed from outside (the retry policy
    distinguishes them).
    """
    seen = list(inspections)
    ran = {_place(each) for each in seen if each.outcome is Outcome.OK}
    kinds: dict[_FailureKind, list[Inspection]] = {}
    for each in seen:
        if cause_of(each) in (
            FailureCause.UNCERTAIN,
            FailureCause.OWN,
        ) and not blames_damaged_cache(each):
            also_ran = _place(each) in ran
            kind = (each.machine_id, each.outcome, signature(each.log), also_ran)
            kinds.setdefault(kind, []).append(each)
    traits = {stack.id: traits_of(stack) for stack in stacks if kinds}
    groups = [group_of(kind, failed, ran, traits) for kind, failed in kinds.items()]
    return tuple(
        sorted(groups, key=lambda g: (g.sometimes, -len(g.stacks), g.reason, g.machine_id))
    )


def blames_damaged_cache(inspection: Inspection) -> bool:
    """Return whether a stack was not built since a cached wheel was damaged.

    Such damage is repaired today; it used to be recorded as the stack's own failure.
    """
    return inspection.outcome is Outcome.BUILD_FAILED and bool(_DAMAGED_CACHE.match(inspection.log))


def traits_of(stack: Stack) -> Traits:
    """Return a stack's versions, settings and facts of its base."""
    facts = {
        "Python": stack.facts.python,
        "Python build": stack.facts.python_build,
        "libc": stack.facts.libc,
        "distribution": stack.facts.distribution,
        **dict(stack.facts.system_packages),
    }
    kinds = (
        ("package", stack.lock.versions),
        ("setting", dict(stack.settings)),
        ("base", facts),
    )
    return frozenset(
        Trait(kind=kind, name=name, value=value)
        for kind, values in kinds
        for name, value in values.items()
    )


def signature(log: str) -> str:
    """Return the line of a log that names the fault, the same for the same fault."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    line = (errors or lines or ["no output"])[-1]
    return re.sub(r"0x[0-9a-f]+|(?<![\w.])/[^\s'\"]+", "...", line)[:160]


def _place(inspection: Inspection) -> _RunOf:
    return inspection.machine_id, inspection.indicator_id, inspection.stack_id


def group_of(
    kind: _FailureKind,
    failed: Sequence[Inspection],
    ran: Iterable[_RunOf],
    traits: Mapping[StackId, Traits],
) -> FailureGroup:
    """Return a group with what its members share, and none of those that ran the same has."""
    log = "\n".join(max(failed, key=lambda e: e.started_at).log.splitlines()[-_LOG_LINES:])
    members = {each.stack_id for each in failed}
    indicators = {each.indicator_id for each in failed}
    return replace(_group(kind, members, indicators, ran, traits), runs=len(failed), log=log)


def _group(
    kind: _FailureKind,
    found: Collection[StackId],
    indicators: Collection[IndicatorId],
    ran: Iterable[_RunOf],
    traits: Mapping[StackId, Traits],
) -> FailureGroup:
    machine, outcome, reason, sometimes = kind
    members = sorted(found)
    # What ran elsewhere, or something else, proves nothing about this fault.
    good = {stack for where, what, stack in ran if where == machine and what in indicators}
    good -= set(members)
    bad_traits = [traits[stack] for stack in members if stack in traits]
    good_traits = [traits[stack] for stack in sorted(good) if stack in traits]
    explained = not sometimes and bool(bad_traits)
    shared = _shared(bad_traits, good_traits) if explained else ()
    return FailureGroup(
        outcome=outcome,
        reason=reason,
        machine_id=machine,
        stacks=tuple(members),
        runs=0,
        running=len(good),
        shared=shared,
        pairs=_pairs(bad_traits, good_traits) if explained and good_traits and not shared else (),
        separations=_separations(bad_traits, good_traits, shared)
        if explained and good_traits
        else (),
        sometimes=sometimes,
    )


def _shared(bad: Sequence[Traits], good: Sequence[Traits]) -> tuple[Trait, ...]:
    return tuple(sorted(frozenset.intersection(*bad) - frozenset[Trait]().union(*good)))


def _pairs(bad: Sequence[Traits], good: Sequence[Traits]) -> tuple[tuple[Trait, Trait], ...]:
    """Return the pairs that all failing stacks have together, and no running one."""
    values: dict[tuple[str, str], set[str]] = {}
    for trait in frozenset[Trait]().union(*bad, *good):
        values.setdefault((trait.kind, trait.name), set()).add(trait.value)
    common = frozenset.intersection(*bad)
    ordered = sorted(common, key=lambda t: (-len(values[t.kind, t.name]), t))
    return tuple(
        (one, two)
        for one, two in combinations(ordered, 2)
        if not any(one in each and two in each for each in good)
    )


def _separations(
    bad: Sequence[Traits], good: Sequence[Traits], shared: Sequence[Trait]
) -> tuple[Separation, ...]:
    """Return the packages that separate the two; where none does, beside one shared trait."""
    found = _separations_given(bad, good, None)
    if found or shared:
        return found
    given = sorted(frozenset.intersection(*bad) & frozenset[Trait]().union(*good))
    return tuple(
        each
        for trait in given
        for each in _separations_given(bad, [stack for stack in good if trait in stack], trait)
    )


def _separations_given(
    bad: Sequence[Traits], good: Sequence[Traits], given: Trait | None
) -> tuple[Separation, ...]:
    """Return the packages that all have, in versions of which none is on both sides."""
    failing, running = (_versions(each) for each in (bad, good))
    return tuple(
        Separation(name=name, failing=_ordered(mine), running=_ordered(running[name]), given=given)
        for name, mine in sorted(failing.items())
        if len(mine) > 1 and name in running and not mine & running[name]
    )


def _ordered(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(versions, key=parsed_version))


def _versions(stacks: Sequence[Traits]) -> dict[str, set[str]]:
    """Return the versions of each package that is in all of these stacks."""
    found: dict[str, list[str]] = {}
    for stack in stacks:
        for trait in stack:
            if trait.kind == "package":
                found.setdefault(trait.name, []).append(trait.value)
    return {name: set(each) for name, each in found.items() if len(each) == len(stacks)}


Wrong = tuple[MachineId, Difference, IndicatorId]


def explain_results(
    stacks: Iterable[Stack], summaries: Iterable[StackSummary], calls: Sequence[IndicatorCall]
) -> tuple[FailureGroup, ...]:
    """Return the groups of stacks that do not compute what their campaign's baseline computes.

    Those that do are what they are compared with; what differs from one baseline and agrees with
    another is in a group all the same. The largest group comes first.
    """
    seen = _may_differ(each for each in summaries if each.computed)
    names = {call.id: call.label for call in calls}
    wrong, right = _by_result(seen, calls)
    traits = {stack.id: traits_of(stack) for stack in stacks if wrong}
    groups = []
    for (machine, kind, indicator), members in wrong.items():
        runs = sum(
            count
            for each in seen
            if (each.machine_id, each.indicator_id) == (machine, indicator)
            and each.stack_id in members
            for _, count in each.computed.counts
        )
        reason = names[indicator]
        group = _group((machine, kind, reason, False), members, [indicator], right, traits)
        groups.append(replace(group, runs=runs))
    return tuple(sorted(groups, key=lambda g: (-len(g.stacks), g.reason, g.machine_id)))


def _may_differ(summaries: Iterable[StackSummary]) -> list[StackSummary]:
    """Leave out the indicators of which every stack computed one and the same.

    Equal results of a knowledge base are one object, so that this takes no comparison of values.
    """
    seen = list(summaries)
    kinds: dict[IndicatorId, dict[int, Computed]] = {}
    for each in seen:
        kinds.setdefault(each.indicator_id, {})[id(each.computed)] = each.computed
    same = set()
    for indicator, found in kinds.items():
        results = {id(result) for each in found.values() for result, _ in each.counts}
        if len(results) == 1 and all(
            not_repeatable(each, indicator) is None for each in found.values()
        ):
            same.add(indicator)
    return [each for each in seen if each.indicator_id not in same]


def _by_result(
    summaries: Iterable[StackSummary], calls: Sequence[IndicatorCall]
) -> tuple[Mapping[Wrong, set[StackId]], set[_RunOf]]:
    """Return the stacks that compute something else, by place and kind, and those that do not."""
    campaigns: dict[tuple[CampaignId, MachineId], list[StackSummary]] = {}
    for each in summaries:
        campaigns.setdefault((each.campaign_id, each.machine_id), []).append(each)
    wrong: dict[Wrong, set[StackId]] = {}
    right: set[_RunOf] = set()
    for (_, machine), own in campaigns.items():
        seen = {(each.indicator_id, each.stack_id): each.computed for each in own}
        for baseline in {each.stack_id for each in own if each.is_baseline}:
            stacks = {stack for _, stack in seen}
            found = deviations_in(seen, baseline=baseline, stacks=stacks, calls=calls)
            places = {(one.indicator_id, stack) for stack, rows in found.items() for one in rows}
            right |= {(machine, *place) for place in seen.keys() - places}
            for stack, rows in found.items():
                for one in rows:
                    wrong.setdefault((machine, one.kind, one.indicator_id), set()).add(stack)
    return wrong, right
