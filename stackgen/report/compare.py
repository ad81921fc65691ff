"""What a comparison of two stacks finds, in plain English."""

import math
from collections.abc import Iterator

from stackgen.measure.ranking import RankingAnswer, conclusion
from stackgen.model.evidence import Effect, Ranked, Verdict
from stackgen.model.reports.campaigns import ChosenStack, ExplorePlan, ExploreReport
from stackgen.report.explore import (
    particulars,
    place_line,
    plan_costs,
    ranking_lines,
    too_early,
    unreliable,
)
from stackgen.report.tables import counted, percent

_MOST_SHOWN = 8


def compare_text(report: ExploreReport) -> str:
    """Return both stacks, in what they differ, the evidence, and last the verdict."""
    lines = [*(label for label, _ in report.plan.chosen), *_between(report)]
    lines += [place_line(report.plan, "Measured"), "", *ranking_lines(report)]
    return "\n".join([*lines, *particulars(report), "", *verdict_lines(report)])


def compare_plan_text(plan: ExplorePlan) -> str:
    """Return what would be measured and what that takes, for --dry-run."""
    lines = [*(label for label, _ in plan.chosen), place_line(plan, "To be measured")]
    return "\n".join([*lines, f"By: {', '.join(plan.indicators)}", "", *plan_costs(plan)])


def verdict_lines(report: ExploreReport) -> Iterator[str]:
    """Yield what may be said of B against A: one line of all indicators, or one of each."""
    b = next((row for row in report.ranking if not row.is_baseline), None)
    answer = conclusion(report).answer
    if b is None or not b.effects:
        yield f"Nothing to compare: {report.run.stopped}."
    elif answer is RankingAnswer.BASELINE_FAILED:
        yield "No verdict: A failed while it was measured."
    elif b.failures:
        yield "No verdict: B failed while it was measured."
    elif answer is RankingAnswer.CONTROLS_FAILED:
        yield from unreliable(report, "this")
    elif b.deviations:
        kinds = " and ".join(dict.fromkeys(each.kind.value for each in b.deviations))
        yield f"B does not compute what A computes ({kinds}): its speed does not count."
    else:
        yield from _of_effects(report, b)


def _of_effects(report: ExploreReport, b: Ranked) -> Iterator[str]:
    names = report.labels
    figures = [each.indicator_id in report.figures for each in b.effects]
    if b.overall is not None:
        verdict = _sentence(b.overall, report.margin, figure=any(figures))
        yield f"On all indicators together: {verdict}"
        return
    for effect, figure in zip(b.effects, figures, strict=True):
        on = f"On {names.get(effect.indicator_id, effect.indicator_id)}: " * (len(figures) > 1)
        yield on + _sentence(effect, report.margin, figure=figure)


def _sentence(effect: Effect, margin: float, *, figure: bool) -> str:
    blocks = counted(effect.blocks, "block")
    if effect.low <= 0:
        return too_early(effect.blocks)
    basis = f"({effect.low:.3f} to {effect.high:.3f}; {blocks})"
    if effect.verdict is Verdict.INCONCLUSIVE:
        change = effect.smallest_detectable - 1
        shown = (
            f"; one of {100 * change:.2g} % would have been detected"
            if math.isfinite(change)
            else ""
        )
        return f"no measurable difference{shown} {basis}."
    if effect.verdict is Verdict.EQUIVALENT:
        return f"B is as {'good' if figure else 'fast'} as A, within {percent(margin)} {basis}."
    if figure:
        return f"B's figure is {effect.ratio:.3f} times as good as A's {basis}."
    return f"B is {effect.ratio:.3f} times as fast as A {basis}."


def _between(report: ExploreReport) -> list[str]:
    """Return in what the two stacks differ that were measured."""
    by_label = {each.label: each for each in report.stacks}
    pair = [by_label[label] for label, _ in report.plan.chosen if label in by_label]
    if len(pair) < 2:
        return []
    found = list(_differences(pair[0], pair[1], report.plan.varied))
    more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
    return [f"A to B: {', '.join([*found[:_MOST_SHOWN], *more])}"]


def _differences(a: ChosenStack, b: ChosenStack, first: tuple[str, ...]) -> Iterator[str]:
    """Yield each package that is not the same file in both; those of ``first`` come first."""
    files = [{each.name: each for each in stack.lock.artifacts} for stack in (a, b)]
    for name in dict.fromkeys((*first, *sorted({*files[0], *files[1]}))):
        before, after = files[0].get(name), files[1].get(name)
        if before and after and before.sha256 != after.sha256:
            same = before.version == after.version
            change = f"{before.version} (another file)" if same else f"{before.version} -> "
            yield f"{name} {change}{'' if same else after.version}"
        elif before and not after:
            yield f"{name} {before.version} in A alone"
        elif after and not before:
            yield f"{name} {after.version} in B alone"
    settings = dict(a.settings), dict(b.settings)
    for name in sorted({*settings[0], *settings[1]}):
        values = [each.get(name) for each in settings]
        if values[0] != values[1]:
            yield f"{name}: {' -> '.join('not set' if v is None else v for v in values)}"
