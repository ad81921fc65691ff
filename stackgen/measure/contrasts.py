"""What one campaign says of one indicator: log ratios to its baseline, with their covariance.

This is the row that knowledge bases derive from inspections and cache, and the only input of the
evidence graph (``stackgen.knowledge.graph``). The contract:

- One row per campaign, indicator, machine and baseline (a campaign has a second baseline only where
  the first one failed). These four identify it. A row is a function of its campaign's inspections
  alone, so it changes only when these change.
- Only comparison blocks count. Blocks of a search are left out (it chose by its times), and so are
  disturbed blocks, the baseline's twin, and blocks that hold the same run twice.
- ``log_ratios[j]`` is log(time of the baseline / time of candidate j): above 0, the candidate is
  faster. It is the trimmed mean of ``stackgen.measure.effects`` over the blocks up to the last
  interim analysis, so that it agrees with the campaign's report. Fewer blocks than the first
  interim analysis give no contrast.
- ``covariance`` is of the log ratios, from the noise between blocks alone. Off its diagonal is what
  candidates share because they share the baseline (and blocks). k candidates are k contrasts, never
  k (k + 1) / 2 independent pairs: that would count the same blocks several times.
- The caller leaves out campaigns whose controls failed, and names stacks that failed in blocks.
- The row does not say which stacks are equivalent, nor on which base a stack is installed: both
  belong to the stack, and reach the graph beside the rows.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, variance

from stackgen.measure.disturbances import BlockKey, exclude_disturbed
from stackgen.measure.effects import INTERIM_ANALYSES, Centre, log_ratio, trimmed_centre, winsorised
from stackgen.measure.ranking import Times, all_times
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import Inspection, Role

LEAST_ERROR = 1e-4
"""Standard errors are never taken to be smaller: clocks and figures have steps."""
_SHARED = 0.5
"""The correlation of two contrasts with one baseline where all arms are equally noisy."""
_LARGEST, _FEWEST = 0.9, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignContrasts:
    """Log ratios of a campaign's candidates to its baseline on one indicator and one machine.

    origins: of the knowledge bases that measured it, sorted; empty where only this one did.
    date: when its first inspection in a block began, ISO 8601 in UTC.
    candidates: k >= 1 stacks, sorted, without the baseline.
    log_ratios: log(time of the baseline / time of the candidate), shape (k,).
    covariance: of the log ratios, shape (k, k), symmetric and positive definite.
    blocks: how many blocks each candidate shares with the baseline, shape (k,).
    freedom: degrees of freedom of the covariance's scale; small ones mean an uncertain scale.
    """

    campaign_id: CampaignId
    indicator_id: IndicatorId
    machine_id: MachineId
    origins: tuple[str, ...]
    date: str
    baseline: StackId
    candidates: tuple[StackId, ...]
    log_ratios: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    blocks: tuple[int, ...]
    freedom: float

    def __post_init__(self) -> None:
        count = len(self.candidates)
        shapes = {len(self.log_ratios), len(self.blocks), len(self.covariance)}
        shapes |= {len(row) for row in self.covariance}
        if count == 0 or shapes != {count}:
            raise ValueError("log ratios, covariance and blocks have one entry per candidate")
        if sorted({*self.candidates, self.baseline} - {self.baseline}) != list(self.candidates):
            raise ValueError("candidates are sorted, each named once, and not the baseline")
        numbers = (*self.log_ratios, *(each for row in self.covariance for each in row))
        if not all(map(math.isfinite, numbers)) or not self.freedom > 0:
            raise ValueError("log ratios, covariances and degrees of freedom are finite numbers")
        if any(self.covariance[place][place] <= 0 for place in range(count)):
            raise ValueError("variances are above 0")

    @property
    def stacks(self) -> tuple[StackId, ...]:
        """Return the baseline and then the candidates: the order of a design's columns."""
        return (self.baseline, *self.candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Trimmed means of several contrasts that share a baseline, with their covariance.

    log_ratios, blocks: shape (k,). covariance: shape (k, k). freedom: of its scale.
    """

    log_ratios: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    blocks: tuple[int, ...]
    freedom: float


def campaign_contrasts(
    inspections: Sequence[Inspection],
    *,
    origins: Iterable[str] = (),
    failed: Collection[StackId] = (),
) -> tuple[CampaignContrasts, ...]:
    """Return what campaigns say: a row per campaign, machine, indicator and baseline, sorted.

    Args:
        inspections: of one campaign or of several with the same origins, calibrations included
            (they show how long samples are, which decides what disturbs a block).
        failed: stacks that failed in blocks (``count_failures``): what is left of their runs is
            what survived, so they give no contrast.
    """
    left_out = exclude_disturbed(inspections).excluded
    groups: dict[tuple[CampaignId, MachineId], list[Inspection]] = {}
    for each in inspections:
        if each.block > 0 and each.role is not Role.SEARCH:
            groups.setdefault((each.campaign_id, each.machine_id), []).append(each)
    return tuple(
        row
        for _, own in sorted(groups.items(), key=lambda item: item[0])
        for row in _rows(own, tuple(sorted(set(origins))), failed, left_out)
    )


def _rows(
    inspections: Sequence[Inspection],
    origins: tuple[str, ...],
    failed: Collection[StackId],
    excluded: Collection[BlockKey],
) -> Iterable[CampaignContrasts]:
    """Yield the rows of one campaign on one machine, by indicator and by baseline."""
    baselines = sorted(
        {
            (each.indicator_id, each.stack_id)
            for each in inspections
            if each.role is Role.BASELINE and each.stack_id not in failed
        }
    )
    series = all_times(inspections, excluded)
    lead = {
        (each.indicator_id, each.stack_id, each.campaign_id, each.block)
        for each in inspections
        if each.role is Role.BASELINE
    }
    date = min(each.started_at for each in inspections)
    for indicator, baseline in baselines:
        # Where another stack took the place of a baseline, it was a candidate before.
        own = {
            block: seconds
            for block, seconds in series.get((indicator, baseline, False), {}).items()
            if (indicator, baseline, *block) in lead
        }
        found = {
            stack: _shared(own, times)
            for (what, stack, twin), times in sorted(series.items())
            if what == indicator and not twin and stack != baseline and stack not in failed
        }
        found = {stack: each for stack, each in found.items() if each}
        if not found:
            continue
        result = estimates(list(found.values()))
        yield CampaignContrasts(
            campaign_id=inspections[0].campaign_id,
            indicator_id=indicator,
            machine_id=inspections[0].machine_id,
            origins=origins,
            date=date,
            baseline=baseline,
            candidates=tuple(found),
            log_ratios=result.log_ratios,
            covariance=result.covariance,
            blocks=result.blocks,
            freedom=result.freedom,
        )


def _shared(baseline: Times, candidate: Times) -> Times:
    """Return log ratios by block, up to the last interim analysis that they reach."""
    blocks = sorted(baseline.keys() & candidate.keys())
    reached = max((n for n in INTERIM_ANALYSES if n <= len(blocks)), default=0)
    return {block: log_ratio(baseline[block], candidate[block]) for block in blocks[:reached]}


def estimates(contrasts: Sequence[Mapping[BlockKey, float]]) -> Estimates:
    """Return the trimmed mean of each contrast, and the covariance of these means.

    Few blocks leave a variance uncertain, and a campaign stops early where it happens to be small.
    So each is drawn half way to the mean over the campaign's contrasts, which have the machine and
    the indicator in common; that many more degrees of freedom has the result.

    Args:
        contrasts: of each candidate, log ratio to the shared baseline by block, two blocks or more.
    """
    centres = [trimmed_centre(list(each.values())) for each in contrasts]
    count = len(centres)
    errors = [_error(each, list(c.values())) for each, c in zip(centres, contrasts, strict=True)]
    # Per block, so that candidates that share fewer blocks can be pooled with the others.
    each_block = [len(c) * error**2 for c, error in zip(contrasts, errors, strict=True)]
    drawn = [(own + fmean(each_block)) / 2 for own in each_block]
    correlation = _correlation(contrasts)
    covariance = [
        [
            (correlation if j != k else 1.0)
            * math.sqrt(drawn[j] * drawn[k])
            * _shared_blocks(contrasts[j], contrasts[k])
            for k in range(count)
        ]
        for j in range(count)
    ]
    # Variances of contrasts with one baseline have the squared correlation in common.
    alike = (1 + (count - 1) * _SHARED**2) / count
    return Estimates(
        log_ratios=tuple(each.mean for each in centres),
        covariance=tuple(map(tuple, covariance)),
        blocks=tuple(len(each) for each in contrasts),
        freedom=min(each.freedom for each in centres) * 4 / (1 + 3 * alike),
    )


def _error(centre: Centre, values: Sequence[float]) -> float:
    """Return the standard error of a trimmed mean; of the mean where what is kept has no spread."""
    error = centre.error or math.sqrt(variance(values) / len(values))
    return max(LEAST_ERROR, error)


def _shared_blocks(one: Mapping[BlockKey, float], other: Mapping[BlockKey, float]) -> float:
    """Return the share of the noise per block that two means have in common."""
    return len(one.keys() & other.keys()) / (len(one) * len(other))


def _correlation(contrasts: Sequence[Mapping[BlockKey, float]]) -> float:
    """Return the correlation of two contrasts in one block, the mean over all pairs of them.

    It comes from the noise of the shared baseline, and is drawn half way to what it is of equally
    noisy arms. One correlation of all pairs keeps the covariance positive definite.
    """
    clipped = [dict(zip(each, winsorised(list(each.values())), strict=True)) for each in contrasts]
    pairs = combinations(clipped, 2)
    every = [_pearson([(a[b], c[b]) for b in a.keys() & c.keys()]) for a, c in pairs]
    found = [each for each in every if each is not None]
    return min(_LARGEST, max(0.0, (fmean(found) + _SHARED) / 2)) if found else _SHARED


def _pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the correlation of pairs of values; None of fewer than three, or without spread."""
    if len(pairs) < _FEWEST:
        return None
    middle = fmean(x for x, _ in pairs), fmean(y for _, y in pairs)
    moved = [(x - middle[0], y - middle[1]) for x, y in pairs]
    squares = math.fsum(x * x for x, _ in moved) * math.fsum(y * y for _, y in moved)
    return math.fsum(x * y for x, y in moved) / math.sqrt(squares) if squares > 0 else None
