"""What equal runs differ by, what shows in spite of it, and how that is told."""

import gzip
import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from stackgen.measure import INTERIM_ANALYSES, effect, p_value
from stackgen.measure.noise import (
    disturbance,
    indicator_noise,
    plain_spread,
    robust_spread,
    smallest_shown,
)
from stackgen.measure.ranking import are_different
from stackgen.model.evidence import Verdict
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Inspection, Observation, Role
from stackgen.model.reports.campaigns import (
    Disturbance,
    IndicatorNoise,
    MeasurementSetup,
    NoiseReport,
)
from stackgen.report.noise import noise_text, percent, shown_from
from stackgen.report.tables import as_json
from tests.samples import call, environment, inspection

LOCAL, MATMUL, PURE = environment("2.4.0"), call(), call("python/pure")
GOLDEN = Path(__file__).parent / "golden" / "noise"
INDICATORS = ("add_small", "fft", "matmul", "python", "sort")


def equal_runs(name: str, indicator: str) -> list[list[float]]:
    """Return the contrasts of each pair of equal arms of a recording, in block order."""
    path = Path(__file__).parent / "recorded" / f"eight-arms-{name}.json.gz"
    arms = json.loads(gzip.decompress(path.read_bytes()))[indicator]
    equal = [
        {int(block): math.log(t) for block, t in times.items()}
        for arm, times in sorted(arms.items())
        if arm.startswith("A")
    ]
    return [[b[k] - a[k] for k in sorted(a.keys() & b.keys())] for a, b in combinations(equal, 2)]


def finds(contrasts: Sequence[float]) -> bool:
    found = effect(a=StackId("a"), b=StackId("b"), indicator_id=IndicatorId("i"),
                   contrasts=contrasts)  # fmt: skip
    return found.verdict is Verdict.FASTER


