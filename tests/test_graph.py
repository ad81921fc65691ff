"""The evidence graph: laws of what it says, whatever the campaigns are."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackgen.errors import EvidenceError
from stackgen.knowledge.graph import EvidenceGraph, Place, StackNode, repeats_on
from stackgen.knowledge.proposals import predict
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.measure.meta_analysis import (
    FAR,
    PLAUSIBLE,
    SPREADS,
    Study,
    fit,
    half_cauchy,
    learned_prior,
    spread_grid,
)
from stackgen.measure.posterior import Array
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId

HERE = Place(machine_id=MachineId("here"))
NAMES = "abcdef"
NODES = {StackId(name): StackNode(key=name) for name in NAMES}


def row(
    number: int,
    log_ratios: dict[str, float],
    *,
    baseline: str = "a",
    error: float = 0.005,
    machine: str = "here",
    origin: str = "",
    blocks: int = 26,
) -> CampaignContrasts:
    """Return a campaign with equally noisy arms; ``error`` is that of each log ratio."""
    names = sorted(log_ratios)
    shape = (np.eye(len(names)) + 1) / 2
    return CampaignContrasts(
        campaign_id=CampaignId(f"c{number}"),
        indicator_id=IndicatorId("matmul"),
        machine_id=MachineId(machine),
        origins=(origin,) if origin else (),
        date=f"2026-01-{number % 28 + 1:02}",
        baseline=StackId(baseline),
        candidates=tuple(StackId(name) for name in names),
        log_ratios=tuple(log_ratios[name] for name in names),
        covariance=tuple(map(tuple, (error**2 * shape).tolist())),
        blocks=(blocks,) * len(names),
        freedom=20.0,
    )


def rebased(old: CampaignContrasts, baseline: str) -> CampaignContrasts:
    """Return the same campaign with another of its stacks as the baseline."""
    values = dict(zip(old.stacks, (0.0, *old.log_ratios), strict=True))
    moved = {str(s): v - values[StackId(baseline)] for s, v in values.items() if s != baseline}
    error = math.sqrt(old.covariance[0][0])
    number = int(old.campaign_id[1:])
    return row(number, moved, baseline=baseline, error=error)


def said(graph: EvidenceGraph, one: str, other: str) -> tuple[float, float, float]:
    found = graph.fit(one, HERE).log_ratios(one, [other])
    low, high = found.interval()
    return float(found.mean[0]), float(low[0]), float(high[0])


@st.composite
def bases(draw: st.DrawFn) -> list[CampaignContrasts]:
    """Draw campaigns that are connected through stack a."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        others = draw(st.lists(st.sampled_from(NAMES[1:]), min_size=1, max_size=4, unique=True))
        values = {name: draw(st.floats(-0.2, 0.2)) for name in others}
        error: float = draw(st.sampled_from((0.003, 0.01, 0.03)))
        found.append(row(number, values, error=error))
    return found


@settings(max_examples=15, deadline=None)
@given(bases(), st.randoms())
def test_neither_order_nor_duplicates_of_campaigns_matter(
    rows: list[CampaignContrasts], dice: random.Random
) -> None:
    other = rows[-1].candidates[0]
    again = [*rows, replace(rows[0], origins=("elsewhere",))]
    dice.shuffle(again)
    assert said(EvidenceGraph(again, NODES), "a", other) == said(
        EvidenceGraph(rows, NODES), "a", other
    )


