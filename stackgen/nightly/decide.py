"""From what two campaigns measured to what is a finding; no clock, no disk.

A release is compared with its predecessor on several indicators, and on import time and import
memory. The first campaign only screens: Holm's procedure keeps the chance that it flags anything
without a cause at ALPHA. What it flags is measured by a second campaign with environments that
were built anew, and, where that one alone does not decide, by a third one with other builds. A
difference is confirmed by the second, or by both together, at CONFIRM_ALPHA / 2 each, in the
direction that was flagged. Nominally, that is one false alarm in 4,000 releases. Two builds of one
stack differ a little for good: differences up to ``TOLERANCE`` are none, or each build would be a
finding of its own (ADR 30).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from stackgen.measure import effect, sequential_p
from stackgen.measure.effects import BUILD_SD, LONG_ANALYSES, excludes
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.findings import FindingKind
from stackgen.model.identity import IndicatorId, StackId

ALPHA = 0.1
"""How often the first campaign of a release may flag anything, where nothing differs."""
CONFIRM_ALPHA = 0.0025
"""Of the second campaign, and of the second and third together, for each difference; half of it in
the direction that was flagged."""
HOLDS_ALPHA = 0.05
"""The same where a finding is measured again: whether it persists, or was fixed."""
NEAR = 0.2
"""A third campaign is worth its time from this p-value of the second one on."""
DISK_TOLERANCE = 0.10
_DEVIATES = 1.96
_BOTH_STAGES = 1.96 / 1.645
"""A campaign may miss 2.5 % where it and those that confirm may miss 5 % together."""


class ComparedQuantity(str, Enum):
    """What is compared."""

    TIME = "time"
    IMPORT = "import time"
    MEMORY = "import memory"


TOLERANCE = {
    ComparedQuantity.TIME: 0.01,
    ComparedQuantity.IMPORT: 0.10,
    ComparedQuantity.MEMORY: 0.05,
}
"""Relative differences that are no findings: more than two builds of one stack differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity of one indicator, compared in blocks.

    measure: the label of the indicator, or of the quantity.
    contrasts: log(old / new) per block, in block order; above 0 the new stack needs less.
    """

    quantity: ComparedQuantity
    measure: str
    contrasts: tuple[float, ...]


class FailureStep(str, Enum):
    """Where a stack fails."""

    RESOLVE = "resolve"
    BUILD = "build"
    IMPORT = "import"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """That a stack does not work.

    is_new: whether it is the new one. step: None where the machine or the network is to blame, and
    another try may work.
    """

    is_new: bool
    step: FailureStep | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """What one campaign says of two stacks.

    series: compared quantities. different: indicators with another result, each with how.
    old_bytes, new_bytes: installed sizes; None where one is not known.
    complete: whether it is all that this campaign will say, or enough of it.
    missing: what an answer still takes, in words; "" where it is complete.
    interrupted: whether the user ended it.
    seconds: wall time. waited_s: of it, for other measurements on this machine.
    """

    series: tuple[Series, ...] = ()
    different: tuple[tuple[str, str], ...] = ()
    failures: tuple[Failure, ...] = ()
    old_bytes: int | None = None
    new_bytes: int | None = None
    complete: bool = True
    missing: str = ""
    controls_failed: bool = False
    interrupted: bool = False
    blocks: int = 0
    seconds: float = 0.0
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A difference between two stacks: flagged by a campaign, a finding once it is confirmed."""

    kind: FindingKind
    measure: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    detail: str = ""

    @property
    def key(self) -> tuple[FindingKind, str]:
        """Return what a second campaign has to show again."""
        return self.kind, self.measure

    def shown_by(self, measured: "PairResult") -> "tuple[float, Signal] | None":
        """Return the two-sided p-value of its series, and the estimate; None in another direction.

        Also None within the tolerance, where nothing is shown.
        """
        series = next((e for e in measured.series if e.measure == self.measure), None)
        p = 1.0 if series is None else _p_value(series)
        if series is None or p >= 1.0:
            return None
        found = _signal(series, CONFIRM_ALPHA)
        return (p, found) if found is not None and found.key == self.key else None

    def averaged(self, other: "Signal") -> "Signal":
        """Return it with the mean of both estimates; its interval is wider than need be."""
        return replace(
            self,
            ratio=math.sqrt(self.ratio * other.ratio),
            low=math.sqrt(self.low * other.low),
            high=math.sqrt(self.high * other.high),
        )


