"""What a search measured, as its model gets it, and what it believes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stackgen.measure import block_times
from stackgen.measure.bandit import predicted_speeds, searched
from stackgen.measure.posterior import Measured, Model
from stackgen.model.inspections import Outcome, Role
from tests.samples import call, environment, inspection

FAST, SLOW = environment("2.0"), environment("1.0")
PLACES = {FAST.stack.id: 0, SLOW.stack.id: 1}
SORT, MATMUL = call("numpy/sort"), call("numpy/matmul")


def seen(place: int, block: int, seconds: float, of=SORT):  # type: ignore[no-untyped-def]
    run = inspection((FAST, SLOW)[place], of, block, seconds)
    return replace(run, role=Role.SEARCH)


def test_it_gets_the_log_of_the_fastest_sample() -> None:
    runs = [seen(0, 1, 2.0), seen(1, 1, 3.0)]
    found = searched(runs, places=PLACES, calls=[SORT], weights={})
    assert found == [Measured(1, 0, math.log(2.0)), Measured(1, 1, math.log(3.0))]


def test_several_indicators_are_one_weighted_mean() -> None:
    runs = [seen(0, 1, 2.0), seen(0, 1, 16.0, MATMUL)]
    (found,) = searched(runs, places=PLACES, calls=[SORT, MATMUL], weights={SORT.id: 3.0})
    assert found.log_s == pytest.approx(0.75 * math.log(2.0) + 0.25 * math.log(16.0))


def test_a_block_without_all_indicators_or_with_one_twice_does_not_count() -> None:
    failed = replace(seen(1, 2, 1.0), outcome=Outcome.CRASHED, observation=None)
    runs = [seen(0, 1, 2.0), seen(0, 2, 2.0), seen(0, 2, 2.5, MATMUL), seen(0, 2, 2.0), failed]
    assert searched(runs, places=PLACES, calls=[SORT, MATMUL], weights={}) == []


def test_what_is_excluded_or_has_another_role_does_not_count() -> None:
    one, two = seen(0, 1, 2.0), seen(0, 2, 2.0)
    compared = replace(seen(1, 1, 3.0), role=Role.CANDIDATE)
    excluded = [(two.campaign_id, 2)]
    found = searched(
        [one, two, compared], places=PLACES, calls=[SORT], weights={}, excluded=excluded
    )
    assert [(each.block, each.stack) for each in found] == [(1, 0)]
    everything = searched(
        [one, compared], places=PLACES, calls=[SORT], weights={}, roles=tuple(Role)
    )
    assert [each.stack for each in everything] == [0, 1]


def test_searches_take_no_part_in_effects() -> None:
    runs = [seen(0, block, 2.0) for block in range(1, 9)]
    assert block_times(runs, indicator=SORT.id, stack=FAST.stack.id) == {}


def test_the_fastest_comes_first_and_the_baseline_is_one() -> None:
    model = Model([(("numpy", "2.0"),), (("numpy", "1.0"),)])
    dice = np.random.default_rng(1)
    measured = [
        Measured(block, place, log_s + dice.normal(0, 0.01))
        for block in range(12)
        for place, log_s in enumerate((0.0, math.log(1.5)))
    ]
    prediction = model.predict(measured)
    fast, slow = predicted_speeds(
        prediction,
        [0, 1],
        labels=("fast", "slow"),
        counts={0: 12},
        baseline=1,
        margin=0.02,
        dice=dice,
    )
    assert (fast.label, fast.measured) == ("fast", 12)
    assert (slow.label, slow.measured) == ("slow", 0)
    assert fast.low < 1.5 < fast.high
    assert fast.ratio == pytest.approx(1.5, rel=0.03)
    assert (slow.low, slow.ratio, slow.high) == (1.0, 1.0, 1.0)
    assert fast.within > 0.99
    assert slow.within < 0.01
