"""Paired effects: laws, and promises held against recorded noise."""

import gzip
import json
import math
import random
from itertools import accumulate, combinations
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import EvidenceError
from stackgen.measure import (
    ALPHA,
    INTERIM_ANALYSES,
    block_contrasts,
    effect,
    level_per_analysis,
    p_value,
    sequential_p,
    verdict,
)
from stackgen.measure.effects import BUILD_SD, LONG_ANALYSES, excludes, trimmed_centre
from stackgen.model.evidence import Effect, Verdict
from stackgen.model.identity import IndicatorId, StackId

Times = dict[int, float]
Recording = dict[str, dict[str, dict[str, float]]]

A, B, MATMUL = StackId("a"), StackId("b"), IndicatorId("matmul")
timings = st.dictionaries(
    st.integers(1, 60), st.floats(0.5, 2.0, allow_nan=False), min_size=6, max_size=40
)


def judged(contrasts: list[float], alpha: float = ALPHA) -> Effect:
    return effect(a=A, b=B, indicator_id=MATMUL, contrasts=contrasts, alpha=alpha)


def test_drift_that_hits_both_stacks_cancels() -> None:
    calm, busy = {1: 1.0}, {1: 3.0}
    assert block_contrasts(a_s=calm, b_s=calm) == block_contrasts(a_s=busy, b_s=busy)


def test_the_faster_stack_has_a_ratio_above_one() -> None:
    (contrast,) = block_contrasts(a_s={1: 1.0}, b_s={1: 2.0})
    assert math.exp(contrast) == pytest.approx(2.0)


def test_stacks_that_share_no_block_cannot_be_compared() -> None:
    with pytest.raises(EvidenceError, match="never measured together"):
        block_contrasts(a_s={1: 1.0}, b_s={2: 1.0})


@given(timings, timings)
def test_swapping_the_stacks_turns_the_effect_around(one: Times, two: Times) -> None:
    if not one.keys() & two.keys():
        return
    there = judged(list(block_contrasts(a_s=one, b_s=two)))
    back = judged(list(block_contrasts(a_s=two, b_s=one)))
    if there.blocks < INTERIM_ANALYSES[0]:
        assert (there.low, there.high) == (back.low, back.high) == (0.0, math.inf)
        return
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=60))
def test_a_stricter_alpha_never_narrows_the_interval(contrasts: list[float]) -> None:
    loose, strict = judged(contrasts), judged(contrasts, alpha=0.05 / 9)
    assert strict.low <= loose.low <= loose.ratio <= loose.high <= strict.high


@given(st.floats(0.001, 1000), st.lists(st.floats(0.5, 2), min_size=6, max_size=30))
def test_the_unit_of_time_does_not_matter(scale: float, values: list[float]) -> None:
    one = dict(enumerate(values))
    two = dict(enumerate(reversed(values)))
    scaled = block_contrasts(
        a_s={k: v * scale for k, v in one.items()}, b_s={k: v * scale for k, v in two.items()}
    )
    assert scaled == pytest.approx(block_contrasts(a_s=one, b_s=two), abs=1e-9)


def test_the_trimmed_centre_matches_a_case_worked_out_by_hand() -> None:
    # Two of eight are cut at each end: kept 3 4 5 6; winsorised 3 3 3 4 5 6 6 6 with mean 4.5 and
    # sum of squares 6 * 2.25 + 2 * 0.25 = 14, so the error is sqrt(14 / (4 * 3)).
    centre = trimmed_centre([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 800.0])
    assert centre.mean == pytest.approx(4.5)
    assert centre.freedom == 3
    assert centre.error == pytest.approx(math.sqrt(14 / 12))


def test_many_contrasts_are_trimmed_by_a_third_at_each_end() -> None:
    # int(.34 * 16) = 5 are cut at each end; the six in the middle are 6 to 11.
    centre = trimmed_centre([float(value) for value in range(1, 16)] + [900.0])
    assert centre.mean == pytest.approx(8.5)
    assert centre.freedom == 5


@pytest.mark.parametrize(
    ("alpha", "analyses"),
    [
        (0.05, INTERIM_ANALYSES),
        (0.05, LONG_ANALYSES),
        pytest.param(0.01, INTERIM_ANALYSES, marks=pytest.mark.thorough),
    ],
)
def test_all_interim_analyses_together_raise_as_many_alarms_as_agreed(
    alpha: float, analyses: tuple[int, ...]
) -> None:
    boundary = NormalDist().inv_cdf(1 - level_per_analysis(alpha, analyses) / 2)
    noise, crossed, walks = random.Random(3), 0, 10_000
    for _ in range(walks):
        sums = list(accumulate(noise.gauss(0, 1) for _ in range(analyses[-1])))
        crossed += any(abs(sums[n - 1]) > boundary * math.sqrt(n) for n in analyses)
    spread = math.sqrt(alpha * (1 - alpha) / walks)
    assert crossed / walks == pytest.approx(alpha, abs=4 * spread)