def campaign_alpha(indicators: int, share: float | None = None) -> float:
    """Return the alpha of a campaign's own analyses, so that it stops when a night can decide.

    A ranking divides it by the number of indicators, and by one more where there are several.

    Args:
        indicators: that are compared.
        share: of one comparison; None: that of Holm's first step in a first campaign.
    """
    share = ALPHA / (indicators + len(ComparedQuantity) - 1) if share is None else share
    return share * (indicators + 1 if indicators > 1 else 1)


def flagged(measured: PairResult) -> tuple[Signal, ...]:
    """Return what the first campaign of a release shows, by Holm's procedure at ALPHA.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    broken = [_broken(each) for each in measured.failures if each.is_new and each.step]
    if broken:
        return tuple(broken[:1])
    found: list[Signal] = []
    tested = sorted((_p_value(each), n) for n, each in enumerate(measured.series))
    for rank, (p, place) in enumerate(tested):
        if p > ALPHA / (len(tested) - rank):
            break
        signal = _signal(measured.series[place], ALPHA / (len(tested) - rank))
        found += [signal] if signal is not None else []
    return (*([] if measured.controls_failed else found), *_exact(measured))


def confirmed(
    signals: Iterable[Signal], *campaigns: PairResult, alpha: float = CONFIRM_ALPHA
) -> tuple[Signal, ...]:
    """Return the signals that independent campaigns show, too, with their estimates.

    Args:
        signals: what was flagged.
        campaigns: one, or two of which the first alone did not confirm all of them.
        alpha: two-sided, of the first campaign and of both together.
    """
    if any(each.controls_failed for each in campaigns[1:]):
        campaigns = campaigns[:1]
    second = campaigns[0]
    broken = {
        _broken(each).key: _broken(each) for each in second.failures if each.is_new and each.step
    }
    again = {each.key: each for each in _exact(second)} | broken
    if not second.controls_failed and not broken:
        for signal in signals:
            shown = [each for each in map(signal.shown_by, campaigns) if each is not None]
            if shown and shown[0][0] <= alpha:
                again[signal.key] = shown[0][1]
            elif len(shown) == len(campaigns) > 1 and _combined(*(p for p, _ in shown)) <= alpha:
                again[signal.key] = shown[0][1].averaged(shown[1][1])
    return tuple(again[each.key] for each in signals if each.key in again)


def needs_third(signals: Iterable[Signal], second: PairResult) -> bool:
    """Return whether a third campaign may yet confirm what the second one alone did not."""
    if second.controls_failed or not second.complete or second.failures:
        return False
    open_ = {each.key for each in signals} - {each.key for each in confirmed(signals, second)}
    shown = [each.shown_by(second) for each in signals if each.key in open_]
    return any(each is not None and each[0] <= NEAR for each in shown)


def _combined(*p_values: float) -> float:
    """Return the p-value of independent ones together, two-sided ones in the same direction.

    Source: Stouffer et al. (1949), The American soldier: the sum of normal deviates.
    """
    from scipy.special import ndtr, ndtri

    deviates = [-float(ndtri(each / 2)) for each in p_values]
    return 2 * float(ndtr(-sum(deviates) / math.sqrt(len(deviates))))


def holds(signal: Signal, measured: PairResult) -> bool | None:
    """Return whether a campaign shows a signal; None where it does not say."""
    if confirmed([signal], measured, alpha=HOLDS_ALPHA):
        return True
    return None if not measured.complete or measured.controls_failed else False


def fixed(signal: Signal, measured: PairResult) -> bool:
    """Return whether a newer stack, compared with the good one, no longer has a difference.

    Speed and memory: its interval excludes even half of the loss (on the log scale).
    """
    if not measured.complete or measured.controls_failed or measured.failures:
        return False
    if signal.kind in (FindingKind.BROKEN, FindingKind.DIFFERENT) or signal.measure == "disk":
        return measured.blocks > 0 and signal.key not in {each.key for each in _exact(measured)}
    series = next((e for e in measured.series if e.measure == signal.measure), None)
    if series is None:
        return False
    return _effect(series, HOLDS_ALPHA).low > math.sqrt(signal.ratio or 1.0)


def smallest_detectable(measured: PairResult, detect: float) -> float:
    """Return the smallest ratio above 1 that each indicator would have been reported for.

    detect: at which the campaign may have ended early: it went on unless that was excluded.
    """
    alpha = ALPHA / max(1, len(measured.series))
    times = [each for each in measured.series if each.quantity is ComparedQuantity.TIME]
    return max((_least(each, alpha, detect) for each in times), default=math.inf)


def _least(series: Series, alpha: float, detect: float) -> float:
    found = _effect(series, alpha)
    least = _detectable(found)
    if not excludes(series.contrasts, detect):
        return least
    # A campaign that ended early would have gone on to all blocks, had there been a difference.
    whole = _detectable(found, shrinks=math.sqrt(found.blocks / LONG_ANALYSES[-1]))
    return min(least, max(whole, 1 + detect))


def _detectable(found: Effect, shrinks: float = 1.0) -> float:
    """Return the ratio from which on a night reports it in 95 of 100, by one campaign's spread.

    What its blocks would have shown knows nothing of the offsets of builds and days, and half of
    what may be missed is left to the campaigns that confirm. ``shrinks``: by which factor further
    blocks make the error of these smaller.
    """
    if not 0 < found.low <= found.ratio <= found.high < math.inf:
        return math.inf
    boundary = shrinks * math.log(found.high / found.ratio)
    beyond = max(0.0, shrinks * math.log(found.smallest_detectable) - boundary)
    missed = math.hypot(_BOTH_STAGES * beyond, _DEVIATES * math.sqrt(2) * BUILD_SD)
    return math.exp(boundary + missed) * (1 + TOLERANCE[ComparedQuantity.TIME])


def is_settled(measured: PairResult, *, detect: float, alpha: float | None = None) -> bool:
    """Return whether more blocks would add nothing that counts.

    Each indicator has its answer, has the most blocks ever taken, or excludes ``detect``.

    Args:
        measured: so far.
        detect: the relative difference that is of interest; 0: none is excluded.
        alpha: of each comparison; None: that of Holm's first step in a first campaign.
    """
    alpha = ALPHA / max(1, len(measured.series)) if alpha is None else alpha
    times = [each for each in measured.series if each.quantity is ComparedQuantity.TIME]
    return bool(times) and all(
        len(each.contrasts) >= LONG_ANALYSES[-1]
        or excludes(each.contrasts, detect)
        or _effect(each, alpha).verdict is not Verdict.INCONCLUSIVE
        for each in times
    )


def _p_value(series: Series) -> float:
    return sequential_p(
        series.contrasts, tolerance=TOLERANCE[series.quantity], analyses=LONG_ANALYSES
    )


def _effect(series: Series, alpha: float) -> Effect:
    nothing = StackId("")
    if not series.contrasts:
        return Effect(
            a=nothing, b=nothing, indicator_id=IndicatorId(""), ratio=1.0, low=0.0, high=math.inf,
            blocks=0, verdict=Verdict.INCONCLUSIVE, smallest_detectable=math.inf,
        )  # fmt: skip
    return effect(
        a=nothing,
        b=nothing,
        indicator_id=IndicatorId(series.measure),
        contrasts=series.contrasts,
        alpha=alpha,
        tolerance=TOLERANCE[series.quantity],
        analyses=LONG_ANALYSES,
    )


def _signal(series: Series, alpha: float) -> Signal | None:
    """Return the signal of a series that shows a difference; less memory is none."""
    found = _effect(series, alpha)
    is_better = found.ratio > 1
    kind = FindingKind.FASTER if is_better else FindingKind.SLOWER
    if series.quantity is not ComparedQuantity.TIME:
        if is_better:
            return None
        kind = FindingKind.LARGER
    return Signal(
        kind=kind, measure=series.measure, ratio=found.ratio, low=found.low, high=found.high
    )


def _exact(measured: PairResult) -> Sequence[Signal]:
    """Return what needs no statistics: other results, and more disk space."""
    found = [
        Signal(kind=FindingKind.DIFFERENT, measure=measure, detail=detail)
        for measure, detail in measured.different
    ]
    old, new = measured.old_bytes, measured.new_bytes
    if old and new and new > (1 + DISK_TOLERANCE) * old:
        detail = f"{new / 1e6:.1f} MB instead of {old / 1e6:.1f} MB"
        ratio = old / new
        found.append(
            Signal(
                kind=FindingKind.LARGER, measure="disk", ratio=ratio, low=ratio, high=ratio,
                detail=detail,
            )
        )  # fmt: skip
    return found


def _broken(failure: Failure) -> Signal:
    step = failure.step or FailureStep.CRASH
    return Signal(kind=FindingKind.BROKEN, measure=step.value, detail=failure.reason)
