"""A lock of one's own that every stack is compared with, as it stands."""

import json
from pathlib import Path

import pytest

from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.local_index import Published, publish


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """Both releases need a gear, of which the lock holds an older one; 3.0 wants the newest."""
    speedy = {
        version: Published(source=WORK.format(size=size), requires=[needs])
        for version, size, needs in (
            ("1.0", 20_000, "gear"),
            ("2.0", 4_000, "gear"),
            ("3.0", 4_000, "gear>=2"),
        )
    }
    speedy["0.5"] = Published(source="raise ImportError('worn out')")
    index = publish(tmp_path, {"speedy": speedy, "gear": {"1.0": Published(), "2.0": Published()}})
    (tmp_path / "work.py").write_text(INDICATOR)
    (tmp_path / "requirements.txt").write_text("speedy==1.0\ngear==1.0\n")
    return Laboratory(root=tmp_path, index=index)


@pytest.mark.journey
def test_every_stack_is_compared_with_the_lock_and_none_is_held_to_its_other_versions(
    laboratory: Laboratory,
) -> None:
    requested = ("speedy>=2", "--baseline", "requirements.txt", "--strategy", "newest")
    done = laboratory.explore(*requested, "--stacks", "2", "--budget", "6s", "--json")
    assert done.returncode in (0, 3, 6), done.stderr
    report = json.loads(done.stdout)
    assert [each["completion"] for each in report["stacks"]] == ["lock", "newest"]
    locks = [
        {each["name"]: each["version"] for each in stack["lock"]["artifacts"]}
        for stack in report["stacks"]
    ]
    assert locks == [
        {"gear": "1.0", "speedy": "1.0"},
        {"gear": "2.0", "speedy": "3.0"},
    ]
    labels = {row["label"]: row["is_baseline"] for row in report["ranking"]}
    assert labels == {"your lock: speedy 1.0": True, "speedy 3.0": False}


@pytest.mark.journey
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("speedy", "--from", "requirements.txt"), "there are two baselines"),
        (("speedy", "--baseline", "nowhere.lock"), "cannot read nowhere.lock"),
        (("speedy", "--baseline", "loose.txt"), "loose.txt"),
    ],
)
def test_a_baseline_that_is_none_is_reported_with_the_next_step(
    laboratory: Laboratory, arguments: tuple[str, ...], message: str
) -> None:
    (laboratory.root / "loose.txt").write_text("speedy>=1\n")
    given = arguments if "--baseline" in arguments else (*arguments, "--baseline", "own.lock")
    done = laboratory.explore(*given, "--stacks", "2", "--budget", "3s")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "  fix: " in done.stderr


@pytest.mark.journey
@pytest.mark.parametrize("option", ["--baseline", "--from"])
def test_another_stack_that_stands_in_for_a_lock_that_does_not_run_is_reported(
    laboratory: Laboratory, option: str
) -> None:
    (laboratory.root / "worn.txt").write_text("speedy==0.5\ngear==1.0\n")
    done = laboratory.explore("speedy", option, "worn.txt", "--stacks", "3", "--budget", "6s")
    assert done.returncode in (0, 3, 6), done.stderr
    reported = "worn.txt does not run here: stacks are compared with speedy 3.0 instead."
    assert done.stderr.count(reported) == 1
    assert done.stderr.index(reported) < done.stderr.index("measuring block 1")
