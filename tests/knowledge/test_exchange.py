"""Export and import as JSON lines: canonical, a union in any order, and safe against anything."""

import io
import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stackgen.errors import DatabaseError, UsageError
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.public import Redaction
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import canonical_json
from stackgen.model.inspections import Outcome
from tests.knowledge import samples, strategies

_IDENTIFIED = (
    *("locks", "stacks", "machines", "indicators", "campaigns", "load_sets", "inspections"),
)
MEASURED = (  # what tells a disturbed block, in each form that a number takes
    ("cpu_mhz", "2445.4"),
    ("env OMP_NUM_THREADS", "1"),
    ("gpu clocks_throttle_reasons.active before", "0x0000000000000040"),
    ("pressure_cpu_s", "1.4e-05"),
    ("steal_s", "0.01"),
)
AROUND = tuple(sorted((*MEASURED, ("env HOME", "/home/someone"), ("env USER_TOKEN", "123"))))


def base(path: Path, *numbers: int) -> Path:
    """Write a knowledge base whose inspections have circumstances."""
    made = []
    for each in map(samples.inspection, numbers):
        assert each.observation is not None
        seen = replace(each.observation, circumstances=AROUND)
        made.append(replace(each, observation=seen))
    return samples.base(path, *made)


def exported(path: Path, *, public: bool = False) -> str:
    with open_database(path) as database:
        return "".join(database.export(Redaction() if public else None))


def add(database: Database, text: str | bytes) -> int:
    content = text.encode() if isinstance(text, str) else text
    return database.import_lines(io.BytesIO(content), Path("theirs.jsonl"))


@contextmanager
def fresh() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, open_database(Path(folder) / "kb.db") as database:
        yield database


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return exports of four installations whose rows overlap, one of them public."""
    folder = tmp_path_factory.mktemp("exports")
    for name, numbers in {"a": (1, 2), "b": (2, 3), "c": (3, 4)}.items():
        base(folder / name / "kb.db", *numbers)
    with sqlite3.connect(folder / "b" / "kb.db") as raw:
        raw.execute('UPDATE machines SET circumstances = \'[["kernel", "6.1"]]\'')
        raw.execute("UPDATE artifacts SET url = 'https://mirror.invalid/', yanked = 'broken'")
    whole = [exported(folder / name / "kb.db") for name in ("a", "b", "c")]
    return (*whole, exported(folder / "c" / "kb.db", public=True))


@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=6).filter(lambda drawn: {0, 1, 2} <= {*drawn})
)
def test_the_export_is_byte_identical_whatever_the_order_of_imports(
    exports: tuple[str, ...], order: Sequence[int]
) -> None:
    with fresh() as database, fresh() as straight:
        for place in order:
            add(database, exports[place])
        for place in (0, 1, 2, 3):
            add(straight, exports[place])
        assert database.check() == ()
        assert list(database.export()) == list(straight.export())


def test_an_import_brings_all_and_twice_nothing(tmp_path: Path) -> None:
    theirs = base(tmp_path / "theirs" / "kb.db", 1, 2)
    text = exported(theirs)
    with open_database(tmp_path / "kb.db") as database, open_database(theirs) as source:
        assert [add(database, text), add(database, text)] == [2, 0]
        assert set(database.inspections()) == set(source.inspections())
        assert database.stacks() == source.stacks()
        assert "".join(database.export()) == text
        assert database._rows("PRAGMA foreign_key_check") == []


def test_a_merge_gives_the_same_as_an_import(tmp_path: Path) -> None:
    theirs = base(tmp_path / "theirs" / "kb.db", 1, 2)
    with open_database(tmp_path / "a.db") as one, open_database(tmp_path / "b.db") as two:
        one.merge(theirs)
        add(two, exported(theirs))
        assert list(one.export()) == list(two.export())


@given(strategies.recorded())
def test_any_row_that_was_recorded_survives_export_and_import(row: strategies.Recorded) -> None:
    with fresh() as theirs, fresh() as mine:
        row.add_to(theirs)
        text = "".join(theirs.export())
        assert add(mine, text) == 1
        assert mine.inspections() == theirs.inspections()
        assert "".join(mine.export()) == text
        # With blanks, no line is decoded in one step: both ways give the same.
        blanks = "".join(json.dumps(json.loads(line)) + "\n" for line in text.splitlines())
        with fresh() as other:
            assert add(other, blanks) == 1
            assert "".join(other.export()) == text


# -- hostile input --------------------------------------------------------------------------------


@cache
def lines() -> tuple[str, ...]:
    """Return the export of another installation."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(exported(base(Path(folder) / "kb.db", 1)).splitlines(keepends=True))


