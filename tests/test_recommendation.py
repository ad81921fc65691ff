"""What may be recommended from the evidence graph, and what it must say of its sources."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from stackgen.knowledge.graph import EvidenceGraph, Place, StackNode
from stackgen.knowledge.recommendation import Assessment, Standing, alpha_after, assess
from stackgen.measure import ALPHA
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.model.identity import IndicatorId, MachineId, StackId
from tests.recordings import campaigns, recording
from tests.test_graph import HERE, NAMES, NODES, row

MATMUL, FFT = IndicatorId("matmul"), IndicatorId("fft")


def judged(
    *rows: Sequence[CampaignContrasts], current: str = "a", place: Place = HERE
) -> dict[str, Assessment]:
    """Return what is said of all other stacks; each argument holds one indicator's campaigns."""
    graphs = {
        indicator: EvidenceGraph(each, NODES)
        for indicator, each in zip((MATMUL, FFT), rows, strict=False)
    }
    found = assess(
        graphs,
        current=dict.fromkeys(graphs, current),
        candidates={name: dict.fromkeys(graphs, name) for name in NAMES if name != current},
        place=place,
    )
    return {each.name: each for each in found}


def repeated(count: int, origin: str = "") -> list[CampaignContrasts]:
    """Return campaigns that agree: b is 15 % faster, c and d are as fast as a."""
    return [row(n, {"b": 0.14, "c": 0.0, "d": 0.001}, origin=origin) for n in range(count)]


def test_what_several_campaigns_show_to_be_faster_comes_first() -> None:
    found = judged(repeated(4))
    assert next(iter(found)) == "b"
    best = found["b"].compared[0]
    assert found["b"].standing is Standing.FASTER
    assert best.ratio == pytest.approx(math.exp(0.14), abs=0.01)
    assert 1 < best.lowest < best.low < best.ratio < best.high < best.highest
    assert {found[name].standing for name in "cd"} == {Standing.NOT_SHOWN}
    assert set(found) == {"b", "c", "d"}


def test_one_campaign_alone_recommends_nothing_that_its_spread_may_explain() -> None:
    assert judged(repeated(1))["b"].standing is Standing.NOT_SHOWN


def test_what_one_campaign_alone_shows_takes_another_that_agrees() -> None:
    others = [row(n, {"c": 0.0, "d": 0.001, "e": 0.0}) for n in range(4)]
    odd = [row(4 + n, {"b": 0.223, "c": 0.0}) for n in range(2)]
    one, two = (judged([*others, *odd[:count]])["b"] for count in (1, 2))
    assert one.compared[0].lowest > 1
    assert (one.standing, two.standing) == (Standing.ONE_CAMPAIGN, Standing.FASTER)
    assert judged([*others, row(4, {"b": 0.7, "c": 0.0})])["b"].standing is Standing.FASTER


def test_what_is_faster_by_less_than_the_margin_is_not_recommended() -> None:
    rows = [row(n, {"b": 0.015}, error=0.0005) for n in range(40)]
    found = judged(rows)["b"]
    assert found.compared[0].lowest > 1
    assert found.standing is Standing.NOT_SHOWN


def test_what_is_slower_on_another_indicator_is_not_recommended() -> None:
    slower = [row(n, {"b": -0.1, "c": 0.0}) for n in range(4)]
    assert judged(repeated(4), slower)["b"].standing is Standing.SLOWER


def test_more_candidates_make_wider_simultaneous_intervals() -> None:
    few = judged([row(n, {"b": 0.14}) for n in range(4)])["b"].compared[0]
    many = judged([row(n, dict.fromkeys("bcdef", 0.14)) for n in range(4)])["b"].compared[0]
    assert few.highest / few.high < many.highest / many.high


def test_a_recommendation_that_one_origin_carries_names_it() -> None:
    one = judged(repeated(4, origin="theirs"))["b"]
    two = judged([*repeated(4, origin="theirs"), *(row(n + 4, {"b": 0.14}) for n in range(4))])["b"]
    assert one.standing is Standing.FASTER
    assert one.sole_origins == ("theirs",)
    assert two.sole_origins == ()
    assert judged(repeated(4))["b"].sole_origins == ("",)


def test_evidence_of_fewer_than_three_other_machines_is_measured_elsewhere() -> None:
    def on(machines: int, here: str) -> Assessment:
        rows = [row(n, {"b": 3.0}, machine=f"m{n % machines}") for n in range(12)]
        return judged(rows, place=Place(machine_id=MachineId(here)))["b"]

    found = {key: on(*key) for key in ((2, "new"), (6, "new"), (2, "m0"))}
    assert {each.standing for each in found.values()} == {Standing.FASTER}
    assert {key for key, each in found.items() if each.elsewhere} == {(2, "new")}


@pytest.mark.parametrize("origins", [5, 6, 10])
def test_a_fifth_of_the_origins_cannot_make_a_recommendation(origins: int) -> None:
    dice = np.random.default_rng(1)
    rows = [
        row(
            n,
            {"b": 0.223 * (n % origins < origins // 5) + dice.normal(0, 0.004), "c": 0.0},
            origin=f"o{n % origins}",
        )
        for n in range(3 * origins)
    ]
    standing = judged(rows)["b"].standing
    assert standing in {Standing.NOT_SHOWN, Standing.FEW_ORIGINS}


def test_what_four_of_five_origins_show_is_recommended() -> None:
    rows = [row(n, {"b": 0.14 * (n % 5 > 0), "c": 0.0}, origin=f"o{n % 5}") for n in range(20)]
    assert judged(rows)["b"].standing is Standing.FASTER


def test_bases_of_equal_stacks_hold_no_false_recommendation() -> None:
    dice = np.random.default_rng(7)
    names = [f"s{n}" for n in range(8)]
    nodes = {StackId(name): StackNode(key=name) for name in names}
    wrong = 0
    for _ in range(12):
        rows = []
        for number in range(6):
            first, *others = dice.choice(names, 4, replace=False)
            values = {str(name): float(dice.normal(0, 0.02)) for name in others}
            rows.append(row(number, values, baseline=str(first), error=0.01))
        graph = EvidenceGraph(rows, nodes)
        current = graph.components[0][0]
        found = assess(
            {MATMUL: graph},
            current={MATMUL: current},
            candidates={name: {MATMUL: name} for name in names if name != current},
            place=HERE,
        )
        wrong += any(each.standing is Standing.FASTER for each in found)
    assert wrong == 0


def test_recorded_noise_recommends_a_planted_difference_and_no_equal_arm() -> None:
    arms = recording("eight-arms-quiet")["matmul"]
    nodes = {StackId(name): StackNode(key=name) for name in arms}
    graph = EvidenceGraph(campaigns(arms, baseline="A1"), nodes)

    def recommended(current: str) -> set[str]:
        found = assess(
            {MATMUL: graph},
            current={MATMUL: current},
            candidates={name: {MATMUL: name} for name in arms if name != current},
            place=Place(machine_id=MachineId("recorded")),
        )
        return {each.name for each in found if each.standing is Standing.FASTER}

    equal = {"A1", "A2", "A3", "A4", "A5"}
    assert all(recommended(name) == set() for name in equal)
    assert recommended("P10") == equal | {"P3", "P5"}
    held_out = graph.held_out()
    assert held_out.inside >= 0.9 * held_out.total > 40


def test_campaigns_until_one_decides_share_one_level() -> None:
    shares = [alpha_after(campaigns) for campaigns in range(1, 1000)]
    assert alpha_after(0) == ALPHA
    assert shares == sorted(shares, reverse=True)
    assert 0.99 * ALPHA < sum(shares) < ALPHA
