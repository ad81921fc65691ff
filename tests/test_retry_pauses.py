"""How long one run waits for what may pass."""

import io
import random

import pytest

from stackgen.campaign.host import RetryPolicy, allowance_s
from stackgen.errors import EngineError, IndexUnavailableError
from stackgen.report.terminal import Plain

GONE = IndexUnavailableError("the index is gone", why="connection refused\nmore", fix="wait")
AWAY = EngineError("the engine is away", why="connection refused", fix="wait")


def retry_policy(
    left_s: float, slept: list[float], stream: io.StringIO, seed: int = 1
) -> RetryPolicy:
    return RetryPolicy(
        left_s=left_s, dice=random.Random(seed), progress=Plain(stream), sleep=slept.append
    )


def test_pauses_grow_and_end() -> None:
    slept: list[float] = []
    stream = io.StringIO()
    waiting = retry_policy(60, slept, stream)
    while waiting.pause(GONE, at_most_s=1e9):
        pass
    assert sum(slept) == pytest.approx(60)
    assert 6 <= len(slept) <= 12
    wanted = [2, 4, 8, *[10] * 9]
    assert all(w / 2 <= each <= w * 1.5 for w, each in zip(wanted, slept[:-1], strict=False))
    first = stream.getvalue().splitlines()[0]
    assert first == f"the index is gone (connection refused); trying again in {slept[0]:.1f} s."


def test_a_run_is_no_more_patient_with_the_second_loss_than_it_has_time_left() -> None:
    slept: list[float] = []
    waiting = retry_policy(10, slept, io.StringIO())
    assert waiting.pause(GONE, at_most_s=1e9)
    assert waiting.pause(GONE, at_most_s=1e9)
    waiting.over()
    waiting.pause(GONE, at_most_s=1e9)
    assert slept[2] <= 3
    assert sum(slept) <= 10


def test_nothing_is_waited_for_beyond_the_budget() -> None:
    slept: list[float] = []
    waiting = retry_policy(60, slept, io.StringIO())
    assert waiting.pause(GONE, at_most_s=0.5)
    assert not waiting.pause(GONE, at_most_s=0)
    assert slept == [0.5]


def test_an_engine_is_waited_for_a_minute_each_time_whatever_the_budget() -> None:
    slept: list[float] = []
    waiting = retry_policy(allowance_s(30), slept, io.StringIO())
    for times in (1, 2):
        while waiting.pause(AWAY, at_most_s=1e9):
            pass
        assert sum(slept) == pytest.approx(60 * times)
        waiting.engine_works()
    assert waiting.left_s == allowance_s(30)


def test_the_same_seed_waits_the_same_and_another_does_not() -> None:
    runs: list[list[float]] = [[], [], []]
    for slept, seed in zip(runs, (1, 1, 2), strict=True):
        retry_policy(60, slept, io.StringIO(), seed).pause(GONE, at_most_s=1e9)
    assert runs[0] == runs[1] != runs[2]


def test_a_tenth_of_the_budget_is_allowed_and_a_minute_at_most() -> None:
    assert [allowance_s(each) for each in (30, 600, 7200)] == [3, 60, 60]
