"""How the stacks that were compared had been chosen, in plain English."""

from stackgen.render.bars import scale
from stackgen.render.tables import columns, span
from stackgen.values import Predicted, Search

_MAY_BE = 0.05
"""With a smaller probability to be within the margin of the best, a stack is out of the band."""
_ROWS = 20
"""More stacks than these are counted, not listed."""


def search_text(search: Search | None) -> list[str]:
    """Return what a search believes of every stack, and what it took; nothing without one."""
    if search is None:
        return []
    margin = _percent(search.margin)
    sure = (
        f"{_percent(search.confidence)} sure: {search.leader_label} is within {margin} of the best"
    )
    if search.confidence < search.wanted:
        sure += f" ({_percent(search.wanted)} was wanted)"
    lines = [
        f"Searched ({search.strategy}): {_count(search.blocks, 'block')}, "
        f"{_count(search.inspections, 'inspection')}, {span(search.machine_s)} of machine time;",
        f"{sure}.",
        "To be as sure with every stack in every block takes about "
        f"{search.uniform_inspections:,} inspections, {span(search.uniform_s)}.",
        *_table(search),
        f"  ~ = may be within {margin} of the best; these are beliefs (with 95 % probability each)",
        "  that choose what is compared, no results",
        *_calibration(search),
    ]
    return [*lines, ""]


def _table(search: Search) -> list[str]:
    shown = search.predictions[:_ROWS]
    bars = scale((each.low, each.ratio, each.high) for each in shown)
    heading = bars.heading() if bars else ""
    rows = [("", "stack", "speed", "believed", heading, "")]
    for each in shown:
        bar = bars.bar(each.low, each.ratio, each.high) if bars else ""
        mark = "~" if each.within >= _MAY_BE else ""
        interval = f"({each.low:.3f} to {each.high:.3f})"
        rows.append((mark, each.label, f"{each.ratio:.3f}", interval, bar, _measured(each)))
    lines = columns(rows)
    if len(search.predictions) > _ROWS:
        lines.append(f"  and {len(search.predictions) - _ROWS} more, all believed to be slower")
    return lines


def _measured(each: Predicted) -> str:
    return f"in {_count(each.measured, 'block')}" if each.measured else "predicted, not measured"


def _calibration(search: Search) -> list[str]:
    inside, total = search.foretold
    if not total:
        return []
    return [f"  {inside} of {total} times lay within the intervals predicted for 90 % of them"]


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
