"""What equal runs differ by, and which differences of stacks would show in spite of it.

The contrasts of a stack with itself are noise and nothing else. Comparisons are drawn from them,
with every outlier, and the effect that 95 of 100 of these would show is looked up: a formula for
normal noise promises too much (docs/adr/0023).
"""

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from stackgen.measure.disturbances import number
from stackgen.measure.effects import (
    INTERIM_ANALYSES,
    MARGIN,
    POWER,
    block_contrasts,
    effect,
    p_value,
)
from stackgen.measure.ranking import are_different, block_times
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome, Role
from stackgen.model.reports.campaigns import DetectableEffect, Disturbance, IndicatorNoise

Circumstances = Mapping[str, str]

DRAWS = 1000
"""Comparisons that are drawn for each number of blocks."""
RUNS = 3
"""Runs of an indicator in a block of a comparison: one stack, the same again, and the other."""
CONTROLS = 2
"""Runs of the control in such a block: one on each stack."""
_UNSURE = 2.0
_SIGMA = 1.4826  # standard deviations of normal noise in its median absolute deviation


def indicator_noise(
    inspections: Sequence[Inspection],
    *,
    stack: StackId,
    call: IndicatorCall,
    control: IndicatorCall,
    seed: int,
    indicators: int = 1,
) -> IndicatorNoise:
    """Return what equal runs of an indicator differ by, and what would show in spite of it.

    Args:
        inspections: of one campaign that measured the stack against itself.
        indicators: how many are judged together; the chance that an equal pair of any is called
            different stays at 1 %.
    """
    own = [e for e in inspections if e.indicator_id == call.id]
    one = block_times(inspections, indicator=call.id, stack=stack)
    two = block_times(inspections, indicator=call.id, stack=stack, twin=True)
    contrasts = block_contrasts(a_s=one, b_s=two) if one.keys() & two.keys() else ()
    run = {e.block for e in own if e.block > 0 and e.role in (Role.BASELINE, Role.TWIN)}
    p = p_value(contrasts)
    differs = are_different(p, among=indicators)
    unusable = _unusable(contrasts, p if differs else None)
    block_s = _block_s(inspections, call, control) * len(run) / max(1, len(contrasts))
    return IndicatorNoise(
        indicator_id=call.id,
        label=call.label,
        run_s=run_s(own),
        blocks=len(contrasts),
        left_out=len(run) - len(contrasts),
        spread=math.expm1(robust_spread(contrasts)) if contrasts else None,
        deviation=math.expm1(plain_spread(contrasts)) if contrasts else None,
        p_value=p,
        differs=differs,
        detectable=() if unusable else _shown(contrasts, block_s, seed),
        unusable=unusable,
    )


def _shown(contrasts: Sequence[float], block_s: float, seed: int) -> tuple[DetectableEffect, ...]:
    """Return what shows by each number of blocks; what showed at an earlier analysis still does."""
    effects = (smallest_shown(contrasts, blocks=blocks, seed=seed) for blocks in INTERIM_ANALYSES)
    return tuple(
        DetectableEffect(blocks=blocks, effect=least, machine_s=blocks * block_s)
        for blocks, least in zip(INTERIM_ANALYSES, accumulate(effects, min), strict=True)
    )


def _unusable(contrasts: Sequence[float], different: float | None) -> str:
    """Return why nothing can be said, "" where something can."""
    if different is not None:
        return (
            f"equal runs are shown to differ (p = {different:.2g}), and they must not: "
            "rely on no comparison"
        )
    if len(contrasts) < INTERIM_ANALYSES[0]:
        return f"too few blocks: {len(contrasts)}, and {INTERIM_ANALYSES[0]} are needed"
    if not any(contrasts):
        return "both runs of every pair took exactly the same time: their clock is too coarse"
    return ""


def run_s(inspections: Iterable[Inspection]) -> float | None:
    """Return the seconds of one run, those in blocks first of all; None where none ended well."""
    ended = [each for each in inspections if each.outcome is Outcome.OK]
    ended = [each for each in ended if each.block > 0] or ended
    return statistics.median(each.duration_s for each in ended) if ended else None


