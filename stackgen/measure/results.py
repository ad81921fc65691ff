"""Whether stacks compute the same: what runs faster and computes something else is no answer."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stackgen.measure.disturbances import number
from stackgen.model.evidence import Deviation, Difference
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Observation
from stackgen.model.reports.campaigns import PeakMemory

TOLERANCE = 1e-4
"""How far checksums may be apart, as a ratio, where an observation does not say it."""
_TOLERANCE, _FILE, _TEXT = "checksum_tolerance", "check", "check_text"  # circumstances


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one inspection computed.

    checksum: of the numbers, or None.
    file: digest of the file that a program writes; "" where none is compared.
    text: digest of that file without its numbers.
    """

    checksum: float | None
    file: str = ""
    text: str = ""

    @property
    def is_comparable(self) -> bool:
        """Return whether there is anything to compare."""
        return self.checksum is not None or bool(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """What runs of one stack computed on one indicator.

    counts: each result, and how often it came. tolerance: the widest on record; None of none.
    """

    counts: tuple[tuple[Result, int], ...] = ()
    tolerance: float | None = None

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> "Computed":
        """Return what observations hold; those without a result are left out."""
        counts: dict[Result, int] = {}
        tolerances = []
        for each in observations:
            found = result_of(each)
            if found.is_comparable:
                counts[found] = counts.get(found, 0) + 1
                tolerances.append(number(dict(each.circumstances), _TOLERANCE))
        known = [each for each in tolerances if each is not None]
        return cls(counts=tuple(counts.items()), tolerance=max(known, default=None))

    def __or__(self, other: "Computed") -> "Computed":
        """Return what both computed."""
        counts = dict(self.counts)
        for result, count in other.counts:
            counts[result] = counts.get(result, 0) + count
        known = [each for each in (self.tolerance, other.tolerance) if each is not None]
        return Computed(counts=tuple(counts.items()), tolerance=max(known, default=None))

    def __bool__(self) -> bool:
        """Return whether there is any result."""
        return bool(self.counts)

    @property
    def allowed(self) -> float:
        """Return how far results may be apart."""
        return TOLERANCE if self.tolerance is None else self.tolerance

    @property
    def median(self) -> Result:
        """Return the middle result, the same one in whatever order they came."""
        if len(self.counts) == 1:
            return self.counts[0][0]
        ordered = sorted(
            self.counts,
            key=lambda each: (
                each[0].text,
                each[0].checksum is None,
                each[0].checksum or 0.0,
                each[0].file,
            ),
        )
        left = (sum(count for _, count in ordered) - 1) // 2
        for result, count in ordered:
            if left < count:
                return result
            left -= count
        raise ValueError("nothing was computed")


NOTHING = Computed()
Seen = Mapping[tuple[IndicatorId, StackId], Computed]


def distance(one: Result, other: Result) -> float:
    """Return how far two results are apart, as a ratio of the larger one.

    Equal files are 0 apart, and files with another text infinitely far.
    """
    if one.file and one.file == other.file:
        return 0.0
    if one.text != other.text or bool(one.file) != bool(other.file):
        return math.inf
    if one.checksum is None or other.checksum is None:
        return 0.0 if one == other else math.inf
    larger = max(abs(one.checksum), abs(other.checksum))
    return abs(one.checksum / larger - other.checksum / larger) if larger else 0.0


def deviations(
    inspections: Iterable[Inspection],
    *,
    baseline: StackId,
    stacks: Iterable[StackId],
    calls: Sequence[IndicatorCall],
) -> Mapping[StackId, tuple[Deviation, ...]]:
    """Return where stacks do not compute what the baseline computes; by stack, in order of calls.

    Every inspection counts, those outside of blocks, too. Where the baseline itself does not give
    the same twice, only that is reported, and nothing is judged by this indicator.
    """
    return deviations_in(by_place(inspections), baseline=baseline, stacks=stacks, calls=calls)


def deviations_in(
    seen: Seen, *, baseline: StackId, stacks: Iterable[StackId], calls: Sequence[IndicatorCall]
) -> Mapping[StackId, tuple[Deviation, ...]]:
    """Return the same of what each stack computed (``by_place``)."""
    found: dict[StackId, list[Deviation]] = {}
    for indicator in (call.id for call in calls):
        expected = seen.get((indicator, baseline), NOTHING)
        if (own := not_repeatable(expected, indicator)) is not None:
            found.setdefault(baseline, []).append(own)
            continue
        same = expected.counts[0][0] if len(expected.counts) == 1 else None
        for stack in stacks:
            theirs = seen.get((indicator, stack), NOTHING)
            # As of most stacks of a knowledge base; nearly all others computed one value alone.
            if stack == baseline or theirs is expected:
                continue
            if len(theirs.counts) == 1 and theirs.counts[0][0] is same:
                continue
            if (one := deviation(theirs, expected, indicator)) is not None:
                found.setdefault(stack, []).append(one)
    return {stack: tuple(each) for stack, each in found.items()}


def by_place(inspections: Iterable[Inspection]) -> Seen:
    """Return what each stack computed on each indicator, where anything can be compared."""
    found: dict[tuple[IndicatorId, StackId], list[Observation]] = {}
    for each in inspections:
        if each.observation is not None:
            found.setdefault((each.indicator_id, each.stack_id), []).append(each.observation)
    computed = {place: Computed.of(own) for place, own in found.items()}
    return {place: own for place, own in computed.items() if own}


def deviation(theirs: Computed, expected: Computed, indicator: IndicatorId) -> Deviation | None:
    """Return how what was computed differs from what was expected; None where it does not.

    Both are represented by their median. The tolerance is that of the expected ones: a stack that
    is judged has no say in it.
    """
    if not theirs or not expected:
        return None
    tolerance = expected.allowed
    unstable = not_repeatable(theirs, indicator, tolerance=tolerance)
    if unstable is not None:
        return unstable
    own, right = theirs.median, expected.median
    measured = distance(own, right)
    if measured <= tolerance:
        return None
    return Deviation(
        indicator_id=indicator,
        kind=Difference.NUMBERS if math.isfinite(measured) else Difference.TEXT,
        checksum=own.checksum,
        expected=right.checksum,
        difference=measured,
        tolerance=tolerance,
    )


def not_repeatable(
    observed: Computed, indicator: IndicatorId, *, tolerance: float | None = None
) -> Deviation | None:
    """Return how far results of one stack are apart, where that is more than they may be."""
    if not observed:
        return None
    allowed = observed.allowed if tolerance is None else tolerance
    middle = observed.median
    if len(observed.counts) == 1 and distance(middle, middle) <= allowed:
        return None
    farthest = max((each for each, _ in observed.counts), key=lambda r: distance(r, middle))
    measured = distance(farthest, middle)
    if measured <= allowed:
        return None
    return Deviation(
        indicator_id=indicator,
        kind=Difference.NOT_REPEATABLE,
        checksum=farthest.checksum,
        expected=middle.checksum,
        difference=measured,
        tolerance=allowed,
    )


def result_of(observation: Observation) -> Result:
    """Return what an observation says of what was computed."""
    circumstances = dict(observation.circumstances)
    return Result(
        checksum=observation.checksum,
        file=circumstances.get(_FILE, ""),
        text=circumstances.get(_TEXT, ""),
    )


# How much memory indicators need on each stack


def peak_memory(
    inspections: Iterable[Inspection], indicators: Iterable[IndicatorId]
) -> tuple[PeakMemory, ...]:
    """Return the largest peak of each indicator on each stack, where the system reports one."""
    wanted = set(indicators)
    found: dict[tuple[IndicatorId, StackId], int] = {}
    for each in inspections:
        peak = each.observation.peak_memory_bytes if each.observation else None
        if peak is not None and each.indicator_id in wanted:
            key = (each.indicator_id, each.stack_id)
            found[key] = max(peak, found.get(key, 0))
    return tuple(
        PeakMemory(stack_id=stack, indicator_id=indicator, peak_bytes=peak)
        for (indicator, stack), peak in sorted(found.items())
    )
