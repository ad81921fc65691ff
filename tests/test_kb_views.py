"""``kb show``, ``kb why``, ``kb graph`` and ``kb check``: what they print of a known campaign."""

import io
import json
import sqlite3
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.knowledge.database import open_database
from stackgen.knowledge.failures import explain_failures
from stackgen.knowledge.graph import EvidenceGraph
from stackgen.model.inspections import Outcome
from tests.in_process import run_command
from tests.knowledge import samples
from tests.test_merged_advice import BLOCKS, HERE, NEW, measured


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a knowledge base with two campaigns in which NumPy 2.0 takes half the time."""
    path = tmp_path_factory.mktemp("views") / "kb.db"
    for seed in (1, 2):
        measured(path, seed)
    return path


def run(base: Path, *words: str, code: int = 0) -> str:
    environ = {
        "HOME": str(base.parent),
        "STACKGEN_KB": str(base),
        "STACKGEN_CACHE": str(base.parent / "cache"),
    }
    done = run_command("kb", *words, folder=base.parent, environ=environ)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr * bool(code)


def test_a_stack_is_shown_with_its_packages_and_campaigns(base: Path) -> None:
    shown = json.loads(run(base, "show", NEW.id[:10], "--json"))
    assert (shown["kind"], shown["id"]) == ("stack", NEW.id)
    packages, inspections = shown["tables"]
    assert [row[:2] for row in packages["rows"]] == [["numpy", "2.0.0"]]
    assert {row[3] for row in inspections["rows"]} == {BLOCKS}


def test_a_campaign_is_shown_with_its_effects(base: Path) -> None:
    with open_database(base) as database:
        campaign = next(each for each in database.campaigns() if each.seed == 1)
    shown = json.loads(run(base, "show", campaign.id, "--json"))
    rows = shown["tables"][0]["rows"]
    (found,) = (row for row in rows if row[0].startswith("numpy/matmul"))
    assert found[1:3] == ["numpy 1.26.4", "numpy 2.0.0"]
    speed, low, high = found[3:6]
    assert low < 2 < high
    assert speed == pytest.approx(2, rel=0.02)


def test_a_machine_is_shown_with_its_campaigns(base: Path) -> None:
    text = run(base, "show", HERE.id[:12])
    assert text.startswith(f"machine {HERE.id}")
    assert text.count("explore") == 2


@pytest.mark.parametrize("begins", ["zz", ""])
def test_an_id_that_names_none_or_several_is_refused(base: Path, begins: str) -> None:
    assert "ids begin with" in run(base, "show", begins, code=2)


def test_why_compares_a_version_with_others(base: Path) -> None:
    shown = json.loads(run(base, "why", "NumPy==2.0.0", "--json"))
    ((indicator, other, speed, low, high, blocks, setting, also),) = shown["tables"][0]["rows"]
    assert (indicator.split()[0], other, also) == ("numpy/matmul", "1.26.4", "")
    assert low < speed < high
    assert setting == "CPython 3.11"
    assert speed == pytest.approx(2, rel=0.05)
    assert blocks == 2 * 10  # up to the last interim analysis of each campaign


def test_why_compares_the_most_alike_that_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of a chain of campaigns differ in NumPy alone, but are far from each other."""
    path = tmp_path / "kb.db"
    versions = [("1.0", 0), ("1.0", 1), ("1.0", 2), ("2.0", 3), ("2.0", 4), ("2.0", 0)]
    chain = [samples.stack(numpy=numpy, scipy=f"1.{scipy}.0") for numpy, scipy in versions]
    for seed, (old, new) in enumerate(pairwise(chain), start=1):
        measured(path, seed, old=old, new=new)

    def effect() -> list[object]:
        shown = json.loads(run(path, "why", "numpy==2.0", "--json"))
        (row,) = shown["tables"][0]["rows"]
        return [row[1], row[2], row[-1]]

    assert effect() == ["1.0", pytest.approx(2**5, rel=0.05), ""]
    monkeypatch.setitem(EvidenceGraph.fit.__kwdefaults__ or {}, "most", 4)
    monkeypatch.setattr(EvidenceGraph.near, "__defaults__", (4,))
    assert effect() == ["1.0", pytest.approx(2, rel=0.05), "scipy 1.3.0"]


