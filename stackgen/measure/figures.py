"""Summary of one call: times, rates, latencies. Comparing is done elsewhere."""

import math
import statistics
from collections.abc import Sequence

from stackgen.model.inspections import Observation
from stackgen.model.reports.local import Figures

_ITEMS, _DEVICE_MEMORY, _FIGURE = "items", "device_memory_bytes", "figure"
_GPU_USE = "gpu utilization.gpu after"  # in percent, as the driver says right after the samples
# Facts of an operation that belong to its result; the harness records them among the
# circumstances.
_FACTS = ("parameters", "macs", "flops")


def figures(observations: Sequence[Observation]) -> Figures | None:
    """Return what several processes of one call say together; None where there is none.

    Each time is the median over the processes: a process's own samples depend on each other, so
    pooling them would make a slow process count as many (MEASUREMENT.md). Where each process has
    but one (an import), they are the samples.
    """
    if not observations:
        return None
    circumstances = dict(observations[0].circumstances)
    groups = _groups(observations)
    medians = [statistics.median(each.values_s) for each in observations]
    median = statistics.median(medians)
    work, items = observations[0].work, whole(circumstances.get(_ITEMS))
    if circumstances.get(_FIGURE):  # it is no time, so nothing is done per second of it
        work = items = None
    return Figures(
        processes=len(observations),
        samples=min(len(each.values_s) for each in observations),
        loops=max(each.loops for each in observations),
        best_s=_middle([min(each) for each in groups]),
        mean_s=_middle([statistics.fmean(each) for each in groups]),
        std_s=_middle([_std(each) for each in groups]),
        median_s=median,
        p90_s=_middle([quantile(each, 0.9) for each in groups]),
        p99_s=_middle([quantile(each, 0.99) for each in groups]),
        spread=(max(medians) - min(medians)) / median if len(medians) > 1 else None,
        rate=work / median if work else None,
        items=items,
        items_per_s=items / median if items else None,
        peak_memory_bytes=_most([each.peak_memory_bytes for each in observations]),
        device_memory_bytes=_most(
            [whole(dict(each.circumstances).get(_DEVICE_MEMORY)) for each in observations]
        ),
        gpu_percent=_most([whole(dict(each.circumstances).get(_GPU_USE)) for each in observations]),
        steady=all(each.steady for each in observations),
        facts=tuple(
            (name, circumstances[name]) for name in sorted(_FACTS) if name in circumstances
        ),
        figure=circumstances.get(_FIGURE, ""),
    )


def _groups(observations: Sequence[Observation]) -> list[tuple[float, ...]]:
    """Return the samples of each process; where each has but one, those of all together."""
    if all(len(each.values_s) == 1 for each in observations):
        return [tuple(each.values_s[0] for each in observations)]
    return [each.values_s for each in observations]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of them lies, between two of them linearly.

    Args:
        values: at least one.
        share: from 0 to 1.
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def whole(text: str | None) -> int | None:
    """Return the whole number of a circumstance, or None."""
    try:
        return int(float(text)) if text else None
    except (ValueError, OverflowError):
        return None


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def _std(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _most(values: Sequence[int | None]) -> int | None:
    return max((each for each in values if each is not None), default=None)