@settings(max_examples=15, deadline=None)
@given(bases(), st.data())
def test_another_baseline_changes_no_contrast(
    rows: list[CampaignContrasts], data: st.DataObject
) -> None:
    turned = [rebased(each, data.draw(st.sampled_from(each.stacks))) for each in rows]
    for other in rows[-1].candidates:
        there = said(EvidenceGraph(turned, NODES), "a", other)
        assert there == pytest.approx(said(EvidenceGraph(rows, NODES), "a", other), abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(bases())
def test_the_other_direction_is_the_negative(rows: list[CampaignContrasts]) -> None:
    graph = EvidenceGraph(rows, NODES)
    other = rows[0].candidates[0]
    mean, low, high = said(graph, "a", other)
    back = said(graph, other, "a")
    assert back == pytest.approx((-mean, -high, -low), abs=1e-7)


def test_for_equal_arms_the_variance_is_the_effective_resistance() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (3, 4)]
    studies = [Study((a, b), np.array([0.01 * a]), np.array([[0.004]]), 20.0) for a, b in edges]
    grid = spread_grid(machines=False, bases=False, prior=(SPREADS == 0) + 1e-300)
    network = fit(5, studies, [], grid)
    graph = nx.Graph(edges)
    for a, b in combinations(range(5), 2):
        of = np.zeros((1, 5))
        of[0, a], of[0, b] = -1, 1
        error = float(network.differences(of).errors[0, 0])
        resistance = nx.resistance_distance(graph, a, b)
        assert error**2 == pytest.approx(0.004 * np.asarray(resistance))


def test_stacks_that_no_chain_of_campaigns_connects_have_no_contrast() -> None:
    graph = EvidenceGraph(
        [row(0, {"b": 0.1}), row(1, {"d": 0.1}, baseline="c")],
        NODES,
    )
    assert graph.components == (("a", "b"), ("c", "d"))
    assert graph.component("e") == ()
    assert graph.fit("a", HERE).stacks == ("a", "b")
    with pytest.raises(EvidenceError, match="no campaign compared e"):
        graph.fit("e", HERE)


def test_stacks_that_never_shared_a_block_are_compared_through_others() -> None:
    rows = [row(0, {"b": 0.1}), row(1, {"b": 0.1}), row(2, {"b": -0.1}, baseline="c")]
    known = EvidenceGraph([*rows, replace(rows[2], campaign_id=CampaignId("c3"))], NODES).fit(
        "a", HERE
    )
    found = known.log_ratios("a", ["b", "c"])
    assert float(found.mean[1]) == pytest.approx(0.2, abs=0.01)
    low, high = found.interval()
    assert high[1] - low[1] > high[0] - low[0]
    basis = known.basis("a", "c")
    assert not basis.is_direct
    assert [(step.one, step.other) for step in basis.steps] == [("a", "b"), ("b", "c")]
    assert math.fsum(share for _, share in basis.shares) == pytest.approx(1)


def test_equivalent_stacks_are_one_node() -> None:
    nodes = {**NODES, StackId("f"): StackNode(key="b")}
    rows = [row(0, {"b": 0.1}), row(1, {"f": 0.1})]
    assert EvidenceGraph(rows, nodes).components == (("a", "b"),)
    _, low, high = said(EvidenceGraph(rows, nodes), "a", "b")
    _, low_of_one, high_of_one = said(EvidenceGraph(rows, NODES), "a", "b")
    assert high - low < high_of_one - low_of_one


def test_a_stack_without_a_node_is_left_out_of_its_campaign() -> None:
    nodes = {name: node for name, node in NODES.items() if name != "a"}
    graph = EvidenceGraph([row(0, {"b": 0.1, "c": 0.3})], nodes)
    assert graph.components == (("b", "c"),)
    assert said(graph, "b", "c")[0] == pytest.approx(0.2)


def test_leaving_stacks_out_that_one_campaign_measured_changes_nothing() -> None:
    rows = [row(0, {"b": 0.1, "c": 0.2, "d": 0.0}), row(1, {"b": 0.12, "e": 0.1})]
    graph = EvidenceGraph(rows, NODES)
    whole = graph.fit("a", HERE).log_ratios("a", ["b"])
    part = graph.fit("a", HERE, of=["b"]).log_ratios("a", ["b"])
    assert part.mean == pytest.approx(whole.mean, abs=1e-9)
    assert np.concatenate(part.interval()) == pytest.approx(
        np.concatenate(whole.interval()), abs=1e-3
    )


