"""What an exploration plans and finds, in plain English."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from stackgen.measure import INTERIM_ANALYSES
from stackgen.measure.ranking import Answer, compared, conclusion
from stackgen.model.evidence import Control, Deviation, Difference, Effect, Ranked, Verdict
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.reports import (
    Cost,
    ExplorePlan,
    ExploreReport,
    PredictedSpeed,
    Scaled,
    SearchReport,
)
from stackgen.report.tables import columns, duration, percent, scale, span
from stackgen.resolve.explain import format_count

# How the stacks that were compared had been chosen, in plain English

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
        *_search_table(search),
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


def _search_table(search: SearchReport) -> list[str]:
    shown = search.predictions[:_ROWS]
    bars = scale((each.low, each.ratio, each.high) for each in shown)
    heading = bars.heading() if bars else ""
    rows = [("", "stack", "speed", "believed", heading, "")]
    for each in shown:
        bar = bars.bar(each.low, each.ratio, each.high) if bars else ""
        mark = "~" if each.within >= _MAY_BE else ""
        interval = f"({each.low:.3f} to {each.high:.3f})"
        rows.append((mark, each.label, f"{each.ratio:.3f}", interval, bar, _blocks_measured(each)))
    lines = columns(rows)
    if len(search.predictions) > _ROWS:
        lines.append(f"  and {len(search.predictions) - _ROWS} more, all believed to be slower")
    return lines


def _blocks_measured(each: PredictedSpeed) -> str:
    return f"in {_count(each.measured, 'block')}" if each.measured else "predicted, not measured"


def _calibration(search: SearchReport) -> list[str]:
    inside, total = search.foretold
    if not total:
        return []
    return [f"  {inside} of {total} times lay within the intervals predicted for 90 % of them"]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# Stacks that compute something else than the baseline, in plain English

Named = tuple[Ranked, Deviation]


def results_text(ranking: Sequence[Ranked], names: Mapping[IndicatorId, str]) -> list[str]:
    """Return which stacks compute something else; nothing where all compute the same.

    ``names`` are those of indicators, by id.
    """
    rows = [(row, each) for row in ranking for each in row.deviations]
    lines = [_baseline(row, each, names) for row, each in rows if row.is_baseline]
    others = [(row, each) for row, each in rows if not row.is_baseline]
    if others:
        lines.append(
            "Compute something else than the baseline, so they are never called the fastest:"
        )
        lines += [f"  {row.label} on {_name(each, names)}: {_difference(each)}"
                  for row, each in others]  # fmt: skip
        if _agree(ranking, others):
            lines.append(
                "  All of them agree with each other: it may be the baseline that computes wrong."
            )
    return [*lines, ""] if lines else []


def checked_files(report: ExploreReport) -> list[str]:
    """Return which files were found to be the same in every stack that was compared."""
    compared = {each.indicator_id for row in report.ranking for each in row.effects}
    apart = {each.indicator_id for row in report.ranking for each in row.deviations}
    lines = []
    files = [each for each in report.indicators if each.checked_file]
    for file in dict.fromkeys(each.checked_file for each in files):
        calls = {each.indicator_id for each in files if each.checked_file == file}
        if calls & compared and not calls & apart:
            lines.append(
                f"{file} is the same in every stack that was compared, "
                "but for rounding of its numbers."
            )
    return [*lines, ""] if lines else []


def _baseline(row: Ranked, found: Deviation, names: Mapping[IndicatorId, str]) -> str:
    return (
        f"{row.label}, the baseline, does not compute the same twice on {_name(found, names)} "
        f"({_apart(found)}): results on it were not compared."
    )


def _name(found: Deviation, names: Mapping[IndicatorId, str]) -> str:
    return names.get(found.indicator_id, found.indicator_id)


def _difference(found: Deviation) -> str:
    if found.kind is Difference.TEXT:
        return f"{found.kind.value} (what it wrote differs in more than numbers)"
    numbers = ""
    if found.checksum is not None and found.expected is not None:
        word = "beside" if found.kind is Difference.NOT_REPEATABLE else "instead of"
        numbers = f"checksum {found.checksum:.9g} {word} {found.expected:.9g}, "
    return f"{found.kind.value} ({numbers}{_apart(found)})"


def _apart(found: Deviation) -> str:
    if found.difference == float("inf"):
        return "what it wrote differs in more than numbers"
    return f"{found.difference:.2g} apart, {found.tolerance:.2g} is allowed"


def _agree(ranking: Sequence[Ranked], others: Sequence[Named]) -> bool:
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
    if report.health.excluded:
        lines.append(
            f"{_excluded_blocks(report.health.excluded)} "
            f"excluded and took no part: {_such_as(report.health.excluded)}."
        )
    if report.health.tolerated:
        lines.append(
            "This machine is disturbed more often than not, so that "
            f"{_excluded_blocks(report.health.tolerated, told=False)} "
            f"all the same: {_such_as(report.health.tolerated)}."
        )
    return [*lines, ""] if lines else []


def _excluded_blocks(reasons: tuple[str, ...], *, told: bool = True) -> str:
    one = len(reasons) == 1
    number = "1 block" if one else f"{len(reasons)} blocks"
    verb = ("was" if one else "were") if told else ("counts" if one else "count")
    return f"{number} {verb}"


def _such_as(reasons: tuple[str, ...]) -> str:
    """Return what happened in the last of them; the others are alike."""
    return ("" if len(set(reasons)) == 1 else "as when ") + reasons[-1]


# The memory that stacks need, where it tells them apart

_TOLD_FROM = 1.05  # less is what allocators and loaders differ by from run to run


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
        if len(peaks) > 1 and peaks[-1][0] > _TOLD_FROM * peaks[0][0]:
            lines += [f"Peak memory of {name}:"]
            lines += columns([("", label, f"{peak / 1e6:,.0f} MB") for peak, label in peaks])
    return [*lines, ""] if lines else []


# What work costs, and what more CPUs bring for their price, as tables

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def cost_text(report: ExploreReport) -> list[str]:
    """Return both tables, each where it was asked for."""
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
    told = "  times are those of the fastest samples: what a busy machine adds to them costs extra"
    return [*lines[:-1], told, ""] if lines else []


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
    notes = [f"  {baseline} on {_cpus(fewest)} is 1, less is better; all intervals of a table hold"]
    if any(each.cost is not None for each in report.cost.by_cpus):
        prices = "those above" if report.cost.by_stack else "in proportion to the number of CPUs"
        notes += [f"  with 95 % confidence; cost is time by price, prices are {prices}"]
    else:
        notes += ["  with 95 % confidence; a figure is no time, and has no cost"]
    return [*lines, *notes, ""]


def _cost_table(scaled: Sequence[Scaled], labels: Mapping[StackId, str]) -> list[str]:
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


def plan_text(plan: ExplorePlan) -> str:
    """Return what would be done, for --dry-run."""
    found = plan.estimate
    lines = [
        *_head(plan, "To be measured"),
        "",
        f"{_would(plan)}, newest first (complete stacks of each choice):",
        *columns([(label, format_count(count)) for label, count in plan.chosen]),
        "",
        f"To download{', if all are built' if plan.searched else ''}: "
        f"{found.download_bytes / 1e9:.2f} GB in {found.wheels} wheels. On disk: about "
        f"{found.disk_bytes / 1e9:.1f} GB, {found.free_bytes / 1e9:.0f} GB are free.",
        f"Until measuring begins: about {span(found.seconds)}. Budget: {span(plan.budget_s)}.",
        "Nothing was built.",
    ]
    return "\n".join(lines)


def _would(plan: ExplorePlan) -> str:
    if plan.searched:
        return (
            f"Would search these {len(plan.chosen)} ({plan.strategy}), and build those that it "
            "measures"
        )
    return f"Would measure these {len(plan.chosen)} in every block"


def report_text(report: ExploreReport) -> str:
    """Return the ranking, what it rests on, and what was left out."""
    lines = [*_head(report.plan, "Measured"), "", *ranking_lines(report)]
    lines += [*_conclusion(report), ""]
    lines += search_text(report)
    return "\n".join([*lines, *particulars(report)])


def ranking_lines(report: ExploreReport) -> list[str]:
    """Return how the stacks compare on each indicator, and on all of them together."""
    names = report.labels
    measured = _measured(report)
    lines = _together(report, names)
    for indicator in measured:
        lines += [f"{names.get(indicator, indicator)}: {_basis(report, indicator)}"]
        lines += _table(report.ranking, indicator, figure=indicator in report.figures)
        lines += _legend(
            report.margin, figure=indicator in report.figures, several=len(measured) > 1
        )
        lines += [""]
    return lines


def particulars(report: ExploreReport) -> list[str]:
    """Return what a ranking rests on, what was left out, and what it took."""
    lines = results_text(report.ranking, report.labels)
    lines += checked_files(report)
    lines += cost_text(report)
    lines += memory_text(report)
    lines += _changes(report)
    lines += _left_out(report)
    lines += _controls(report.health.controls)
    lines += disturbed_text(report)
    lines += [
        f"Took {span(report.run.seconds)} for {report.run.new_inspections} inspections; stopped: "
        f"{report.run.stopped}.",
        f"Kept in {report.knowledge_base}; the same command goes on from there.",
    ]
    return lines


def _head(plan: ExplorePlan, measured: str) -> list[str]:
    asked = ", ".join(plan.requirements) or "your lock"
    return [
        f"{asked}: {format_count(plan.count)} stacks on Python {plan.setup.python}; "
        f"{plan.choices:,} choices of {' and '.join(plan.varied) or 'nothing'}",
        place_line(plan, measured),
    ]


def place_line(plan: ExplorePlan, measured: str) -> str:
    """Return where stacks are, or will be, ``measured``."""
    setup = plan.setup
    where = "in containers of" if setup.executor == "docker" else "in virtualenvs of"
    return f"{measured} {where} {setup.base} on {setup.machine}, seed {plan.seed}"


def _measured(report: ExploreReport) -> list[IndicatorId]:
    found = {e.indicator_id: None for row in report.ranking for e in row.effects}
    return list(found)


def _basis(report: ExploreReport, indicator: IndicatorId) -> str:
    """Return how many blocks a table rests on, and what its ratios are ratios of."""
    times = {each.indicator_id: each.baseline_s for each in report.indicators}
    seconds = times.get(indicator)
    told = "" if seconds is None else f", {duration(seconds)} on the baseline"
    return _blocks(_compared(report, indicator)) + told


def _compared(report: ExploreReport, indicator: str) -> int:
    """Return the most blocks that any comparison on an indicator rests on."""
    effects = [each for row in report.ranking for each in row.effects]
    return max((e.blocks for e in effects if e.indicator_id == indicator), default=0)


def _together(report: ExploreReport, names: Mapping[IndicatorId, str]) -> list[str]:
    """Return how the stacks compare on all indicators at once, where there are several."""
    overall = [row.overall for row in report.ranking if row.overall is not None]
    if not overall:
        return []
    measured = _measured(report)
    weights = {each.indicator_id: each.weight for each in report.indicators}
    told = {each: weights.get(each, 1.0) for each in measured}
    equal = len(set(told.values())) == 1
    weighed = "; ".join(f"{names.get(each, each)} {weight:g}" for each, weight in told.items())
    basis = _blocks(max(each.blocks for each in overall))
    figure = any(each in report.figures for each in measured)
    return [
        f"All together ({'equal weights' if equal else 'weights: ' + weighed}): {basis}",
        *_table(report.ranking, None, figure=figure),
        "",
    ]


def _table(ranking: Sequence[Ranked], indicator: str | None, *, figure: bool) -> list[str]:
    """Return the rows on one indicator, or (None) on all of them together."""
    effects = {row.stack_id: _effect(row, indicator) for row in ranking}
    known = [each for each in effects.values() if each is not None]
    bars = scale((each.low, each.ratio, each.high) for each in known)
    heading = bars.heading() if bars else ""
    rows = [("", "stack", "ratio" if figure else "speed", "interval", heading, "verdict")]
    for row in ranking:
        mark = "*" if row.best else ""
        effect = effects[row.stack_id]
        other = next((d for d in row.deviations if indicator in (None, d.indicator_id)), None)
        if row.is_baseline and not row.failures:
            rows.append((mark, row.label, "1.000", "", bars.mark() if bars else "", "baseline"))
        elif row.failures:
            rows.append((mark, row.label, "", "", "", f"failed in {row.failures} of its runs"))
        elif effect is not None:
            said = verdict(effect, figure=figure) if other is None else other.kind.value
            drawn = bars.bar(effect.low, effect.ratio, effect.high) if bars else ""
            rows.append((mark, row.label, speed(effect), interval(effect), drawn, said))
        elif other is not None:
            rows.append((mark, row.label, "", "", "", other.kind.value))
        else:
            rows.append((mark, row.label, "", "", "", "not measured"))
    return columns(rows)


def _effect(row: Ranked, indicator: str | None) -> Effect | None:
    """Return the effect on one indicator, or (None) on all of them together."""
    if indicator is None:
        return row.overall
    return next((each for each in row.effects if each.indicator_id == indicator), None)


def _legend(margin: float, *, figure: bool, several: bool) -> list[str]:
    best = "the best, all indicators taken together" if several else "the best"
    above = "ratio above 1 = a better figure than" if figure else "speed above 1 = faster than"
    if several:
        return [
            f"  * = indistinguishable from {best};",
            f"  {above} the baseline; the same = within {percent(margin)};",
            "  all intervals together hold with 95 % confidence",
        ]
    return [
        f"  * = indistinguishable from {best}; {above} the baseline;",
        f"  the same = within {percent(margin)}; all intervals together hold with 95 % confidence",
    ]


def speed(effect: Effect) -> str:
    """Return the ratio of an effect; "" before the first look, where it may be anything."""
    return "" if effect.blocks < INTERIM_ANALYSES[0] else f"{effect.ratio:.3f}"


def interval(effect: Effect) -> str:
    """Return the interval of an effect, or why there is none."""
    if effect.low <= 0:
        return "(too few blocks)" if effect.blocks < INTERIM_ANALYSES[0] else "(no spread yet)"
    return f"({effect.low:.3f} to {effect.high:.3f})"


def verdict(effect: Effect, *, figure: bool = False) -> str:
    """Return what an effect means, in words; a figure of the user's own is no speed."""
    if effect.verdict is Verdict.EQUIVALENT:
        return "the same"
    if effect.verdict is Verdict.INCONCLUSIVE:
        if effect.low <= 0:
            return "not decided yet"
        return f"no measurable difference (one of {effect.smallest_detectable:.2f} would show)"
    if figure:
        return "better" if effect.verdict is Verdict.FASTER else "worse"
    return str(effect.verdict.value)


