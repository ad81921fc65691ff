"""How the stacks that were compared had been chosen, in plain English."""

from stackgen.measure.conclusion import Answer, conclusion
from stackgen.render.bars import scale
from stackgen.render.tables import columns, percent, span
from stackgen.values import ExploreReport, Predicted, SearchReport

_MAY_BE = 0.05
"""With a smaller probability to be within the margin of the best, a stack is out of the band."""
_ROWS = 20
"""More stacks than these are counted, not listed."""


def search_text(report: ExploreReport) -> list[str]:
    """Return what a search believes of every stack, and what it took; nothing without one."""
    search = report.search
    if search is None:
        return []
    margin = percent(search.margin)
    lines = [
        f"Searched ({search.strategy}): {_count(search.blocks, 'block')}, "
        f"{_count(search.inspections, 'inspection')}, {span(search.machine_s)} of machine time;",
        f"the comparison above took {search.compared:,} more, {span(search.compared_s)}.",
        *_found(report, search),
        "To be as sure with every stack in every block takes about "
        f"{search.uniform_inspections:,} inspections, {span(search.uniform_s)}.",
        *_table(search),
        f"  ~ = may be within {margin} of the best; these are beliefs (with 95 % probability each)",
        "  that choose what is compared, no results",
        *_calibration(search),
    ]
    return [*lines, ""]


def _found(report: ExploreReport, search: SearchReport) -> list[str]:
    """Return what the search was sure of; a comparison in fresh blocks overrules it."""
    sure = f"It ended {percent(search.confidence)} sure"
    if search.confidence < search.wanted:
        sure += f" ({percent(search.wanted)} was wanted)"
    lines = [
        f"{sure} that {search.leader_label} is within {percent(search.margin)} of the best of the "
        f"{len(search.predictions)} that took part.",
    ]
    answered = conclusion(report).answer in (Answer.FASTER, Answer.NOTHING_FASTER)
    leader = next((row for row in report.ranking if row.stack_id == search.leader), None)
    if answered and leader is not None and leader.counts and not leader.best:
        lines.append("The comparison shows that another one is faster: that is what counts.")
    return lines


def _table(search: SearchReport) -> list[str]:
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


def _calibration(search: SearchReport) -> list[str]:
    inside, total = search.foretold
    if not total:
        return []
    return [f"  {inside} of {total} times lay within the intervals predicted for 90 % of them"]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
