"""Derived rows: what one campaign says of one indicator."""

import math
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from stackgen.measure import INTERIM_ANALYSES
from stackgen.measure.contrasts import CampaignContrasts, campaign_contrasts, estimates
from stackgen.model.identity import MachineId
from stackgen.model.inspections import Inspection, Role
from tests.samples import CAMPAIGN, MACHINE, call, environment, inspection

MATMUL = call()
BASELINE, ONE, TWO = environment("1"), environment("2"), environment("3")
PLACES = {BASELINE: 1.0, ONE: 0.9, TWO: 1.1}


def blocks(numbers: Iterable[int], *, role: Role = Role.CANDIDATE) -> list[Inspection]:
    """Return blocks of a baseline, its twin and two candidates, 10 % faster and slower."""
    dice = random.Random(1)
    found = []
    for block in numbers:
        drift = dice.gauss(0, 0.2)
        for place, (where, seconds) in enumerate(PLACES.items()):
            what = Role.BASELINE if where is BASELINE and role is Role.CANDIDATE else role
            taken = seconds * math.exp(drift + dice.gauss(0, 0.02))
            found.append(inspection(where, MATMUL, block, taken, role=what, position=place))
        found.append(inspection(BASELINE, MATMUL, block, 0.5, role=Role.TWIN, position=9))
    return found


def only(rows: tuple[CampaignContrasts, ...]) -> CampaignContrasts:
    (row,) = rows
    return row


def test_a_row_holds_log_ratios_to_the_baseline_above_0_where_the_candidate_is_faster() -> None:
    row = only(campaign_contrasts(blocks(range(1, 11)), origins=("b", "a", "b")))
    ratios = dict(zip(row.candidates, row.log_ratios, strict=True))
    assert row.baseline == BASELINE.stack.id
    assert ratios[ONE.stack.id] == pytest.approx(math.log(1 / 0.9), abs=0.04)
    assert ratios[TWO.stack.id] == pytest.approx(math.log(1 / 1.1), abs=0.04)
    assert row.origins == ("a", "b")
    assert row.blocks == (10, 10)


def test_candidates_share_the_noise_of_their_baseline() -> None:
    row = only(campaign_contrasts(blocks(range(1, 43))))
    (first, shared), (again, second) = row.covariance
    assert shared == again
    assert 0.3 < shared / math.sqrt(first * second) < 0.7


def test_blocks_of_a_search_give_no_row() -> None:
    assert campaign_contrasts(blocks(range(1, 11), role=Role.SEARCH)) == ()


def test_blocks_beyond_an_interim_analysis_wait_for_the_next() -> None:
    ten = campaign_contrasts(blocks(range(1, 11)))
    assert campaign_contrasts(blocks(range(1, 14))) == ten


def test_fewer_blocks_than_the_first_interim_analysis_give_no_row() -> None:
    assert campaign_contrasts(blocks(range(1, INTERIM_ANALYSES[0]))) == ()


def test_a_stack_that_failed_in_blocks_has_no_contrast() -> None:
    row = only(campaign_contrasts(blocks(range(1, 11)), failed={ONE.stack.id}))
    assert row.candidates == (TWO.stack.id,)


def test_machines_of_one_campaign_have_rows_of_their_own() -> None:
    here = blocks(range(1, 11))
    there = [replace(each, machine_id=MachineId("other")) for each in blocks(range(11, 21))]
    rows = campaign_contrasts(here + there)
    assert [row.machine_id for row in rows] == [MACHINE, "other"]
    assert rows[0] == only(campaign_contrasts(here))


def test_blocks_in_which_a_later_baseline_was_a_candidate_count_once() -> None:
    def led_by_one(each: Inspection) -> Inspection:
        return replace(each, role=Role.BASELINE) if each.stack_id == ONE.stack.id else each

    later = [led_by_one(e) for e in blocks(range(11, 21)) if e.stack_id != BASELINE.stack.id]
    rows = {row.baseline: row for row in campaign_contrasts(blocks(range(1, 11)) + later)}
    assert rows[BASELINE.stack.id].candidates == tuple(sorted({ONE.stack.id, TWO.stack.id}))
    assert rows[ONE.stack.id].candidates == (TWO.stack.id,)
    assert rows[ONE.stack.id].blocks == (10,)


def test_the_order_of_inspections_does_not_matter() -> None:
    seen = blocks(range(1, 11))
    assert campaign_contrasts(seen[::-1]) == campaign_contrasts(seen)


def test_variances_of_several_candidates_are_known_better_than_that_of_one() -> None:
    dice = random.Random(1)
    values = [{(CAMPAIGN, n): dice.gauss(0, 1) for n in range(6)} for _ in range(4)]
    alone, together = estimates(values[:1]), estimates(values)
    assert alone.freedom == 3
    assert together.freedom > alone.freedom


def test_contrasts_without_any_spread_have_an_error_all_the_same() -> None:
    found = estimates([{(CAMPAIGN, n): 0.1 for n in range(6)}])
    assert found.log_ratios[0] == pytest.approx(0.1)
    assert found.covariance[0][0] > 0
