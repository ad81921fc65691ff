"""Several indicators, margins and weights: what is said of all indicators together."""

import random
from dataclasses import replace

import pytest

from stackgen.campaign.indicators import weights_of
from stackgen.errors import UsageError
from stackgen.measure import ALPHA, decided, effect, fewest_blocks, rank
from stackgen.measure.effects import block_contrasts
from stackgen.measure.ranking import block_times
from stackgen.model.evidence import Ranked, Verdict
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome, Role
from stackgen.model.options import parse_margin, parse_weights
from stackgen.model.reports.campaigns import MeasuredIndicator
from stackgen.model.stacks import Environment
from stackgen.report.explore import report_text
from tests.samples import call, environment, inspection
from tests.test_render import FASTER, report

MATMUL, FFT = call("numpy/matmul"), call("numpy/fft")
BOTH = [MATMUL, FFT]
NEW, OLD, OLDER = environment("2.0"), environment("1.9"), environment("1.8")
LABELS = {NEW.stack.id: "new", OLD.stack.id: "old"}
Speeds = dict[IndicatorCall, float]


def blocks(
    speeds: Speeds, count: int = 16, noise: float = 0.01, where: Environment = OLD
) -> list[Inspection]:
    """Return blocks of the baseline, whose operations take a second, and of a faster stack."""
    dice, found = random.Random(4), []
    for block in range(1, count + 1):
        for what, speed in speeds.items():
            slow = 1 + dice.gauss(0, noise)
            found.append(inspection(NEW, what, block, 1 + dice.gauss(0, noise), role=Role.BASELINE))
            found.append(inspection(where, what, block, slow / speed))
    return found


def ranking(seen: list[Inspection], **weights: float) -> tuple[Ranked, ...]:
    own = {each.id: weights[name] for each in BOTH if (name := each.label[6:]) in weights}
    return rank(seen, labels=LABELS, baseline=NEW.stack.id, calls=BOTH, weights=own)


def old(rows: tuple[Ranked, ...]) -> Ranked:
    return next(row for row in rows if row.label == "old")


def test_all_together_is_the_weighted_geometric_mean() -> None:
    seen = blocks({MATMUL: 2.0, FFT: 0.5})
    for weights, expected in (({}, 1.0), ({"matmul": 3.0}, 2**0.5), ({"fft": 3.0}, 0.5**0.5)):
        overall = old(ranking(seen, **weights)).overall
        assert overall is not None
        assert overall.ratio == pytest.approx(expected, rel=0.02)
        assert (overall.a, overall.b) == (OLD.stack.id, NEW.stack.id)


def test_only_the_relation_of_weights_matters() -> None:
    seen = blocks({MATMUL: 1.1, FFT: 1.0})
    one, other = (old(ranking(seen, matmul=m, fft=f)).overall for m, f in ((2, 1), (8, 4)))
    assert one is not None
    assert other is not None
    assert (one.ratio, one.low, one.high) == pytest.approx((other.ratio, other.low, other.high))


def test_weights_decide_which_stack_is_the_best_of_all() -> None:
    seen = blocks({MATMUL: 1.2, FFT: 0.8})
    for weights, fastest in (({"matmul": 4.0}, "old"), ({"fft": 4.0}, "new")):
        rows = ranking(seen, **weights)
        assert (rows[0].label, rows[0].best) == (fastest, True)
        assert not rows[1].best
        assert old(rows).is_faster is (fastest == "old")


def test_one_indicator_alone_has_nothing_to_be_taken_together() -> None:
    seen = blocks({MATMUL: 1.2})
    rows = rank(seen, labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL])
    assert [row.overall for row in rows] == [None, None]
    assert decided(rows, [MATMUL])


def test_every_comparison_is_made_as_one_of_all_that_are_made() -> None:
    """Two stacks against the baseline, on two indicators and on both: six."""
    seen = blocks({MATMUL: 1.1, FFT: 1.1})
    seen += [e for e in blocks({MATMUL: 1.0, FFT: 1.0}, where=OLDER) if e.stack_id != NEW.stack.id]
    labels = LABELS | {OLDER.stack.id: "older"}
    rows = rank(seen, labels=labels, baseline=NEW.stack.id, calls=BOTH)
    times = [
        block_times(seen, indicator=MATMUL.id, stack=stack)
        for stack in (OLD.stack.id, NEW.stack.id)
    ]
    alone = effect(
        a=OLD.stack.id,
        b=NEW.stack.id,
        indicator_id=MATMUL.id,
        contrasts=block_contrasts(a_s=times[0], b_s=times[1]),
        alpha=ALPHA / 6,
    )
    assert next(row for row in rows if row.label == "old").effects[0] == alone


def test_a_ranking_is_decided_only_when_all_together_is() -> None:
    rows = ranking(blocks({MATMUL: 1.5, FFT: 1 / 1.5}, count=6, noise=0.05))
    assert [each.verdict for each in old(rows).effects] == [Verdict.FASTER, Verdict.SLOWER]
    overall = old(rows).overall
    assert overall is not None
    assert overall.verdict is Verdict.INCONCLUSIVE
    assert not decided(rows, BOTH)
    assert fewest_blocks(rows, BOTH) == 6


