"""What work costs, and what more CPUs bring for their price, as tables."""

import math
from collections.abc import Mapping, Sequence

from stackgen.render.tables import columns
from stackgen.values import Cost, ExploreReport, Scaled, StackId

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def money_text(report: ExploreReport) -> list[str]:
    """Return both tables, each where it was asked for."""
    labels = {row.stack_id: row.label for row in report.ranking}
    return [*_costs(report, labels), *_scaled(report, labels)]


def _costs(report: ExploreReport, labels: Mapping[StackId, str]) -> list[str]:
    names, lines = dict(report.indicators), []
    for call in dict.fromkeys(each.indicator_id for each in report.costs):
        rows = [each for each in report.costs if each.indicator_id == call]
        price = f"{rows[0].per_hour:g} {report.currency}".strip()
        lines += [
            f"Costs of {names.get(call, call)} at {price} an hour, the cheapest first:",
            *columns([_cost_head(rows[0], report.currency), *(_cost(e, labels) for e in rows)]),
            "",
        ]
    told = "  times are those of the fastest samples: what a busy machine adds to them costs extra"
    return [*lines[:-1], told, ""] if lines else []


def _cost_head(cost: Cost, currency: str) -> tuple[str, ...]:
    what = "samples" if cost.items else "operations"
    return "", "stack", "an operation", f"a million {what}", f"{what} for 1 {currency}".strip()


def _cost(cost: Cost, labels: Mapping[StackId, str]) -> tuple[str, ...]:
    label = labels.get(cost.stack_id, cost.stack_id)
    return "", label, _time(cost.seconds), _number(cost.per_million), _number(cost.per_unit)


def _scaled(report: ExploreReport, labels: Mapping[StackId, str]) -> list[str]:
    if not report.scaled:
        return []
    lines = []
    for indicator in dict.fromkeys(each.indicator for each in report.scaled):
        rows = [each for each in report.scaled if each.indicator == indicator]
        lines += [f"{indicator} on several numbers of CPUs:", *_table(rows, labels)]
    reference = next((row.label for row in report.ranking if row.is_reference), "the reference")
    fewest = min(each.cpus for each in report.scaled)
    notes = [
        f"  {reference} on {_cpus(fewest)} is 1, less is better; all intervals of a table hold"
    ]
    if any(each.cost is not None for each in report.scaled):
        prices = "those above" if report.costs else "in proportion to the number of CPUs"
        notes += [f"  with 95 % confidence; cost is time by price, prices are {prices}"]
    else:
        notes += ["  with 95 % confidence; a figure is no time, and has no cost"]
    return [*lines, *notes, ""]


def _table(scaled: Sequence[Scaled], labels: Mapping[StackId, str]) -> list[str]:
    what = "figure" if all(each.cost is None for each in scaled) else "time"
    rows = [("", "stack", "CPUs", what, "interval", "cost")]
    for each in scaled:
        time, within = f"{each.time:.3f}", f"({each.low:.3f} to {each.high:.3f})"
        cost = "" if each.cost is None else f"{each.cost:.3f}"
        if each.low == each.high:
            within = ""
        elif not math.isfinite(each.high):
            time, within, cost = "", "(too few blocks)", ""
        label = labels.get(each.stack_id, each.stack_id)
        rows.append(("", label, str(each.cpus), time, within, cost))
    return columns(rows)


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"


def _time(seconds: float) -> str:
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def _number(value: float) -> str:
    """Return three digits that count, without an exponent where people would not write one."""
    if not 1e-4 <= value < 1e15:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{round(value, 2 - math.floor(math.log10(value))):,.{digits}f}"
