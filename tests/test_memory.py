"""The memory that stacks need, as reports tell it."""

from dataclasses import replace

from stackgen.measure.results import peak_memory
from stackgen.model.inspections import IndicatorCall, Inspection, Observation, Outcome
from stackgen.model.reports.campaigns import PeakMemory
from stackgen.report.details import memory_text
from tests.samples import call, environment, inspection
from tests.test_render import report

OWN, OTHER = call(), call("numpy/import")


def seen(version: str, what: IndicatorCall, peak: int | None) -> Inspection:
    found = inspection(environment(version), what, 1, 1.0)
    reported = Observation(values_s=(1.0,), loops=1, peak_memory_bytes=peak)
    return replace(found, observation=reported)


def test_the_largest_peak_of_each_stack_is_reported_and_failures_have_none() -> None:
    inspections = [
        *(seen("1.0", OWN, peak) for peak in (5, 7, 6)),
        seen("2.0", OWN, 6),
        seen("2.0", OTHER, 9),
        seen("3.0", OWN, None),
        inspection(environment("3.0"), OWN, 1, None, outcome=Outcome.CRASHED),
    ]
    found = {each.stack_id: each.peak_bytes for each in peak_memory(inspections, [OWN.id])}
    assert found == {environment("1.0").stack.id: 7, environment("2.0").stack.id: 6}


def test_a_report_reports_where_stacks_differ_in_memory_and_only_there() -> None:
    given = report([0.1] * 6)
    first, second, *_ = given.ranking
    ((indicator, name),) = given.labels.items()

    def reported(*peaks: int) -> list[str]:
        rows = tuple(
            PeakMemory(stack_id=row.stack_id, indicator_id=indicator, peak_bytes=peak)
            for row, peak in zip((first, second), peaks, strict=True)
        )
        return memory_text(replace(given, memory=rows))

    heading, *rows, end = reported(500_000_000, 410_000_000)
    assert heading == f"Peak memory of {name}:"
    assert [row.split("  ")[-1].strip() for row in rows] == ["410 MB", "500 MB"]
    assert second.label in rows[0]
    assert end == ""
    assert reported(41_000_000, 40_000_000) == []