def with_changed(found: Iterable[str], table: str, **changes: object) -> str:
    """Return the lines with other values in the first row of a table; ``...`` removes one."""
    changed = []
    for line in found:
        row = json.loads(line)
        if row.get("table") == table:
            row |= changes
            row = {name: value for name, value in row.items() if value is not ...}
        changed.append(canonical_json(row) + "\n")
    return "".join(changed)


@pytest.mark.parametrize(
    ("table", "changes", "why"),
    [
        ("inspections", {"values_s": [-1.0]}, "positive, finite"),
        ("inspections", {"values_s": []}, "positive, finite"),
        ("inspections", {"values_s": "many"}, "values_s: a list was expected"),
        ("inspections", {"values_s": [[1]]}, "values_s: Expected `int | float`"),
        ("inspections", {"values_s": [True]}, "values_s: Expected `int | float`"),
        ("inspections", {"values_s": [10**400]}, "theirs.jsonl"),
        ("inspections", {"values_s": [0.5]}, "its id is not that of its content"),
        ("inspections", {"values_s": None, "outcome": "crashed"}, "its id is not that"),
        ("inspections", {"id": "../../etc/passwd"}, "its id is not that of its content"),
        ("inspections", {"id": 5}, "its id is not that of its content"),
        ("inspections", {"stack_id": "none"}, "stack_id: there is no such row in stacks"),
        ("inspections", {"stack_id": ["a"]}, "stack_id"),
        ("inspections", {"loops": 1 << 80}, "loops: a number of more than 64 bits"),
        ("inspections", {"loops": "1; DROP TABLE stacks"}, "loops: a whole number"),
        ("inspections", {"role": "spectator"}, "role: 'spectator' is none of"),
        ("inspections", {"circumstances": [["a"]]}, "circumstances: Expected `array`"),
        ("inspections", {"circumstances": {"a": "b"}}, "circumstances: Expected `array`"),
        ("inspections", {"log": 5}, "log: text was expected"),
        ("inspections", {"redacted": 1}, "redacted: log and limits"),
        ("inspections", {"started_at": "soon"}, "started_at: an ISO 8601 time"),
        ("inspections", {"started_at": ...}, "there is no column started_at"),
        ("inspections", {"origins": []}, "origins: a list of ids"),
        ("inspections", {"origins": ["x"]}, "origins: an id has 32"),
        ("inspections", {"origins": ["0" * 32] * 5000}, "origins: a list of ids"),
        *((table, {"id": ...}, "there is no column id") for table in _IDENTIFIED),
        ("campaigns", {"request": ...}, "there is no column request"),
        ("machines", {"identity": [["cpu", "faster"]]}, "its id is not that of its content"),
        ("machines", {"identity": [["cpu", 5]]}, "identity: Expected `str`"),
        ("stacks", {"lock_id": "none"}, "lock_id: there is no such row in locks"),
        ("locks", {"artifacts": [["numpy", "1", ""]]}, "pins an artifact that is not there"),
        ("locks", {"artifacts": [["numpy"]]}, "artifacts: a list of"),
        ("locks", {"artifacts": 7}, "artifacts: a list of"),
        ("load_sets", {"members": []}, "its id is not that of its content"),
        ("load_sets", {"members": [["numpy", "1.26.4", "yes"]]}, "compiled: 0 or 1"),
        ("artifacts", {"size": -1}, "size: a whole number"),
        ("artifacts", {"name": None}, "name: text was expected"),
        ("campaigns", {"seed": "lucky"}, "seed: no whole number"),
        ("campaigns", {"request": '{"a": 1}'}, "its id is not that of its content"),
        ("indicators", {"timeout_s": "long"}, "timeout_s"),
        ("indicators", {"revision": 0}, "revision"),
    ],
)
def test_a_row_that_is_not_valid_refuses_the_whole_file(
    tmp_path: Path, table: str, changes: dict[str, object], why: str
) -> None:
    text = with_changed(lines(), table, **changes)
    with open_database(base(tmp_path / "mine.db", 7)) as database:
        before = list(database.export())
        with pytest.raises(DatabaseError) as caught:
            add(database, text)
        assert list(database.export()) == before
    assert why in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: found[:0], "it is empty"),
        (lambda found: found[1:], "its first line is not"),
        (lambda found: found[:-1], "it was cut off"),
        (lambda found: [*found[:-2], found[-1]], "counts another number"),
        (lambda found: [*found, found[-1]], "it follows the last line"),
        (lambda found: [found[0], *found[2:-1], found[1], found[-1]], "comes before"),
        (lambda found: [found[0].replace('scheme":2', 'scheme":9'), *found[1:]], "id scheme"),
        (lambda found: [*found[:-1], "[1]\n", found[-1]], "no JSON object"),
        (lambda found: [*found[:-1], "{", found[-1]], "no valid JSON"),
        (lambda found: [*found[:-1], "[" * 100_000, found[-1]], "no valid JSON"),
        (lambda found: [*found[:-1], '{"a":"' + "x" * (1 << 23) + '"}\n', found[-1]], "is longer"),
        (lambda found: [*found[:-1], '{"table":"sqlite_master"}\n', found[-1]], "no table"),
    ],
)
def test_a_file_that_is_no_whole_export_is_refused(change: object, why: str) -> None:
    text = "".join(change(list(lines())))  # type: ignore[operator]
    with fresh() as database, pytest.raises(DatabaseError) as caught:
        add(database, text)
    assert why in str(caught.value)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_line_makes_an_import_fail_in_another_way(
    exports: tuple[str, ...], data: st.DataObject
) -> None:
    found = exports[data.draw(st.sampled_from((0, 3)))].splitlines(keepends=True)
    place = data.draw(st.integers(0, len(found) - 1))
    if data.draw(st.booleans()):
        row = json.loads(found[place])
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(junk)
        found[place] = json.dumps(row) + "\n"
        content = "".join(found).encode()
    else:
        line = bytearray(found[place].encode())
        for spot in data.draw(st.lists(st.integers(0, len(line) - 1), min_size=1, max_size=4)):
            line[spot] = data.draw(st.integers(0, 255))
        content = b"".join(
            [*(x.encode() for x in found[:place]), line, *(x.encode() for x in found[place + 1 :])]
        )
    with fresh() as database:
        try:
            add(database, content)
        except DatabaseError:
            assert database.inspections() == ()
        else:
            assert database.check() == ()


