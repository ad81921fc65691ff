"""Goals beside speed: import time, memory and sizes of stacks, and what follows from them.

Import time and peak memory are contrasts within blocks, like times: each process that runs an
indicator imports the framework anyway, and records both. Sizes are exact and have no interval.

Multiplicity: all verdicts of one report, on every quantity and in every interim analysis, raise a
false alarm with a probability of ALPHA at most (weighted Bonferroni). ``shares`` divides ALPHA
between the families of comparisons before anything is measured: by default 0.7 for speed, 0.2 for
import time, 0.1 for memory. Within a family its share is divided by the number of its comparisons:
one for each stack beside the baseline, and for a Pareto front one for each pair of stacks on each
goal. A share that is not used (a program has no import) is given to no other.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from stackgen.measure.disturbances import exclude_disturbed, number
from stackgen.measure.effects import ALPHA, MARGIN, effect, log_ratio, verdict
from stackgen.measure.ranking import (
    SeriesKey,
    Times,
    all_times,
    block_ratios,
    is_open,
    weighted_mean,
)
from stackgen.measure.results import peak_memory
from stackgen.model.evidence import Effect, Ranked, Verdict
from stackgen.model.goals import SPEED_ALONE, Goal, Goals, Limit, Quantity
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Observation, Role
from stackgen.model.reports.campaigns import GoalReport, StackQuantities, StackSize

IMPORT_S, IMPORT_PEAK = "import_s", "import_peak_memory_bytes"
"""Circumstances that the harness records of the first import of an indicator's component."""
MAIN_SHARE, MINOR_SHARE = 0.7, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How much of ALPHA each family of comparisons has; together they have all of it at most.

    decision: of the weighted goals or of the Pareto front; 0 where speed alone decides.
    """

    speed: float
    import_time: float
    memory: float
    decision: float = 0.0


def shares(goals: Goals) -> Shares:
    """Return how ALPHA is divided; it rests on the request alone, never on what was measured."""
    if not any(goal is not Goal.SPEED for goal, _ in goals.wanted):
        return Shares(speed=MAIN_SHARE, import_time=2 * MINOR_SHARE, memory=MINOR_SHARE)
    return Shares(
        speed=MINOR_SHARE, import_time=MINOR_SHARE, memory=MINOR_SHARE, decision=MAIN_SHARE
    )


def compare_goals(
    inspections: Sequence[Inspection],
    *,
    stacks: Sequence[StackId],
    baseline: StackId,
    calls: Sequence[IndicatorCall],
    weights: Mapping[IndicatorId, float] | None = None,
    goals: Goals = SPEED_ALONE,
    sizes: Mapping[StackId, StackSize] | None = None,
    margin: float = MARGIN,
    planned: int = 0,
) -> GoalReport:
    """Return what stacks need besides time, and what follows from the goals.

    Args:
        inspections: of the campaign. Effects rest on blocks that compare; those on times, on blocks
            that nothing disturbed.
        stacks: that are reported, in order; the baseline among them.
        calls: the indicators; the import is that of the first one which records any.
        planned: how many stacks will be compared with the baseline, where not all have begun.
    """
    comparison = _comparison(
        inspections, calls, weights or {}, baseline, sizes or {}, margin, goals
    )
    comparison = replace(comparison, count=max(planned, comparison.count))
    peaks: dict[StackId, int] = {}
    for each in peak_memory(inspections, (call.id for call in calls)):
        peaks[each.stack_id] = max(each.peak_bytes, peaks.get(each.stack_id, 0))
    medians = _medians(inspections, calls)
    rows = tuple(
        StackQuantities(
            stack_id=stack,
            size=comparison.sizes.get(stack, StackSize()),
            import_s=medians.get((IMPORT_S, stack)),
            import_peak_bytes=medians.get((IMPORT_PEAK, stack)),
            peak_bytes=peaks.get(stack),
            speed_effect=comparison.against_baseline(Goal.SPEED, stack),
            import_effect=comparison.against_baseline(Goal.IMPORT, stack),
            memory_effect=comparison.against_baseline(Goal.MEMORY, stack),
            decision=comparison.decision(stack),
        )
        for stack in stacks
    )
    front = comparison.front(stacks) if goals.has_front else frozenset(stacks)
    imports = any(row.import_s is not None for row in rows)
    found = (each.indicator.component for each in calls if each.program is None)
    return GoalReport(
        goals=goals,
        imported=next(found, "") if imports else "",
        memory_of=comparison.memory_of,
        stacks=tuple(_limited(row, goals.limits, front) for row in rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoalComparison:
    """Compares stacks on goals.

    numbers: of each goal that is measured: a number per block of each stack on each call, with the
        weight of the call.
    count: how many stacks the campaign compared with the baseline.
    """

    numbers: Mapping[Goal, Sequence[tuple[Mapping[StackId, Times], float]]]
    sizes: Mapping[StackId, StackSize]
    baseline: StackId
    margin: float
    goals: Goals
    count: int
    memory_of: str

    def against_baseline(self, goal: Goal, stack: StackId) -> Effect | None:
        """Return how much better a stack is than the baseline; None where nothing compares them."""
        own = shares(self.goals)
        calls = len(self.numbers.get(Goal.SPEED, ()))
        share = {
            Goal.SPEED: own.speed / (calls + 1 if calls > 1 else 1),  # as a ranking divides it
            Goal.IMPORT: own.import_time,
            Goal.MEMORY: own.memory,
        }[goal]
        found = None if stack == self.baseline else self._contrasts(goal, stack, self.baseline)
        if not found:
            return None
        return self._effect(goal.value, stack, self.baseline, found, share / max(1, self.count))

    def decision(self, stack: StackId) -> Effect | None:
        """Return how much better a stack is by all goals together; None where nothing says it."""
        if stack == self.baseline or not self.goals.decides or self.goals.has_front:
            return None
        wanted = self.goals.weights
        measured = [
            (self._contrasts(goal, stack, self.baseline), weight)
            for goal, weight in wanted
            if goal is not Goal.SIZE
        ]
        exact = sum(weight for goal, weight in wanted if goal is Goal.SIZE)
        size = self._size_ratio(stack, self.baseline)
        if exact and size is None:
            return None
        shift = exact * (size or 0.0) / sum(weight for _, weight in wanted)
        if not measured:
            return self._exact(stack, self.baseline, shift)
        part = 1 - exact / sum(weight for _, weight in wanted)
        mean = {block: part * each + shift for block, each in weighted_mean(measured).items()}
        if not mean:
            return None
        own = shares(self.goals)
        share = own.decision or own.speed
        return self._effect("goals", stack, self.baseline, mean, share / max(1, self.count))

    def front(self, stacks: Sequence[StackId]) -> frozenset[StackId]:
        """Return the stacks that no other one is shown to dominate.

        One dominates another where it is shown to be better in a goal, and in no goal may be worse
        by more than the margin: both by intervals that hold together.
        """
        beaten: set[StackId] = set()
        for one, other in combinations(stacks, 2):
            if self._dominates(one, other):
                beaten.add(other)
            elif self._dominates(other, one):
                beaten.add(one)
        return frozenset(stacks) - beaten

    def _dominates(self, a: StackId, b: StackId) -> bool:
        goals = [goal for goal, _ in self.goals.wanted]
        pairs = max(1, self.count * (self.count + 1) // 2)
        tests = pairs * max(1, sum(goal is not Goal.SIZE for goal in goals))
        better = False
        for goal in goals:
            found: Effect | None
            if goal is Goal.SIZE:
                ratio = self._size_ratio(a, b)
                found = None if ratio is None else self._exact(a, b, ratio)
            else:
                contrasts = self._contrasts(goal, a, b)
                share = shares(self.goals).decision / tests
                found = self._effect(goal.value, a, b, contrasts, share) if contrasts else None
            if found is None or found.low < 1 / (1 + self.margin):
                return False
            better = better or found.verdict is Verdict.FASTER
        return better

    def _contrasts(self, goal: Goal, a: StackId, b: StackId) -> Times:
        per_call = self.numbers.get(goal, ())
        return weighted_mean(
            [(block_ratios(each.get(a, {}), each.get(b, {})), weight) for each, weight in per_call]
        )

    def _size_ratio(self, a: StackId, b: StackId) -> float | None:
        """Return log(size of B / size of A)."""
        one, two = (self.sizes.get(each, StackSize()).installed_bytes for each in (a, b))
        return log_ratio(two, one) if one and two else None

    def _exact(self, a: StackId, b: StackId, log: float) -> Effect:
        ratio = math.exp(log)
        return Effect(
            a=a,
            b=b,
            indicator_id=IndicatorId(Goal.SIZE.value),
            ratio=ratio,
            low=ratio,
            high=ratio,
            blocks=0,
            verdict=verdict(ratio, ratio, self.margin),
            smallest_detectable=1.0,
        )

    def _effect(self, name: str, a: StackId, b: StackId, contrasts: Times, share: float) -> Effect:
        return effect(
            a=a,
            b=b,
            indicator_id=IndicatorId(name),
            contrasts=[contrasts[block] for block in sorted(contrasts)],
            margin=self.margin,
            alpha=ALPHA * share,
        )


def _comparison(
    inspections: Sequence[Inspection],
    calls: Sequence[IndicatorCall],
    weights: Mapping[IndicatorId, float],
    baseline: StackId,
    sizes: Mapping[StackId, StackSize],
    margin: float,
    goals: Goals,
) -> _GoalComparison:
    excluded = exclude_disturbed(inspections).excluded
    times = all_times(inspections, excluded)
    imports = all_times(inspections, excluded, _circumstance(IMPORT_S))
    # What others do on a machine changes times, and hardly the memory that a process needs.
    peaks = all_times(inspections, (), _circumstance(IMPORT_PEAK))
    program = bool(calls) and calls[0].program is not None
    if program:
        peaks = all_times(inspections, (), lambda seen: seen.peak_memory_bytes or None)
    return _GoalComparison(
        numbers={
            Goal.SPEED: [(_of(times, call), weights.get(call.id, 1.0)) for call in calls],
            Goal.IMPORT: _first(imports, calls),
            Goal.MEMORY: _first(peaks, calls),
        },
        sizes=sizes,
        baseline=baseline,
        margin=margin,
        goals=goals,
        count=len({stack for _, stack, _ in times} - {baseline}),
        memory_of="run" if program else "import",
    )


def pair_contrasts(
    inspections: Sequence[Inspection],
    *,
    stack: StackId,
    baseline: StackId,
    calls: Sequence[IndicatorCall],
) -> tuple[tuple[Goal, IndicatorCall | None, tuple[float, ...]], ...]:
    """Return log(baseline / stack) per block of each indicator, of the import, and of its memory.

    Above 0 the stack needs less. The call is None of import time and memory.
    """
    comparison = _comparison(inspections, calls, {}, baseline, {}, MARGIN, SPEED_ALONE)
    found = []
    for goal, numbers in comparison.numbers.items():
        for place, (times, _) in enumerate(numbers):
            ratios = block_ratios(times.get(stack, {}), times.get(baseline, {}))
            call = calls[place] if goal is Goal.SPEED else None
            found.append((goal, call, tuple(ratios[block] for block in sorted(ratios))))
    return tuple(found)


def _of(series: Mapping[SeriesKey, Times], call: IndicatorCall) -> Mapping[StackId, Times]:
    return {
        stack: times
        for (indicator, stack, twin), times in series.items()
        if indicator == call.id and not twin
    }


def _first(
    series: Mapping[SeriesKey, Times], calls: Sequence[IndicatorCall]
) -> Sequence[tuple[Mapping[StackId, Times], float]]:
    """Return the numbers of the first call that has any: one process for each stack and block."""
    found = (_of(series, call) for call in calls)
    first = next((each for each in found if each), None)
    return [] if first is None else [(first, 1.0)]


def _circumstance(name: str) -> Callable[[Observation], float | None]:
    def read(observation: Observation) -> float | None:
        return number(dict(observation.circumstances), name) or None

    return read


def _medians(
    inspections: Sequence[Inspection], calls: Sequence[IndicatorCall]
) -> Mapping[tuple[str, StackId], float]:
    """Return the median import time and peak of each stack over blocks, those of a search too."""
    wanted, found = {call.id for call in calls}, dict[tuple[str, StackId], list[float]]()
    for each in inspections:
        if each.block and each.role is not Role.TWIN and each.indicator_id in wanted:
            for name in (IMPORT_S, IMPORT_PEAK):
                seen = _circumstance(name)(each.observation) if each.observation else None
                if seen is not None:
                    found.setdefault((name, each.stack_id), []).append(seen)
    return {key: statistics.median(numbers) for key, numbers in found.items()}


def _limited(
    row: StackQuantities, limits: Sequence[Limit], front: frozenset[StackId]
) -> StackQuantities:
    amounts = {
        Quantity.IMPORT_TIME: row.import_s,
        Quantity.IMPORT_MEMORY: row.import_peak_bytes,
        Quantity.PEAK_MEMORY: row.peak_bytes,
        Quantity.DOWNLOAD: row.size.download_bytes,
        Quantity.INSTALLED: row.size.installed_bytes,
    }
    exceeded = tuple(
        each.quantity.value
        for each in limits
        if (amount := amounts[each.quantity]) is None or amount > each.most
    )
    return replace(row, exceeded=exceeded, on_front=row.stack_id in front and not exceeded)


def goals_decided(report: GoalReport, *, baseline: StackId) -> bool:
    """Return whether every comparison that the goals rest on has its answer."""
    others = (row for row in report.stacks if row.stack_id != baseline)
    return not any(_is_open(row, report.goals) for row in others)


def undecided(ranking: Sequence[Ranked], found: GoalReport) -> tuple[Ranked, ...]:
    """Return the stacks whose comparison with the baseline is open, by the goals that decide."""
    return tuple(
        row
        for row in ranking
        if row.counts and not row.is_baseline
        if (_is_open(found.of(row.stack_id), found.goals) if found.goals.decides else is_open(row))
    )


def _is_open(row: StackQuantities, goals: Goals) -> bool:
    wanted = {goal for goal, _ in goals.wanted}
    effects = [row.decision]
    if goals.has_front:
        effects = [row.import_effect] if Goal.IMPORT in wanted else []
        effects += [row.memory_effect] if Goal.MEMORY in wanted else []
        effects += [row.speed_effect] if Goal.SPEED in wanted else []
    return any(each is None or each.verdict is Verdict.INCONCLUSIVE for each in effects)
