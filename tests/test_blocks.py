"""Blocks and rankings: what is run, in which order, and what may be said of it."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stackgen.measure import Design, controls, decided, fewest_blocks, plan_block, rank
from stackgen.model.evidence import Control, Ranked, Verdict
from stackgen.model.inspections import Inspection, Observation, Outcome, Role
from tests.samples import call, design, environment, inspection

MATMUL, PURE = call(), call("python/pure")
NEW, MIDDLE, OLD = environment("2.0"), environment("1.9"), environment("1.8")
LABELS = {NEW.stack.id: "new", MIDDLE.stack.id: "middle", OLD.stack.id: "old"}


def planned(seed: int = 0) -> Design:
    return design(NEW, MIDDLE, OLD, seed=seed, loops=7)


@given(st.integers(0, 5), st.integers(1, 60))
def test_each_block_holds_every_stack_once_the_baseline_twice_and_the_controls(
    seed: int, block: int
) -> None:
    plans = plan_block(planned(seed), block)
    measured = [plan for plan in plans if plan.call == MATMUL]
    assert Counter(plan.role for plan in measured) == {
        Role.BASELINE: 1,
        Role.TWIN: 1,
        Role.CANDIDATE: 2,
    }
    assert {plan.environment.stack.id for plan in measured} == set(LABELS)
    assert {plan.environment for plan in plans if plan.call == PURE} == {NEW, MIDDLE}
    assert [plan.position for plan in plans] == list(range(len(plans)))
    assert all(plan.loops == 7 for plan in measured)


def test_the_order_is_random_but_the_same_for_the_same_seed_and_block() -> None:
    orders = {tuple(p.role for p in plan_block(planned(), block)) for block in range(1, 40)}
    assert len(orders) > 5
    assert plan_block(planned(), 3) == plan_block(planned(), 3)
    assert any(plan_block(planned(0), b) != plan_block(planned(1), b) for b in range(1, 5))


def test_no_stack_gets_the_first_place_more_often_than_chance_allows() -> None:
    first = Counter(plan_block(planned(), block)[0].role for block in range(1, 401))
    assert 60 < first[Role.BASELINE] < 140  # a quarter of 400, within 4.6 standard deviations
    assert 60 < first[Role.TWIN] < 140


def test_where_nothing_else_is_measured_either_of_the_two_runs_comes_first() -> None:
    alone = replace(planned(), candidates=())
    for place in (0, 2):  # of the indicator and of the control
        firsts = {plan_block(alone, block)[place].role for block in range(1, 21)}
        assert firsts == {Role.BASELINE, Role.TWIN}


def campaign(times: dict[str, float], blocks: int, noise: float = 0.01) -> list[Inspection]:
    """Simulate blocks: a common drift, and noise of each inspection of its own."""
    dice = random.Random(3)
    found = []
    for block in range(1, blocks + 1):
        drift = dice.uniform(1, 2)
        for place, (version, seconds) in enumerate(times.items()):
            where = environment(version.removesuffix(" twin"))
            role = Role.CANDIDATE
            if where == NEW:
                role = Role.TWIN if "twin" in version else Role.BASELINE
            took = seconds * drift * (1 + dice.gauss(0, noise))
            found.append(inspection(where, MATMUL, block, took, role=role, position=place))
    return found


def ranking(inspections: list[Inspection]) -> tuple[Ranked, ...]:
    return rank(inspections, labels=LABELS, baseline=NEW.stack.id, calls=[MATMUL])


def test_the_fastest_comes_first_and_alone_is_the_best() -> None:
    rows = ranking(campaign({"2.0": 1.0, "1.9": 0.8, "1.8": 1.2}, blocks=16))
    assert [(row.label, row.best) for row in rows] == [
        ("middle", True),
        ("new", False),
        ("old", False),
    ]
    assert rows[0].effects[0].verdict is Verdict.FASTER
    assert decided(rows, [MATMUL])


def test_equal_stacks_are_all_best_and_undecided_ones_stay_so() -> None:
    rows = ranking(campaign({"2.0": 1.0, "1.9": 1.0, "1.8": 1.0}, blocks=10, noise=0.05))
    assert all(row.best for row in rows)
    assert not decided(rows, [MATMUL])


def test_the_twin_never_counts_as_evidence_for_the_baseline() -> None:
    rows = ranking(campaign({"2.0 twin": 9.0, "2.0": 1.0, "1.9": 1.0, "1.8": 1.0}, blocks=10))
    effect = next(row for row in rows if row.label == "middle").effects[0]
    assert 0.95 < effect.ratio < 1.05


def test_a_stack_that_fails_in_a_block_is_never_the_best_however_fast_it_looks() -> None:
    seen = campaign({"2.0": 1.0, "1.9": 0.5, "1.8": 1.2}, blocks=10)
    seen[7] = inspection(MIDDLE, MATMUL, 3, None, outcome=Outcome.TIMEOUT)
    rows = ranking(seen)
    assert [row.label for row in rows] == ["new", "old", "middle"]
    assert (rows[-1].failures, rows[-1].best) == (1, False)
    lost = [*seen[:7], inspection(MIDDLE, MATMUL, 3, None, outcome=Outcome.ENGINE_LOST), *seen[8:]]
    assert ranking(lost)[0].label == "middle"


def test_a_stack_that_was_never_measured_is_undecided() -> None:
    rows = ranking(campaign({"2.0": 1.0, "1.9": 0.8}, blocks=16))
    assert {row.label for row in rows} == {"new", "middle", "old"}
    assert not decided(rows, [MATMUL])
    assert fewest_blocks(rows, [MATMUL]) == 0


def test_two_runs_under_one_block_number_pair_nothing() -> None:
    one = campaign({"2.0": 1.0, "1.9": 1.0, "1.8": 1.0}, blocks=10)
    other_machine = [
        replace(each, observation=Observation(values_s=(2.0,), loops=1), started_at="later")
        for each in one
        if each.stack_id == NEW.stack.id
    ]
    assert all(row.effects == () for row in ranking(one + other_machine))


def test_several_indicators_need_stronger_evidence_each() -> None:
    seen = campaign({"2.0": 1.0, "1.9": 0.9}, blocks=6)
    fft = call("numpy/fft")
    both = seen + [replace(each, indicator_id=fft.id) for each in seen]
    two = {NEW.stack.id: "new", MIDDLE.stack.id: "middle"}
    pair = [each for each in seen if each.stack_id in two]
    alone = rank(pair, labels=two, baseline=NEW.stack.id, calls=[MATMUL])[0].effects[0]
    among = rank(both, labels=two, baseline=NEW.stack.id, calls=[MATMUL, fft])[0].effects[0]
    assert among.low < alone.low


def test_between_interim_analyses_the_verdict_is_that_of_the_last_one() -> None:
    nine = campaign({"2.0": 1.0, "1.9": 0.9, "1.8": 1.0}, blocks=9)
    six = [each for each in nine if each.block <= 6]
    assert ranking(nine) == ranking(six)


def test_controls_fail_when_the_same_stack_differs_from_itself() -> None:
    def judged(twin: float) -> list[bool]:
        seen = campaign({"2.0 twin": twin, "2.0": 1.0, "1.9": 1.0}, blocks=16)
        found = controls(seen, baseline=NEW.stack.id, calls=[MATMUL], pure=PURE)
        return [control.failed for control in found]

    assert judged(1.0) == [False]
    assert judged(1.1) == [True]


def test_controls_of_one_kind_share_their_false_alarms() -> None:
    """At 1 % each, a quiet campaign of five indicators would fail one time in twelve."""
    others = [call(f"numpy/{name}") for name in ("sort", "fft", "ufunc", "reduction")]
    calm = campaign({"2.0 twin": 1.0, "2.0": 1.0, "1.9": 1.0}, blocks=16)
    calm = [replace(each, indicator_id=other.id) for other in others for each in calm]

    def judged(twin: float, *, among: Sequence[Inspection]) -> Control:
        seen = campaign({"2.0 twin": twin, "2.0": 1.0, "1.9": 1.0}, blocks=16)
        calls = [MATMUL, *(others if among else ())]
        return controls([*seen, *among], baseline=NEW.stack.id, calls=calls, pure=PURE)[0]

    alone = ((factor, judged(factor, among=())) for factor in (1 + n / 2000 for n in range(200)))
    factor, doubtful = next(
        (factor, found) for factor, found in alone if 0.002 < (found.p_value or 0) < 0.01
    )
    assert doubtful.failed
    among = judged(factor, among=calm)
    assert among.p_value == doubtful.p_value
    assert not among.failed
    assert judged(1.1, among=calm).failed


def test_more_stacks_need_stronger_evidence_each() -> None:
    seen = campaign({"2.0": 1.0, "1.9": 0.9, "1.8": 1.0}, blocks=6)
    two = {NEW.stack.id: "new", MIDDLE.stack.id: "middle"}
    pair = [each for each in seen if each.stack_id in two]
    alone = rank(pair, labels=two, baseline=NEW.stack.id, calls=[MATMUL])[0].effects[0]
    among = next(row for row in ranking(seen) if row.label == "middle").effects[0]
    assert among.low < alone.low < alone.high < among.high
    # Nor does leaving one out of the labels help: it was compared.
    assert rank(seen, labels=two, baseline=NEW.stack.id, calls=[MATMUL])[0].effects[0] == among