def _conclusion(report: ExploreReport) -> list[str]:
    baseline = next((row.label for row in report.ranking if row.is_baseline), "the baseline")
    if not any(row.effects for row in report.ranking):
        return [f"Nothing to compare yet: {report.run.stopped}."]
    found = conclusion(report)
    if found.answer is Answer.BASELINE_FAILED:
        return [f"Nothing can be said: {baseline}, the baseline, failed while it was measured."]
    if found.answer is Answer.CONTROLS_FAILED:
        return unreliable(report, "this ranking")
    if found.answer is Answer.TOO_EARLY:
        return [too_early(max(e.blocks for row in report.ranking for e in row.effects))]
    if found.answer is Answer.FASTER and found.winner is not None:
        return _fastest(report, found.winner, baseline)
    best = [row for row in report.ranking if row.best]
    figures = all(indicator in report.figures for indicator in _measured(report))
    others = [row for row in report.ranking if not row.is_baseline]
    if len(best) == 1 and best[0].is_baseline and any(row.counts for row in others):
        same = " that were compared" if report.search else ""
        same += "" if all(row.counts for row in others) else " that work and compute the same"
        first, second = ("Best", "worse") if figures else ("Fastest", "slower")
        return [f"{first}: {baseline}, the baseline; all others{same} are shown to be {second}."]
    if others and all(row.deviations for row in others):
        return [f"Nothing to compare: all others compute something else than {baseline}."]
    if found.answer is Answer.NOTHING_COMPARED:
        return ["Nothing to compare: no other stack ran every time and computed the same."]
    word = "better" if figures else "faster"
    return [f"No measurable difference: nothing is shown to be {word} than {baseline}."]