# -- origins --------------------------------------------------------------------------------------


def test_an_id_that_was_stated_for_another_row_refuses_the_file(tmp_path: Path) -> None:
    path = base(tmp_path / "kb.db", 1)
    whole = [json.loads(line) for line in exported(path).splitlines()[:-1]]
    *head, own = whole  # the only inspection is last
    public = [json.loads(line) for line in exported(path, public=True).splitlines()]
    other = replace(samples.CAMPAIGN, seed=samples.CAMPAIGN.seed + 1)
    at = next(place for place, row in enumerate(head) if row.get("table") == "campaigns")
    campaign = head[at] | {"id": other.id, "seed": str(other.seed)}
    stolen = public[-2] | {"campaign_id": other.id}
    assert stolen["id"] == own["id"]

    def text(*rows: dict[str, object]) -> str:
        end = {"table": "end", "rows": len(rows) - 1}
        return "".join(f"{canonical_json(row)}\n" for row in (*rows, end))

    with fresh() as database, pytest.raises(DatabaseError, match="was not merged") as one:
        add(database, text(*head[: at + 1], campaign, *head[at + 1 :], stolen, own))
    with fresh() as database:
        assert add(database, text(*head[:at], campaign, *head[at + 1 :], stolen)) == 1
        with pytest.raises(DatabaseError, match="was not merged") as two:
            add(database, text(*whole))
    assert all("another inspection has the id" in each.value.why for each in (one, two))