@pytest.mark.parametrize("name", ["quiet", pytest.param("busy", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "blocks",
    [pytest.param(6, marks=pytest.mark.slow), 16, pytest.param(42, marks=pytest.mark.slow)],
)
def test_planted_at_the_stated_size_effects_are_found(name: str, blocks: int) -> None:
    """State it by 26 blocks of one pair, plant it in other blocks of another pair."""
    dice, powers = random.Random(f"{name}/{blocks}"), []
    for indicator in INDICATORS:
        pairs = equal_runs(name, indicator)
        for _ in range(10):
            known, other = dice.sample(pairs, 2)
            at = dice.randrange(len(known) - 26)
            stated = smallest_shown(known[at : at + 26], blocks=blocks, seed=0)
            planted = math.log1p(stated)
            trials = [dice.sample(other, blocks) for _ in range(15)]
            signs = [dice.choice((-1, 1)) for _ in trials]
            powers.append(
                sum(finds([s * c + planted for c in t]) for s, t in zip(signs, trials, strict=True))
                / len(trials)
            )
    assert 0.88 <= sum(powers) / len(powers) <= 0.99


@pytest.mark.parametrize("name", ["quiet", "busy"])
def test_equal_runs_are_hardly_ever_called_different(name: str) -> None:
    called = [
        are_different(p_value(contrasts), among=1)
        for indicator in INDICATORS
        for contrasts in equal_runs(name, indicator)
    ]
    assert len(called) == 50
    # At 1 % each, more than 3 of 50 would happen once in 600 times.
    assert sum(called) <= 3


def runs(contrasts: Sequence[float], indicator: str = "numpy/matmul") -> list[Inspection]:
    """Return blocks of two runs whose times have these log ratios."""
    what = call(indicator)
    return [
        inspection(LOCAL, what, block, math.exp(half), role=role)
        for block, contrast in enumerate(contrasts, start=1)
        for role, half in ((Role.TWIN, contrast / 2), (Role.BASELINE, -contrast / 2))
    ]


def row_of(contrasts: Sequence[float], *more: Inspection) -> IndicatorNoise:
    return indicator_noise(
        [*runs(contrasts), *more],
        stack=LOCAL.stack.id,
        call=MATMUL,
        control=PURE,
        seed=0,
    )


def normal(spread: float, count: int, seed: int = 1) -> list[float]:
    dice = random.Random(seed)
    return [dice.gauss(0, spread) for _ in range(count)]


def test_more_blocks_never_show_less() -> None:
    shown = [each.effect for each in row_of(normal(0.05, 26)).detectable]
    assert shown == sorted(shown, reverse=True)
    assert shown[-1] < shown[0] / 3


def test_twice_the_noise_hides_about_twice_as_much() -> None:
    contrasts = normal(0.05, 26)
    once, twice = (
        math.log1p(smallest_shown([c * k for c in contrasts], blocks=10, seed=0)) for k in (1, 2)
    )
    assert twice == pytest.approx(2 * once, rel=0.05)


def test_outliers_hide_effects_of_few_blocks_though_the_spread_does_not_show_it() -> None:
    calm = normal(0.02, 30)
    spoilt = [c * (15 if i % 6 == 0 else 1) for i, c in enumerate(calm)]
    assert robust_spread(spoilt) < 1.5 * robust_spread(calm)
    assert plain_spread(spoilt) > 4 * plain_spread(calm)
    assert smallest_shown(spoilt, blocks=6, seed=0) > 2 * smallest_shown(calm, blocks=6, seed=0)


def test_nothing_is_shown_that_counts_as_the_same() -> None:
    assert smallest_shown(normal(0.0001, 26), blocks=60, seed=0) > 0.02


def test_the_seed_alone_decides_what_is_drawn() -> None:
    contrasts = normal(0.05, 12)
    one, same, other = (smallest_shown(contrasts, blocks=16, seed=seed) for seed in (1, 1, 2))
    assert one == same != other


def test_too_few_blocks_show_nothing() -> None:
    row = row_of(normal(0.05, INTERIM_ANALYSES[0] - 1))
    assert row.detectable == ()
    assert row.unusable == "too few blocks: 5, and 6 are needed"
    assert row.p_value is None
    assert row_of([]).unusable == "too few blocks: 0, and 6 are needed"
    assert row_of([]).run_s is None


def test_where_all_runs_take_the_same_time_no_number_is_invented() -> None:
    row = row_of([0.0] * 10)
    assert row.detectable == ()
    assert "their clock is too coarse" in row.unusable


def test_equal_runs_that_differ_are_reported() -> None:
    shifted = [c + 0.05 for c in normal(0.02, 16)]
    row = row_of(shifted)
    assert row.differs
    assert row.detectable == ()
    assert "rely on no comparison" in row.unusable
    assert not row_of([c - 0.05 for c in shifted]).differs


def test_of_several_indicators_each_must_differ_more_clearly() -> None:
    assert are_different(0.009, among=1)
    assert not are_different(0.009, among=4)
    assert are_different(0.002, among=4)
    assert not are_different(None, among=1)


def test_a_comparison_takes_three_runs_a_block_and_the_control_twice() -> None:
    pure = [
        replace(each, duration_s=0.25)
        for each in runs(normal(0.01, 8), indicator="python/pure")
    ]  # fmt: skip
    row = row_of(normal(0.01, 8), *pure)
    assert row.run_s == 1.0  # as tests.samples has it
    assert [each.machine_s for each in row.detectable] == [
        n * (3 * 1.0 + 2 * 0.25) for n in INTERIM_ANALYSES
    ]
    own = indicator_noise(pure, stack=LOCAL.stack.id, call=PURE, control=PURE, seed=0)
    assert own.detectable[0].machine_s == pytest.approx(6 * 3 * 0.25)


def test_blocks_that_do_not_count_cost_time_all_the_same() -> None:
    half = [inspection(LOCAL, MATMUL, block, 1.0, role=Role.BASELINE) for block in range(9, 13)]
    row = row_of(normal(0.01, 8), *half)
    assert (row.blocks, row.left_out) == (8, 4)
    assert row.detectable[0].machine_s == pytest.approx(6 * 3 * 12 / 8)


def reported(**circumstances: str) -> Inspection:
    seen = Observation(values_s=(1.0,), loops=1, circumstances=tuple(circumstances.items()))
    return replace(inspection(LOCAL, MATMUL, 1, 1.0), observation=seen)


def test_what_else_went_on_is_a_share_of_the_time() -> None:
    busy = reported(wall_s="2.0", cpu_time_s="1.5", pressure_cpu_s="1.0", steal_s="0.4")
    calm = reported(wall_s="2.0", cpu_time_s="2.0", pressure_cpu_s="0.0", steal_s="0.0")
    found = disturbance([busy, calm], cpus=4)
    assert found.waited == pytest.approx(0.125)
    assert found.stolen == pytest.approx(0.025)
    assert found.throttled is None


def test_who_waits_for_a_disk_or_lets_others_wait_is_not_kept_from_the_cpu() -> None:
    disk = reported(wall_s="1.0", cpu_time_s="0.2", pressure_cpu_s="0.0")
    others = reported(wall_s="1.0", cpu_time_s="1.0", pressure_cpu_s="0.9")
    assert disturbance([disk], cpus=2).waited == 0
    assert disturbance([others], cpus=2).waited == 0


def test_circumstances_that_are_no_numbers_are_no_evidence() -> None:
    for text in ("", "nan", "-1", "inf", "much"):
        found = disturbance([reported(wall_s=text, cpu_time_s=text, steal_s=text)], cpus=2)
        assert found == Disturbance(waited=None, stolen=None, throttled=None)


QUIET = Disturbance(waited=0.004, stolen=0.0, throttled=None)


def report(
    *rows: IndicatorNoise,
    disturbed: Disturbance = QUIET,
    excluded: Sequence[int] = (),
    tolerated: int = 0,
) -> NoiseReport:
    return NoiseReport(
        requirements=("numpy",),
        stack="numpy 2.4.0",
        setup=MeasurementSetup(
            executor="virtualenv", base="python3.11", python="3.11.2", machine="AMD EPYC"
        ),
        seed=0,
        indicators=rows,
        disturbance=disturbed,
        control_s=0.74,
        excluded=tuple((n, "other processes had its CPU for 31 % of a run") for n in excluded),
        tolerated=tolerated,
        new_inspections=108,
        seconds=181.0,
        stopped="the budget is spent",
        interrupted=False,
        exit_code=0,
        knowledge_base="stackgen.db",
    )  # fmt: skip


@cache
def normal_row() -> IndicatorNoise:
    return row_of(normal(0.03, 26))


@cache
def texts() -> dict[str, str]:
    wild = replace(
        row_of([c * (20 if i % 4 == 0 else 1) for i, c in enumerate(normal(0.08, 26))]),
        label="numpy/sort kind=quicksort size=100000 threads=1",
        left_out=2,
    )
    nothing = "failed in block 7: timeout: stopped after 300 s"
    reports = {
        "usual": report(normal_row(), wild),
        "too-few": report(row_of(normal(0.03, 4))),
        "failed": report(replace(row_of([]), unusable=nothing, failed=True)),
        "disturbed": report(
            row_of([c + 0.1 for c in normal(0.02, 10)]),
            disturbed=Disturbance(waited=0.12, stolen=0.034, throttled=0.5),
            excluded=(1, 3, 4, 9, 11),
            tolerated=6,
        ),
        "untold": report(
            normal_row(), disturbed=Disturbance(waited=None, stolen=None, throttled=None)
        ),
    }
    return {name: noise_text(each) for name, each in reports.items()}


@pytest.mark.parametrize("name", ["disturbed", "failed", "too-few", "untold", "usual"])
def test_reports_read_as_in_their_golden_files(name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("STACKGEN_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(texts()[name] + "\n")
    assert texts()[name] + "\n" == golden.read_text()


def test_every_golden_file_has_its_report_and_fits_a_terminal() -> None:
    assert {each.stem for each in GOLDEN.glob("*.txt")} == set(texts())
    assert max(len(line) for text in texts().values() for line in text.splitlines()) <= 100


def test_sizes_are_reported_with_the_digits_that_count() -> None:
    assert [percent(share) for share in (0.0812, 0.1249, 0.00312)] == ["8.1 %", "12 %", "0.3 %"]
    assert [shown_from(size) for size in (0.5, 1.5, math.inf)] == ["50 %", "2.5 times", "never"]


def test_json_has_every_field_and_no_infinity() -> None:
    usual = normal_row()
    never = replace(usual, detectable=(replace(usual.detectable[0], effect=math.inf),))
    document = json.loads(as_json(report(never)))
    (row,) = document["indicators"]
    assert row["detectable"] == [
        {"blocks": 6, "effect": None, "machine_s": usual.detectable[0].machine_s}
    ]  # fmt: skip
    assert document["disturbance"]["waited"] == 0.004
    assert row["spread"] == pytest.approx(usual.spread)
