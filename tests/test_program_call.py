"""What makes two commands of a user's the same thing to be measured."""

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stackgen.campaign import program
from stackgen.campaign.options import ProgramOptions
from stackgen.campaign.program import (
    Watching,
    key_path,
    own_files,
    program_call,
    stored_key,
)
from stackgen.errors import MeasurementError, UsageError
from stackgen.model.choices import Better
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import IndicatorCall, Inspection, InspectionPlan, Limits
from stackgen.storage import paths
from tests.fake_executor import FakeExecutor
from tests.samples import environment, inspection

Called = Callable[..., IndicatorCall]
KEY = b"k" * 32


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    return folder


@pytest.fixture
def called(project: Path) -> Called:
    def call(command: str = "python train.py", **options: object) -> IndicatorCall:
        given = {"project": project, **options}
        program = ProgramOptions(command=command, time_limit_s=60, **given)  # type: ignore[arg-type]
        return program_call(program, {"TOKEN": "sesame"}, key=lambda: KEY)

    return call


def test_the_same_command_on_the_same_files_is_the_same(called: Called, project: Path) -> None:
    first = called()
    os.utime(project / "train.py", (1, 1))
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "train.pyc").touch()
    assert called("python  'train.py'").id == first.id


def test_a_changed_script_is_another_indicator(called: Called, project: Path) -> None:
    first = called()
    (project / "train.py").write_text("print(2)")
    changed = called()
    (project / "train.py").chmod(0o755)
    executable = called()
    (project / "other.py").touch()
    assert len({first.id, changed.id, executable.id, called().id}) == 4


def test_a_large_file_counts_by_its_size_and_time(called: Called, project: Path) -> None:
    large = project / "weights"
    large.write_bytes(b"x" * (2 << 20))
    os.utime(large, (1, 1))
    first = called()
    os.utime(large, (2, 2))
    assert called().id != first.id


def test_everything_that_may_change_what_is_measured_counts(called: Called, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    every = [
        called(),
        called("python train.py --epochs 2"),
        called(figure="loss (.*)"),
        called(figure="loss (.*)", better=Better.HIGHER),
        called(check="out.txt"),
        called(network=True),
        called(data=(data,)),
        called(variables=("KIND=a",)),
        called(variables=("KIND=b",)),
    ]
    (data / "more").touch()
    every.append(called(data=(data,)))
    assert len({each.id for each in every}) == len(every)


def test_the_result_of_an_earlier_run_does_not_count(called: Called, project: Path) -> None:
    first = called(check="out.txt")
    (project / "out.txt").write_text("1")
    assert called(check="out.txt").id == first.id
    assert called().id != called(check="out.txt").id


def test_what_stackgen_itself_writes_is_no_part_of_a_project(project: Path) -> None:
    knowledge, cache = project / "kb.db", project / "cache"
    request = ProgramOptions(command="true", project=project, time_limit_s=1)

    def digest() -> str:
        besides = own_files(knowledge, cache)
        return program_call(request, {}, key=lambda: KEY, besides=besides).id

    before = digest()
    cache.mkdir()
    for name in ("kb.db", "kb.db-wal", "kb.db.key", "cache/wheel"):
        (project / name).write_text("grows")
    assert digest() == before
    (project / "kb.db2").touch()
    assert digest() != before


def test_what_editors_leave_for_a_moment_is_no_part_of_a_project(
    called: Called, project: Path
) -> None:
    before = called()
    for name in (".train.py.swp", "train.py~"):
        (project / name).touch()
    assert called().id == before.id


def test_no_value_of_a_variable_is_in_what_is_stored_or_shown(called: Called) -> None:
    call = called(variables=("TOKEN",))
    assert call.program is not None
    assert call.program.variables == (("TOKEN", "sesame"),)
    assert "sesame" not in repr(call)
    assert "sesame" not in repr(call.program)
    assert re.search(r"TOKEN:[0-9a-f]{16}$", dict(call.arguments)["env"])


def test_a_person_reads_the_command(called: Called) -> None:
    assert called().label == "python train.py"
    assert called(figure="loss (.*)").label == "python train.py (loss (.*))"


def test_the_key_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = key_path(tmp_path / "kb.db")
    stored_key(path, dry_run=True)
    assert not path.exists()
    key = stored_key(path, dry_run=False)
    assert stored_key(path, dry_run=False) == key
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["kb.db.key"]


def test_a_project_that_is_changed_meanwhile_is_measured_no_more(
    called: Called, project: Path
) -> None:
    plan = InspectionPlan(
        environment=environment("1.0"),
        call=called(check="out.txt"),
        campaign_id=CampaignId("c"),
        limits=Limits(threads=1),
    )
    run = []

    def answer(planned: InspectionPlan) -> Inspection:
        run.append(planned)
        return inspection(planned.environment, planned.call, 1, 1.0)

    watching = Watching(FakeExecutor(answer=answer))
    (project / "out.txt").write_text("a result")
    assert len(list(watching.inspect([plan, plan]))) == 2
    (project / "train.py").write_text("print(2)")
    with pytest.raises(MeasurementError, match=r"was changed while it was measured") as refused:
        list(watching.inspect([plan]))
    assert "(train.py)" in str(refused.value)
    assert len(run) == 2


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("", {}, "no command"),
        ("python 'train.py", {}, "closing quotation"),
        ("python tran.py", {}, "no tran.py"),
        ("./run.sh", {}, "no ./run.sh"),
        ("python tran.py > log", {}, "sh -c"),
        ("python train.py", {"project": Path("/no/such")}, "no such folder"),
        ("cat version", {"project": Path("/proc")}, "folder of the system"),
        ("ls", {"project": Path("/")}, "folder of the system"),
        ("python train.py", {"data": (Path("/no/such"),)}, "no folder"),
        ("python train.py", {"data": (Path("/usr/share"),)}, "folder of the system"),
        ("python train.py", {"data": (Path("/"),)}, "folder of the system"),
        ("python train.py", {"variables": ("MISSING",)}, "no variable MISSING"),
        ("python train.py", {"variables": ("PATH=/x",)}, "python of its own"),
        ("python train.py", {"variables": ("1=2",)}, "--env NAME=VALUE"),
        ("python train.py", {"figure": "loss"}, "0 groups"),
        ("python train.py", {"figure": "(a)(b)"}, "2 groups"),
        ("python train.py", {"figure": "(a"}, "no regular expression"),
        ("python train.py", {"check": "/etc/passwd"}, "--check result.json"),
        ("python train.py", {"check": "../x"}, "--check result.json"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    called: Called, command: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        called(command, **options)
    assert words in str(refused.value)


def test_a_folder_with_too_many_files_is_refused(
    called: Called, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_FILES", 3)
    for number in range(3):
        (project / str(number)).touch()
    with pytest.raises(UsageError, match="too large"):
        called()


def test_the_digest_and_the_copy_leave_out_the_same() -> None:
    driver = (paths.shipped_folder("pis") / "program.py").read_text(encoding="utf-8")
    found = {
        ast.unparse(each.targets[0]): ast.literal_eval(each.value)
        for each in ast.parse(driver).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]).startswith("LEFT_OUT")
    }
    assert found == {
        "LEFT_OUT": program.LEFT_OUT,
        "LEFT_OUT_ENDS": program.LEFT_OUT_ENDS,
    }