def test_an_interim_analysis_spends_less_than_the_whole_alpha_and_more_than_its_even_part() -> None:
    levels = [level_per_analysis(alpha) for alpha in (0.001, 0.01, 0.05, 0.2)]
    assert levels == sorted(levels)
    for alpha, level in zip((0.001, 0.01, 0.05, 0.2), levels, strict=True):
        assert alpha / len(INTERIM_ANALYSES) < level < alpha


@pytest.mark.parametrize(
    ("effect_", "blocks", "least", "most"),
    [(0.0, 42, 0.95, 1.0), (0.05, 42, 0.0, 0.03), (-0.05, 42, 0.0, 0.03), (0.0, 5, 0.0, 0.0)],
)
def test_an_effect_is_excluded_where_it_is_not_and_hardly_ever_where_it_is(
    effect_: float, blocks: int, least: float, most: float
) -> None:
    noise, excluded, series = random.Random(4), 0, 300
    for _ in range(series):
        offset = noise.gauss(math.log1p(effect_), math.sqrt(2) * BUILD_SD)
        contrasts = [offset + noise.gauss(0, 0.02) for _ in range(blocks)]
        excluded += any(excludes(contrasts[:n], 0.05) for n in range(1, blocks + 1))
        assert not excludes(contrasts, 0.0)
    assert least <= excluded / series <= most


def test_a_series_with_more_analyses_counts_more_blocks() -> None:
    contrasts = [0.02, 0.03] * 45
    longer = effect(a=A, b=B, indicator_id=MATMUL, contrasts=contrasts, analyses=LONG_ANALYSES)
    assert (judged(contrasts).blocks, longer.blocks) == (60, 90)
    assert sequential_p(contrasts[:60], analyses=LONG_ANALYSES) >= sequential_p(contrasts[:60])


def test_too_few_blocks_say_nothing() -> None:
    found = judged([0.5] * (INTERIM_ANALYSES[0] - 1))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.low, found.high) == (0.0, math.inf)
    assert p_value([0.5] * (INTERIM_ANALYSES[0] - 1)) is None


def test_contrasts_without_spread_say_nothing_before_so_many_can_be_no_chance() -> None:
    early = judged([0.4] * 6)  # a coin that falls six times on one side: once in 32
    assert (early.low, early.high) == (0.0, math.inf)
    assert (early.verdict, early.smallest_detectable) == (Verdict.INCONCLUSIVE, math.inf)
    assert p_value([0.4] * 6) == pytest.approx(2 / 64)
    later = judged([0.4] * 10)
    assert later.low == later.ratio == later.high == pytest.approx(math.exp(0.4))
    assert later.verdict is Verdict.FASTER
    assert judged([0.4] * 10, alpha=0.001).verdict is Verdict.INCONCLUSIVE
    assert p_value([0.4] * 10) == pytest.approx(2 / 1024)


def test_a_figure_that_is_always_the_same_is_the_same() -> None:
    assert judged([0.0] * 10).verdict is Verdict.EQUIVALENT
    assert p_value([0.0] * 10) == 1.0