def test_a_row_goes_when_its_last_origin_goes(tmp_path: Path) -> None:
    with open_database(base(tmp_path / "kb.db", 1)) as database:
        alone = list(database.export())
        add(database, exported(base(tmp_path / "a" / "kb.db", 1, 2)))
        with_a = list(database.export())
        add(database, exported(base(tmp_path / "b" / "kb.db", 2, 3)))
        summaries = database.origin_summaries()
        counted = sorted((each.inspections, each.alone) for each in summaries)
        assert counted == [(1, 0), (2, 0), (2, 1)]
        (b,) = {each.id for each in summaries if each.alone}
        assert database.remove_origin(b) == 1
        assert list(database.export()) == with_a
        (a,) = {e.id for e in database.origin_summaries() if not e.own}
        assert database.remove_origin(a) == 1
        assert list(database.export()) == alone
        assert database.check() == ()
        assert database._rows("PRAGMA foreign_key_check") == []


def test_origins_are_trusted_one_by_one_and_own_rows_always(tmp_path: Path) -> None:
    with open_database(base(tmp_path / "kb.db", 1)) as database:
        add(database, exported(base(tmp_path / "a" / "kb.db", 2)))
        trust = {each.own: each.trusted for each in database.origin_summaries()}
        assert trust == {True: True, False: False}
        (theirs,) = [each for each in database.origin_summaries() if not each.own]
        assert (theirs.label, database.find_origin(theirs.id[:6])) == ("theirs.jsonl", theirs.id)
        database.set_trust(theirs.id, trusted=True)
        assert all(each.trusted for each in database.origin_summaries())
        database.set_trust(theirs.id, trusted=False)
        assert not all(each.trusted for each in database.origin_summaries())
        with pytest.raises(UsageError, match="no origin begins"):
            database.find_origin("x")


# -- privacy --------------------------------------------------------------------------------------

SECRET = "/home/hunter2/secret"


def planted() -> dict[str, tuple[str, ...]]:
    """Return, by table, the text columns in which ``plant`` puts a secret."""
    return {
        "artifacts": (
            *("name", "sha256", "filename", "url", "index_name"),
            *("requires_python", "uploaded", "yanked"),
        ),
        "stacks": ("python", "python_build", "libc", "distribution", "system_packages", "settings"),
        "machines": ("identity", "circumstances"),
        "indicators": (
            *("name", "component", "summary", "unit", "sha256", "parameters", "arguments"),
            "own_sha256",
        ),
        "campaigns": ("kind", "request", "stackgen_version"),
        "distributions": ("name", "version"),
        "texts": ("text",),
        "inspection_rows": ("measured",),
        "origins": ("label",),
    }


_NO_FREE_TEXT = {
    ("derived_outline", "stamp"),
    ("locks", "id"),
    ("load_sets", "id"),
    *((table, "id") for table in ("stacks", "machines", "indicators", "campaigns", "origins")),
    ("stacks", "lock_id"),
    ("campaigns", "machine_id"),
    ("campaigns", "seed"),  # a number
    *((table, "started_at") for table in ("campaigns", "inspection_rows")),  # times
    *(("inspection_rows", name) for name in ("role", "outcome", "checksum")),  # codes, a number
    ("artifacts", "version"),  # of PEP 440
    ("origins", "first_seen"),
    ("identity", "id"),
    *(("migrations", name) for name in ("name", "stackgen_version", "applied_at")),
}


