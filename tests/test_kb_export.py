"""``stackgen kb export``: what campaigns measured, for the tools of others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.commands.kb import export
from stackgen.errors import EvidenceError, UsageError
from stackgen.knowledge.database import open_database
from stackgen.model.inspections import IndicatorCall, Outcome, Role
from stackgen.model.stacks import Machine
from stackgen.storage.paths import Paths
from tests.knowledge.samples import CALL, CAMPAIGN, MACHINE, STACK, STARTED, inspection, prepare
from tests.knowledge.samples import stack as stack_of
from tests.laboratory import Laboratory

OTHER = stack_of(numpy="2.0.0")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    with open_database(tmp_path / "kb.db") as database:
        prepare(database, STACK, OTHER)
        database.add_inspection(replace(inspection(0), role=Role.CALIBRATION))
        database.add_inspection(inspection(1))
        crashed = inspection(2, outcome=Outcome.CRASHED)
        database.add_inspection(replace(crashed, started_at=STARTED.replace("10:00", "10:01")))
        database.add_inspection(inspection(1, of=OTHER))
    return Paths(cache=tmp_path, knowledge=tmp_path / "kb.db")


def test_each_process_of_a_comparison_is_a_result_of_thoth(paths: Paths) -> None:
    laboratory = Laboratory(root=paths.cache, index="")
    given = ("kb", "export", STACK.id[:8], "--pi", "numpy/matmul")
    done = laboratory.run(*given, "--format", "thoth", "--output", "found.json")
    assert done.returncode == 0, done.stderr
    one, two = json.loads((laboratory.root / "found.json").read_text())
    assert one["stdout"]["@parameters"] == {"size": 256}
    assert one["stdout"]["@result"]["elapsed"] == 2.0  # of 2 ms twice
    assert (one["exit_code"], two["exit_code"]) == (0, 1)
    assert one["os_release"] == {"id": "debian", "version_id": "12"}
    assert one["runtime_environment"]["python_version"] == "3.11"
    assert (one["hostname"], one["script_sha256"]) == (None, None)
    assert "the end" in two["stderr"]


def test_pyperf_gets_the_processes_that_ended_well(paths: Paths) -> None:
    laboratory = Laboratory(root=paths.cache, index="")
    done = laboratory.run("kb", "export", OTHER.id, "--pi", "numpy/matmul", "--format", "pyperf")
    (benchmark,) = json.loads(done.stdout)["benchmarks"]
    assert benchmark["metadata"]["name"] == "numpy/matmul size=256"
    assert [run["values"] for run in benchmark["runs"]] == [[0.002, 0.002]]


def test_a_stack_has_to_be_named(paths: Paths) -> None:
    with pytest.raises(UsageError, match="several stacks begin with ''"):
        export(paths, "", indicator="numpy/matmul")
    with pytest.raises(UsageError, match="no stack begins with 'no such'"):
        export(paths, "no such", indicator="numpy/matmul")


def test_what_was_not_measured_is_not_there(paths: Paths) -> None:
    with pytest.raises(EvidenceError, match="torch/matmul was not measured"):
        export(paths, STACK.id, indicator="torch/matmul")
    with pytest.raises(EvidenceError, match=r"timings 'indicator=python train\.py'"):
        export(paths, STACK.id, indicator="python train.py")


def test_machines_are_not_mixed(paths: Paths) -> None:
    elsewhere = Machine(identity=(("cpu", "another"),))
    with open_database(paths.knowledge) as database:
        database.add_machine(elsewhere)
        database.add_inspection(replace(inspection(3), machine_id=elsewhere.id))
    with pytest.raises(UsageError, match="several machines begin with ''"):
        export(paths, STACK.id, indicator="numpy/matmul")
    found = export(paths, STACK.id, indicator="numpy/matmul", machine=elsewhere.id[:9])
    assert [len(each.inspections) for each in found.results] == [1]


def test_of_a_script_that_changed_the_latest_state_counts(paths: Paths) -> None:
    changed = IndicatorCall(
        indicator=replace(CALL.indicator, sha256="2f", revision=2), arguments=CALL.arguments
    )
    later = STARTED.replace("2024", "2025")
    with open_database(paths.knowledge) as database:
        database.add_indicator(changed)
        database.add_inspection(replace(inspection(5), indicator_id=changed.id, started_at=later))
    (result,) = export(paths, STACK.id, indicator="numpy/matmul").results
    assert [each.started_at for each in result.inspections] == [later]
    assert {each.campaign_id for each in result.inspections} == {CAMPAIGN.id}
    assert {each.machine_id for each in result.inspections} == {MACHINE.id}
