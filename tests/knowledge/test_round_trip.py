import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.knowledge.database import Database, open_database
from stackgen.model.inspections import IndicatorCall, Outcome
from stackgen.model.stacks import Machine, Stack
from tests.knowledge import samples, strategies


@contextmanager
def fresh() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, open_database(Path(folder) / "kb.db") as database:
        yield database


@given(strategies.stacks)
def test_a_stack_reads_back_equal(stack: Stack) -> None:
    with fresh() as database:
        database.add_stack(stack)
        assert database.stack(stack.id) == stack
        assert database.stacks() == (stack,)


@given(strategies.machines, strategies.calls)
def test_machine_indicator_and_campaign_read_back_equal(
    machine: Machine, call: IndicatorCall
) -> None:
    campaign = replace(strategies.campaign_on(machine), seed=2**70)
    with fresh() as database:
        database.add_machine(machine)
        database.add_indicator(call)
        database.add_campaign(campaign, samples.STARTED)
        assert database.machines() == (machine,)
        assert database.calls() == (call,)
        assert database.calls()[0].id == call.id
        assert database.campaigns() == (campaign,)


@given(st.data())
def test_any_inspection_reads_back_equal_and_with_its_id(data: st.DataObject) -> None:
    stack, call = data.draw(strategies.stacks), data.draw(strategies.calls)
    machine = data.draw(strategies.machines)
    campaign = strategies.campaign_on(machine)
    seen = data.draw(
        st.lists(strategies.inspections(stack, machine, call, campaign), min_size=1, max_size=3)
    )
    with fresh() as database:
        database.add_machine(machine)
        database.add_indicator(call)
        database.add_stack(stack)
        database.add_campaign(campaign, samples.STARTED)
        for inspection in seen:
            database.add_inspection(inspection)
        found = database.inspections()
    assert {i.id: i for i in found} == {i.id: i for i in seen}


def test_a_checksum_that_is_not_a_number_is_kept(database: Database) -> None:
    seen = samples.inspection(1)
    assert seen.observation is not None
    odd = replace(seen, observation=replace(seen.observation, checksum=math.nan))
    database.add_inspection(odd)
    (found,) = database.inspections()
    assert found.id == odd.id
    assert found.observation is not None
    assert found.observation.checksum is not None
    assert math.isnan(found.observation.checksum)


def test_a_log_of_any_bytes_is_kept(database: Database) -> None:
    printed = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    database.add_inspection(replace(samples.inspection(1), log=printed))
    (found,) = database.inspections()
    assert found.log == "caf\\udce9 \\udcff"


def test_the_script_of_an_indicator_is_found_anew_on_each_machine(tmp_path: Path) -> None:
    local = replace(samples.CALL, indicator=replace(samples.CALL.indicator, path="/somewhere"))
    with open_database(tmp_path / "kb.db") as database:
        database.add_indicator(local)
        assert database.calls() == (samples.CALL,)


def test_adding_twice_changes_nothing(tmp_path: Path) -> None:
    with open_database(tmp_path / "kb.db") as database:
        for _ in range(2):
            samples.prepare(database)
            database.add_inspection(samples.inspection(1))
        assert database.inspections() == (samples.inspection(1),)
        assert database.stacks() == (samples.STACK,)


@pytest.mark.parametrize(
    ("filter_by", "expected"),
    [
        ({}, [1, 2]),
        ({"outcome": Outcome.OK}, [1]),
        ({"outcome": Outcome.CRASHED}, [2]),
        ({"campaign": samples.CAMPAIGN.id}, [1, 2]),
        ({"campaign": "another"}, []),
        ({"machine": "another"}, []),
        ({"indicator": samples.CALL.id, "outcome": Outcome.CRASHED}, [2]),
    ],
)
def test_inspections_match_everything_that_is_requested(
    database: Database, filter_by: dict[str, object], expected: list[int]
) -> None:
    database.add_inspection(samples.inspection(1))
    database.add_inspection(samples.inspection(2, outcome=Outcome.CRASHED))
    found = database.inspections(**filter_by)  # type: ignore[arg-type]
    assert sorted(i.block for i in found) == expected


def test_stats_count_by_outcome_and_failures_are_kept(database: Database) -> None:
    for number in (1, 2):
        database.add_inspection(samples.inspection(number))
    failed = samples.inspection(3, outcome=Outcome.IMPORT_FAILED)
    database.add_inspection(failed)
    stats = database.stats()
    assert failed in database.inspections()
    assert stats.inspections == ((Outcome.OK, 2), (Outcome.IMPORT_FAILED, 1))
    assert (stats.stacks, stats.machines, stats.campaigns, stats.indicators) == (1, 1, 1, 1)
    assert stats.file_bytes > 0