def unreliable(report: ExploreReport, what: str) -> list[str]:
    """Return why ``what`` is not to be relied on, and what to do: a failed control stays failed."""
    failed = next(each for each in report.health.controls if each.failed)
    return [
        f"Do not rely on {what}: the machine showed differences where there are none",
        f"({failed.name}). When the machine is quieter, begin anew: --seed {report.plan.seed + 1}.",
    ]


def too_early(blocks: int) -> str:
    """Return that so many blocks allow no answer, and why."""
    if blocks < INTERIM_ANALYSES[0]:
        first = INTERIM_ANALYSES[0]
        return f"Not decided yet: {_blocks(blocks)}; the first answers come after {first}."
    return (
        f"Not decided yet: {_blocks(blocks)}, and all of them told the same to the last digit; "
        "without any spread an answer takes more blocks."
    )


def _fastest(report: ExploreReport, row: Ranked, baseline: str) -> list[str]:
    effect = row.overall or next(e for e in row.effects if e.verdict is Verdict.FASTER)
    on = report.labels.get(effect.indicator_id, "")
    several = f" on {on}" if len(row.effects) > 1 else ""
    if row.overall is not None:
        several = ", all indicators taken together"
    found = f"{interval(effect)[1:-1]}; {_blocks(effect.blocks)}"
    about = {each.indicator_id for each in (row.effects if row.overall else [effect])}
    if about & report.figures:
        how = f"Best{_of(report)}: {row.label}, its figure is {effect.ratio:.2f} times as good as"
        how += " that of"
    else:
        how = f"Fastest{_of(report)}: {row.label}, {effect.ratio:.2f} times as fast as"
    return [f"{how} {baseline}{several} ({found}).", *_alike(report)]