def test_why_names_failures_and_conflicts(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    stacks = [samples.stack(numpy=n, scipy=s) for n in ("1.0", "2.0") for s in ("1.0", "2.0")]
    with open_database(path) as database:
        samples.prepare(database, *stacks)
        for number, each in enumerate(stacks):
            failing = each.lock.versions == {"numpy": "2.0", "scipy": "1.0"}
            outcome = Outcome.CRASHED if failing else Outcome.OK
            database.add_inspection(samples.inspection(number + 1, of=each, outcome=outcome))
    text = run(path, "why", "numpy==2.0")
    assert "scipy    1.0      crashed" in text


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(Outcome)), max_size=12))
def test_failures_are_explained_by_what_failed_and_one_run_of_each_stack(
    runs: list[tuple[int, Outcome]],
) -> None:
    stacks = [samples.stack(numpy=n, scipy=s) for n in ("1.0", "2.0") for s in ("1.0", "2.0")]
    with TemporaryDirectory() as folder, open_database(Path(folder) / "kb.db") as database:
        samples.prepare(database, *stacks)
        for number, (stack, outcome) in enumerate(runs):
            one = samples.inspection(number + 1, of=stacks[stack], outcome=outcome)
            database.add_inspection(one)
        every, failing = database.inspections(), database.inspections(failing=True)
    assert explain_failures(stacks, failing) == explain_failures(stacks, every)


@pytest.mark.parametrize(
    ("pin", "what"),
    [("numpy>=2", "cannot read"), ("numpy", "cannot read"), ("numpy==9.9", "no stack has")],
)
def test_why_needs_a_known_version(base: Path, pin: str, what: str) -> None:
    assert what in run(base, "why", pin, code=2)


def test_the_graph_is_written_for_other_tools(base: Path) -> None:
    text = run(base, "graph", "--format", "graphml")
    graph = nx.read_graphml(io.BytesIO(text.encode()), force_multigraph=True)
    assert sorted(nx.get_node_attributes(graph, "label").values()) == [
        "numpy 1.26.4",
        "numpy 2.0.0",
    ]
    assert {data["blocks"] for _, _, data in graph.edges(data=True)} == {10}
    assert graph.number_of_edges() == 2
    node_link = json.loads(run(base, "graph", "--format", "json"))
    assert len(node_link["nodes"]) == 2
    dot = run(base, "graph", "--format", "dot")
    assert dot.count(" -- ") == 2
    run(base, "graph", "--output", "graph.dot")
    assert (base.parent / "graph.dot").read_text() == dot


def test_the_picture_names_stacks_and_speeds(base: Path) -> None:
    picture = ET.fromstring(run(base, "graph", "--pi", "numpy/matmul"))  # noqa: S314 # ours
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"numpy 1.26.4", "numpy 2.0.0"} <= set(texts)
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["2 campaigns, 20 blocks"]


def test_a_graph_without_campaigns_says_why(base: Path) -> None:
    assert "no campaign compared anything" in run(base, "graph", "--pi", "torch", code=3)


def test_check_counts_invalid_rows_and_has_json(tmp_path: Path) -> None:
    path = samples.base(tmp_path / "kb.db", samples.inspection(1), samples.inspection(2))
    assert json.loads(run(path, "check", "--json")) == {"knowledge_base": str(path), "invalid": []}
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE inspection_rows SET loops = 9 WHERE block = 1")
    assert "\n1 row is not valid" in run(path, "check", code=10)
    assert len(json.loads(run(path, "check", "--json", code=10))["invalid"]) == 1


def test_datasette_gets_every_query_under_a_name_of_its_own(base: Path) -> None:
    (own,) = json.loads(run(base, "query", "--datasette"))["databases"].items()
    assert own[0] == base.stem
    with sqlite3.connect(base) as raw:
        tables = {row[0] for row in raw.execute("SELECT name FROM sqlite_master")}
        for name, query in own[1]["queries"].items():
            assert name not in tables
            given = {"name": "numpy", "indicator": "numpy/matmul", "stack": NEW.id[:8]}
            assert raw.execute(query["sql"], given).description
    assert own[1]["tables"].keys() <= tables