def test_blocks_that_lack_an_indicator_are_no_part_of_all_together() -> None:
    seen = [
        e for e in blocks({MATMUL: 1.2, FFT: 1.2}) if e.indicator_id == MATMUL.id or e.block > 6
    ]
    row = old(ranking(seen))
    assert [each.blocks for each in row.effects] == [16, 10]
    assert row.overall is not None
    assert row.overall.blocks == 10


def test_indicators_that_never_shared_a_block_are_not_taken_together() -> None:
    seen = blocks({MATMUL: 1.2, FFT: 1.2})
    seen = [each for each in seen if (each.indicator_id == FFT.id) is (each.block > 8)]
    rows = ranking(seen)
    assert old(rows).overall is None
    assert not decided(rows, BOTH)
    assert fewest_blocks(rows, BOTH) == 0


def test_a_stack_on_which_one_indicator_fails_is_out_of_the_race_and_delays_no_other() -> None:
    def broken(each: Inspection) -> Inspection:
        if (each.stack_id, each.indicator_id) != (OLD.stack.id, FFT.id):
            return each
        return replace(each, outcome=Outcome.UNSUPPORTED, observation=None)

    rows = ranking([broken(each) for each in blocks({MATMUL: 5.0, FFT: 5.0})])
    row = old(rows)
    assert (row.overall, row.best, row.counts, row.failures) == (None, False, False, 16)
    assert [each.indicator_id for each in row.effects] == [MATMUL.id]
    assert decided(rows, BOTH)


def test_the_margin_decides_what_counts_as_the_same() -> None:
    seen = blocks({MATMUL: 1.03}, count=60, noise=0.001)
    verdicts = [
        old(rank(seen, labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL], margin=margin))
        .effects[0]
        .verdict
        for margin in (0.01, 0.05)
    ]
    assert verdicts == [Verdict.FASTER, Verdict.EQUIVALENT]


@pytest.mark.parametrize(
    ("text", "margin"), [("1%", 0.01), ("0.01", 0.01), (" 2.5 % ", 0.025), (".2", 0.2)]
)
def test_margins_are_read_as_ratios_or_percentages(text: str, margin: float) -> None:
    assert parse_margin(text) == pytest.approx(margin)


@pytest.mark.parametrize("text", ["", "0", "0%", "-1%", "1", "50%", "nan", "inf", "1%%", "two"])
def test_margins_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the margin"):
        parse_margin(text)


def test_weights_are_read_by_name() -> None:
    assert parse_weights(["matmul=2", "numpy/fft=.5"]) == (("matmul", 2.0), ("numpy/fft", 0.5))
    assert parse_weights([]) == ()


@pytest.mark.parametrize(
    "text", ["matmul=0", "matmul=-1", "matmul=nan", "matmul=inf", "matmul=1e3x"]
)
def test_weights_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot give matmul the weight"):
        parse_weights([text])


def test_two_weights_of_one_indicator_are_refused() -> None:
    with pytest.raises(UsageError, match="two weights"):
        parse_weights(["matmul=1", "matmul=2"])


def test_a_weight_is_for_every_call_of_the_indicator_that_it_names() -> None:
    both = (replace(FFT, arguments=(("size", "8"),)), FFT, MATMUL)
    expected = {both[0].id: 2.0, FFT.id: 2.0}
    for name in ("fft", "numpy/fft"):
        assert weights_of([(name, 2.0)], both) == expected
    mine = call("mine")
    assert weights_of([("./there/mine.py", 3.0)], (mine,)) == {mine.id: 3.0}


@pytest.mark.parametrize(
    ("name", "why"),
    [("sort", "not measured"), ("matmul", "tensorflow/matmul"), ("", "not measured")],
)
def test_a_weight_for_what_is_not_measured_names_what_is(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        weights_of([(name, 2.0)], (MATMUL, FFT, call("tensorflow/matmul")))
    assert "numpy/fft, numpy/matmul, tensorflow/matmul" in str(refused.value)


@pytest.mark.parametrize(
    ("weight", "head"),
    [
        (1.0, "All together (equal weights): 16 blocks"),
        (3.0, "All together (weights: numpy/matmul 3; numpy/fft 1): 16 blocks"),
    ],
)
def test_a_report_begins_with_all_together(weight: float, head: str) -> None:
    weights = {MATMUL.id: weight}
    measured = tuple(
        MeasuredIndicator(indicator_id=x.id, label=x.label, weight=weights.get(x.id, 1.0))
        for x in BOTH
    )
    rows = ranking(blocks({MATMUL: 2.0, FFT: 0.9}), matmul=weight)
    found = replace(report(FASTER), ranking=rows, indicators=measured)
    text = report_text(found)
    assert text.index(head) < text.index("numpy/matmul: 16 blocks")
    assert "times as fast as new, all indicators taken together" in text
    assert "All together" not in report_text(report(FASTER))
