"""What stackgen promises of its verdicts, held against three recordings, indicator by indicator."""

import math
import random
import statistics
from collections.abc import Iterable, Sequence

import pytest

from stackgen.measure import INTERIM_ANALYSES, effect
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.identity import IndicatorId, StackId
from tests.recordings import NAMES, contrasts, identical_pairs, recording, shuffled

CASES = [(name, indicator) for name in NAMES for indicator in sorted(recording(name))]
EIGHT_ARMS = [case for case in CASES if case[0].startswith("eight")]
EACH = 80
"""Orders of the blocks that are replayed, all pairs of an indicator together."""


def judged(found: Sequence[float]) -> Effect:
    return effect(
        a=StackId("a"), b=StackId("b"), indicator_id=IndicatorId("x"), contrasts=list(found)
    )


def verdict_by(found: Sequence[float], last: int) -> Verdict:
    """Look after 6, 10, ... blocks and stop at the first answer, as a campaign does."""
    for analysis in (each for each in INTERIM_ANALYSES if each <= min(last, len(found))):
        answer = judged(found[:analysis]).verdict
        if answer is not Verdict.INCONCLUSIVE:
            return answer
    return Verdict.INCONCLUSIVE


def distinguished_by(found: Sequence[float], last: int) -> bool:
    """Whether at any look the interval says that A is faster, be it by less than the margin."""
    return any(
        judged(found[:analysis]).low > 1 for analysis in INTERIM_ANALYSES if analysis <= last
    )


def replays(name: str, indicator: str, *, swapped: bool = False) -> list[list[float]]:
    arms, dice = recording(name)[indicator], random.Random(17)
    pairs = identical_pairs(arms)
    return [
        order
        for a, b in pairs
        for order in shuffled(contrasts(arms, a, b), dice, EACH // len(pairs), swapped=swapped)
    ]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("name", "indicator"), CASES)
def test_identical_arms_are_called_different_in_no_more_than_five_percent(
    name: str, indicator: str, swapped: bool
) -> None:
    found = [verdict_by(each, 60) for each in replays(name, indicator, swapped=swapped)]
    alarms = sum(each in (Verdict.FASTER, Verdict.SLOWER) for each in found)
    from scipy.special import bdtr

    # Of correct rules one in a thousand raises more.
    assert not alarms or bdtr(alarms - 1, EACH, 0.05) < 0.999


def test_all_recordings_together_raise_fewer_false_alarms_than_five_percent() -> None:
    found = [verdict_by(each, 60) for case in CASES for each in replays(*case)]
    alarms = sum(each in (Verdict.FASTER, Verdict.SLOWER) for each in found)
    assert len(found) == len(CASES) * EACH == 16 * 80
    assert alarms <= 0.05 * len(found)


def narrow(name: str, indicator: str, pairs: Iterable[tuple[str, str]]) -> list[list[float]]:
    """Return the contrasts of those pairs of arms of which the promise speaks."""
    found = [contrasts(recording(name)[indicator], *pair) for pair in pairs]
    return [each for each in found if statistics.stdev(each) <= 0.08]


def alike(name: str, indicator: str) -> list[list[float]]:
    return narrow(name, indicator, identical_pairs(recording(name)[indicator]))


def planted(name: str, indicator: str, arm: str) -> list[list[float]]:
    return narrow(name, indicator, [(arm, same) for same in ("A1", "A2", "A3", "A4", "A5")])


def test_the_promise_speaks_of_some_indicators_of_each_recording() -> None:
    assert [case for case in CASES if alike(*case)] == [
        ("eight-arms-quiet", "matmul"),
        ("eight-arms-busy", "matmul"),
        ("numpy-two-versions", "mm256"),
        ("numpy-two-versions", "sort"),
        ("numpy-two-versions", "svd"),
    ]


@pytest.mark.parametrize(("more", "last"), [(0.05, 60), (0.10, 26)])
@pytest.mark.parametrize(("name", "indicator"), [case for case in CASES if alike(*case)])
def test_slower_stacks_are_found_where_the_spread_is_at_most_eight_percent(
    name: str, indicator: str, more: float, last: int
) -> None:
    """Planted by scaling, so that the effect is as large as it says."""
    dice = random.Random(5)
    orders = [each for pair in alike(name, indicator) for each in shuffled(pair, dice, 20)]
    found = [verdict_by([value + math.log1p(more) for value in each], last) for each in orders]
    assert found.count(Verdict.FASTER) >= 0.95 * len(found)


@pytest.mark.parametrize(
    ("name", "indicator", "arm", "last"),
    [
        (*case, arm, last)
        for case in EIGHT_ARMS
        for arm, last in (("P5", 60), ("P10", 26))
        if planted(*case, arm)
    ],
)
def test_more_work_is_found_where_the_spread_is_at_most_eight_percent(
    name: str, indicator: str, arm: str, last: int
) -> None:
    dice = random.Random(6)
    orders = [each for pair in planted(name, indicator, arm) for each in shuffled(pair, dice, 20)]
    found = [verdict_by(each, last) for each in orders]
    assert found.count(Verdict.SLOWER) >= 0.95 * len(found)


def detected(name: str, indicator: str, blocks: int) -> float:
    """Plant what is stated after so many blocks; return how often it is found by then."""
    orders = replays(name, indicator, swapped=True)
    stated = statistics.mean(judged(each[:blocks]).smallest_detectable for each in orders)
    moved = [[value + math.log(stated) for value in each] for each in orders]
    return sum(distinguished_by(each, blocks) for each in moved) / len(orders)


@pytest.mark.parametrize("blocks", [26, 60])
def test_the_smallest_detectable_effect_that_is_stated_is_found(blocks: int) -> None:
    found = {case: detected(*case, blocks) for case in CASES}
    assert min(found.values()) >= 0.82, found
    assert statistics.mean(found.values()) >= 0.9, found
