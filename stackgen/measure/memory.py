"""How much memory indicators need on each stack."""

from collections.abc import Iterable

from stackgen.values import IndicatorId, Inspection, StackId
from stackgen.values.reports import PeakMemory


def peak_memory(
    inspections: Iterable[Inspection], indicators: Iterable[IndicatorId]
) -> tuple[PeakMemory, ...]:
    """Return the largest peak of each indicator on each stack, where the system told one."""
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
