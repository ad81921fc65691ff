"""Contrasts are derived once per campaign, and again when its inspections change."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.knowledge import derived
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.evidence import summaries
from stackgen.measure.contrasts import campaign_contrasts
from stackgen.model.identity import StackId
from stackgen.model.inspections import Inspection, Role
from tests.knowledge import samples

PURE = replace(
    samples.CALL,
    indicator=replace(samples.CALL.indicator, name="python/pure", component="python"),
)
OTHER = samples.stack(numpy="2.0.0", tensorflow="2.12.1")


def block(number: int) -> list[Inspection]:
    """Return a block of the baseline, its twin and a candidate that takes half the time."""
    made = samples.inspection(number)
    assert made.observation is not None
    noise = 1 + 0.01 * (number * 7 % 5)

    def timed(seconds: float, role: Role, stack: StackId) -> Inspection:
        assert made.observation is not None
        seen = replace(made.observation, values_s=(seconds * noise,))
        return replace(made, observation=seen, role=role, stack_id=stack)

    other_noise = 0.001 * (-1) ** number
    measured = [
        timed(0.2, Role.BASELINE, samples.STACK.id),
        timed(0.2 + other_noise, Role.TWIN, samples.STACK.id),
        timed(0.1, Role.CANDIDATE, OTHER.id),
    ]
    pure = [
        timed(0.2, Role.BASELINE, samples.STACK.id),
        timed(0.2 + other_noise, Role.CANDIDATE, OTHER.id),
    ]
    return [*measured, *(replace(each, indicator_id=PURE.id) for each in pure)]


def add_blocks(database: Database, numbers: range) -> None:
    samples.prepare(database, samples.STACK, OTHER)
    database.add_indicator(PURE)
    for number in numbers:
        for each in block(number):
            database.add_inspection(each)


def test_contrasts_are_those_of_the_inspections_and_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        found = database.contrasts()
        expected = campaign_contrasts(database.inspections())
        assert [replace(each, origins=()) for each in found] == list(expected)
        ours = [each for each in found if each.indicator_id == samples.CALL.id]
        assert ours[0].log_ratios == pytest.approx([0.693], abs=0.01)
        monkeypatch.setattr(derived, "derive", None)  # what is cached needs no inspection
        assert database.contrasts() == found
        assert list(database.contrasts([samples.CALL.id])) == ours
        assert database.contrasts([]) == ()


def test_contrasts_follow_new_blocks_and_another_derivation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        before = database.contrasts()
        add_blocks(database, range(9, 17))
        after = database.contrasts()
        assert sum(after[0].blocks) > sum(before[0].blocks)
        database._connection.execute("UPDATE derived_contrasts SET content = '[[],[]]'")
        assert database.contrasts() == ()
        monkeypatch.setattr(derived, "DERIVATION", derived.DERIVATION + 1)
        assert database.contrasts() == after


def test_imported_contrasts_name_their_origin_and_go_with_it(tmp_path: Path) -> None:
    with open_database(tmp_path / "theirs" / "kb.db") as theirs:
        add_blocks(theirs, range(1, 9))
        assert {each.origins for each in theirs.contrasts()} == {()}
    with open_database(tmp_path / "kb.db") as database:
        database.merge(tmp_path / "theirs" / "kb.db")
        (origin,) = [each.id for each in database.origin_summaries()]
        assert {each.origins for each in database.contrasts()} == {(origin,)}
        database.remove_origin(origin)
        assert database.contrasts() == ()


def test_what_others_add_to_a_campaign_counts_for_nothing(tmp_path: Path) -> None:
    """A candidate of theirs beside a baseline of ours would be no contrast within a block."""
    forged = samples.stack(numpy="3.0.0", tensorflow="2.12.1")
    with open_database(tmp_path / "theirs" / "kb.db") as theirs:
        samples.prepare(theirs, forged)
        for number in range(1, 9):
            candidate = block(number)[2]
            theirs.add_inspection(replace(candidate, stack_id=forged.id))
        (their_origin,) = (each.id for each in theirs.origin_summaries())
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        alone = database.contrasts()
        (origin,) = (each.id for each in database.origin_summaries())
        database.merge(tmp_path / "theirs" / "kb.db")
        assert database.contrasts() == alone
    for number, order in enumerate((("kb.db", "theirs/kb.db"), ("theirs/kb.db", "kb.db"))):
        with open_database(tmp_path / f"third{number}" / "kb.db") as third:
            for name in order:
                third.merge(tmp_path / name)
            found = third.contrasts()
            assert {each.origins for each in found} == {(origin,)}
            assert [replace(each, origins=()) for each in found] == list(alone)
    assert their_origin != origin


def test_a_campaign_that_two_installations_recorded_whole_has_both_origins(tmp_path: Path) -> None:
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
    with open_database(tmp_path / "other" / "kb.db") as other:
        add_blocks(other, range(1, 9))
        other.merge(tmp_path / "kb.db")
        assert {len(each.origins) for each in other.contrasts()} == {2}


@pytest.mark.parametrize("checksum", [None, 5, 2.5, math.inf])
def test_what_stacks_loaded_and_computed_is_cached_as_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checksum: float | None
) -> None:
    with open_database(tmp_path / "kb.db") as database:
        add_blocks(database, range(1, 9))
        last = block(9)[0]
        assert last.observation is not None
        seen = replace(last.observation, checksum=checksum)
        database.add_inspection(replace(last, observation=seen))
        expected = summaries(database.inspections(), database.calls())
        assert {each.blocks for each in expected} == {17, 8}
        monkeypatch.setattr(database, "inspections", None)  # neither what is cached needs them
        with pytest.raises(TypeError):
            database.derived()
        monkeypatch.undo()
        database.derived()
        monkeypatch.setattr(database, "inspections", None)
        assert {*database.derived().summaries} == {*expected}


def test_evidence_is_counted_by_who_recorded_it(tmp_path: Path) -> None:
    with open_database(tmp_path / "theirs" / "kb.db") as theirs:
        add_blocks(theirs, range(1, 9))
        place = theirs.contrasts()[0]
        evidence = [(place.campaign_id, place.indicator_id)]
        count, merged = theirs.count_evidence(evidence)
        assert (count > 0, merged) == (True, {})
    with open_database(tmp_path / "kb.db") as database:
        database.merge(tmp_path / "theirs" / "kb.db")
        (origin,) = [each.id for each in database.origin_summaries()]
        found = database.count_evidence(evidence)
        assert (found[0], {each.id: n for each, n in found[1].items()}) == (count, {origin: count})
        assert database.count_evidence([]) == (0, {})
