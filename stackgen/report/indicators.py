"""What was measured here and now, as tables."""

from collections.abc import Callable, Sequence

from stackgen.model.inspections import Inspection
from stackgen.model.reports.local import Figures, LocalReport, LocalResult
from stackgen.report.tables import columns, duration, short

_LOG_LINES = 20
_ENOUGH = 100  # samples: fewer have no 99th percentile
_UNITS = {"FLOP": "GFLOP/s", "byte": "GB/s"}
_Column = tuple[str, Callable[[Figures], str]]


def local_text(report: LocalReport) -> str:
    """Return times, rates and marks of each combination, and the logs of what failed."""
    lines = [*_head(report), "", *_table(report, report.results, _times(report)), ""]
    lines += _latencies(report)
    lines += _facts(report)
    lines += _failures(report)
    lines += _remarks(report)
    return "\n".join(lines).rstrip()


def _head(report: LocalReport) -> list[str]:
    indicator = report.indicator
    version = f", {indicator.component} {report.component_version}"
    cpu = dict(report.machine.identity).get("cpu_name", "unknown CPU")
    same = [
        f"{name} {value}"
        for name, value in (report.results[0].arguments if report.results else ())
        if name not in report.varied
    ]
    return [
        f"{indicator.name}: {indicator.summary}",
        f"{report.python_version}{version if report.component_version else ''} ({report.python})",
        f"{cpu}, machine {report.machine.id[:12]}{'; ' if same else ''}{', '.join(same)}",
    ]


def _times(report: LocalReport) -> list[_Column]:
    """Return the columns that hold any value."""
    unit, seen = report.indicator.unit, [each.figures for each in report.results if each.figures]
    shown: list[tuple[bool, _Column]] = [
        (True, ("best", lambda found: _worth(found, found.best_s))),
        (True, ("median", lambda found: _worth(found, found.median_s))),
        (True, ("90 %", lambda found: _worth(found, found.p90_s))),
        (any(each.rate for each in seen), ("rate", lambda found: _rate(found, unit))),
        (
            any(each.items_per_s for each in seen),
            ("samples/s", lambda found: short(found.items_per_s or 0)),
        ),
        (True, ("memory", lambda found: _megabytes(found.peak_memory_bytes))),
        (
            any(each.device_memory_bytes for each in seen),
            ("GPU memory", lambda found: _megabytes(found.device_memory_bytes)),
        ),
        (
            any(each.gpu_percent is not None for each in seen),
            (
                "GPU use",
                lambda found: "" if found.gpu_percent is None else f"{found.gpu_percent} %",
            ),
        ),
        (
            any(each.spread is not None for each in seen),
            ("spread", lambda found: "" if found.spread is None else f"{found.spread:.1%}"),
        ),
    ]
    return [column for wanted, column in shown if wanted]


def _table(
    report: LocalReport, results: Sequence[LocalResult], wanted: Sequence[_Column]
) -> list[str]:
    head = [*report.varied, *(name for name, _ in wanted), ""]
    return columns([head, *(_row(report, each, wanted) for each in results)], indent="")


def _row(report: LocalReport, result: LocalResult, wanted: Sequence[_Column]) -> list[str]:
    found = result.figures
    cells = [render(found) if found else "-" for _, render in wanted]
    return [*_varied(report, result), *cells, _mark(result)]


def _varied(report: LocalReport, result: LocalResult) -> list[str]:
    given = dict(result.arguments)
    return [given[name] for name in report.varied]


def _mark(result: LocalResult) -> str:
    marks = [] if result.figures is None or result.figures.steady else ["not steady"]
    if result.failure is not None:
        marks.append(f"{_outcome(result.failure)}: {_reason(result.failure)}")
    return "; ".join(marks)


def _outcome(failure: Inspection) -> str:
    return failure.outcome.value.replace("_", " ")


def _reason(failure: Inspection) -> str:
    """Return the most useful line of a log: the last one, but for an exit code's number."""
    lines = [line.strip() for line in failure.log.splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith("exit code ")] or lines
    return useful[-1] if useful else "no output"


