"""The best stack as locks: which one it is, when there is none, and what is never overwritten."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.pylock import Pylock

from stackgen.commands.lock_out import FILES, check_folder, keep_winner, locks_of
from stackgen.errors import StorageError, UsageError
from stackgen.index import load_config
from stackgen.locks.fields import parse_toml
from stackgen.locks.reading import read_lock
from stackgen.measure.ranking import RankingAnswer, conclusion
from stackgen.model.evidence import Control, Difference
from stackgen.model.packages import Lock
from stackgen.model.reports.campaigns import ChosenStack, ExploreReport, MeasurementHealth
from stackgen.report.terminal import Plain
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish
from tests.locks.samples import TARGET
from tests.test_render import FASTER, NEW, OLD, SLOWER, UNDECIDED, deviating, of_indicator
from tests.test_render import report as rendered

FAILED = Control(name="same stack twice", blocks=10, p_value=0.0, failed=True)


CONFIG = load_config(environ={"PIP_CONFIG_FILE": os.devnull})


def report(contrasts: list[float]) -> ExploreReport:
    """Return a report of two stacks, both of which could be written."""
    return with_locks(rendered(contrasts))


def with_locks(found: ExploreReport) -> ExploreReport:
    return replace(
        found,
        stacks=tuple(
            ChosenStack(
                stack_id=each.stack.id, label=label, completion="newest", lock=each.stack.lock
            )
            for each, label in ((NEW, "numpy 2.4.0"), (OLD, "numpy 1.26.4"))
        ),
    )


def reported(found: ExploreReport, folder: Path) -> tuple[ExploreReport, str]:
    stream = io.StringIO()
    return keep_winner(found, folder, TARGET, CONFIG, Plain(stream)), stream.getvalue()


def versions(folder: Path) -> list[dict[str, str]]:
    """Return the versions that each of the two files holds, as their readers see them."""
    found = []
    for name in FILES:
        lock = read_lock((folder / name).read_text(), path=name)
        found.append({each.name: each.version for each in lock.packages})
    return found


def test_what_is_shown_to_be_faster_is_written_as_both_files(tmp_path: Path) -> None:
    found, text = reported(report(FASTER), tmp_path / "new" / "folder")
    assert versions(tmp_path / "new" / "folder") == [{"numpy": "1.26.4"}] * 2
    assert "numpy 1.26.4, shown to be the fastest" in text
    assert found == report(FASTER)
    assert sorted(each.name for each in (tmp_path / "new" / "folder").iterdir()) == sorted(FILES)


@pytest.mark.parametrize("contrasts", [SLOWER, UNDECIDED])
def test_where_nothing_is_shown_to_be_faster_the_baseline_is_written_and_it_is_said(
    contrasts: list[float], tmp_path: Path
) -> None:
    _, text = reported(report(contrasts), tmp_path)
    assert versions(tmp_path) == [{"numpy": "2.4.0"}] * 2
    assert "the baseline: nothing is shown to be faster" in text


def test_a_better_figure_is_not_called_faster(tmp_path: Path) -> None:
    _, text = reported(of_indicator(report(FASTER), is_figure=True), tmp_path)
    assert "shown to be the best" in text
    _, text = reported(of_indicator(report(SLOWER), is_figure=True), tmp_path)
    assert "the baseline: nothing is shown to be better" in text


def test_where_others_may_be_as_fast_it_is_not_called_the_fastest(tmp_path: Path) -> None:
    found = report(FASTER)
    rows = tuple(replace(row, best=True) for row in found.ranking)
    _, text = reported(replace(found, ranking=rows), tmp_path)
    assert "shown to be faster than the baseline, as others are" in text


INTERRUPTED = replace(report(FASTER), run=replace(report(FASTER).run, interrupted=True))


@pytest.mark.parametrize(
    ("found", "answer", "why"),
    [
        (
            replace(report(FASTER), health=MeasurementHealth(controls=(FAILED,))),
            RankingAnswer.CONTROLS_FAILED,
            "controls failed",
        ),
        (report(FASTER[:2]), RankingAnswer.TOO_EARLY, "too few blocks"),
        (
            replace(report(FASTER), ranking=()),
            RankingAnswer.NOTHING_COMPARED,
            "nothing was compared",
        ),
        (
            with_locks(deviating(Difference.NUMBERS)),
            RankingAnswer.NOTHING_COMPARED,
            "nothing was compared",
        ),
        (INTERRUPTED, RankingAnswer.FASTER, "interrupted"),
    ],
)
def test_without_an_answer_nothing_is_written_and_the_reason_is_given(
    found: ExploreReport, answer: RankingAnswer, why: str, tmp_path: Path
) -> None:
    assert conclusion(found).answer is answer
    after, text = reported(found, tmp_path / "never")
    assert "No lock was written" in text
    assert why in text
    assert not (tmp_path / "never").exists()
    assert after == found


def test_a_stack_that_computes_something_else_is_not_written_however_fast() -> None:
    found = deviating(Difference.NUMBERS)
    assert conclusion(found).winner is None


def test_settings_and_what_was_measured_are_reported_in_comments_of_one_line_each() -> None:
    found = report(FASTER)
    chosen = replace(found.stacks[1], settings=(("OMP_NUM_THREADS", "1"), ("ODD", "a\nimport os")))
    files = locks_of(found, chosen, TARGET, CONFIG)
    for text in files.values():
        assert "variables, which no lock can set: OMP_NUM_THREADS=1 ODD=a import os\n" in text
        assert "# Measured: numpy/matmul size=512\n" in text
        head = text.partition("numpy==" if text.find("lock-version") < 0 else "lock-version")[0]
        assert all(line.startswith("#") for line in head.splitlines())
    assert [each.name for each in Pylock.from_dict(parse_toml(files["pylock.toml"])).packages] == [
        "numpy"
    ]


def test_requirements_name_the_indexes_that_their_files_come_from() -> None:
    config = load_config(
        environ={"PIP_CONFIG_FILE": os.devnull},
        extra_index_urls=(
            "wheels=https://someone:secret@wheels.invalid/simple",
            "https://x.invalid",
        ),
    )
    found = report(FASTER)
    chosen = found.stacks[1]
    moved = tuple(replace(each, index="wheels") for each in chosen.lock.artifacts)
    text = locks_of(found, replace(chosen, lock=Lock(artifacts=moved)), TARGET, config)[FILES[1]]
    assert "\n--index-url https://wheels.invalid/simple\nnumpy==1.26.4" in text
    assert "secret" not in text
    assert "x.invalid" not in text


def test_equal_results_give_equal_bytes() -> None:
    found = report(FASTER)
    assert locks_of(found, found.stacks[1], TARGET, CONFIG) == locks_of(
        found, found.stacks[1], TARGET, CONFIG
    )


def test_a_users_own_file_is_refused_and_ours_is_overwritten(tmp_path: Path) -> None:
    reported(report(FASTER), tmp_path)
    check_folder(tmp_path, make=True)
    reported(report(SLOWER), tmp_path)
    assert versions(tmp_path) == [{"numpy": "2.4.0"}] * 2
    (tmp_path / "requirements.txt").write_text("numpy\n")
    with pytest.raises(UsageError, match="not written by stackgen"):
        check_folder(tmp_path, make=True)
    after, text = reported(report(FASTER), tmp_path)  # written while it was measured
    assert "not overwritten" in text
    assert after.run.exit_code == UsageError.exit_code
    assert (tmp_path / "requirements.txt").read_text() == "numpy\n"
    assert "numpy" in (tmp_path / "pylock.toml").read_text()


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "precious.txt"
    (tmp_path / "requirements.txt").symlink_to(target)
    with pytest.raises(UsageError, match=r"requirements\.txt is not overwritten"):
        check_folder(tmp_path, make=True)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fastest").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        check_folder(tmp_path / "fastest", make=True)
    with pytest.raises(StorageError, match="nothing can be written"):
        check_folder(tmp_path / "fastest" / "below", make=True)


@pytest.mark.parametrize("name", ["file", "file/below", "link", "x" * 300])
def test_a_plan_refuses_what_cannot_become_a_folder_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.iterdir())
    with pytest.raises((UsageError, StorageError), match=r"is no folder|nothing can be written"):
        check_folder(tmp_path / name, make=False)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("name", ["", "below", "far/below"])
def test_a_plan_refuses_a_folder_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(StorageError, match="nothing can be written"):
        check_folder(tmp_path / name, make=False)


def test_a_plan_makes_no_folder(tmp_path: Path) -> None:
    check_folder(tmp_path / "fastest", make=False)
    assert not (tmp_path / "fastest").exists()


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """1.0 does a fifth of the work of 2.0, the newest; both need a gear."""
    index = publish(
        tmp_path,
        {
            "speedy": {
                "1.0": Published(source=WORK.format(size=4_000), requires=["gear"]),
                "2.0": Published(source=WORK.format(size=20_000), requires=["gear"]),
            },
            "gear": {"1.0": Published()},
        },
    )
    (tmp_path / "work.py").write_text(INDICATOR)
    return Laboratory(root=tmp_path, index=index)


@pytest.mark.journey
def test_an_exploration_leaves_locks_that_pip_and_uv_install(laboratory: Laboratory) -> None:
    requested = ("speedy", "--stacks", "2", "--budget", "180s", "--lock-out", "fastest")
    done = laboratory.explore(*requested)
    assert done.returncode in (0, 6), done.stderr  # 6: on a busy machine a control may fail
    folder = laboratory.root / "fastest"
    if done.returncode == 6:
        assert "the controls failed" in done.stderr
        assert not any(folder.iterdir())
        return
    assert "speedy 1.0, shown to be the fastest" in done.stderr
    assert versions(folder) == [{"gear": "1.0", "speedy": "1.0"}] * 2
    install = ["install", "--dry-run", "--ignore-installed", "--require-hashes", "-r"]
    pip = [sys.executable, "-m", "pip", *install, "requirements.txt"]
    uv = ["uv", "pip", "install", "--dry-run", "--target", "there", "-r", "pylock.toml"]
    environ = laboratory.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UV_PYTHON": sys.executable,
    }
    for command in (pip, uv):
        ran = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert "speedy-1.0" in ran.stdout or "speedy==1.0" in ran.stderr

    (folder / "requirements.txt").write_text("mine\n")
    done = laboratory.explore(*requested)
    assert done.returncode == UsageError.exit_code
    assert "not written by stackgen" in done.stderr
    assert "trying" not in done.stderr  # refused before anything was done