def _of(report: ExploreReport) -> str:
    """Return among which stacks one is the best, where a search chose them."""
    return f" of the {compared(report)} that were compared" if report.search else ""


def _alike(report: ExploreReport) -> list[str]:
    """Say that others may be as good as the one that is named."""
    others = sum(row.best for row in report.ranking) - 1
    if others < 1:
        return []
    which = "One other is" if others == 1 else f"{others} others are"
    return [f"{which} not shown to be any worse than that (*)."]


def _changes(report: ExploreReport) -> list[str]:
    """Say which stacks are not what the newest versions would be."""
    held = [each for each in report.stacks if each.completion == "newest-working"]
    if not held:
        return []
    lines = ["Held back, because the newest versions do not run together:"]
    for each in held:
        versions = ", ".join(f"{name} {v}" for name, v in each.held_back) or "older dependencies"
        lines.append(f"  {each.label}: {versions}")
    return [*lines, ""]


def _left_out(report: ExploreReport) -> list[str]:
    lines = []
    if report.failed:
        lines.append("Do not run here (kept as knowledge):")
        lines += [f"  {e.label}: {e.outcome.value}: {e.reason}" for e in report.failed]
    if untried := report.run.untried:
        lines.append(
            f"Not measured: {format_count(untried)} further "
            f"{'choice' if untried == 1 else 'choices'} (--stacks sets how many take part, "
            "--budget how long)."
        )
    return [*lines, ""] if lines else []


def _controls(found: Sequence[Control]) -> list[str]:
    if not found:
        return []
    rows = [("", each.name, _control(each)) for each in found]
    return ["Controls (pairs that must not differ):", *columns(rows), ""]


def _control(control: Control) -> str:
    if control.p_value is None:
        return f"{_blocks(control.blocks)}, too few to judge"
    word = "FAILED" if control.failed else "passed"
    return f"{word}, p = {control.p_value:.3f}, {_blocks(control.blocks)}"


def _blocks(count: int) -> str:
    return f"{count} block" if count == 1 else f"{count} blocks"
