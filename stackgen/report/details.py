"""Details of a campaign's report: search, results, disturbed blocks, memory, cost."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from stackgen.measure.ranking import RankingAnswer, conclusion
from stackgen.model.evidence import Deviation, Difference, Ranked
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.reports.campaigns import (
    Cost,
    CpuScaling,
    ExploreReport,
    SearchReport,
)
from stackgen.report.tables import columns, counted, percent, scale, section, span

# How the stacks that were compared had been chosen, in plain English

_MAY_BE = 0.05
"""With a smaller probability to be within the margin of the best, a stack is out of the band."""
_ROWS = 20
"""More stacks than these are counted, not listed."""


def search_text(report: ExploreReport) -> list[str]:
    """Return the posterior of every stack, and what it took; nothing without one."""
    search = report.search
    if search is None:
        return []
    margin = percent(search.margin)
    lines = [
        f"Searched ({search.strategy}): {counted(search.blocks, 'block')}, "
        f"{counted(search.inspections, 'inspection')}, {span(search.machine_s)} of machine time;",
        f"the comparison above took {search.comparison_inspections:,} more, "
        f"{span(search.comparison_s)}.",
        *_found(report, search),
        "The same confidence with every stack in every block takes about "
        f"{search.uniform_inspections:,} inspections, {span(search.uniform_s)}.",
        *_search_table(search),
        f"  ~ = may be within {margin} of the best; these are posterior estimates with",
        "  95 % credible intervals; they select what is compared, and are no results",
        *_calibration(search),
    ]
    return [*lines, ""]


def _found(report: ExploreReport, search: SearchReport) -> list[str]:
    """Return what the search was sure of; a comparison in fresh blocks overrules it."""
    sure = f"It ended with {percent(search.confidence)} confidence"
    if search.confidence < search.required_confidence:
        sure += f" ({percent(search.required_confidence)} was required)"
    lines = [
        f"{sure} that {search.leader_label} is within {percent(search.margin)} of the best of the "
        f"{len(search.predictions)} that took part.",
    ]
    answered = conclusion(report).answer in (RankingAnswer.FASTER, RankingAnswer.NOTHING_FASTER)
    leader = next((row for row in report.ranking if row.stack_id == search.leader), None)
    if answered and leader is not None and leader.counts and not leader.best:
        lines.append("The comparison shows that another stack is faster; it overrules the search.")
    return lines


def _search_table(search: SearchReport) -> list[str]:
    shown = search.predictions[:_ROWS]
    bars = scale((each.low, each.ratio, each.high) for each in shown)
    heading = bars.heading() if bars else ""
    rows = [("", "stack", "speed", "95 % credible", heading, "")]
    for each in shown:
        bar = bars.bar(each.low, each.ratio, each.high) if bars else ""
        mark = "~" if each.within >= _MAY_BE else ""
        interval = f"({each.low:.3f} to {each.high:.3f})"
        basis = f"in {counted(each.measured, 'block')}" if each.measured else ""
        basis = basis or "predicted, not measured"
        rows.append((mark, each.label, f"{each.ratio:.3f}", interval, bar, basis))
    lines = columns(rows)
    if len(search.predictions) > _ROWS:
        lines.append(f"  and {len(search.predictions) - _ROWS} more, all estimated to be slower")
    return lines


def _calibration(search: SearchReport) -> list[str]:
    inside, total = search.calibration
    if not total:
        return []
    return [f"  {inside} of {total} measured times lay within their 90 % prediction intervals"]


# Stacks that compute something else than the baseline, in plain English

NamedDeviation = tuple[Ranked, Deviation]


def results_text(ranking: Sequence[Ranked], names: Mapping[IndicatorId, str]) -> list[str]:
    """Return which stacks compute something else; nothing where all compute the same.

    ``names`` are those of indicators, by id.
    """
    rows = [(row, each) for row in ranking for each in row.deviations]
    lines = [_baseline(row, each, names) for row, each in rows if row.is_baseline]
    others = [(row, each) for row, each in rows if not row.is_baseline]
    if others:
        lines.append(
            "Results differ from those of the baseline, so these are never reported as the fastest:"
        )
        lines += [f"  {row.label} on {_name(each, names)}: {_difference(each)}"
                  for row, each in others]  # fmt: skip
        if _agree(ranking, others):
            lines.append("  All of them agree with each other: the baseline may be wrong.")
    return section(lines)


def checked_files(report: ExploreReport) -> list[str]:
    """Return which files were found to be the same in every stack that was compared."""
    compared = {each.indicator_id for row in report.ranking for each in row.effects}
    deviating = {each.indicator_id for row in report.ranking for each in row.deviations}
    lines = []
    files = [each for each in report.indicators if each.checked_file]
    for file in dict.fromkeys(each.checked_file for each in files):
        calls = {each.indicator_id for each in files if each.checked_file == file}
        if calls & compared and not calls & deviating:
            lines.append(
                f"{file} is the same in every stack that was compared, "
                "but for rounding of its numbers."
            )
    return section(lines)


def _baseline(row: Ranked, found: Deviation, names: Mapping[IndicatorId, str]) -> str:
    return (
        f"{row.label}, the baseline, does not compute the same twice on {_name(found, names)} "
        f"({_deviation(found)}): results on it were not compared."
    )


def _name(found: Deviation, names: Mapping[IndicatorId, str]) -> str:
    return names.get(found.indicator_id, found.indicator_id)


def _difference(found: Deviation) -> str:
    if found.kind is Difference.TEXT:
        return f"{found.kind.value} (the file that it writes differs in more than numbers)"
    numbers = ""
    if found.checksum is not None and found.expected is not None:
        word = "beside" if found.kind is Difference.NOT_REPEATABLE else "instead of"
        numbers = f"checksum {found.checksum:.9g} {word} {found.expected:.9g}, "
    return f"{found.kind.value} ({numbers}{_deviation(found)})"


def _deviation(found: Deviation) -> str:
    if found.difference == float("inf"):
        return "the file that it writes differs in more than numbers"
    return f"{found.difference:.2g} apart, {found.tolerance:.2g} is allowed"


def _agree(ranking: Sequence[Ranked], others: Sequence[NamedDeviation]) -> bool:
    """Return whether all stacks but the baseline differ from it, and not from each other."""
    numbers = sorted(
        (each.checksum, each.tolerance)
        for _, each in others
        if each.kind is Difference.NUMBERS and each.checksum is not None
    )
    candidates = [row for row in ranking if not row.is_baseline and row.effects]
    one_indicator = len({each.indicator_id for _, each in others}) == 1
    return (
        one_indicator
        and 2 <= len(candidates) == len(numbers) == len(others)
        and all(b - a <= t * max(abs(a), abs(b)) for (a, t), (b, _) in pairwise(numbers))
    )


# What disturbed the blocks of a campaign, in plain English


def disturbed_text(report: ExploreReport) -> list[str]:
    """Return how many blocks were excluded, and whether some count that were disturbed."""
    lines = []
    if reasons := report.health.excluded:
        verb = "was" if len(reasons) == 1 else "were"
        lines.append(f"{counted(len(reasons), 'block')} {verb} excluded: {_such_as(reasons)}.")
    if reasons := report.health.tolerated:
        verb = "counts" if len(reasons) == 1 else "count"
        lines.append(
            "More than half of all blocks are disturbed on this machine, so that "
            f"{len(reasons)} of them {verb} nevertheless: "
            f"{_such_as(reasons)}."
        )
    return section(lines)


def _such_as(reasons: tuple[str, ...]) -> str:
    """Return what happened in the last of them; the others are alike."""
    return ("" if len(set(reasons)) == 1 else "for example ") + reasons[-1]


# The memory that stacks need, where stacks differ in it

_REPORTED_FROM = 1.05  # less is what allocators and loaders differ by from run to run


def memory_text(report: ExploreReport) -> list[str]:
    """Return the peak memory of each indicator whose stacks differ in it, the least first."""
    labels = {row.stack_id: row.label for row in report.ranking}
    lines: list[str] = []
    for indicator, name in report.labels.items():
        peaks = sorted(
            (each.peak_bytes, labels[each.stack_id])
            for each in report.memory
            if each.indicator_id == indicator and each.stack_id in labels
        )
        if len(peaks) > 1 and peaks[-1][0] > _REPORTED_FROM * peaks[0][0]:
            lines += [f"Peak memory of {name}:"]
            lines += columns([("", label, f"{peak / 1e6:,.0f} MB") for peak, label in peaks])
    return section(lines)


# What work costs, and what more CPUs bring for their price, as tables

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def cost_text(report: ExploreReport) -> list[str]:
    """Return both tables, each where it was requested."""
    labels = {row.stack_id: row.label for row in report.ranking}
    return [*_costs(report, labels), *_scaled(report, labels)]


def _costs(report: ExploreReport, labels: Mapping[StackId, str]) -> list[str]:
    names, lines = report.labels, []
    for call in dict.fromkeys(each.indicator_id for each in report.cost.by_stack):
        rows = [each for each in report.cost.by_stack if each.indicator_id == call]
        price = f"{rows[0].per_hour:g} {report.cost.currency}".strip()
        lines += [
            f"Costs of {names.get(call, call)} at {price} an hour, the cheapest first:",
            *columns(
                [_cost_head(rows[0], report.cost.currency), *(_cost(e, labels) for e in rows)]
            ),
            "",
        ]
    note = "  times are those of the fastest samples: what a busy machine adds to them costs extra"
    return [*lines[:-1], note, ""] if lines else []


def _cost_head(cost: Cost, currency: str) -> tuple[str, ...]:
    what = "samples" if cost.items else "operations"
    return "", "stack", "an operation", f"a million {what}", f"{what} for 1 {currency}".strip()


def _cost(cost: Cost, labels: Mapping[StackId, str]) -> tuple[str, ...]:
    label = labels.get(cost.stack_id, cost.stack_id)
    return "", label, _time(cost.seconds), _number(cost.per_million), _number(cost.per_unit)


def _scaled(report: ExploreReport, labels: Mapping[StackId, str]) -> list[str]:
    if not report.cost.by_cpus:
        return []
    lines = []
    for indicator in dict.fromkeys(each.indicator for each in report.cost.by_cpus):
        rows = [each for each in report.cost.by_cpus if each.indicator == indicator]
        lines += [f"{indicator} on several numbers of CPUs:", *_cost_table(rows, labels)]
    baseline = next((row.label for row in report.ranking if row.is_baseline), "the baseline")
    fewest = min(each.cpus for each in report.cost.by_cpus)
    one = f"{baseline} on {counted(fewest, 'CPU')} is 1"
    notes = [f"  {one}, less is better; all intervals of a table hold"]
    if any(each.cost is not None for each in report.cost.by_cpus):
        prices = "those above" if report.cost.by_stack else "in proportion to the number of CPUs"
        notes += [f"  with 95 % confidence; cost is time by price, prices are {prices}"]
    else:
        notes += ["  with 95 % confidence; a figure is no time, and has no cost"]
    return [*lines, *notes, ""]


def _cost_table(scaled: Sequence[CpuScaling], labels: Mapping[StackId, str]) -> list[str]:
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


def _time(seconds: float) -> str:
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def _number(value: float) -> str:
    """Return three digits that count, without an exponent where none is needed."""
    if not 1e-4 <= value < 1e15:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{round(value, 2 - math.floor(math.log10(value))):,.{digits}f}"
