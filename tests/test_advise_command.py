"""What advise proposes to measure where it knows nothing."""

import gzip
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stackgen.campaign.options import IndexOptions, IndicatorOptions, TargetOptions
from stackgen.campaign.request import CampaignRequest
from stackgen.commands.advise import advise
from stackgen.commands.advise_measure import measure
from stackgen.commands.advise_next import NextMeasurement, free_requirements
from stackgen.commands.advise_request import AdviseRequest
from stackgen.commands.options import AdviceOptions, MeasureOptions, VulnerabilityOptions
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import open_database
from stackgen.model.evidence import CAREFUL, Advice, Answer, CampaignIdentity
from stackgen.model.packages import LockedPackage, LockFile
from stackgen.model.progress import NullProgress
from stackgen.model.reports.campaigns import MeasurementHealth, RunSummary
from stackgen.model.reports.locks import AdviceReport
from stackgen.report.advice import advice_text
from stackgen.resolve.requirements import parse_requirements
from stackgen.storage.paths import find_paths
from tests.in_process import run_command
from tests.local_index import Published, publish
from tests.spaces import TARGET
from tests.test_measuring_faults import Noting
from tests.tiny_index import make_wheel


@pytest.mark.parametrize(
    ("pins", "command", "note"),
    [
        ("numpy==1.26.4\n", "stackgen explore --from ", ""),
        ("requests==2.32.3\n", "", "it holds neither TensorFlow, PyTorch nor NumPy"),
    ],
)
def test_a_lock_in_which_nothing_varies_is_not_sent_to_explore(
    tmp_path: Path, pins: str, command: str, note: str
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(pins)
    paths = find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db")
    report = advise(
        AdviseRequest(path=lock, index=IndexOptions(no_index=True)),
        paths,
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
    )
    assert (report.advice.answer, report.exit_code) == (Answer.UNKNOWN, 3)
    assert report.explore_command.startswith(command)
    assert bool(report.explore_command) == bool(command)
    assert note in " ".join(report.advice.caveats)
    assert report.advice.why in advice_text(report)


@pytest.mark.parametrize("request_text", ["", "[]", "no JSON"])
def test_a_campaign_of_this_hardware_whose_request_was_left_out_is_not_in_the_way(
    tmp_path: Path, request_text: str
) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1.26.4\n")
    machine = this_machine()
    with open_database(tmp_path / "kb.db") as database:
        database.add_machine(machine)
        public = CampaignIdentity(
            kind="advise", request=request_text, seed=1, machine_id=machine.id,
            stackgen_version="0.1", stated_id="" if request_text else "a" * 64,
        )  # fmt: skip
        database.add_campaign(public, "2026-01-01T00:00:00+00:00")
    command = ("advise", "requirements.txt", "--no-index", "--kb", "kb.db")
    done = run_command(*command, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    shown = run_command("kb", "show", public.id[:12], "--kb", "kb.db", folder=tmp_path)
    assert "advise" in shown.stdout, shown.stderr


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"no JSON")], ids=["file", "lines"])
def test_a_damaged_file_that_comes_with_stackgen_is_reported_and_left_out(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "theirs.jsonl.gz").write_bytes(content)
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\n")
    environ = {"HOME": str(tmp_path), "STACKGEN_SEED": str(tmp_path / "seeds")}
    progress = Noting()
    report = advise(
        AdviseRequest(path=lock, index=IndexOptions(no_index=True)),
        find_paths(environ, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        progress,
    )
    assert report.advice.answer is Answer.UNKNOWN
    assert any("not loaded" in each for each in progress.notes)


def test_options_that_change_nothing_are_named(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\n")
    progress = Noting()
    request = AdviseRequest(
        path=lock,
        indicators=IndicatorOptions(indicators=("numpy/fft",)),
        index=IndexOptions(no_index=True, find_links=(str(tmp_path / "nowhere"),)),
    )
    environ = {"HOME": str(tmp_path), "STACKGEN_SEED": ""}
    advise(
        request,
        find_paths(environ, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        progress,
    )
    assert any(each.startswith("--pi chooses what --measure runs") for each in progress.notes)
    assert any("nowhere, which does not exist" in each for each in progress.notes)


def test_what_conda_installs_is_named_and_not_sent_to_a_measurement(tmp_path: Path) -> None:
    lock = tmp_path / "conda-lock.yml"
    package = "- {name: %s, version: %s, manager: %s, platform: linux-64, hash: {sha256: %s}}\n"
    lock.write_text(
        "version: 1\nmetadata:\n  content_hash: {linux-64: x}\npackage:\n"
        + package % ("numpy", "1.26.4", "conda", "a" * 64)
        + package % ("requests", "2.32.3", "pip", "b" * 64)
    )
    report = advise(
        AdviseRequest(path=lock, index=IndexOptions(no_index=True)),
        find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
    )
    assert (report.explore_command, report.measure_command) == ("", "")
    assert "conda installs numpy 1.26.4" in " ".join(report.advice.caveats)


def test_an_environment_is_not_sent_to_explore(tmp_path: Path) -> None:
    report = advise(
        AdviseRequest(path=Path(sys.prefix), environment=True, index=IndexOptions(no_index=True)),
        find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
    )
    assert (report.explore_command, report.measure_command) == ("", "")
    assert "pip freeze" in " ".join(report.advice.caveats)


def test_the_command_that_measures_repeats_the_options(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\n")
    request = AdviseRequest(
        path=lock,
        options=AdviceOptions(python="3.13", allow_major=True, keep=("six",)),
        vulnerabilities=VulnerabilityOptions(osv=tmp_path / "my records"),
        indicators=IndicatorOptions(indicators=("numpy/fft",), parameters=(("size", "8"),)),
        index=IndexOptions(no_index=True, find_links=("wheels",)),
    )
    paths = find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db")
    (tmp_path / "my records").mkdir()
    (tmp_path / "my records" / "one.json").write_text('{"ecosystem": "PyPI"}')
    report = advise(request, paths, {"PIP_CONFIG_FILE": os.devnull}, NullProgress())
    assert report.measure_command == (
        f"stackgen advise {lock} --measure 15m --keep six --allow-major --no-index --python 3.13 "
        f"--osv '{tmp_path}/my records' --pi numpy/fft --param size=8 --find-links wheels "
        f"--kb {tmp_path}/kb.db"
    )


@pytest.mark.parametrize("python", ["abc", "3", "3.99", "2.7"])
def test_a_python_that_is_none_is_refused(tmp_path: Path, python: str) -> None:
    (tmp_path / "lock.txt").write_text("numpy==1.26.4\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = run_command("advise", "lock.txt", "--python", python, folder=tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{python}' is no Python" in done.stderr


def test_a_patch_of_python_stands_for_its_minor_version(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("numpy==1.26.4\n")
    seed = Path(__file__).parents[1] / "kb" / "seed"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "STACKGEN_SEED": str(seed)}
    words = ("advise", "lock.txt", "--no-index", "--json", "--python")
    minor, patch = (
        json.loads(run_command(*words, each, folder=tmp_path, environ=environ).stdout)["advice"]
        for each in ("3.11", "3.11.7")
    )
    assert minor["answer"] == patch["answer"] == "measured elsewhere"


def test_names_that_the_lock_does_not_have_are_reported(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("numpy==1.26.4\n")
    names = ("--keep", "NumPy", "--keep", "nump", "--only", "six", "--no-index")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = run_command("advise", "lock.txt", *names, folder=tmp_path, environ=environ)
    assert done.returncode == 3
    notes = [line for line in done.stderr.splitlines() if "no such package" in line]
    assert [line.partition(" has no effect")[0] for line in notes] == ["--only six", "--keep nump"]


def test_the_ranges_of_a_local_version_are_requirements() -> None:
    """PEP 440 admits labels as "+cpu" beside ``==`` alone."""
    package = LockedPackage(name="torch", version="2.13.0+cpu")
    lock = LockFile(path="requirements.txt", format="requirements", packages=(package,))
    ranges = free_requirements(lock, CAREFUL, TARGET)
    assert ranges == ("torch>=2.13.0,<3",)
    parse_requirements(*ranges)


@pytest.mark.parametrize(
    ("offered", "option"),
    [
        (("1.26.4", "1.26.5", "2.3.5"), ""),
        (("1.25.0", "1.26.4", "2.3.5"), " --allow-major"),
        (("1.25.0", "1.26.4"), " --allow-downgrade"),
        (("1.26.4",), ""),
    ],
)
def test_a_lock_of_the_newest_versions_is_sent_to_a_measurement_that_has_others(
    tmp_path: Path, offered: tuple[str, ...], option: str
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\n")
    for version in offered:
        (tmp_path / f"numpy-{version}-py3-none-any.whl").write_bytes(make_wheel("numpy", version))
    report = advise(
        AdviseRequest(path=lock, index=IndexOptions(no_index=True, find_links=(str(tmp_path),))),
        find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
    )
    assert report.measure_command == (
        f"stackgen advise {lock} --measure 15m --no-index --find-links {tmp_path}{option} "
        f"--kb {tmp_path}/kb.db"
    )
    wheel = (tmp_path / "numpy-1.26.4-py3-none-any.whl").stat().st_size
    assert report.measure_download_bytes == 3 * wheel  # the lock's own, and those of two others
    assert report.measure_disk_bytes
    assert report.measure_disk_bytes > 3 * wheel
    assert "GB to download" in advice_text(report)


@pytest.mark.parametrize(("download", "minutes"), [(0, 15), (1e9, 15), (2e9, 20), (9e9, 30)])
def test_the_budget_that_is_proposed_lasts_for_the_download(download: float, minutes: int) -> None:
    unread = cast("Any", None)  # what is measured is known, and where
    following = NextMeasurement(
        request=AdviseRequest(path=Path("uv.lock"), target=TargetOptions(base="3.11")),
        lockfile=LockFile(path="uv.lock", format="uv", packages=()),
        update=True,
        target=None,
        index=unread,
        store=unread,
    )
    command = following.command(Advice(answer=Answer.UNDECIDED), round(download))
    assert command == f"stackgen advise uv.lock --measure {minutes}m --base 3.11"


@pytest.mark.parametrize(
    ("tag", "base"),
    [("cp39-cp39", "3.9"), ("cp37-cp37m", "3.7"), ("cp27-cp27mu", ""), ("py3-none", "")],
)
def test_a_lock_without_wheels_for_the_usual_pythons_is_sent_to_one_that_has_them(
    tmp_path: Path, tag: str, base: str
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.19.5\n")
    for version in ("1.19.5", "1.20.0"):
        wheel = tmp_path / f"numpy-{version}-{tag}-manylinux2014_x86_64.whl"
        wheel.write_bytes(make_wheel("numpy", version))
    report = advise(
        AdviseRequest(path=lock, index=IndexOptions(no_index=True, find_links=(str(tmp_path),))),
        find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
    )
    named = [after.split()[0] for after in report.measure_command.split("--base ")[1:]]
    assert named == [base] * bool(base)


def test_a_lock_whose_markers_name_one_python_is_sent_to_that(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    marker = "python_full_version == '3.9.*' and sys_platform == 'linux'"
    lock.write_text(f"numpy==1.26.4 ; {marker}\nsix==1.16.0 ; {marker}\n")
    for name, version in (("numpy", "1.26.4"), ("numpy", "1.26.5"), ("six", "1.16.0")):
        (tmp_path / f"{name}-{version}-py3-none-any.whl").write_bytes(make_wheel(name, version))
    request = AdviseRequest(
        path=lock, index=IndexOptions(no_index=True, find_links=(str(tmp_path),))
    )
    paths = find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db")
    report = advise(request, paths, {"PIP_CONFIG_FILE": os.devnull}, NullProgress())
    assert "--base 3.9 " in report.measure_command


@pytest.mark.parametrize(("options", "refused"), [([], True), (["--measure", "1m"], False)])
def test_a_plan_of_measuring_an_update_writes_nothing(
    tmp_path: Path, options: list[str], refused: bool
) -> None:
    for name, version in (("old", "1.26.4"), ("new", "2.3.5")):
        (tmp_path / f"{name}.txt").write_text(f"numpy=={version}\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "STACKGEN_SEED": "",
        "STACKGEN_CACHE": str(tmp_path / "cache"),
    }
    own = ("--dry-run", "--no-index", "--executor", "virtualenv")
    done = run_command(
        "advise", "old.txt", "new.txt", *options, *own, folder=tmp_path, environ=environ
    )
    assert done.returncode != 0
    assert ("the comparison of two locks writes nothing" in done.stderr) is refused


@pytest.mark.parametrize("newest_alone", [False, True])
def test_what_may_not_be_recommended_is_not_measured(tmp_path: Path, *, newest_alone: bool) -> None:
    """The newest release needs an older NumPy: blocks of it could decide nothing."""
    releases = {
        "2.12.0": Published(requires=["numpy"]),
        "2.14.0": Published(requires=["numpy"]),
        "2.15.0": Published(requires=["numpy<1.26"]),
    }
    if newest_alone:
        del releases["2.14.0"]
    numpy = {"1.25.0": Published(), "1.26.4": Published()}
    (tmp_path / "lock.txt").write_text("tensorflow==2.12.0\nnumpy==1.26.4\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": publish(tmp_path, {"tensorflow": releases, "numpy": numpy}),
        "STACKGEN_SEED": "",
    }
    own = ("--only", "tensorflow", "--pi", "numpy/sort", "--measure", "1m", "--dry-run", "--json")
    done = run_command(
        "advise", "lock.txt", *own, "--executor", "virtualenv", folder=tmp_path, environ=environ
    )
    assert "--only tensorflow excludes numpy" in done.stderr
    if newest_alone:
        assert "there is nothing to measure beside lock.txt" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    labels = [label for label, _ in json.loads(done.stdout)["chosen"]]
    versions = [label.partition(", numpy")[0] for label in labels]
    assert versions == ["your lock: tensorflow 2.12.0", "tensorflow 2.14.0"]


@pytest.mark.parametrize(("given_s", "shares"), [(1000.0, [0.6, 1.0]), (100.0, [1.0])])
def test_a_first_campaign_leaves_time_for_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_s: float, shares: list[float]
) -> None:
    """No campaign alone shows how far the next one would differ."""
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==1.26.4\n")
    budgets = []

    def spend(request: CampaignRequest, *_: object, **__: object) -> object:
        budgets.append(request.budget.budget_s)
        run = RunSummary(
            blocks=9,
            new_inspections=9,
            seconds=1.0,
            untried=0,
            stopped="the budget is spent",
            interrupted=False,
            exit_code=0,
        )
        return SimpleNamespace(run=run, failed=(), health=MeasurementHealth())

    monkeypatch.setattr("stackgen.commands.advise_measure.explore", spend)
    report = measure(
        AdviseRequest(
            path=lock,
            index=IndexOptions(no_index=True),
            measure=MeasureOptions(budget_s=given_s),
        ),
        find_paths({"HOME": str(tmp_path), "STACKGEN_SEED": ""}, kb=tmp_path / "kb.db"),
        {"PIP_CONFIG_FILE": os.devnull},
        NullProgress(),
        dry_run=False,
    )
    assert isinstance(report, AdviceReport)
    assert budgets == pytest.approx([share * given_s for share in shares], rel=0.02)


@pytest.mark.parametrize(
    ("framework", "other"),
    [(("tensorflow-cpu", "2.13.1"), "flask==3.0.0"), (("torch", "2.5.1"), "numpy==1.26.4")],
)
def test_a_file_that_pins_a_framework_alone_is_answered_as_it_was_measured(
    tmp_path: Path, framework: tuple[str, str], other: str
) -> None:
    (tmp_path / "few.txt").write_text(f"{'=='.join(framework)}\n{other}\n")
    seed = Path(__file__).parents[1] / "kb" / "seed"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "STACKGEN_SEED": str(seed)}
    words = ("advise", "few.txt", "--no-index", "--json", "--python", "3.11")
    done = run_command(*words, folder=tmp_path, environ=environ)
    assert "it pins 2 packages; what they need is taken as it was" in done.stderr
    advice = json.loads(done.stdout)["advice"]
    assert advice["answer"] == "measured elsewhere"
    assert [*framework] in advice["pins"]


def test_what_nobody_measured_is_proposed_in_final_releases(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("numpy==2.3.4\n")
    for version in ("2.3.4", "2.3.5", "2.4.0rc1"):
        (tmp_path / f"numpy-{version}-py3-none-any.whl").write_bytes(make_wheel("numpy", version))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    own = ("--no-index", "--find-links", ".", "--executor", "virtualenv", "--dry-run")
    words = ("advise", "lock.txt", "--measure", "15m", "--pi", "matmul", *own)
    done = run_command(*words, folder=tmp_path, environ=environ)
    assert "numpy 2.3.5" in done.stdout, done.stderr
    assert "rc1" not in done.stdout


def test_a_partly_pinned_file_is_resolved_for_a_python_that_has_wheels_of_its_pins(
    tmp_path: Path,
) -> None:
    (tmp_path / "lock.txt").write_text("numpy==1.19.5\nsix\n")
    for name, version, tag in (
        ("numpy", "1.19.5", "cp39-cp39-manylinux2014_x86_64"),
        ("six", "1.16.0", "py3-none-any"),
    ):
        (tmp_path / f"{name}-{version}-{tag}.whl").write_bytes(make_wheel(name, version))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    words = ("advise", "lock.txt", "--no-index", "--find-links", ".", "--json")
    done = run_command(*words, folder=tmp_path, environ=environ)
    assert "lock.txt is resolved for Python 3.9" in done.stderr
    assert json.loads(done.stdout)["advice"]["pins"] == [["numpy", "1.19.5"]]


def test_a_partly_pinned_file_is_measured_as_it_was_resolved(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("numpy==2.3.4\nsix\n")
    for name, version in (("six", "1.16.0"), ("numpy", "2.3.4"), ("numpy", "2.3.5")):
        wheel = tmp_path / f"{name}-{version}-py3-none-any.whl"
        wheel.write_bytes(make_wheel(name, version))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    own = ("--no-index", "--find-links", ".", "--executor", "virtualenv", "--dry-run")
    words = ("advise", "lock.txt", "--measure", "15m", "--pi", "matmul", *own)
    done = run_command(*words, folder=tmp_path, environ=environ)
    assert "your lock: numpy 2.3.4" in done.stdout, done.stderr
    assert "numpy 2.3.5" in done.stdout


def test_a_project_that_pins_what_varies_is_sent_to_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("numpy==2.3.4\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.3.4\n")
    for version in ("2.3.4", "2.3.5"):
        (tmp_path / f"numpy-{version}-py3-none-any.whl").write_bytes(make_wheel("numpy", version))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    words = ("advise", "requirements.txt", "--no-index", "--find-links", ".")
    pinned = run_command(*words, folder=tmp_path, environ=environ).stdout
    assert "the project requires just these versions of numpy" in pinned
    assert "--measure" not in pinned
    both = "numpy==2.3.4; python_version < '3.14'\nnumpy==2.3.5; python_version >= '3.14'\n"
    (tmp_path / "requirements.in").write_text(both)
    (tmp_path / "requirements.txt").write_text(both)
    assert "the project requires" in run_command(*words, folder=tmp_path, environ=environ).stdout
    (tmp_path / "requirements.in").write_text("numpy>=2.3.4\n")
    assert "--measure 15m" in run_command(*words, folder=tmp_path, environ=environ).stdout
