"""What stacks need besides time, and the sentences that a report begins with."""

import math
from collections.abc import Iterator, Sequence

from stackgen.measure.goals import undecided
from stackgen.measure.ranking import Conclusion, RankingAnswer, conclusion
from stackgen.model.evidence import Effect, Ranked, Verdict
from stackgen.model.goals import Goal, Limit, Quantity
from stackgen.model.reports.campaigns import ExploreReport, StackQuantities
from stackgen.report.tables import columns, counted, span

MOST_EFFECTS = 3
"""So many effects on speed have sentences; the table has all of them."""
MUCH_SMALLER, HARDLY_SLOWER = 0.75, 0.05
"""A stack of at most this share of the baseline's size has a sentence where it is hardly slower."""


def megabytes(count: float | None) -> str:
    """Return an amount of bytes with its unit; "" where it is not known."""
    if count is None:
        return ""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def seconds_text(seconds: float | None) -> str:
    """Return an import time; "" where none is recorded."""
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def within(effect: Effect | None) -> str:
    """Return ratio and interval of an effect; "" where too few blocks allow none."""
    if effect is None or effect.low <= 0 or not effect.high < math.inf:
        return ""
    return f"{effect.ratio:.2f} ({effect.low:.2f} to {effect.high:.2f})"


# The table of all quantities


def quantities_text(report: ExploreReport) -> list[str]:
    """Return what each stack needs besides time, one row each; nothing where none is known."""
    labels = {row.stack_id: row.label for row in report.ranking}
    rows = [each for each in report.goals.stacks if each.stack_id in labels]
    front = report.goals.goals.has_front
    cells = [
        ("*" * (front and each.on_front), labels[each.stack_id], *_cells(report, each))
        for each in rows
    ]
    memory = "peak memory" if report.goals.memory_of == "run" else "import memory"
    heads = ("", "", "import time", "ratio", memory, "ratio", "download", "installed", "exceeds")
    shown = [at for at in range(len(heads)) if at < 2 or any(row[at] for row in cells)]
    if len(shown) < 3:
        return []
    table = [tuple(row[at] for at in shown) for row in (heads, *cells)]
    lines = ["Import, memory and size:", *columns(table)]
    notes = ["ratio above 1 = less than the baseline needs"] if "ratio" in table[0] else []
    notes += ["* = on the Pareto front"] if front else []
    if any(each.size.installed_bytes for each in rows):
        notes.append("installed = files of the wheels, unpacked")
    return [*lines, *(f"  {note}" for note in notes), ""]


def _memory(report: ExploreReport, row: StackQuantities) -> float | None:
    return row.peak_bytes if report.goals.memory_of == "run" else row.import_peak_bytes


def _cells(report: ExploreReport, row: StackQuantities) -> tuple[str, ...]:
    memory = _memory(report, row)
    baseline = any(each.is_baseline and each.stack_id == row.stack_id for each in report.ranking)
    # Beside times that were compared, one from other blocks would seem to be comparable.
    compared = any(each.import_effect is not None for each in report.goals.stacks)
    shown = baseline or row.import_effect is not None or not compared
    return (
        seconds_text(row.import_s) if shown else "",
        within(row.import_effect),
        megabytes(memory),
        within(row.memory_effect),
        megabytes(row.size.download_bytes),
        megabytes(row.size.installed_bytes),
        ", ".join(row.exceeded),
    )


# Sentences: what was seen, with intervals


def headline(report: ExploreReport) -> list[str]:
    """Return sentences on what was seen besides the winner, the largest effects first."""
    baseline = next((row for row in report.ranking if row.is_baseline), None)
    if baseline is None or any(control.failed for control in report.health.controls):
        return []
    lines = [*_speeds(report, baseline), *_imports(report, baseline), *_smaller(report, baseline)]
    return lines + _missing(report, baseline)


def short_label(label: str, baseline: str) -> str:
    """Return in what a stack differs from the baseline: the parts of its label that are its own."""
    theirs = set(baseline.split(", "))
    own = [part for part in label.split(", ") if part not in theirs]
    return ", ".join(own) or label