def _rate(found: Figures, unit: str) -> str:
    if not found.rate:
        return ""
    return f"{short(found.rate / 1e9)} {_UNITS.get(unit, f'G{unit}/s')}"


def _worth(found: Figures, value: float) -> str:
    """Return a time, or the figure that an indicator gives in its place."""
    if not found.figure:
        return duration(value)
    return short(1 / value if found.figure == "higher" else value)


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f} MB"


def _latencies(report: LocalReport) -> list[str]:
    """Return how the time of one batch scatters, of indicators that process samples."""
    with_items = [each for each in report.results if each.figures and each.figures.items]
    seen = [each.figures for each in with_items if each.figures]
    if not seen:
        return []
    wanted: list[_Column] = [
        ("mean", lambda found: duration(found.mean_s)),
        ("std", lambda found: duration(found.std_s)),
        ("50 %", lambda found: duration(found.median_s)),
        ("90 %", lambda found: duration(found.p90_s)),
        ("99 %", lambda found: duration(found.p99_s)),
    ]
    samples, loops = min(each.samples for each in seen), max(each.loops for each in seen)
    of_what = "one operation" if loops == 1 else f"means of up to {loops} operations"
    few = f"; 99 % needs {_ENOUGH}: --samples {_ENOUGH}" if samples < _ENOUGH else ""
    title = f"Latency of {of_what}, {samples} samples a process{few}"
    return [title, *_table(report, with_items, wanted), ""]


def _facts(report: LocalReport) -> list[str]:
    with_facts = [each for each in report.results if each.figures and each.figures.facts]
    lines = []
    for each in with_facts:
        assert each.figures is not None  # noqa: S101 # for the type checker
        facts = ", ".join(
            f"{name} {int(value):,}" if value.isdigit() else f"{name} {value}"
            for name, value in each.figures.facts
        )
        varied = _varied(report, each)
        where = " ".join(
            f"{name}={value}" for name, value in zip(report.varied, varied, strict=True)
        )
        lines.append((where, facts))
    distinct = {facts for _, facts in lines}
    if len(distinct) == 1:
        return [*distinct, ""]
    return [*(f"{where}: {facts}" for where, facts in lines), ""] if lines else []


def _failures(report: LocalReport) -> list[str]:
    """Return the end of each log, equal ones once."""
    lines: list[str] = []
    printed: set[str] = set()
    for result in report.results:
        failure = result.failure
        log = [] if failure is None else [each for each in failure.log.splitlines() if each.strip()]
        if failure is None or failure.log in printed or len(log) < 2:  # one is a mark
            continue
        printed.add(failure.log)
        given = " ".join(f"{name}={value}" for name, value in result.arguments)
        lines += [f"{_outcome(failure)} ({given}); the end of its log:"]
        lines += [*(f"  {line}" for line in log[-_LOG_LINES:]), ""]
    return lines


def _remarks(report: LocalReport) -> list[str]:
    lines = []
    seen = [each.figures for each in report.results if each.figures]
    if any(each.spread is not None for each in seen):
        count = max(each.processes for each in seen)
        lines.append(
            f"Over {count} processes; spread is how far they are apart."
            if report.indicator.one_shot
            else f"Each time is the median over up to {count} processes; spread is how far their "
            "medians are apart."
        )
    if any(each.rate or each.items_per_s for each in seen):
        lines.append("Rates are those of the median time.")
    better = next((each.figure for each in seen if each.figure), "")
    if better:
        lines.append(f"These are figures of the indicator, not times: {better} is better.")
    if not seen:
        lines.append(
            "Nothing was measured. To measure in another interpreter: --python ~/envs/mine"
        )
    if report.variables:
        lines.append(f"Your own variables in effect: {', '.join(report.variables)}.")
    unenforced = {
        each for result in report.results for ran in result.inspections for each in ran.unenforced
    }
    if unenforced:
        lines.append(f"Not enforced here: {', '.join(sorted(unenforced))}.")
    if report.traces:
        lines.append(f"Traces lie below {report.traces}.")
    if report.interrupted:
        lines.append("Interrupted: this is what was measured until then.")
    return lines