def _block_s(
    inspections: Sequence[Inspection], call: IndicatorCall, control: IndicatorCall
) -> float:
    """Return the seconds of one block of a comparison of two stacks."""
    own, pure = (
        run_s(e for e in inspections if e.indicator_id == each.id) or 0.0
        for each in (call, control)
    )
    return RUNS * own + (0.0 if call.id == control.id else CONTROLS * pure)


def smallest_shown(contrasts: Sequence[float], *, blocks: int, seed: int) -> float:
    """Return the smallest effect that a comparison finds with 95 % power, as a ratio less one.

    Args:
        contrasts: log ratios of equal runs, at least two.
        blocks: that the comparison takes; one of INTERIM_ANALYSES.

    Both runs of a pair are alike, so each contrast is drawn with either sign. What few blocks show
    may be calmer than the machine is: the result is raised by two parts in their number, which
    brings the power to what is promised (docs/adr/0023).
    """
    dice = random.Random(f"{seed}/{blocks}")  # noqa: S311
    both = [*contrasts, *(-each for each in contrasts)]
    needed = sorted(_needed(dice.choices(both, k=blocks)) for _ in range(DRAWS))
    found = needed[math.ceil(POWER * DRAWS) - 1] * (1 + _UNSURE / len(contrasts))
    return math.expm1(found) if found < 100 else math.inf  # no stack is e^100 times as fast


def _needed(contrasts: Sequence[float]) -> float:
    """Return by how much these contrasts must move up until a verdict says so, as a log ratio.

    An interval moves with its contrasts. It must leave "no difference", and must not lie within
    the margin that counts as the same.
    """
    found = effect(a=_A, b=_B, indicator_id=_ANY, contrasts=contrasts)
    if found.low <= 0:
        return math.inf
    return max(-math.log(found.low), math.log1p(MARGIN) - math.log(found.high))


_A, _B, _ANY = StackId("a"), StackId("b"), IndicatorId("any")


def robust_spread(contrasts: Sequence[float]) -> float:
    """Return the spread of contrasts around zero as a log ratio; outliers do not count."""
    return _SIGMA * statistics.median(abs(each) for each in contrasts)


def plain_spread(contrasts: Sequence[float]) -> float:
    """Return their standard deviation around zero, which is where equal runs belong."""
    return math.sqrt(statistics.fmean(each**2 for each in contrasts))


def disturbance(inspections: Iterable[Inspection], *, cpus: int) -> Disturbance:
    """Return what else went on while samples were taken.

    Args:
        inspections: those in blocks count.
        cpus: how many this machine has; what was stolen is counted for all of them.
    """
    circumstances = [
        dict(each.observation.circumstances)
        for each in inspections
        if each.observation is not None and each.block > 0
    ]
    stolen = _share(circumstances, "steal_s")
    return Disturbance(
        waited=_waited(circumstances),
        stolen=None if stolen is None else stolen / cpus,
        throttled=_share(circumstances, "throttled_s"),
    )


def _waited(circumstances: Sequence[Circumstances]) -> float | None:
    """Return the share of time in which runs wanted a CPU and did not get it.

    A run that used less CPU time than passed may also have waited for a disk, and a system under
    pressure may have kept others waiting: the smaller of the two is neither.
    """
    used = _share(circumstances, "cpu_time_s")
    missing = None if used is None else max(0.0, 1 - used)
    pressure = _share(circumstances, "pressure_cpu_s")
    if missing is None or pressure is None:
        return missing if pressure is None else pressure
    return min(missing, pressure)


def _share(circumstances: Sequence[Circumstances], name: str) -> float | None:
    """Return a time as a share of the time that passed; None where it was not recorded."""
    seen = [
        (value, wall)
        for each in circumstances
        if (value := number(each, name)) is not None and (wall := number(each, "wall_s"))
    ]
    return math.fsum(v for v, _ in seen) / math.fsum(w for _, w in seen) if seen else None