def _rows(report: ExploreReport) -> list[Ranked]:
    return [row for row in report.ranking if row.counts and not row.is_baseline]


def _speeds(report: ExploreReport, baseline: Ranked) -> Iterator[str]:
    """Yield the largest effects on speed, the winner's apart: it has a sentence of its own."""
    winner = conclusion(report).winner
    found = [
        (each, row)
        for row in _rows(report)
        if (each := _speed(row)) is not None
        and each.verdict in (Verdict.FASTER, Verdict.SLOWER)
        and row != winner
        and not {effect.indicator_id for effect in row.effects} & report.figures
    ]
    found.sort(key=lambda pair: -abs(math.log(pair[0].ratio)))
    for effect, row in found[:MOST_EFFECTS]:
        yield (
            f"{short_label(row.label, baseline.label)}: {effect.ratio:.2f} times the speed of "
            f"{short_label(baseline.label, row.label)} ({effect.low:.2f} to {effect.high:.2f})."
        )


def _speed(row: Ranked) -> Effect | None:
    if row.overall is not None:
        return row.overall
    return row.effects[0] if len(row.effects) == 1 else None


def _imports(report: ExploreReport, baseline: Ranked) -> Iterator[str]:
    """Yield the largest shown effect on import time and on memory, or that there is none."""
    rows = {row.stack_id: row for row in _rows(report)}
    others = [each for each in report.goals.stacks if each.stack_id in rows]
    base = report.goals.of(baseline.stack_id)
    times = [(each.import_effect, each) for each in others]
    peaks = [(each.memory_effect, each) for each in others]
    time, peak = _largest(times), _largest(peaks)
    if time is not None:
        effect, each = time
        label = rows[each.stack_id].label
        fast, slow = _ordered(effect, label, baseline.label)
        amounts = sorted([each.import_s or 0.0, base.import_s or 0.0])
        yield (
            f"Import: {fast} imports {report.goals.imported} {_factor(effect)} as fast as {slow}; "
            f"{seconds_text(amounts[0])} against {seconds_text(amounts[1])}."
        )
    if peak is not None:
        effect, each = peak
        little, much = _ordered(effect, rows[each.stack_id].label, baseline.label)
        amounts = sorted(_memory(report, row) or 0.0 for row in (each, base))
        yield (
            f"Peak memory of the {report.goals.memory_of}: {megabytes(amounts[0])} with {little}, "
            f"{megabytes(amounts[1])} with {much}: {_factor(effect)} as much."
        )
    known = [e for e, _ in (*times, *peaks) if e is not None and e.low > 0]
    if known and time is None and peak is None:
        yield "Import time and memory: no measurable difference."


def _largest(
    found: Sequence[tuple[Effect | None, StackQuantities]],
) -> tuple[Effect, StackQuantities] | None:
    shown = [
        (effect, each)
        for effect, each in found
        if effect is not None and effect.verdict in (Verdict.FASTER, Verdict.SLOWER)
    ]
    return max(shown, key=lambda pair: abs(math.log(pair[0].ratio)), default=None)


def _ordered(effect: Effect, label: str, baseline: str) -> tuple[str, str]:
    """Return what is better, then what is worse, each by what distinguishes them."""
    own, other = short_label(label, baseline), short_label(baseline, label)
    return (own, other) if effect.ratio >= 1 else (other, own)


def _factor(effect: Effect) -> str:
    """Return an effect as a factor above 1 with its interval."""
    low, ratio, high = effect.low, effect.ratio, effect.high
    if ratio < 1:
        low, ratio, high = 1 / high, 1 / ratio, 1 / low
    digits = 2 if high - low >= 0.02 else 3
    return f"{ratio:.{digits}f} times ({low:.{digits}f} to {high:.{digits}f})"


