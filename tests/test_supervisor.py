"""What the supervisor of a container sees, apart from the processes that it runs."""

import os
import signal
from pathlib import Path

import pytest

from stackgen.executors import supervisor

VERSION_2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
MACHINE = "nr_free_pages 9\noom_kill {}\npgfault 9\n"


@pytest.fixture
def counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    paths = (tmp_path / "memory.events", tmp_path / "memory.oom_control", tmp_path / "vmstat")
    monkeypatch.setattr(supervisor, "OOM_COUNTERS", tuple(map(str, paths)))
    return paths


@pytest.mark.parametrize(("place", "text"), [(0, VERSION_2), (1, VERSION_1)])
def test_a_kill_for_memory_is_counted_by_either_version_of_control_groups(
    counters: tuple[Path, ...], place: int, text: str
) -> None:
    counters[2].write_text(MACHINE.format(70))
    counters[place].write_text(text.format(4))
    before = supervisor.oom_kills()
    assert before == (str(counters[place]), 4)
    counters[place].write_text(text.format(5))
    # A child may have been killed: the process itself only failed then.
    assert supervisor.killed_for_memory(before, supervisor.oom_kills(), 1)


def test_kills_elsewhere_on_the_machine_count_for_a_killed_process_alone(
    counters: tuple[Path, ...],
) -> None:
    counters[2].write_text(MACHINE.format(4))
    before = supervisor.oom_kills()
    counters[2].write_text(MACHINE.format(5))
    after = supervisor.oom_kills()
    assert supervisor.killed_for_memory(before, after, -signal.SIGKILL)
    assert not supervisor.killed_for_memory(before, after, 1)
    assert not supervisor.killed_for_memory(after, after, -signal.SIGKILL)


def test_a_flood_is_kept_at_its_end_alone() -> None:
    tail = supervisor.Tail()
    for _ in range(5):
        tail.add(b"x" * supervisor.KEPT_BYTES)
        assert len(tail.kept) <= 2 * supervisor.KEPT_BYTES
    tail.add(b"the end")
    assert tail.text().endswith("xthe end")
    assert len(tail.text()) == supervisor.KEPT_BYTES


def test_a_tree_is_removed_also_where_its_folders_are_closed_and_links_are_not_followed(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    (tree / "closed" / "deep").mkdir(parents=True)
    (tree / "link").symlink_to(kept)
    (tree / "closed").chmod(0)
    supervisor.remove(str(tree))
    assert not tree.exists()
    assert os.listdir(kept) == ["file"]  # noqa: PTH208
