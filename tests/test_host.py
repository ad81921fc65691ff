"""One measures or several build, on the whole host: with real processes and real locks."""

import fcntl
import itertools
import os
import pwd
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stackgen.campaign.host import Host, shared_folder
from stackgen.errors import StorageError
from stackgen.model.progress import NullProgress
from tests.store_parts import another_process, until

TURN = """
import sys, time
from pathlib import Path
from stackgen.campaign.host import Host
from stackgen.model.progress import NullProgress

kind, cache, shared = sys.argv[1:4]
host = Host(cache=Path(cache), shared=Path(shared))
with getattr(host, kind)(NullProgress()):
    print("in", flush=True)
    sys.stdin.readline()
"""


class Notes(NullProgress):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def note(self, text: str) -> None:
        self.written.append(text)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "lock"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@contextmanager
def another(kind: str, cache: Path, shared: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that takes its turn and keeps it until it reads a line."""
    cache.mkdir(exist_ok=True)
    with another_process(TURN, kind, cache, shared) as process:
        yield process


def entered(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"


def leave(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n")


def waits(process: "subprocess.Popen[str]", shared: Path) -> None:
    """Wait until a process stands at the head of the queue, and see that it stays there."""
    until(lambda: stored(shared / "stackgen-measuring.turn"))
    assert not has_entered(process, 0.2)


def stored(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def has_entered(process: "subprocess.Popen[str]", within_s: float) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], within_s)[0])


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("building", "building", True),
        ("building", "measuring", False),
        ("measuring", "building", False),
        ("measuring", "measuring", False),
    ],
)
def test_builds_overlap_each_other_and_never_a_measurement(
    tmp_path: Path, shared: Path, first: str, second: str, *, together: bool
) -> None:
    with another(first, tmp_path / "one", shared) as one:
        entered(one)
        with another(second, tmp_path / "two", shared) as two:
            if together:
                entered(two)
            else:
                waits(two, shared)
                leave(one)
                entered(two)


def test_a_turn_that_is_killed_is_over(tmp_path: Path, shared: Path) -> None:
    with another("measuring", tmp_path / "one", shared) as one:
        entered(one)
        with another("measuring", tmp_path / "two", shared) as two:
            waits(two, shared)
            one.kill()
            entered(two)


def test_one_cache_in_two_containers_of_a_host_is_one_host(tmp_path: Path, shared: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cache = tmp_path / "cache"
    with another("measuring", cache, shared) as one:
        entered(one)
        with another("building", cache, elsewhere) as two:
            until(lambda: stored(cache / "measuring.turn"))
            assert not has_entered(two, 0.2)
            leave(one)
            entered(two)


def test_builds_that_come_later_do_not_overtake_a_measurement_that_waits(
    tmp_path: Path, shared: Path
) -> None:
    with another("building", tmp_path / "a", shared) as build:
        entered(build)
        with another("measuring", tmp_path / "b", shared) as measure:
            waits(measure, shared)
            with another("building", tmp_path / "c", shared) as late:
                assert not has_entered(late, 1.0)
                leave(build)
                entered(measure)
                assert not has_entered(late, 0.2)
                leave(measure)
                entered(late)


def test_waiting_is_reported_and_counted(tmp_path: Path, shared: Path) -> None:
    reported: list[str] = []

    class Telling(NullProgress):
        def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:  # noqa: ARG002
            reported.append(text)

    code = TURN.replace("sys.stdin.readline()", "time.sleep(1.5)")
    with another_process(code, "building", tmp_path, shared) as other:
        entered(other)
        host = Host(cache=tmp_path, shared=shared)
        with host.measuring(Telling()):
            pass
    assert set(reported) == {"waiting: another stackgen measures or builds on this machine"}
    assert 0.3 < host.waited_s < 60


def test_a_process_that_measures_does_not_wait_for_itself(tmp_path: Path, shared: Path) -> None:
    host = Host(cache=tmp_path, shared=shared)
    with host.measuring(NullProgress()), pytest.raises(RuntimeError), host.building(NullProgress()):
        pass
    with host.building(NullProgress()):  # and what is over is over
        pass


@pytest.mark.parametrize("trick", ["link", "pipe", "folder"])
def test_what_another_user_puts_in_its_place_leads_nowhere(
    tmp_path: Path, shared: Path, trick: str
) -> None:
    precious, place = tmp_path / "precious", shared / "stackgen-measuring.turn"
    if trick == "link":
        place.symlink_to(precious)
    elif trick == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    progress = Notes()
    host = Host(cache=tmp_path, shared=shared)
    for _ in range(2):
        with host.measuring(progress):
            pass
    assert not precious.exists()
    assert len(progress.written) == 1
    assert "not waited for" in progress.written[0]


def test_the_files_are_open_to_every_user_whatever_the_umask(tmp_path: Path, shared: Path) -> None:
    before = os.umask(0o077)
    try:
        with Host(cache=tmp_path, shared=shared).measuring(NullProgress()):
            pass
    finally:
        os.umask(before)
    for file in shared.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_waits_too(tmp_path: Path) -> None:
    shared = Path("/tmp") / f"stackgen-test-{os.getpid()}"
    shared.mkdir()
    shared.chmod(0o1777)
    account = pwd.getpwnam("nobody")
    as_nobody = f"import fcntl, os, sys; os.setgid({account.pw_gid}); os.setuid({account.pw_uid})\n"
    code = """
handle = os.open(sys.argv[1] + "/stackgen-measuring.lock", os.O_RDONLY)
try:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("must wait")
"""
    command = [sys.executable, "-S", "-E", "-c", as_nobody + code, str(shared)]
    try:
        with Host(cache=tmp_path, shared=shared).measuring(NullProgress()):
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert done.stdout == "must wait\n", done.stderr
    finally:
        for file in shared.iterdir():
            file.unlink()
        shared.rmdir()


def test_a_file_that_is_tidied_away_is_not_what_others_lock(tmp_path: Path, shared: Path) -> None:
    with another("measuring", tmp_path / "one", shared) as one:
        entered(one)
        with another("measuring", tmp_path / "two", shared) as two:
            waits(two, shared)
            for file in shared.iterdir():
                file.unlink()
            leave(one)
            entered(two)
            with another("measuring", tmp_path / "three", shared) as three:
                waits(three, shared)


def test_a_cache_that_cannot_be_written_is_explained(shared: Path) -> None:
    host = Host(cache=shared / "missing", shared=shared)
    with pytest.raises(StorageError) as refusal, host.measuring(NullProgress()):
        pass
    assert "STACKGEN_CACHE" in refusal.value.fix


def test_the_folder_of_all_users_is_sticky_and_open(tmp_path: Path) -> None:
    closed, open_, sticky = (tmp_path / name for name in ("closed", "open", "sticky"))
    for folder, mode in ((closed, 0o755), (open_, 0o777), (sticky, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to(sticky)
    missing = tmp_path / "missing"
    assert shared_folder((missing, closed, open_, link, sticky), {}) == sticky
    assert shared_folder((missing, closed), {}) is None
    assert shared_folder((sticky,), {"STACKGEN_TEST_LOCKS": str(closed)}) == sticky


def test_without_a_variable_for_tests_all_stackgens_lock_in_one_folder(tmp_path: Path) -> None:
    usual = shared_folder(environ={"TMPDIR": str(tmp_path), "HOME": str(tmp_path)})
    assert usual in (Path("/run/lock"), Path("/tmp"))
    tmp_path.chmod(0o1777)
    notes = Notes()
    own = shared_folder(environ={"STACKGEN_TEST_LOCKS": str(tmp_path)})
    assert own == tmp_path
    with Host(cache=tmp_path, shared=own).measuring(notes):
        pass
    assert ["STACKGEN_TEST_LOCKS" in each for each in notes.written] == [True]


def test_processes_that_take_turns_all_get_theirs(tmp_path: Path, shared: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from stackgen.campaign.host import Host
from stackgen.model.progress import NullProgress
host = Host(cache=Path(sys.argv[2]), shared=Path(sys.argv[3]))
end = time.monotonic() + 1.5
while time.monotonic() < end:
    with getattr(host, sys.argv[1])(NullProgress()):
        print(time.monotonic(), end=" ", flush=True)
        time.sleep(0.02)
        print(time.monotonic(), flush=True)
"""
    kinds = ("measuring", "measuring", "building", "building")
    with (
        another_process(code, kinds[0], tmp_path, shared) as a,
        another_process(code, kinds[1], tmp_path, shared) as b,
        another_process(code, kinds[2], tmp_path, shared) as c,
        another_process(code, kinds[3], tmp_path, shared) as d,
    ):
        printed = [each.communicate()[0] for each in (a, b, c, d)]
    turns = [
        (kind, float(line.split()[0]), float(line.split()[1]))
        for kind, text in zip(kinds, printed, strict=True)
        for line in text.splitlines()
    ]
    measured = sorted((start, end) for kind, start, end in turns if kind == "measuring")
    built = sorted((start, end) for kind, start, end in turns if kind == "building")
    assert all(len(text.splitlines()) >= 3 for text in printed)
    for (_, end), (start, _) in itertools.pairwise(measured):
        assert end <= start
    for start, end in measured:
        assert not [each for each in built if each[0] < end and start < each[1]]
