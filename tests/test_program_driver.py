"""What runs a user's own command, by hand, on the oldest and the newest Pythons found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackgen.model.stacks import Program
from stackgen.sandbox import process
from stackgen.sandbox.process import failed_to_import, without_secrets
from stackgen.storage.paths import shipped_folder

DRIVER = shipped_folder("pis") / "program.py"
PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = [
    sys.executable,
    *(str(each / "bin" / "python") for each in sorted(PYENV.glob("3.*")) if "3.6" in each.name),
]


def by_hand(python: str, project: Path, *command: str) -> dict[str, object]:
    done = subprocess.run(
        [python, str(DRIVER), "--project", str(project), *command],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("python", PYTHONS)
def test_it_runs_by_hand_and_leaves_nothing(python: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys; print(os.getcwd(), sys.argv[1:])")
    (tmp_path / "out.txt").write_text("old")
    command = ("--", "python", "-c", "import os; print(os.getcwd()); exec(open('train.py').read())")
    found = by_hand(python, tmp_path, "--figure", r"(\d+)\D*$", *command, "--", "7")
    assert found["outcome"] == "ok"
    assert found["values_s"] == [7.0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.txt", "train.py"]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    ("printed", "taken", "whole"),
    [
        ("loss: 3.1e-05", "loss: ([0-9.]+)", "3.1e-05"),
        ("images/s: 1,234.5", "images/s: ([0-9.]+)", "1,234.5"),
        ("reward: -0.5", "reward: -([0-9.]+)", "-0.5"),
    ],
)
def test_a_part_of_a_number_is_no_figure(
    python: str, printed: str, taken: str, whole: str, tmp_path: Path
) -> None:
    found = by_hand(python, tmp_path, "--figure", taken, "--", "echo", printed)
    assert found["outcome"] == "invalid_output"
    assert f"it printed '{whole}', of which" in str(found["reason"])


@pytest.mark.parametrize(
    ("printed", "regex", "figure"),
    [
        ("loss: 3.1e-05, done", "loss: ([0-9.e-]+)", 3.1e-05),
        ("loss: 0.512,0.634", "loss: ([0-9.]+)", 0.512),
        ("took 12-13 s", "-([0-9]+)", 13.0),
        ("12.3 exact", "([0-9.]+) e", 12.3),
        ("loss=0.123456", r"loss=(\d\.\d\d)", 0.12),
    ],
)
def test_a_whole_number_is_a_figure(
    printed: str, regex: str, figure: float, tmp_path: Path
) -> None:
    found = by_hand(sys.executable, tmp_path, f"--figure={regex}", "--", "echo", printed)
    assert found["values_s"] == [figure]


def test_what_tools_make_again_is_no_part_of_the_copy(tmp_path: Path) -> None:
    for made in (".git/config", "env/pyvenv.cfg", "env/bin/python", "src/__pycache__/a.pyc"):
        (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / made).touch()
    (tmp_path / "src" / "a.py").touch()
    (tmp_path / "src" / "empty").mkdir()
    script = "import os; print([(d, sorted(n), sorted(f)) for d, n, f in os.walk('.')])"
    done = subprocess.run(
        [sys.executable, str(DRIVER), "--project", str(tmp_path), "--", "python", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    retained = "[('.', ['src'], []), ('./src', ['empty'], ['a.py']), ('./src/empty', [], [])]"
    assert done.stdout.splitlines()[0] == retained


def test_links_of_a_project_lead_where_they_led(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (tmp_path / "outside").write_text("1")
    (project / "inside").write_text("2")
    (project / "sub" / "out").symlink_to("../../outside")
    (project / "sub" / "in").symlink_to("../inside")
    script = "open('inside', 'w').write('3'); print(open('sub/out').read(), open('sub/in').read())"
    done = subprocess.run(
        [sys.executable, str(DRIVER), "--project", str(project), "--", "python", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "1 3"


def test_values_of_variables_are_taken_out_of_a_text_the_longest_first() -> None:
    program = Program(
        command=("x",),
        project="/",
        variables=(
            ("SHORT", "1"),
            ("KEY", "sesame"),
            ("TOKEN", "sesame-open"),
            ("TWO", "ab\ncdef"),
        ),
    )
    text = "1 sesame-open sesame {'a': 'ab\\ncdef'} cdef"
    assert without_secrets(text, program) == "1 $TOKEN $KEY {'a': '$TWO'} $TWO"


def test_the_last_exception_counts() -> None:
    chained = "ImportError: no\n\nDuring handling ...\n\nTraceback ...\nkeras.errors.OddError: x\n"
    assert not failed_to_import(chained)
    assert failed_to_import("ValueError: x\n\nTraceback ...\nModuleNotFoundError: No module")
    assert failed_to_import(
        "Traceback ...\nImportError: \n\nIMPORTANT: PLEASE READ THIS: long text"
    )
    assert not failed_to_import("")


def test_a_closed_file_is_found_and_what_is_open_is_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "open").touch(0o644)
    assert process.owner_of_closed([tmp_path]) is None
    tmp_path.chmod(0o700)
    found = process.owner_of_closed([tmp_path])
    assert found is not None
    assert found[0] == tmp_path
