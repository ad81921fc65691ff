"""From what two campaigns measured to what is a finding; no clock, no disk.

A release is compared with its predecessor on several indicators, and on import time and import
memory. Holm's procedure keeps the chance of any false alarm of the first campaign at ALPHA. What
it flags is measured by a second campaign with environments that were built anew: there, each
difference has to show in the same direction at CONFIRM_ALPHA / 2. Nominally, that is one false
alarm in 4,000 releases. Two builds of one stack differ a little for good: differences up to
``TOLERANCE`` are none, or each build would be a finding of its own (ADR 30).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from stackgen.measure import INTERIM_ANALYSES, effect, sequential_p
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.findings import FindingKind
from stackgen.model.identity import IndicatorId, StackId

ALPHA = 0.01
"""False alarms that the first campaign of a release may raise, over all that is compared."""
CONFIRM_ALPHA = 0.05
"""Of the second one, for each difference; half of it in the direction that was flagged."""
DISK_TOLERANCE = 0.10


class Quantity(str, Enum):
    """What is compared."""

    TIME = "time"
    IMPORT = "import time"
    MEMORY = "import memory"


TOLERANCE = {Quantity.TIME: 0.01, Quantity.IMPORT: 0.10, Quantity.MEMORY: 0.05}
"""Relative differences that are no findings: more than two builds of one stack differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity of one indicator, compared in blocks.

    measure: the label of the indicator, or of the quantity.
    contrasts: log(old / new) per block, in block order; above 0 the new stack needs less.
    """

    quantity: Quantity
    measure: str
    contrasts: tuple[float, ...]


class Step(str, Enum):
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
    step: Step | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
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


def campaign_alpha(indicators: int, *, confirming: bool = False) -> float:
    """Return the alpha of a campaign's own analyses, so that it stops when a night can decide.

    A ranking divides it by the number of indicators, and by one more where there are several.
    """
    share = CONFIRM_ALPHA if confirming else ALPHA / (indicators + len(Quantity) - 1)
    return share * (indicators + 1 if indicators > 1 else 1)


def flagged(measured: Measured) -> tuple[Signal, ...]:
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
        found += _signals(measured.series[place], ALPHA / (len(tested) - rank))
    return (*([] if measured.controls_failed else found), *_exact(measured))


def confirmed(signals: Iterable[Signal], second: Measured) -> tuple[Signal, ...]:
    """Return the signals that an independent campaign shows, too, with its estimates."""
    broken = {
        _broken(each).key: _broken(each) for each in second.failures if each.is_new and each.step
    }
    again = {each.key: each for each in _exact(second)} | broken
    if not second.controls_failed and not broken:
        for series in second.series:
            if _p_value(series) <= CONFIRM_ALPHA:
                again |= {each.key: each for each in _signals(series, CONFIRM_ALPHA)}
    return tuple(again[each.key] for each in signals if each.key in again)


def holds(signal: Signal, measured: Measured) -> bool | None:
    """Return whether a campaign shows a signal; None where it does not say."""
    if confirmed([signal], measured):
        return True
    return None if not measured.complete or measured.controls_failed else False


def fixed(signal: Signal, measured: Measured) -> bool:
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
    return _effect(series, CONFIRM_ALPHA).low > math.sqrt(signal.ratio or 1.0)


def smallest_detectable(measured: Measured) -> float:
    """Return the smallest ratio above 1 that each indicator would have shown."""
    alpha = ALPHA / max(1, len(measured.series))
    times = [each for each in measured.series if each.quantity is Quantity.TIME]
    found = [_effect(each, alpha).smallest_detectable for each in times]
    return max(found, default=math.inf) * (1 + TOLERANCE[Quantity.TIME])


def is_settled(measured: Measured, *, detect: float) -> bool:
    """Return whether more blocks would add nothing that counts.

    Each indicator has its answer, has the most blocks ever taken, or would have shown ``detect``.
    """
    alpha = ALPHA / max(1, len(measured.series))
    effects = [_effect(e, alpha) for e in measured.series if e.quantity is Quantity.TIME]
    enough = (1 + detect) / (1 + TOLERANCE[Quantity.TIME])
    return bool(effects) and all(
        each.verdict is not Verdict.INCONCLUSIVE
        or each.blocks >= INTERIM_ANALYSES[-1]
        or each.smallest_detectable <= enough
        for each in effects
    )


def _p_value(series: Series) -> float:
    return sequential_p(series.contrasts, tolerance=TOLERANCE[series.quantity])


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
    )


def _signals(series: Series, alpha: float) -> Sequence[Signal]:
    """Return the signal of a series that shows a difference; less memory is none."""
    found = _effect(series, alpha)
    is_better = found.ratio > 1
    if series.quantity is not Quantity.TIME and is_better:
        return ()
    kind = FindingKind.FASTER if is_better else FindingKind.SLOWER
    if series.quantity is not Quantity.TIME:
        kind = FindingKind.LARGER
    return (
        Signal(
            kind=kind, measure=series.measure, ratio=found.ratio, low=found.low, high=found.high
        ),
    )


def _exact(measured: Measured) -> Sequence[Signal]:
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
    step = failure.step or Step.CRASH
    return Signal(kind=FindingKind.BROKEN, measure=step.value, detail=failure.reason)