def learned(*repeated: EvidenceGraph, elsewhere: Sequence[EvidenceGraph] = ()) -> Array:
    """Return the prior that indicators leave to another one, from this and another machine."""
    there = MachineId("there")
    named = [(IndicatorId(f"i{n}"), each) for n, each in enumerate((*repeated, *elsewhere))]
    own = repeats_on(HERE.machine_id, dict(named[: len(repeated)]))
    return learned_prior(own, [repeats_on(there, dict(named[len(repeated) :]))])


def width(prior: Array) -> float:
    """Return how far a single campaign leaves a difference open, on the log scale."""
    alone = EvidenceGraph([row(0, {"d": 0.1})], NODES)
    low, high = alone.fit("a", HERE, prior=prior).log_ratios("a", ["d"]).interval()
    return float(high[0] - low[0])


def repeating(indicator: int, apart: float = 0.0) -> EvidenceGraph:
    """Return campaigns of an indicator, each of which measured nothing else."""
    signs = ((-1) ** n * apart for n in range(10))
    rows = (row(100 * indicator + n, {"b": 0.1 + each}) for n, each in enumerate(signs))
    return EvidenceGraph(rows, NODES)


def test_repeated_campaigns_teach_how_far_a_single_one_can_be_trusted() -> None:
    unknown = width(learned())
    assert width(learned(*(repeating(n) for n in range(6)))) < unknown / 5
    assert width(learned(repeating(0, apart=0.2))) > unknown


def test_a_machine_that_repeats_well_says_less_of_another_one_than_of_itself() -> None:
    calm = [repeating(n) for n in range(6)]
    assert 2 * width(learned(*calm)) < width(learned(elsewhere=calm)) < width(learned())


def test_indicators_of_the_same_campaigns_are_one_witness_not_many() -> None:
    many = width(learned(*(repeating(n) for n in range(6))))
    same = width(learned(*[repeating(0)] * 6))
    assert many < 0.9 * same
    assert same == pytest.approx(width(learned(repeating(0))), rel=0.01)


def test_another_machine_and_another_base_make_an_answer_less_certain() -> None:
    rows = [row(n, {"b": 0.1}) for n in range(4)]
    graph = EvidenceGraph(rows, NODES)

    def width(place: Place) -> float:
        low, high = graph.fit("a", place).log_ratios("a", ["b"]).interval()
        return float(high[0] - low[0])

    here = width(HERE)
    assert width(replace(HERE, base="other")) > here
    assert width(Place(machine_id=MachineId("there"))) > here


def test_more_machines_make_a_new_one_more_certain() -> None:
    def width(machines: int) -> float:
        rows = [row(n, {"b": 0.1}, machine=f"m{n % machines}") for n in range(6)]
        low, high = EvidenceGraph(rows, NODES).fit("a", HERE).log_ratios("a", ["b"]).interval()
        return float(high[0] - low[0])

    assert width(1) > width(2) > width(3) > width(6)


def test_one_campaign_that_lies_far_out_moves_little_among_ten() -> None:
    rows = [row(n, {"b": 0.001 * (n % 3), "c": 0.0}) for n in range(10)]
    rows[4] = row(4, {"b": 0.3, "c": 0.0})
    mean, low, high = said(EvidenceGraph(rows, NODES), "a", "b")
    assert abs(mean) < 0.01
    assert low < 0.001 < high < 0.03


def test_the_next_block_mends_the_weakest_link() -> None:
    rows = [
        *(row(n, {"b": 0.1}) for n in range(4)),
        *(row(n, {"c": 0.1}, baseline="b", error=0.05) for n in range(4, 6)),
    ]
    known = EvidenceGraph(rows, NODES).fit("a", HERE)
    found = known.next_block("a", "c", [("a", "b"), ("b", "c")], error=0.01)
    assert (found.one, found.other) == ("b", "c")
    assert found.gain > 0


