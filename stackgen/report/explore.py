"""What an exploration plans and finds, in plain English."""

from collections.abc import Mapping, Sequence

from stackgen.indicators.families import OTHER, family_of
from stackgen.measure import INTERIM_ANALYSES
from stackgen.measure.ranking import RankingAnswer, compared, conclusion
from stackgen.model.evidence import Control, Effect, Ranked, Verdict
from stackgen.model.identity import IndicatorId
from stackgen.model.reports.campaigns import ExplorePlan, ExploreReport
from stackgen.report.details import (
    checked_files,
    cost_text,
    disturbed_text,
    memory_text,
    results_text,
    search_text,
)
from stackgen.report.goals import goal_answer, headline, quantities_text
from stackgen.report.tables import columns, counted, duration, percent, scale, section, span
from stackgen.resolve.explain import format_count


def explore_text(found: ExplorePlan | ExploreReport) -> str:
    """Return a report, or the plan of one."""
    return plan_text(found) if isinstance(found, ExplorePlan) else report_text(found)


def plan_text(plan: ExplorePlan) -> str:
    """Return what would be done, for --dry-run."""
    lines = [
        *_head(plan, "To be measured"),
        "",
        f"{_would(plan)}, {'spread widely' if plan.spread else 'newest first'} (complete stacks of "
        "each choice):",
        *columns([(label, format_count(count)) for label, count in plan.chosen]),
        *([f"By: {', '.join(plan.indicators)}"] if plan.indicators else []),
        *too_large(plan),
        "",
        *plan_costs(plan),
    ]
    return "\n".join(lines)


def plan_costs(plan: ExplorePlan) -> list[str]:
    """Return what a plan downloads, stores and takes, and whether its budget is too short."""
    found = plan.estimate
    too_large_for_disk = found.disk_bytes > found.free_bytes
    return [
        f"To download{', if all are built' if plan.searched else ''}: "
        f"{found.download_bytes / 1e9:.2f} GB in {counted(found.wheels, 'wheel')}. On disk: about "
        f"{found.disk_bytes / 1e9:.1f} GB, {found.free_bytes / 1e9:.0f} GB are free.",
        *(["More than is free: without --dry-run it is refused."] if too_large_for_disk else []),
        f"Time until the first block: about {span(found.seconds)}. Budget: {span(plan.budget_s)}.",
        *filter(None, [plan.short_budget]),
        "Nothing was built.",
    ]


def too_large(plan: ExplorePlan) -> list[str]:
    """Return which releases take no part because of the download budget."""
    if not plan.too_large:
        return []
    releases = f"{plan.varied[0]} {', '.join(plan.too_large)}"
    lines = [f"Left out because of the download budget (--download-budget): {releases}"]
    compared = {label.partition(",")[0] for label, _ in plan.chosen}
    if len(compared) == 1:
        lines += [
            f"So every stack has {compared.pop()}: to compare releases, give a larger "
            "--download-budget, or an",
            "index with smaller builds, such as those for CPUs alone (--compare-index cpu=URL).",
        ]
    return lines


def _would(plan: ExplorePlan) -> str:
    if plan.searched:
        return (
            f"Would search these {len(plan.chosen)} ({plan.strategy}), and build those that it "
            "measures"
        )
    return f"Would measure these {len(plan.chosen)} in every block"


def report_text(report: ExploreReport) -> str:
    """Return the ranking, what it rests on, and what was left out."""
    lines = [*_head(report.plan, "Measured"), "", *_conclusion(report), *headline(report), ""]
    lines += ranking_lines(report)
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
    lines += quantities_text(report)
    if len(report.indicators) > 2:  # of one and the control, the table above has the peak
        lines += memory_text(report)
    lines += _changes(report)
    lines += [*_left_out(report), *too_large(report.plan)]
    lines += _controls(report.health.controls)
    lines += disturbed_text(report)
    lines += [
        f"Took {span(report.run.seconds)} for {report.run.new_inspections} inspections; stopped: "
        f"{report.run.stopped}.",
        f"Recorded in {report.knowledge_base}; the same command continues from there.",
    ]
    return lines