def _smaller(report: ExploreReport, baseline: Ranked) -> Iterator[str]:
    """Yield stacks that are much smaller than the baseline and hardly slower, if at all."""
    base = report.goals.of(baseline.stack_id).size.installed_bytes
    for row in _rows(report):
        size, effect = report.goals.of(row.stack_id).size.installed_bytes, _speed(row)
        if not base or not size or size > MUCH_SMALLER * base or effect is None:
            continue
        if effect.low >= 1 / (1 + HARDLY_SLOWER):
            yield (
                f"{short_label(row.label, baseline.label)} takes {size / base:.2f} times the disk "
                f"of {short_label(baseline.label, row.label)} ({megabytes(size)} against "
                f"{megabytes(base)}) at {effect.ratio:.2f} times its speed "
                f"({effect.low:.2f} to {effect.high:.2f})."
            )


def _missing(report: ExploreReport, baseline: Ranked) -> list[str]:
    """Return what is not decided, and what deciding it takes; nothing where all of it is."""
    more = report.run.to_analysis
    if not more:
        return []
    if all(each.low <= 0 for row in _rows(report) for each in row.effects):
        return [f"The first interim analysis needs {_more_blocks(report, more)}"]
    open_ = undecided(report.ranking, report.goals)
    names = [short_label(row.label, baseline.label) for row in open_]
    shown = "; ".join(names[:MOST_EFFECTS])
    shown += f" and {len(names) - MOST_EFFECTS} more" * (len(names) > MOST_EFFECTS)
    return [
        f"Not decided against the baseline: {shown}.",
        f"The next interim analysis needs {_more_blocks(report, more)}",
    ]


def _more_blocks(report: ExploreReport, count: int) -> str:
    """Return so many blocks with the time that they take, and how to have them run."""
    takes = f", about {span(count * report.run.block_s)}" if report.run.block_s else ""
    blocks = counted(count, "more block")
    return f"{blocks}{takes}: the same command goes on from here."


# The answer where goals and limits decide

_UNITS = {Quantity.IMPORT_TIME: seconds_text}


def limit_text(limit: Limit) -> str:
    """Return a limit in words: ``peak memory of 4.00 GB``."""
    return f"{limit.quantity.value} of {_UNITS.get(limit.quantity, megabytes)(limit.most)}"


def goal_answer(report: ExploreReport, found: Conclusion, baseline: str) -> list[str]:
    """Return the answer to goals and limits; nothing where the usual sentences have it."""
    goals = report.goals.goals
    limits = " and ".join(limit_text(each) for each in goals.limits)
    if found.answer is RankingAnswer.NONE_WITHIN_LIMITS:
        return [f"No stack that was compared is within the limits: {limits}."]
    if found.answer is RankingAnswer.FRONT:
        names = " and ".join(goal.value for goal, _ in goals.wanted)
        front = [row.label for row in report.ranking if report.goals.of(row.stack_id).on_front]
        return [
            f"Pareto front of {names}: {'; '.join(front) or 'none'}.",
            "No other stack is shown to be better than one of these in a goal, and as good in all.",
        ]
    if found.winner is None:
        return []
    effect = report.goals.of(found.winner.stack_id).decision
    by = f"{effect.ratio:.2f} times as good as {baseline}" if effect else ""
    if effect is not None and effect.blocks:
        by += f" ({effect.low:.3f} to {effect.high:.3f}; {effect.blocks} blocks)"
    if found.answer is RankingAnswer.BETTER:
        return [f"Best by {_weighed(goals.weights)}: {found.winner.label}, {by}."]
    if found.answer is RankingAnswer.WITHIN_LIMITS:
        return [
            f"{baseline}, the baseline, exceeds the limit ({limits}). The best within it: "
            f"{found.winner.label}{f', {by}' if by else ''}."
        ]
    return [f"Best by {_weighed(goals.weights)}: no stack is shown to be better than {baseline}."]


def _weighed(weights: Sequence[tuple[Goal, float]]) -> str:
    if len(weights) == 1:
        return weights[0][0].value
    return ", ".join(f"{goal.value} {weight:g}" for goal, weight in weights)