def additive(name: str) -> tuple[tuple[str, str], ...]:
    place = NAMES.index(name)
    return (("numpy", str(place // 3)), ("torch", str(place % 3)))


def test_a_stack_that_was_never_measured_is_predicted_from_its_versions() -> None:
    speeds = {name: 0.2 * (place // 3) + 0.05 * (place % 3) for place, name in enumerate(NAMES)}
    rows = [row(n, {name: speeds[name] for name in "bcde"}) for n in range(4)]
    known = EvidenceGraph(rows, NODES).fit("a", HERE)
    versions = {name: additive(name) for name in NAMES}
    found = predict(known, versions, "a", ["f", "e"])
    low, high = found.interval()
    assert float(found.mean[0]) == pytest.approx(speeds["f"], abs=0.05)
    assert low[0] < speeds["f"] < high[0]
    assert high[0] - low[0] > high[1] - low[1]


def test_versions_of_which_nothing_is_known_are_predicted_around_no_difference() -> None:
    known = EvidenceGraph([row(0, {"b": 0.1})], NODES).fit("a", HERE)
    versions = {"a": (("torch", "1"),), "f": (("torch", "9"),)}
    found = predict(known, versions, "a", ["f"])
    low, high = found.interval()
    assert float(found.mean[0]) == pytest.approx(0, abs=1e-6)
    assert low[0] < -0.05
    assert high[0] > 0.05


def test_the_prior_is_a_distribution_and_learns_from_none_as_from_flat() -> None:
    flat = repeats_on(
        HERE.machine_id, {IndicatorId("i"): EvidenceGraph([row(0, {"b": 0.1})], NODES)}
    )
    assert learned_prior().sum() == pytest.approx(1)
    assert learned_prior(flat, [flat]) == pytest.approx(learned_prior())
    assert half_cauchy(SPREADS, 0.01).sum() == pytest.approx(1)


def test_campaigns_that_agree_are_predicted_by_the_others() -> None:
    dice = np.random.default_rng(1)
    rows = [
        row(n, {"b": 0.1 + dice.normal(0, 0.005), "c": dice.normal(0, 0.005)}) for n in range(8)
    ]
    found = EvidenceGraph([*rows, row(9, {"d": 0.1})], NODES).held_out()
    assert found.campaigns == 8
    assert found.total == 16
    assert found.inside >= 15


def test_a_campaign_that_lies_far_out_is_not_predicted() -> None:
    rows = [row(n, {"b": 0.1 + 0.5 * (n == 3)}) for n in range(8)]
    found = EvidenceGraph(rows, NODES).held_out()
    assert (found.inside, found.total) == (7, 8)


def test_a_stack_that_is_odd_in_one_campaign_counts_as_if_it_were_measured_so_badly() -> None:
    dice = np.random.default_rng(3)
    arms = [(0, 1, 2), (0, 2, 3), (1, 3), (0, 4, 2)]
    studies = [
        Study(
            arms=each,
            values=dice.normal(0.03, 0.03, len(each) - 1),
            covariance=1e-4 * (np.eye(len(each) - 1) + 1),
            freedom=1e9,
        )
        for each in arms
    ]
    grid = spread_grid(machines=False, bases=False)
    usual = fit(5, studies, [], grid)
    for other in range(1, 5):
        of = np.zeros(5)
        of[[0, other]] = -1.0, 1.0
        expected = float(usual.differences(of[None]).below(np.zeros(1))[0])
        for at, study in enumerate(studies):
            for stack in np.vstack([np.ones(len(study.values)), np.eye(len(study.values))]):
                odd = replace(study, covariance=study.covariance + FAR**2 * np.outer(stack, stack))
                likely = fit(5, [*studies[:at], odd, *studies[at + 1 :]], [], grid)
                logs = grid.log_prior + usual.log_likelihood
                factor = np.logaddexp.reduce(grid.log_prior + likely.log_likelihood)
                if factor - np.logaddexp.reduce(logs) >= math.log(PLAUSIBLE):
                    below = likely.differences(of[None]).below(np.zeros(1))[0]
                    expected = max(expected, float(below))
        assert usual.below_if_odd(of) == pytest.approx(expected, abs=2e-3)
