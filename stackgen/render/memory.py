"""The memory that stacks need, where it tells them apart."""

from stackgen.render.tables import columns
from stackgen.values import ExploreReport

_TOLD_FROM = 1.05  # less is what allocators and loaders differ by from run to run


def memory_text(report: ExploreReport) -> list[str]:
    """Return the peak memory of each indicator whose stacks differ in it, the least first."""
    labels = {row.stack_id: row.label for row in report.ranking}
    lines: list[str] = []
    for indicator, name in report.indicators:
        peaks = sorted(
            (each.peak_bytes, labels[each.stack_id])
            for each in report.memory
            if each.indicator_id == indicator and each.stack_id in labels
        )
        if len(peaks) > 1 and peaks[-1][0] > _TOLD_FROM * peaks[0][0]:
            lines += [f"Peak memory of {name}:"]
            lines += columns([("", label, f"{peak / 1e6:,.0f} MB") for peak, label in peaks])
    return [*lines, ""] if lines else []
