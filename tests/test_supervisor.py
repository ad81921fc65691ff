"""What the supervisor of a container sees, apart from the processes that it runs."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.executors.docker import _unenforced
from stackgen.model.inspections import Limits
from stackgen.sandbox import supervisor
from stackgen.sandbox.supervised import Capabilities, CommandReply

VERSION_2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
MACHINE = "nr_free_pages 9\noom_kill {}\npgfault 9\n"


class System:
    """Control groups as a process in a container finds them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.machine = root / "vmstat"
        self.groups = ""

    def text(self, path: str) -> str:
        if path == "/proc/self/cgroup":
            return self.groups
        try:
            return Path(path).read_text()
        except OSError:
            return ""

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    found = System(tmp_path)
    monkeypatch.setattr(supervisor, "GROUPS", str(tmp_path))
    monkeypatch.setattr(supervisor, "MACHINE", str(found.machine))
    monkeypatch.setattr(supervisor, "text", found.text)
    return found


@pytest.mark.parametrize(
    ("groups", "name", "text"),
    [
        ("0::/\n", "memory.events", VERSION_2),
        ("0::/system/run-7\n", "system/run-7/memory.events", VERSION_2),
        ("8:pids:/docker/7\n4:memory:/docker/7\n0::/\n", "memory/memory.oom_control", VERSION_1),
    ],
    ids=["version 2", "version 2 of the host", "version 1"],
)
def test_a_kill_for_memory_is_counted_by_either_version_of_control_groups(
    system: System, groups: str, name: str, text: str
) -> None:
    system.groups = groups
    system.machine.write_text(MACHINE.format(70))
    counter = system.write(name, text.format(4))
    before = supervisor.oom_kills()
    assert before == (str(counter), 4)
    counter.write_text(text.format(5))
    # A child may have been killed: the process itself only failed then.
    assert supervisor.killed_for_memory(before, supervisor.oom_kills(), 1)


@pytest.mark.parametrize(
    ("groups", "name", "text"),
    [
        ("0::/\n", "memory.events", "low 0\nmax 12\noom {}\noom_kill 3\n"),
        ("4:memory:/docker/7\n0::/\n", "memory/memory.failcnt", "{}\n"),
    ],
    ids=["version 2", "version 1"],
)
def test_whether_the_groups_own_limit_was_reached_is_counted_apart_from_kills(
    system: System, groups: str, name: str, text: str
) -> None:
    system.groups = groups
    assert supervisor.limit_hits() == 0
    system.write(name, text.format(7))
    assert supervisor.limit_hits() == 7


@pytest.mark.parametrize(
    ("groups", "name", "printed", "limit"),
    [
        ("0::/\n", "pids.max", "4096\n", 4096),
        ("0::/\n", "pids.max", "max\n", None),
        ("8:pids:/docker/7\n", "pids/pids.max", "4096\n", 4096),
        ("8:memory:/docker/7\n", "pids/pids.max", "4096\n", None),
    ],
)
def test_a_limit_counts_where_it_can_be_seen(
    system: System, groups: str, name: str, printed: str, limit: "int | None"
) -> None:
    system.groups = groups
    system.write(name, printed)
    assert supervisor.group_limit(supervisor.PROCESS_FILES) == limit


def test_kills_elsewhere_on_the_machine_count_for_a_killed_process_alone(
    system: System,
) -> None:
    system.machine.write_text(MACHINE.format(4))
    before = supervisor.oom_kills()
    system.machine.write_text(MACHINE.format(5))
    after = supervisor.oom_kills()
    assert supervisor.killed_for_memory(before, after, -signal.SIGKILL)
    assert not supervisor.killed_for_memory(before, after, 1)
    assert not supervisor.killed_for_memory(after, after, -signal.SIGKILL)


def test_a_flood_is_kept_at_its_end_alone() -> None:
    tail = supervisor.Tail()
    for _ in range(5):
        tail.add(b"x" * supervisor.TAIL_BYTES)
        assert len(tail.recent) <= 2 * supervisor.TAIL_BYTES
    tail.add(b"the end")
    assert tail.text().endswith("xthe end")
    assert len(tail.text()) == supervisor.TAIL_BYTES


def test_a_tree_is_removed_also_where_its_folders_are_closed_and_links_are_not_followed(
    tmp_path: Path,
) -> None:
    recent = tmp_path / "kept"
    recent.mkdir()
    (recent / "file").touch()
    tree = tmp_path / "tree"
    (tree / "closed" / "deep").mkdir(parents=True)
    (tree / "link").symlink_to(recent)
    (tree / "closed").chmod(0)
    supervisor.remove(str(tree))
    assert not tree.exists()
    assert os.listdir(recent) == ["file"]  # noqa: PTH208


def test_limits_that_an_engine_only_claims_to_set_are_recorded() -> None:
    # As seen with a rootless Podman on control groups of version 1, which says that it has them.
    ended = CommandReply(exit_code=0)
    limits = Limits(threads=1, memory_bytes=1 << 30)
    assert _unenforced(limits, capabilities(memory_limit=1 << 30, process_limit=4096), ended) == ()
    assert _unenforced(limits, capabilities(memory_limit=None, process_limit=None), ended) == (
        "memory limit (of all its processes together)",
        "process limit",
    )
    root = replace(ended, writable=("/",))
    assert _unenforced(limits, capabilities(memory_limit=1 << 40, process_limit=4096), root) == (
        "memory limit (of all its processes together)",
        "read-only stack",
    )


def capabilities(*, memory_limit: "int | None", process_limit: "int | None") -> Capabilities:
    return Capabilities(
        first=True,
        reaps=True,
        spaces={},
        counts_processes=False,
        sees_gpus=False,
        memory_limit=memory_limit,
        process_limit=process_limit,
    )