def test_equal_contrasts_in_the_middle_do_not_hide_what_lies_around_them() -> None:
    found = judged([0.1] * 8 + [-0.5, 0.7])
    assert (found.low, found.high) == pytest.approx((math.exp(-0.5), math.exp(0.7)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.smallest_detectable == pytest.approx(math.exp(1.2))


def test_a_coarse_clock_raises_no_more_false_alarms_than_a_fine_one() -> None:
    dice, trials = random.Random(8), 300
    ticks = [[dice.choice((-0.05, 0.05)) for _ in range(60)] for _ in range(trials)]
    alarms = sum(sequential(each) in (Verdict.FASTER, Verdict.SLOWER) for each in ticks)
    assert alarms <= 27  # more would happen once in 300 rules that keep to 5 %


@given(st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=2))
def test_contrasts_of_extreme_times_are_finite(times: list[float]) -> None:
    (contrast,) = block_contrasts(a_s={1: times[0]}, b_s={1: times[1]})
    assert math.isfinite(contrast)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_ratios_that_no_number_holds_are_infinite_and_end_nothing(scale: float) -> None:
    found = judged([scale * value for value in (1, 3, 5, 7, 2, 6)])
    assert found.high == math.inf
    assert 0 <= found.low <= found.ratio


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.99, 1.01, Verdict.EQUIVALENT),
        (1.001, 1.019, Verdict.EQUIVALENT),  # certain, but nobody cares
        (1.001, 1.05, Verdict.FASTER),
        (0.9, 0.97, Verdict.SLOWER),
        (0.9, 1.1, Verdict.INCONCLUSIVE),
        (0.0, math.inf, Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_are_decided_in_the_order_of_the_protocol(
    low: float, high: float, expected: Verdict
) -> None:
    assert verdict(low, high, 0.02) is expected


def recording(name: str) -> Recording:
    path = Path(__file__).parent / "recorded" / f"eight-arms-{name}.json.gz"
    found: Recording = json.loads(gzip.decompress(path.read_bytes()))
    return found


def contrasts_of(arms: dict[str, dict[str, float]], a: str, b: str) -> list[float]:
    a_s, b_s = ({int(block): t for block, t in arms[arm].items()} for arm in (a, b))
    return list(block_contrasts(a_s=a_s, b_s=b_s))


def sequential(contrasts: list[float]) -> Verdict:
    """Look after 6, 10, ... blocks and stop at the first answer, as a campaign does."""
    for analysis in INTERIM_ANALYSES:
        if analysis > len(contrasts):
            break
        found = judged(contrasts[:analysis]).verdict
        if found is not Verdict.INCONCLUSIVE:
            return found
    return Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["quiet", "busy"])
def test_identical_arms_raise_no_more_than_five_percent_false_alarms(name: str) -> None:
    shuffler, alarms, trials = random.Random(1), 0, 0
    for arms in recording(name).values():
        for a, b in combinations(sorted(arm for arm in arms if arm.startswith("A")), 2):
            for _ in range(4):
                found = contrasts_of(arms, a, b)
                shuffler.shuffle(found)
                alarms += sequential(found) in (Verdict.FASTER, Verdict.SLOWER)
                trials += 1
    assert trials == 200
    # At 5 % per comparison more than 19 of 200 would happen once in 500 correct tools.
    assert alarms <= 19


@pytest.mark.parametrize(
    ("name", "indicator", "arm"),
    [
        ("quiet", "matmul", "P5"),
        ("quiet", "matmul", "P10"),
        ("quiet", "sort", "P10"),
        ("busy", "matmul", "P5"),
        ("busy", "sort", "P10"),
    ],
)
def test_planted_slowdowns_are_found_where_the_spread_allows_it(
    name: str, indicator: str, arm: str
) -> None:
    arms = recording(name)[indicator]
    verdicts = [sequential(contrasts_of(arms, arm, a)) for a in ("A1", "A2", "A3", "A4", "A5")]
    assert verdicts == [Verdict.SLOWER] * 5


def test_the_smallest_detectable_effect_is_found_nearly_always() -> None:
    """State it on normal noise, plant exactly that, and count how often it is found."""
    noise, found, trials = random.Random(7), 0, 600
    stated = [
        judged([noise.gauss(0, 0.05) for _ in range(26)]).smallest_detectable for _ in range(400)
    ]
    planted = math.log(sum(stated) / len(stated))
    for _ in range(trials):
        contrasts = [noise.gauss(planted, 0.05) for _ in range(26)]
        found += judged(contrasts).verdict is Verdict.FASTER
    assert found / trials > 0.9


@pytest.mark.parametrize("tolerance", [0.0, 0.01])
@pytest.mark.parametrize("blocks", [5, 6, 12, 26, 60])
def test_a_sequential_p_value_is_the_smallest_alpha_that_distinguishes_stacks(
    blocks: int, tolerance: float
) -> None:
    dice = random.Random(blocks)
    for shift in (0.0, 0.02, -0.04):
        contrasts = [shift + dice.gauss(0, 0.02) for _ in range(blocks)]
        p = sequential_p(contrasts, tolerance=tolerance)
        for alpha in (0.04, 0.01, 0.001):
            found = effect(
                a=A,
                b=B,
                indicator_id=IndicatorId("i"),
                contrasts=contrasts,
                margin=1e-9,
                alpha=alpha,
                tolerance=tolerance,
            )
            assert (found.verdict is not Verdict.INCONCLUSIVE) == (p <= alpha), (p, alpha)


def test_a_sequential_p_value_of_contrasts_without_spread_is_counted() -> None:
    assert sequential_p([0.0] * 26) == 1.0
    assert sequential_p([0.05] * 5) == 1.0
    assert 0.1 < sequential_p([0.05] * 6) < 0.25  # six of six on one side
    assert sequential_p([0.05] * 60, tolerance=0.01) < 1e-9
    assert sequential_p([0.005] * 60, tolerance=0.01) == 1.0
