"""Which of the packages that changed is responsible, in plain English."""

import math
from collections.abc import Iterable, Sequence

from stackgen.model.reports.bisect import (
    BisectAnswer,
    BisectPlan,
    BisectReport,
    ChangedPackage,
    FirstBad,
    HybridResult,
)
from stackgen.report.tables import columns, counted, percent, span

_MOST_CHANGES, _MOST_NAMED = 12, 4


def bisect_text(report: BisectReport) -> str:
    """Return the answer first, then what it rests on."""
    setup = report.plan.setup
    lines = [_answer(report), *_first_bad(report.first_bad), ""]
    lines += _pair(report.changes)
    lines += [f"On Python {setup.python}, {setup.base}, {setup.machine}.", ""]
    if report.ranking:
        lines += ["Likeliest causes:", *columns(_ranking(report)), ""]
    if report.search.results:
        lines += ["Stacks between the two:", *columns(_results(report.search.results)), ""]
    if report.first_bad is not None and report.first_bad.results:
        lines += [
            f"Releases of {report.first_bad.package}:",
            *columns(_results(report.first_bad.results)),
            "",
        ]
    return "\n".join([*lines, *_effort(report)])


def bisect_plan_text(plan: BisectPlan) -> str:
    """Return what a bisection would do, and its cost."""
    estimate = plan.plan.estimate
    units = sum(not each.follows for each in plan.changes)
    units -= sum(len(each) - 1 for each in plan.together)
    lines = [*_pair(plan.changes)]
    lines += [f"No valid stack separates {_and(each)}." for each in plan.together]
    lines += [
        f"{units} packages can be exchanged one by one: {plan.hypotheses} hypotheses, "
        f"{plan.entropy_bits:.1f} bits."
        if units > 1
        else "There is nothing to separate: all that changed changes together.",
        f"To come: {counted(estimate.wheels, 'wheel')}, "
        f"{estimate.download_bytes / 1e9:.2f} GB to download, about "
        f"{estimate.disk_bytes / 1e9:.1f} GB on disk; stacks in between are made of them.",
        f"At most about {plan.builds} builds and {plan.blocks} blocks of two runs, within the "
        f"budget of {span(plan.plan.budget_s)}; a failure that always occurs takes about "
        f"{2 + math.ceil(math.log2(max(2, units)))} builds and as many runs.",
    ]
    return "\n".join(lines)


def _answer(report: BisectReport) -> str:
    names, certain = _and(report.packages), f"(posterior {report.posterior:.3f})"
    does = "the failure" if report.failure else _slower(report)
    if report.answer is BisectAnswer.CULPRIT and len(report.packages) > 1:
        return f"{names} always change together: they are responsible for {does} {certain}."
    if report.answer is BisectAnswer.CULPRIT:
        return f"{names} is responsible for {does} {certain}."
    if report.answer is BisectAnswer.TOGETHER:
        return f"{names} are responsible for {does}, but only together {certain}."
    if report.answer is BisectAnswer.BOTH and report.failure:
        return f"{names}: each suffices for the failure {certain}."
    if report.answer is BisectAnswer.BOTH:
        shares = ", ".join(
            f"{name} {ratio:.3f} times ({low:.3f} to {high:.3f})"
            for name, low, ratio, high in report.shares
        )
        parts = f": {shares}" if shares else ""
        return f"{names} are responsible for {does}, each for a part {certain}{parts}."
    if report.answer is BisectAnswer.INVOLVED:
        others = "whether others do, too, is not decided"
        if report.partners:
            others = f"no valid stack shows whether {_and(report.partners)} must be new, too"
        return (
            f"{names} {'takes' if len(report.packages) == 1 else 'take'} part in {does} "
            f"{certain}; {others}."
        )
    if report.answer is BisectAnswer.NO_DIFFERENCE:
        return f"No difference between GOOD and BAD was found: {_ratio(report)}."
    if report.answer is BisectAnswer.NONE:
        return f"None of the packages is responsible: the difference does not repeat {certain}."
    if report.answer is BisectAnswer.MANY:
        return f"No single package and no pair explains {does}: several share it."
    if report.ratio is not None and not report.ranking:
        return f"Not decided whether GOOD and BAD differ: {_ratio(report)}."
    return f"Not decided which package is responsible for {does}."


def _slower(report: BisectReport) -> str:
    if report.ratio is None:
        return "the difference"
    return f"BAD {_ratio(report)}"


def _ratio(report: BisectReport) -> str:
    if report.ratio is None:
        return "it was not measured"
    low, ratio, high = report.ratio
    interval = f"{low:.3f} to {high:.3f}" if low > 0 else "too few blocks for an interval"
    return f"taking {ratio:.3f} times the time of GOOD ({interval})"


def _first_bad(found: FirstBad | None) -> list[str]:
    if found is None:
        return []
    if found.release:
        return [
            f"First bad release: {found.package} {found.release} (posterior "
            f"{found.posterior:.3f}); {found.before} is good."
        ]
    return [f"First bad release of {found.package}: not decided among {_and(found.among)}."]


def _pair(changes: Sequence[ChangedPackage]) -> list[str]:
    varied = [each for each in changes if not each.follows]
    shown = [
        f"{each.package} {each.good or 'absent'} -> {each.bad or 'absent'}"
        for each in varied[:_MOST_CHANGES]
    ]
    shown += [f"and {len(varied) - _MOST_CHANGES} more"] * (len(varied) > _MOST_CHANGES)
    lines = [f"GOOD to BAD: {', '.join(shown)}."]
    if follows := [each.package for each in changes if each.follows]:
        lines.append(f"{len(follows)} more follow from these: {_and(follows[:_MOST_CHANGES])}.")
    return lines


def _ranking(report: BisectReport) -> list[tuple[str, str]]:
    words = {
        "single": "alone",
        "together": "only together",
        "both": "each suffices" if report.failure else "each for a part",
        "three": "each for a part",
        "many": "more packages than these",
        "none": "none of them",
    }
    return [
        (f"{each.posterior:.3f}", f"{_and(each.packages)} {words[each.kind]}".strip())
        for each in report.ranking
    ]


def _results(results: Iterable[HybridResult]) -> list[tuple[str, str]]:
    rows = []
    for each in results:
        new, reference = _new(each.new), _new(each.reference) if each.reference else "GOOD"
        if each.unusable:
            rows.append((new, f"of no use: {each.unusable}"))
        elif each.ratio is not None:
            rows.append((new, f"{each.ratio:.3f} times {reference} in {each.blocks} blocks"))
        else:
            rows.append((new, f"failed in {each.failures} of {each.blocks} runs"))
    return rows


def _new(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"new {', '.join(names[:_MOST_NAMED])}{more}"


def _effort(report: BisectReport) -> list[str]:
    search = report.search
    lines = []
    if search.results:
        before, after = search.entropy_bits
        unit = "runs" if report.failure else "blocks"
        lines.append(
            f"{search.blocks} {unit} of {search.builds} stacks; {before:.1f} bits of uncertainty "
            f"became {after:.1f}, for which at least {max(1, math.ceil(search.bound))} were needed."
        )
    if report.misfit < 1:
        lines.append(f"Data as unlikely as these, if the answer holds: {percent(report.misfit)}.")
    return [
        *lines,
        f"Took {span(report.seconds)} for {report.new_inspections} inspections; stopped: "
        f"{report.stopped}.",
        f"Recorded in {report.knowledge_base}; the same command continues from there.",
    ]


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
