"""Paired effects from within-block contrasts, with intervals that interim analyses keep valid.

The block is the statistical unit (MEASUREMENT.md): drift lasts longer than a block, so only
differences within one may be compared. The statistic is a trimmed mean of the contrasts with Yuen's
t, because recorded contrasts have heavy tails; docs/adr/0002 and 0017 have the figures.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from stackgen.errors import EvidenceError
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.identity import CampaignId, IndicatorId, StackId

# Interim analyses: after how many blocks, and at which level each is made

INTERIM_ANALYSES = (6, 10, 16, 26, 42, 60)
"""Numbers of blocks after which an interim analysis is made."""
LONG_ANALYSES = (*INTERIM_ANALYSES, 90)
"""The same of a campaign that ends early where an effect of interest is excluded (ADR 30)."""
_COARSE_P = 0.05
_FARTHEST = 35.0  # standard errors: farther out, the normal density is 0 in a float
_NODES = 201  # of the grid that the density is carried along on; eight times as many change 1e-7


@lru_cache(maxsize=64)
def level_per_analysis(alpha: float, analyses: tuple[int, ...] = INTERIM_ANALYSES) -> float:
    """Return the level of each interim analysis, so that all together keep to ``alpha``.

    Analyses share most of their data, so this is more than alpha divided by their number: 0.0125
    instead of 0.0083 at 5 %. Computed for sums of normal contrasts; t quantiles at
    this level take its place for few of them.

    Args:
        alpha: false alarms over all interim analyses, above 0 and below 1.
        analyses: numbers of blocks after which they are made.
    """
    from scipy.special import ndtri

    def excess(log_level: float) -> float:
        boundary = -float(ndtri(math.exp(log_level) / 2))
        return math.log(_crossed(boundary, analyses) / alpha)

    least, most = math.log(alpha / len(analyses)) - 0.01, math.log(alpha) + 0.01
    return math.exp(_root(excess, least, most, tolerance=1e-6))


def _root(
    increasing: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """Return where a function crosses zero, by the Illinois algorithm (Dowell and Jarratt 1971).

    Importing ``scipy.optimize`` for it would take longer than all of advice's own work.
    """
    below, above = increasing(low), increasing(high)
    moved = 0  # which end, in the step before
    while high - low > tolerance:
        middle = (low * above - high * below) / (above - below)
        value = increasing(middle)
        if abs(middle - (low if value < 0 else high)) < tolerance / 2 or value == 0:
            return middle
        if value < 0:
            low, below = middle, value
            above = above / 2 if moved < 0 else above
            moved = -1
        else:
            high, above = middle, value
            below = below / 2 if moved > 0 else below
            moved = 1
    return (low + high) / 2


def _crossed(boundary: float, analyses: tuple[int, ...]) -> float:
    """Return how often a walk without drift leaves +-boundary standard errors at any analysis."""
    import numpy as np
    from scipy.special import ndtr

    def density_of(distances: Any, spread: float) -> Any:
        return np.exp(-((distances / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))

    edges = [boundary * math.sqrt(blocks) for blocks in analyses]
    nodes = np.linspace(-edges[0], edges[0], _NODES)
    density = density_of(nodes, math.sqrt(analyses[0]))
    left = 2 * float(ndtr(-boundary))
    for before, now, edge in zip(analyses, analyses[1:], edges[1:], strict=False):
        spread = math.sqrt(now - before)
        inside = _weights(nodes) * density
        out = ndtr((nodes - edge) / spread) + ndtr((-edge - nodes) / spread)
        left += float(inside @ out)
        reached = np.linspace(-edge, edge, _NODES)
        density = density_of(reached[:, None] - nodes[None, :], spread) @ inside
        nodes = reached
    return left


def _weights(nodes: Any) -> Any:
    """Return the weights of Simpson's rule on evenly spaced nodes, an odd number of them."""
    import numpy as np

    weights = np.full(len(nodes), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (nodes[1] - nodes[0]) / 3


BlockT = TypeVar("BlockT", int, tuple[CampaignId, int], tuple[str, CampaignId, int])

ALPHA = 0.05
"""The share of false alarms that one comparison may raise over all its interim analyses."""
MARGIN = 0.02
"""Stacks whose ratio lies certainly within this margin are called equivalent."""
WORTH_DECIDING = 0.05
"""An answer that leaves open whether anything is faster by more than this is not decided: the
protocol promises to find an effect of this size (docs/measurement.md)."""
POWER = 0.95
"""The power at which the smallest detectable effect is stated."""
BUILD_SD = 0.005
"""By what builds of a stack are taken to differ where an effect is excluded or stated (ADR 30)."""
EXCLUDED = 0.005
"""How often an effect may be excluded that is there, by one analysis."""
TRIM, MANY, TRIM_OF_MANY = 0.25, 16, 0.34
"""The share of contrasts that is excluded at each end; a larger one from so many blocks on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Centre:
    """A robust centre of contrasts: its value, its standard error, its degrees of freedom."""

    mean: float
    error: float
    freedom: int


def block_contrasts(
    *, a_s: Mapping[BlockT, float], b_s: Mapping[BlockT, float]
) -> tuple[float, ...]:
    """Return how much faster A was than B, block by block.

    Args:
        a_s: seconds per operation of stack A, one value per block (its fastest sample).
        b_s: the same of stack B; blocks that only one of them has are left out.

    Returns:
        log(b / a) per shared block, shape (n,), in block order; above 0, A was faster.

    Raises:
        EvidenceError: no block holds both stacks.
    """
    shared = sorted(a_s.keys() & b_s.keys())
    if not shared:
        raise EvidenceError(
            "these stacks were never measured together",
            why=f"{len(a_s)} and {len(b_s)} blocks, none in common",
            fix="run stackgen explore with both in its space, so that they share blocks",
        )
    return tuple(log_ratio(b_s[block], a_s[block]) for block in shared)


def log_ratio(one: float, other: float) -> float:
    """Return log(one / other) of numbers above 0, finite where their ratio would not be."""
    return math.log(one) - math.log(other)


def trimmed_centre(contrasts: Sequence[float]) -> Centre:
    """Return the trimmed mean of at least two contrasts, with its standard error.

    The error is 0 exactly where those that are kept are all equal.

    Source: Yuen (1974), The two-sample trimmed t for unequal population variances; the
        one-sample form takes the winsorised sum of squares over h(h-1), h kept values.
    """
    ordered = sorted(contrasts)
    cut = _cut(len(ordered))
    inner = ordered[cut : len(ordered) - cut]
    clipped = winsorised(ordered)
    middle = math.fsum(clipped) / len(clipped)
    squares = math.fsum((value - middle) ** 2 for value in clipped)
    if inner[0] == inner[-1]:  # what is left of the squares is rounding
        return Centre(mean=inner[0], error=0.0, freedom=len(inner) - 1)
    return Centre(
        mean=math.fsum(inner) / len(inner),
        error=math.sqrt(squares / (len(inner) * (len(inner) - 1))),
        freedom=len(inner) - 1,
    )


def _cut(count: int) -> int:
    """Return how many of so many contrasts are excluded at each end."""
    return int((TRIM if count < MANY else TRIM_OF_MANY) * count)


def winsorised(contrasts: Sequence[float]) -> list[float]:
    """Return contrasts with those that trimming excludes moved to the nearest that it keeps."""
    ordered = sorted(contrasts)
    cut = _cut(len(ordered))
    low, high = ordered[cut], ordered[len(ordered) - cut - 1]
    return [min(max(each, low), high) for each in contrasts]


def p_value(contrasts: Sequence[float]) -> float | None:
    """Return the two-sided p-value of "no difference"; None of too few contrasts."""
    if len(contrasts) < INTERIM_ANALYSES[0]:
        return None
    centre = trimmed_centre(contrasts)
    if centre.error == 0:
        return _sign_test(contrasts)
    return _two_sided(abs(centre.mean) / centre.error, centre.freedom)


def _two_sided(errors: float, freedom: int) -> float:
    """Return how often a t is so many standard errors from 0 or farther."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -errors))


def sequential_p(
    contrasts: Sequence[float],
    *,
    tolerance: float = 0.0,
    analyses: tuple[int, ...] = INTERIM_ANALYSES,
) -> float:
    """Return the p-value of "the ratio is within the tolerance", whenever measuring stopped.

    It is the smallest alpha at which ``effect`` would distinguish the stacks: at most a share of
    alpha of equal stacks has a p-value of alpha or less at any interim analysis. Below the first
    analysis it is 1.

    Args:
        contrasts: log ratios per block; those after the last interim analysis do not count.
        tolerance: relative difference up to which stacks count as the same.
        analyses: numbers of blocks after which interim analyses are made.
    """
    from scipy.special import ndtri

    reached = [blocks for blocks in analyses if blocks <= len(contrasts)]
    if not reached:
        return 1.0
    contrasts = contrasts[: reached[-1]]
    centre, limit = trimmed_centre(contrasts), math.log1p(tolerance)
    if abs(centre.mean) <= limit:
        return 1.0
    if centre.error == 0:
        sign = math.copysign(1.0, centre.mean)
        nominal = _sign_test([sign * each - limit for each in contrasts])
    else:
        nominal = _two_sided((abs(centre.mean) - limit) / centre.error, centre.freedom)
    if nominal > _COARSE_P:  # a bound will do where nothing is decided
        return min(1.0, len(analyses) * nominal)
    return min(1.0, _crossed(min(-float(ndtri(nominal / 2)), _FARTHEST), analyses))


def _sign_test(contrasts: Sequence[float]) -> float:
    """Return the p-value of "above 0 as often as below", which no lack of spread makes certain."""
    above, below = sum(c > 0 for c in contrasts), sum(c < 0 for c in contrasts)
    return min(1.0, 2 * _at_most(min(above, below), above + below))


def _at_most(heads: int, tosses: int) -> float:
    """Return the probability of so many heads or fewer."""
    return sum(math.comb(tosses, each) for each in range(heads + 1)) / (1 << tosses)


def effect(
    *,
    a: StackId,
    b: StackId,
    indicator_id: IndicatorId,
    contrasts: Sequence[float],
    margin: float = MARGIN,
    alpha: float = ALPHA,
    tolerance: float = 0.0,
    analyses: tuple[int, ...] = INTERIM_ANALYSES,
) -> Effect:
    """Say how much faster A is than B.

    Args:
        contrasts: log(time of B / time of A) per block, shape (n,), n >= 1.
        margin: relative difference below which stacks count as equal.
        alpha: false alarms allowed over all interim analyses of this one comparison; of k
            comparisons at once, each gets a k-th.
        tolerance: by which two builds of one stack may differ: only more is faster or slower.
        analyses: numbers of blocks after which interim analyses are made.

    Returns:
        The effect of the contrasts up to the last interim analysis that they reach, so that
        repeated calls add no further tests. Before the first one the interval is infinite and the
        verdict inconclusive. Where contrasts have no spread (a figure that is the same in each
        run, a clock that is coarse) the interval is that of their median, by counting alone.
    """
    reached = [blocks for blocks in analyses if blocks <= len(contrasts)]
    if reached:
        contrasts = contrasts[: reached[-1]]
        level = level_per_analysis(alpha, analyses)
        middle, low, high, detectable = _interval(contrasts, level)
    else:
        middle = sorted(contrasts)[len(contrasts) // 2]
        low, high, detectable = 0.0, math.inf, math.inf
    return Effect(
        a=a,
        b=b,
        indicator_id=indicator_id,
        ratio=_exp(middle),
        low=low,
        high=high,
        blocks=len(contrasts),
        verdict=verdict(low, high, margin, tolerance),
        smallest_detectable=detectable,
    )


def excludes(contrasts: Sequence[float], detect: float) -> bool:
    """Return whether an effect of this size is so unlikely that no further block is worth it.

    This is for futility alone: to end early by it raises no false alarm, and costs power. An
    effect of that size could show so little in these blocks, or in these builds, with a probability
    of ``EXCLUDED``.

    Args:
        contrasts: log ratios per block; those after the last interim analysis do not count.
        detect: relative difference that is of interest; 0 excludes nothing.
    """
    from scipy.special import ndtri, stdtrit

    reached = [blocks for blocks in LONG_ANALYSES if blocks <= len(contrasts)]
    if not reached or detect <= 0:
        return False
    centre = trimmed_centre(contrasts[: reached[-1]])
    in_blocks = -float(stdtrit(centre.freedom, EXCLUDED)) * centre.error
    in_builds = -float(ndtri(EXCLUDED)) * math.sqrt(2) * BUILD_SD
    return abs(centre.mean) + math.hypot(in_blocks, in_builds) < math.log1p(detect)


def _interval(contrasts: Sequence[float], level: float) -> tuple[float, float, float, float]:
    """Return the centre (log), the bounds (ratios), and the smallest detectable ratio."""
    centre = trimmed_centre(contrasts)
    if centre.error == 0:
        return centre.mean, *_counted(sorted(contrasts), level)
    boundary, needed = _errors(centre.freedom, level)
    reach = boundary * centre.error
    bounds = _exp(centre.mean - reach), _exp(centre.mean + reach)
    return centre.mean, *bounds, _exp(needed * centre.error)


def _counted(ordered: Sequence[float], level: float) -> tuple[float, float, float]:
    """Return bounds of the median (ratios) and the smallest ratio that leaves them; no t is used.

    As many blocks on one side of the median are less likely than ``level``; none where even all
    of them would not be.

    Source: Conover, Practical Nonparametric Statistics, 3.2: the interval of a quantile.
    """
    count = len(ordered)
    place = next(heads for heads in range(count + 1) if _at_most(heads, count) >= level / 2)
    if place == 0:
        return 0.0, math.inf, math.inf
    low, high = ordered[place - 1], ordered[-place]
    return _exp(low), _exp(high), _exp(high - low)


def _exp(value: float) -> float:
    """Return the ratio of a logarithm, infinite where a float is too small for it."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=256)
def _errors(freedom: int, level: float) -> tuple[float, float]:
    """Return half the width of an interval, and what is found with POWER, in standard errors.

    The error is an estimate, too: what is found follows the noncentral t.
    """
    from scipy.special import nctdtr, stdtrit

    boundary = -float(stdtrit(freedom, level / 2))
    most = 4 * boundary + 10  # freedom 1, the least there is, needs 2.9 times the boundary
    needed = _root(
        lambda shift: 1 - float(nctdtr(freedom, shift, boundary)) - POWER, 0, most, tolerance=1e-4
    )
    return boundary, needed


def verdict(low: float, high: float, margin: float, tolerance: float = 0.0) -> Verdict:
    """Judge an interval of a ratio, in the order that MEASUREMENT.md fixes."""
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return Verdict.EQUIVALENT
    if low > 1 + tolerance:
        return Verdict.FASTER
    if high < 1 / (1 + tolerance):
        return Verdict.SLOWER
    return Verdict.INCONCLUSIVE
