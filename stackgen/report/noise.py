"""How small a difference a machine can show, in plain English."""

import math

from stackgen.measure import INTERIM_ANALYSES, MARGIN
from stackgen.measure.noise import CONTROLS, RUNS
from stackgen.model.reports.campaigns import Disturbance, ExplorePlan, IndicatorNoise, NoiseReport
from stackgen.report.explore import place_line, plan_costs
from stackgen.report.tables import counted, span

QUIET = 0.02
"""Shares of the time below this are not worth a word."""
_NAMED = 3  # blocks that are listed one by one
_HEAD = ("blocks", "detects from", "machine time")


def noise_text(report: NoiseReport) -> str:
    """Return what differences show, of each indicator, and what was going on meanwhile."""
    setup = report.setup
    where = "in containers of" if setup.executor == "docker" else "in virtualenvs of"
    lines = [
        f"{report.stack} against itself on Python {setup.python}, {where} {setup.base}",
        f"on {setup.machine}, seed {report.seed}: all differences are noise",
        "",
    ]
    for row in report.indicators:
        lines += [*_indicator(row), ""]
    if any(row.detectable for row in report.indicators):
        lines += [*_legend(report), ""]
    lines += [*_excluded(report), *meanwhile(report.disturbance)]
    return "\n".join(
        [
            *lines,
            "",
            f"Took {span(report.seconds)} for {report.new_inspections} inspections; stopped: "
            f"{report.stopped}.",
            f"Recorded in {report.knowledge_base}; the same command continues from there.",
        ]
    )


def noise_plan_text(plan: ExplorePlan) -> str:
    """Return what would be measured and what that takes, for --dry-run."""
    return "\n".join(
        [
            f"{', '.join(label for label, _ in plan.chosen)} against itself, or the next older "
            "stack where it does not run",
            place_line(plan, "To be measured"),
            f"By: {', '.join(plan.indicators)}{' and ' * bool(plan.indicators)}python/pure",
            "",
            *plan_costs(plan),
        ]
    )


def _indicator(row: IndicatorNoise) -> list[str]:
    lines = [row.label]
    if row.blocks and row.run_s is not None:
        blocks = f"{counted(row.blocks, 'block')} with two equal runs"
        excluded = f" ({row.left_out} more excluded)" if row.left_out else ""
        lines.append(f"  {blocks}{excluded}, {row.run_s:.2g} s a run")
    if row.unusable:
        lines.append(f"  {row.unusable}")
    if row.spread is None or row.deviation is None or row.blocks < INTERIM_ANALYSES[0]:
        return lines
    lines.append(
        f"  spread of their differences {percent(row.spread)}; "
        f"with outliers (standard deviation) {percent(row.deviation)}"
    )
    return [*lines, *_table(row)]


def _table(row: IndicatorNoise) -> list[str]:
    if not row.detectable:
        return []
    rows = [
        (str(each.blocks), shown_from(each.effect), span(each.machine_s)) for each in row.detectable
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in (_HEAD, *rows)
    ]


def _legend(report: NoiseReport) -> list[str]:
    control = "" if report.control_s is None else f" ({report.control_s:.2g} s a run)"
    return [
        "detects from: of 100 comparisons (stackgen compare) of two stacks that differ by so much,",
        f"  95 find it; what certainly differs by less than {percent(MARGIN)} is called the same.",
        "  Of more stacks or indicators together each needs more blocks.",
        f"machine time: in each block {RUNS} runs, one stack twice and the other once, and plain",
        f"  Python {_times(CONTROLS)}{control}; building apart.",
    ]


def _excluded(report: NoiseReport) -> list[str]:
    """Report which blocks were disturbed."""
    lines = [f"Block {block} is excluded: {why}." for block, why in report.excluded[:_NAMED]]
    more = len(report.excluded) - len(lines)
    lines += [f"{more} more are excluded."] if more else []
    if report.tolerated:
        lines.append(
            f"{report.tolerated} disturbed blocks count nevertheless: most blocks are disturbed."
        )
    return lines


def meanwhile(found: Disturbance) -> list[str]:
    """Return what else went on, in words."""
    causes = (
        (found.waited, "other processes kept runs from the CPU for {} of their time"),
        (found.stolen, "the host of this virtual machine took {} of its CPUs"),
        (found.throttled, "a CPU quota stopped runs for {} of their time"),
    )
    reasons = [
        words.format(percent(share))
        for share, words in causes
        if share is not None and share >= QUIET
    ]
    if reasons:
        return ["Meanwhile:", *(f"  {each}" for each in reasons)]
    if found.waited is None and found.stolen is None:
        return ["This system does not report what else was running."]
    return ["Meanwhile the machine was quiet."]


def percent(share: float) -> str:
    """Return a share with two significant digits: ``8.1 %``, ``12 %``."""
    return f"{share:.1%}".replace("%", " %") if share < 0.1 else f"{share:.0%}".replace("%", " %")


def shown_from(effect: float) -> str:
    """Return an effect; a large one as how many times as long."""
    if math.isinf(effect):
        return "never"
    return percent(effect) if effect < 1 else f"{1 + effect:.1f} times"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
