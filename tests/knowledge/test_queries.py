import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.errors import DatabaseError, UsageError
from stackgen.knowledge import database as database_module
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.queries import NamedQuery, named_queries
from stackgen.model.identity import canonical_json
from stackgen.model.inspections import Outcome
from tests.knowledge import samples

_NAMES = [query.name for query in named_queries()]
_PARAMETERS = {"name": "numpy", "stack": samples.STACK.id[:8], "indicator": "numpy/matmul"}


def filled(path: Path) -> Database:
    database = open_database(path)
    other = samples.stack(numpy="2.0.0", tensorflow="2.12.1")
    samples.prepare(database, samples.STACK, other)
    for number in (1, 2, 3):
        database.add_inspection(samples.inspection(number))
        database.add_inspection(samples.inspection(number, of=other))
    database.add_inspection(samples.inspection(4, of=other, outcome=Outcome.CRASHED))
    return database


@pytest.mark.parametrize("name", _NAMES)
def test_every_query_says_what_it_answers_and_runs(name: str, tmp_path: Path) -> None:
    (query,) = (query for query in named_queries() if query.name == name)
    assert query.purpose.endswith((".", "?"))
    with filled(tmp_path / "kb.db") as database:
        used = {key: value for key, value in _PARAMETERS.items() if f":{key}" in query.sql}
        columns, rows = database.run_named(name, used)
    assert columns
    assert all(len(row) == len(columns) for row in rows)


@pytest.mark.parametrize("name", sorted({*_NAMES} - {"unsteady"}))
def test_queries_find_what_is_there(name: str, tmp_path: Path) -> None:
    with filled(tmp_path / "kb.db") as database:
        assert database.run_named(name, _PARAMETERS).rows


def test_compared_counts_shared_blocks_of_ok_inspections(tmp_path: Path) -> None:
    with filled(tmp_path / "kb.db") as database:
        columns, (row,) = database.run_named("compared")
    assert dict(zip(columns, row, strict=True))["blocks"] == 3


def test_timings_show_the_fastest_sample(tmp_path: Path) -> None:
    with filled(tmp_path / "kb.db") as database:
        columns, rows = database.run_named("timings", {"indicator": "numpy/matmul"})
    assert {row[columns.index("best_s")] for row in rows} == {0.002}


def test_versions_distinguish_tries_from_successes(tmp_path: Path) -> None:
    with filled(tmp_path / "kb.db") as database:
        _, rows = database.run_named("versions", {"name": "numpy"})
    assert rows == (("1.26.4", 1, 3, 3), ("2.0.0", 1, 4, 3))


def test_the_request_of_a_campaign_has_standard_keys_though_its_id_has_frozen_ones(
    tmp_path: Path,
) -> None:
    stated = {"asked": ['numpy>=1 ; "asked":'], "reference": None, "sides": ["a", "b"]}
    campaign = replace(samples.CAMPAIGN, request=canonical_json(stated))
    with open_database(tmp_path / "kb.db") as database:
        database.add_machine(samples.MACHINE)
        database.add_campaign(campaign, samples.STARTED)
        columns, (row,) = database.run_named("campaigns")
    shown = json.loads(str(row[columns.index("request")]))
    assert shown == {"requirements": stated["asked"], "baseline": None, "pair": stated["sides"]}


def test_an_unknown_query_names_those_there_are(tmp_path: Path) -> None:
    with (
        open_database(tmp_path / "kb.db") as database,
        pytest.raises(UsageError, match="no query named 'fastest'") as caught,
    ):
        database.run_named("fastest")
    assert "outcomes" in caught.value.fix


def test_a_missing_parameter_is_the_users_mistake(tmp_path: Path) -> None:
    with (
        open_database(tmp_path / "kb.db") as database,
        pytest.raises(UsageError, match="needs a parameter"),
    ):
        database.run_named("pins")


def test_a_query_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = NamedQuery("hostile", "nothing.", "DELETE FROM stacks")
    monkeypatch.setattr(database_module, "find_query", lambda _: hostile)
    with filled(tmp_path / "kb.db") as database:
        with pytest.raises(DatabaseError, match="cannot be written"):
            database.run_named("hostile")
        assert len(database.stacks()) == 2
        database.add_stack(samples.stack(numpy="2.1.0"))  # writing goes on afterwards