def _head(plan: ExplorePlan, measured: str) -> list[str]:
    requested = ", ".join(plan.requirements) or "your lock"
    return [
        f"{requested}: {format_count(plan.count)} stacks on Python {plan.setup.python}; "
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
    suffix = "" if seconds is None else f", {duration(seconds)} on the baseline"
    return counted(_compared(report, indicator), "block") + suffix


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
    by_indicator = {each: weights.get(each, 1.0) for each in measured}
    equal = len(set(by_indicator.values())) == 1
    weighed = "; ".join(
        f"{names.get(each, each)} {weight:g}" for each, weight in by_indicator.items()
    )
    basis = counted(max(each.blocks for each in overall), "block")
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
            text = verdict(effect, figure=figure) if other is None else other.kind.value
            drawn = bars.bar(effect.low, effect.ratio, effect.high) if bars else ""
            rows.append((mark, row.label, speed(effect), interval(effect), drawn, text))
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
    """Return the ratio of an effect; "" before the first interim analysis."""
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
        return (
            f"no measurable difference (one of {effect.smallest_detectable:.2f} would be detected)"
        )
    if figure:
        return "better" if effect.verdict is Verdict.FASTER else "worse"
    return str(effect.verdict.value)


def _conclusion(report: ExploreReport) -> list[str]:
    baseline = next((row.label for row in report.ranking if row.is_baseline), "the baseline")
    if not any(row.effects for row in report.ranking):
        return [f"Nothing to compare yet: {report.run.stopped}."]
    found = conclusion(report)
    if found.answer is RankingAnswer.BASELINE_FAILED:
        return [f"No verdict: {baseline}, the baseline, failed while it was measured."]
    if found.answer is RankingAnswer.CONTROLS_FAILED:
        return unreliable(report, "this ranking")
    if found.answer is RankingAnswer.TOO_EARLY:
        return [too_early(max(e.blocks for row in report.ranking for e in row.effects))]
    if report.goals.goals.decides and (lines := goal_answer(report, found, baseline)):
        return lines
    if found.answer is RankingAnswer.FASTER and found.winner is not None:
        return _fastest(report, found.winner, baseline)
    return [_none_better(report, found.answer, baseline)]


def _none_better(report: ExploreReport, answer: RankingAnswer, baseline: str) -> str:
    """Return what is known where no stack is shown to be better than the baseline."""
    best = [row for row in report.ranking if row.best]
    figures = all(indicator in report.figures for indicator in _measured(report))
    others = [row for row in report.ranking if not row.is_baseline]
    if len(best) == 1 and best[0].is_baseline and any(row.counts for row in others):
        which = " that were compared" if report.search else ""
        which += "" if all(row.counts for row in others) else " that work and compute the same"
        first, second = ("Best", "worse") if figures else ("Fastest", "slower")
        return f"{first}: {baseline}, the baseline; all others{which} are shown to be {second}."
    if others and all(row.deviations for row in others):
        return f"Nothing to compare: all others compute something else than {baseline}."
    if answer is RankingAnswer.NOTHING_COMPARED:
        return "Nothing to compare: no other stack ran every time and computed the same."
    word = "better" if figures else "faster"
    same = f"nothing is shown to be {word} than {baseline}"
    if operation := _only_operation(report):
        return (
            f"No measurable difference on {operation}: {same}. Other operations may differ (--pi)."
        )
    return f"No measurable difference: {same}."


def _only_operation(report: ExploreReport) -> str:
    """Return the operation that alone was measured; "" for several, and for the user's own code."""
    names = [report.labels.get(each, "").partition(" ")[0] for each in _measured(report)]
    return names[0] if len(names) == 1 and family_of(names[0]) != OTHER else ""


def unreliable(report: ExploreReport, what: str) -> list[str]:
    """Return why ``what`` is not to be relied on, and what to do: a failed control stays failed."""
    failed = next(each for each in report.health.controls if each.failed)
    return [
        f"Do not rely on {what}: the machine showed differences where there are none",
        f"({failed.name}). Start again on a quieter machine: --seed {report.plan.seed + 1}.",
    ]


def too_early(blocks: int) -> str:
    """Return that so many blocks allow no answer, and why."""
    so_far = f"Not decided yet: {counted(blocks, 'block')}"
    if blocks < INTERIM_ANALYSES[0]:
        return f"{so_far}; the first interim analysis is after {INTERIM_ANALYSES[0]}."
    return f"{so_far}, all with identical values; without any spread a verdict takes more blocks."


def _fastest(report: ExploreReport, row: Ranked, baseline: str) -> list[str]:
    effect = row.overall or next(e for e in row.effects if e.verdict is Verdict.FASTER)
    on = report.labels.get(effect.indicator_id, "")
    several = f" on {on}" if len(row.effects) > 1 else ""
    if row.overall is not None:
        several = ", all indicators taken together"
    found = f"{interval(effect)[1:-1]}; {counted(effect.blocks, 'block')}"
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
    return [f"{which} not shown to be slower or worse (*)."]


def _changes(report: ExploreReport) -> list[str]:
    """Say which stacks are not what the newest versions would be."""
    older = [each for each in report.stacks if each.completion == "newest-working"]
    if not older:
        return []
    lines = ["Held back, because the newest versions do not run together:"]
    for each in older:
        versions = ", ".join(f"{name} {v}" for name, v in each.held_back) or "older dependencies"
        lines.append(f"  {each.label}: {versions}")
    return [*lines, ""]


def _left_out(report: ExploreReport) -> list[str]:
    lines = []
    if report.failed:
        lines.append("Do not run on this machine (recorded):")
        lines += [f"  {e.label}: {e.outcome.value}: {e.reason}" for e in report.failed]
    if untried := report.run.untried:
        lines.append(
            f"Not measured: {format_count(untried)} further "
            f"{'choice' if untried == 1 else 'choices'} (--stacks sets how many take part, "
            "--budget how long)."
        )
    return section(lines)


def _controls(found: Sequence[Control]) -> list[str]:
    if not found:
        return []
    rows = [("", each.name, _control(each)) for each in found]
    return ["Controls (pairs that must not differ):", *columns(rows), ""]


def _control(control: Control) -> str:
    if control.p_value is None:
        return f"{counted(control.blocks, 'block')}, too few to judge"
    word = "FAILED" if control.failed else "passed"
    return f"{word}, p = {control.p_value:.3f}, {counted(control.blocks, 'block')}"
