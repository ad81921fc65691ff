"""The memory that stacks need, as reports tell it."""

from dataclasses import replace

from stackgen.measure.memory import peak_memory
from stackgen.values import IndicatorCall, Inspection, Observation, Outcome
from tests.samples import call, environment, inspection

OWN, OTHER = call(), call("numpy/import")


def seen(version: str, what: IndicatorCall, peak: int | None) -> Inspection:
    found = inspection(environment(version), what, 1, 1.0)
    told = Observation(values_s=(1.0,), loops=1, peak_memory_bytes=peak)
    return replace(found, observation=told)


def test_the_largest_peak_of_each_stack_is_told_and_failures_tell_none() -> None:
    inspections = [
        *(seen("1.0", OWN, peak) for peak in (5, 7, 6)),
        seen("2.0", OWN, 6),
        seen("2.0", OTHER, 9),
        seen("3.0", OWN, None),
        inspection(environment("3.0"), OWN, 1, None, outcome=Outcome.CRASHED),
    ]
    found = {each.stack_id: each.peak_bytes for each in peak_memory(inspections, [OWN.id])}
    assert found == {environment("1.0").stack.id: 7, environment("2.0").stack.id: 6}