def plant(database: Database, table: str, column: str) -> None:
    """Record an inspection with a secret in one column, through the values that go there."""
    fields: dict[str, Any] = {"system_packages": ((SECRET, SECRET),)}
    pairs = ((SECRET, SECRET),)
    stack, machine, call, campaign = samples.STACK, samples.MACHINE, samples.CALL, samples.CAMPAIGN
    inspection = replace(samples.inspection(1), log=f"ok {SECRET}", unenforced=(SECRET,))
    seen = inspection.observation
    assert seen is not None
    if table == "artifacts":
        name = {"index_name": "index"}.get(column, column)
        dirty = replace(samples.artifact("aaa", "1"), **{name: SECRET})  # type: ignore[arg-type]
        artifacts = sorted((dirty, *stack.lock.artifacts), key=lambda each: each.name)
        stack = replace(stack, lock=replace(stack.lock, artifacts=tuple(artifacts)))
    elif table == "stacks":
        if column == "settings":
            stack = replace(stack, settings=(("TOKEN", SECRET),))
        else:
            facts = replace(stack.facts, **{column: fields.get(column, SECRET)})
            stack = replace(stack, facts=facts)
    elif table == "machines":
        machine = replace(machine, **{column: pairs})
    elif table == "indicators" and column == "arguments":
        call = replace(call, arguments=pairs)
    elif table == "indicators":
        value: object = SECRET
        if column == "parameters":
            from stackgen.model.inspections import Parameter

            value = (Parameter(name=SECRET, type="str", default=SECRET, help=SECRET),)
        call = replace(call, indicator=replace(call.indicator, **{column: value}))  # type: ignore[arg-type]
    elif table == "campaigns":
        campaign = replace(campaign, **{column: SECRET})  # type: ignore[arg-type]
    elif table == "distributions":
        loaded = (replace(seen.loaded[0], **{column: SECRET}),)  # type: ignore[arg-type]
        inspection = replace(inspection, observation=replace(seen, loaded=loaded))
    elif table == "inspection_rows":
        around = replace(seen, circumstances=(("host", f"7{SECRET}"), ("cpu_mhz", f"1 {SECRET}")))
        inspection = replace(inspection, observation=around)
    campaign = CampaignIdentity(
        kind=campaign.kind,
        request=campaign.request,
        seed=campaign.seed,
        machine_id=machine.id,
        stackgen_version=campaign.stackgen_version,
    )
    database.add_machine(machine)
    database.add_indicator(call)
    database.add_campaign(campaign, samples.STARTED)
    database.add_stack(stack)
    database.add_inspection(
        replace(
            inspection,
            stack_id=stack.id,
            machine_id=machine.id,
            indicator_id=call.id,
            campaign_id=campaign.id,
        )
    )


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, own in planted().items() for column in own]
)
def test_no_secret_in_any_column_reaches_a_public_export(
    tmp_path: Path, table: str, column: str
) -> None:
    with open_database(tmp_path / "kb.db") as database:
        plant(database, table, column)
        if table == "origins":
            database._connection.execute("UPDATE origins SET label = ?", (SECRET,))
        text = "".join(database.export(Redaction()))
        planted_there = "".join(database.export())
        failed = replace(samples.inspection(2), outcome=Outcome.CRASHED, observation=None)
    assert SECRET not in text
    assert "hunter2" not in text
    assert table == "origins" or SECRET in planted_there
    assert failed.log
    with fresh() as other:
        assert add(other, text) == ((table, column) not in _TIED)
        assert other.check() == ()


_TIED = {
    *(("artifacts", name) for name in ("name", "sha256", "filename")),
    *(("stacks", name) for name in planted()["stacks"]),
    *(("indicators", name) for name in ("name", "component", "unit", "arguments", "own_sha256")),
    *(("distributions", name) for name in ("name", "version")),
    ("machines", "identity"),
    ("campaigns", "kind"),
}
"""Columns that an id ties to the inspection: it is left out as a whole."""


def test_every_text_column_of_the_schema_is_planted_or_holds_no_free_text(tmp_path: Path) -> None:
    open_database(tmp_path / "kb.db").close()
    with sqlite3.connect(tmp_path / "kb.db") as raw:
        tables = [
            row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        columns = {
            (table, name)
            for table in tables
            for _, name, kind, *_ in raw.execute(f"PRAGMA table_info({table})")
            if kind == "TEXT" and not table.startswith("sqlite_")
        }
    known = {(table, column) for table, own in planted().items() for column in own}
    assert columns == known | _NO_FREE_TEXT


def test_a_public_export_holds_what_was_measured(tmp_path: Path) -> None:
    path = base(tmp_path / "theirs" / "kb.db", 1, 2)
    with open_database(tmp_path / "kb.db") as database, open_database(path) as theirs:
        assert add(database, exported(path, public=True)) == 2
        found = {each.id: each for each in database.inspections()}
        assert set(found) == {each.id for each in theirs.inspections()}
        seen = found[theirs.inspections()[0].id].observation
        assert seen is not None
        assert seen.circumstances == MEASURED
        assert database.campaigns()[0].id == samples.CAMPAIGN.id
        assert add(database, exported(path)) == 0  # the rest comes with the full export
        assert list(database.export()) == list(theirs.export())
