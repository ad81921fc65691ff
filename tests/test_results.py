"""Results that differ: what counts as the same, and what becomes of stacks that do not."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.measure import deviations, rank
from stackgen.measure.results import Computed, Result, deviation, distance, not_repeatable
from stackgen.model.evidence import Deviation, Difference
from stackgen.model.identity import StackId
from stackgen.model.inspections import Inspection, Observation, Outcome, Role
from stackgen.model.stacks import Environment
from tests.samples import call, environment, inspection

NEW, OLD, ODD = environment("2.4.0"), environment("1.26.4"), environment("1.21.6")
LABELS = {each.stack.id: f"numpy {each.location}" for each in (NEW, OLD, ODD)}
MATMUL = call()
TOLERANCE = 1e-3
numbers = st.floats(allow_nan=False, allow_infinity=False)
results = st.builds(
    Result,
    checksum=st.none() | numbers,
    file=st.sampled_from(["", "f1", "f2"]),
    text=st.sampled_from(["", "t1", "t2"]),
)
within = st.floats(1 - TOLERANCE / 4, 1 + TOLERANCE / 4)


def observed(checksum: float | None, **reported: str) -> Observation:
    printed = {"checksum_tolerance": str(TOLERANCE)} | reported
    return Observation(
        values_s=(1.0,), loops=1, checksum=checksum, circumstances=tuple(sorted(printed.items()))
    )


def judged(theirs: list[Observation], expected: list[Observation]) -> Deviation | None:
    return deviation(Computed.of(theirs), Computed.of(expected), MATMUL.id)


def seen(where: Environment, observation: Observation, block: int, seconds: float) -> Inspection:
    made = inspection(where, MATMUL, block, seconds)
    return replace(made, observation=replace(observation, values_s=(seconds,)))


def campaign(
    checksums: dict[Environment, float], seconds: dict[Environment, float], blocks: int = 16
) -> list[Inspection]:
    dice = random.Random(5)
    return [
        seen(where, observed(value), block, seconds[where] * (1 + dice.gauss(0, 0.01)))
        for block in range(1, blocks + 1)
        for where, value in checksums.items()
    ]


@given(results, results)
def test_the_distance_is_the_same_both_ways_and_nothing_from_itself(a: Result, b: Result) -> None:
    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a)
    assert 0 <= distance(a, b) <= 2 or distance(a, b) == math.inf


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-100, 1e100))
def test_the_unit_of_a_result_does_not_matter(a: float, b: float, scale: float) -> None:
    one = distance(Result(checksum=a), Result(checksum=b))
    other = distance(Result(checksum=a * scale), Result(checksum=b * scale))
    assert other == pytest.approx(one, abs=1e-12)


@given(numbers, numbers, st.none() | st.just("t"))
def test_equal_files_are_the_same_whatever_else_is_said(a: float, b: float, text: str) -> None:
    one = Result(checksum=a, file="f", text=text or "")
    assert distance(one, Result(checksum=b, file="f", text="other")) == 0


@given(st.lists(within, min_size=1), st.lists(within, min_size=1), st.floats(-1e9, 1e9))
def test_what_lies_within_the_tolerance_is_never_marked(
    theirs: list[float], expected: list[float], value: float
) -> None:
    own, right = ([observed(value * each) for each in group] for group in (theirs, expected))
    assert judged(own, right) is None
    assert not_repeatable(Computed.of(right), MATMUL.id) is None


@given(
    st.lists(within, min_size=1),
    st.lists(within, min_size=1),
    st.floats(1 + 3 * TOLERANCE, 100) | st.floats(-100, 1 - 3 * TOLERANCE),
)
def test_what_lies_beyond_it_is_always_marked_with_both_values(
    theirs: list[float], expected: list[float], factor: float
) -> None:
    found = judged([observed(7 * factor * x) for x in theirs], [observed(7 * x) for x in expected])
    assert found is not None
    assert found.kind is Difference.NUMBERS
    assert found.difference > found.tolerance == TOLERANCE
    assert found.checksum == pytest.approx(7 * factor, rel=TOLERANCE)
    assert found.expected == pytest.approx(7, rel=TOLERANCE)


@given(st.lists(st.sampled_from([1.0, 1.0001, 1.2, 3.0]), min_size=1), st.randoms())
def test_neither_order_nor_repetition_of_the_runs_matters(
    values: list[float], dice: random.Random
) -> None:
    expected = [observed(1.0)]
    first = judged([observed(value) for value in values], expected)
    shuffled = values * 2
    dice.shuffle(shuffled)
    assert judged([observed(value) for value in shuffled], expected) == first


def test_one_run_of_many_that_differs_makes_a_stack_not_repeatable() -> None:
    found = judged([observed(1.0)] * 9 + [observed(1.1)], [observed(1.0)])
    assert found is not None
    assert found.kind is Difference.NOT_REPEATABLE
    assert (found.checksum, found.expected) == (1.1, 1.0)


def test_the_stack_that_is_judged_has_no_say_in_the_tolerance() -> None:
    lenient = observed(2.0, checksum_tolerance="10")
    assert judged([lenient], [observed(1.0)]) is not None
    assert judged([observed(2.0)], [lenient]) is None


@pytest.mark.parametrize("reported", ["", "nan", "inf", "-1", "much"])
def test_a_tolerance_that_is_none_is_the_usual_one(reported: str) -> None:
    right = [observed(1.0, checksum_tolerance=reported)]
    assert judged([observed(1.00005)], right) is None
    found = judged([observed(1.0002)], right)
    assert found is not None
    assert found.tolerance == 1e-4


@pytest.mark.parametrize(
    ("file", "text", "checksum", "kind"),
    [
        ("f1", "t1", 5.0, None),  # the same file, byte for byte
        ("f2", "t1", 1.0005, None),  # the same text with nearly the same numbers
        ("f2", "t1", 1.5, Difference.NUMBERS),
        ("f2", "t1", None, Difference.TEXT),  # nothing tells that it is the same
        ("f2", "t2", 1.0, Difference.TEXT),
    ],
)
def test_files_that_programs_write_are_compared_by_bytes_then_text_then_numbers(
    file: str, text: str, checksum: float | None, kind: Difference | None
) -> None:
    right = [observed(1.0, check="f1", check_text="t1")]
    found = judged([observed(checksum, check=file, check_text=text)], right)
    assert (found and found.kind) == kind


def test_what_has_no_result_is_not_judged() -> None:
    blocks = [seen(each, observed(None), 1, 1.0) for each in (NEW, OLD)]
    failed = inspection(ODD, MATMUL, 1, None, outcome=Outcome.CRASHED)
    stacks = [NEW.stack.id, OLD.stack.id, ODD.stack.id]
    assert deviations([*blocks, failed], baseline=NEW.stack.id, stacks=stacks, calls=[MATMUL]) == {}


def test_the_fastest_stack_that_computes_something_else_is_not_the_best() -> None:
    found = rank(
        campaign({NEW: 1.0, OLD: 1.0, ODD: 1.1}, {NEW: 1.0, OLD: 0.9, ODD: 0.5}),
        labels=LABELS,
        baseline=NEW.stack.id,
        calls=[MATMUL],
    )
    best = [row.stack_id for row in found if row.best]
    assert best == [OLD.stack.id]
    assert [row.stack_id for row in found] == [OLD.stack.id, NEW.stack.id, ODD.stack.id]
    assert found[-1].effects[0].ratio == pytest.approx(2, rel=0.05)
    assert [each.kind for each in found[-1].deviations] == [Difference.NUMBERS]


def test_a_trial_outside_of_blocks_counts_as_well() -> None:
    trial = replace(seen(OLD, observed(2.0), 0, 1.0), role=Role.CALIBRATION)
    blocks = campaign({NEW: 1.0, OLD: 1.0}, {NEW: 1.0, OLD: 1.0})
    assert marks([trial, *blocks]) == {OLD.stack.id: [Difference.NOT_REPEATABLE]}


def test_a_baseline_whose_results_are_not_repeatable_excludes_no_candidate() -> None:
    blocks = campaign({NEW: 1.0, OLD: 5.0, ODD: 1.0}, {NEW: 1.0, OLD: 1.0, ODD: 1.0})
    twin = replace(seen(NEW, observed(1.3), 1, 1.0), role=Role.TWIN)
    assert marks([*blocks, twin]) == {NEW.stack.id: [Difference.NOT_REPEATABLE]}
    rows = rank([*blocks, twin], labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL])
    assert all(row.best for row in rows)


def marks(inspections: list[Inspection]) -> dict[StackId, list[Difference]]:
    found = deviations(inspections, baseline=NEW.stack.id, stacks=LABELS, calls=[MATMUL])
    return {stack: [each.kind for each in rows] for stack, rows in found.items()}
