"""What plain sqlite3 and Datasette read: views of the names of version 4."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.knowledge import packing
from stackgen.knowledge.database import open_database
from stackgen.model.inspections import Inspection
from tests.knowledge import samples

AROUND = (
    ("cpu_mhz", "2445.4"),
    ("env OMP_NUM_THREADS", "1"),
    ("kernel", "Linux 6.1"),
    ("load", "3 1 1"),
)


def seen(number: int, **changes: object) -> Inspection:
    found = samples.inspection(number)
    assert found.observation is not None
    return replace(found, observation=replace(found.observation, **changes))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = tuple((1 + n / 7) * 10.0 ** (n - 12) for n in range(24))
    return samples.base(
        tmp_path / "kb.db",
        seen(1, circumstances=AROUND),
        seen(2, values_s=(1e-22, 0.1 + 0.2, 7)),
        seen(3, values_s=values),
    )


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(sql).fetchall()


def test_samples_are_read_as_json_by_plain_sql(path: Path) -> None:
    with open_database(path) as database:
        stored = {each.id: each.observation for each in database.inspections()}
    for inspection, values in rows(path, "SELECT id, values_s FROM inspections"):
        observation = stored[inspection]  # type: ignore[index]
        assert observation is not None
        assert json.loads(str(values)) == pytest.approx(list(observation.values_s), rel=1e-15)


def test_samples_take_8_bytes_each_where_that_is_exact(path: Path) -> None:
    packed = rows(path, "SELECT typeof(samples), length(samples) FROM inspection_rows ORDER BY key")
    assert packed == [("blob", 16), ("text", 31), ("blob", 192)]
    assert packing.pack_samples((0.5, 1)) == "[0.5, 1]"  # a whole number stays one
    assert packing.unpack_samples(b"\x3f\xe0" + b"\0" * 6) == (0.5,)


def test_circumstances_are_shared_but_for_what_was_measured(path: Path) -> None:
    found = rows(path, "SELECT name, value FROM inspection_circumstances ORDER BY name")
    assert tuple(found) == AROUND
    (shared,) = rows(path, "SELECT text FROM texts WHERE text LIKE '%kernel%'")
    assert json.loads(str(shared[0])) == [
        ["cpu_mhz", 0],
        ["env OMP_NUM_THREADS", "1"],
        ["kernel", "Linux 6.1"],
        ["load", 1],
    ]
    assert rows(path, "SELECT count(*) FROM timings WHERE best_s > 0") == [(3,)]


def test_loaded_distributions_and_origins_are_read_by_name(path: Path) -> None:
    assert rows(path, "SELECT DISTINCT name, version, compiled FROM inspection_loaded") == [
        ("numpy", "1.26.4", 1)
    ]
    counted = "SELECT table_name, count(*) FROM row_origins GROUP BY table_name"
    assert dict(rows(path, counted)) == {  # type: ignore[arg-type]
        **dict.fromkeys(("campaigns", "indicators", "load_sets", "locks", "machines", "stacks"), 1),
        "artifacts": 2,
        "inspections": 3,
    }
