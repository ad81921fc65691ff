"""Blocks that stackgen itself recorded on TensorFlow: equal arms are equal, 5 % more is found."""

import gzip
import json
from itertools import combinations
from pathlib import Path

import pytest

from stackgen.measure import INTERIM_ANALYSES, block_contrasts, effect, p_value
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.identity import IndicatorId, StackId

RECORDED = Path(__file__).parent / "recorded" / "tensorflow-live.json.gz"
EQUAL, PLANTED = ("A1", "A2", "A3"), "P5"
SHARE, WITHIN = 1.05, 0.01

Times = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def fastest() -> Times:
    document = json.loads(gzip.decompress(RECORDED.read_bytes()))
    times: Times = document["fastest_ns"]
    return times


def contrasts(times: Times, indicator: str, a: str, b: str) -> tuple[float, ...]:
    one, two = ({int(k): v for k, v in times[indicator][arm].items()} for arm in (a, b))
    return block_contrasts(a_s=one, b_s=two)


def beside_planted(times: Times, equal: str) -> Effect:
    return effect(
        a=StackId(equal),
        b=StackId(PLANTED),
        indicator_id=IndicatorId("matmul"),
        contrasts=contrasts(times, "matmul", equal, PLANTED),
    )


def test_every_arm_is_in_every_block(fastest: Times) -> None:
    blocks = set(fastest["matmul"]["A1"])
    assert len(blocks) >= INTERIM_ANALYSES[0]
    assert set(fastest["matmul"]) == {*EQUAL, PLANTED}
    assert all(set(times) == blocks for arms in fastest.values() for times in arms.values())


@pytest.mark.parametrize(("a", "b"), [*combinations(EQUAL, 2)])
def test_equal_stacks_raise_no_alarm_at_1_percent(fastest: Times, a: str, b: str) -> None:
    p = p_value(contrasts(fastest, "matmul", a, b))
    assert p is not None
    assert p >= 0.01


def test_the_pure_python_control_raises_no_alarm_at_1_percent(fastest: Times) -> None:
    p = p_value(contrasts(fastest, "pure", "A1", "A3"))
    assert p is not None
    assert p >= 0.01


@pytest.mark.parametrize("equal", EQUAL)
def test_5_percent_more_work_is_found_and_its_interval_holds_it(fastest: Times, equal: str) -> None:
    found = beside_planted(fastest, equal)
    assert found.verdict is Verdict.FASTER
    assert found.low <= SHARE + WITHIN
    assert found.high >= SHARE - WITHIN
