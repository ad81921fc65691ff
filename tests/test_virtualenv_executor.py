"""Inspections in the interpreter that runs the tests: everything but the packages is real."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.executors.virtualenv import VirtualenvExecutor, unenforced_limits
from stackgen.model.inspections import Outcome
from stackgen.model.stacks import Machine
from stackgen.sandbox.namespaces import HostSupervisor
from stackgen.sandbox.supervised import SupervisorLostError
from stackgen.storage.leases import host_identity
from tests.executor_contract import ExecutorContract, Inspect, OwnInterpreter, Plan, Script


class TestVirtualenvExecutor(OwnInterpreter, ExecutorContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Iterator[Executor]:
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path / "scratch")
        with closing(made) as executor:
            yield executor

    def test_a_process_runs_on_the_cpus_it_was_given(
        self, inspect: Inspect, script: Script
    ) -> None:
        if not hasattr(os, "sched_getaffinity"):
            pytest.skip("this system binds no process to a CPU")
        cpu = max(os.sched_getaffinity(0))
        seen = inspect(script("pass"), cpus=(cpu,))
        assert seen.observation is not None, seen.log
        assert dict(seen.observation.circumstances)["cpus"] == str(cpu)

    def test_the_scratch_folder_is_empty_afterwards(
        self, executor: VirtualenvExecutor, inspect: Inspect, script: Script, tmp_path: Path
    ) -> None:
        inspect(script("open('left-behind', 'w').close()"))
        executor.close()
        assert list((tmp_path / "scratch").iterdir()) == []

    def test_a_scratch_folder_that_a_link_leads_to_can_be_written(
        self, plan: Plan, script: Script, tmp_path: Path
    ) -> None:
        # As where a home's cache lies on another disk.
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path / "cache" / "s")
        with closing(made) as executor:
            (seen,) = executor.inspect([plan(script("open('written', 'w').close()"))])
        assert seen.outcome is Outcome.OK, seen.log

    def test_folders_of_killed_runs_are_removed_and_those_of_others_stay(
        self, inspect: Inspect, script: Script, tmp_path: Path
    ) -> None:
        scratch = tmp_path / "scratch"
        killed = scratch / f"stackgen-{host_identity()}+0123"
        killed_before_locks = scratch / f"stackgen-{host_identity()}+999999999+1+0123"
        elsewhere = scratch / f"stackgen-{host_identity()}-2+0123"
        for folder in (killed, killed_before_locks, elsewhere):
            folder.mkdir(parents=True)
            (folder / "left-behind").touch()
        assert inspect(script("pass")).outcome is Outcome.OK
        assert not killed.exists()
        assert not killed_before_locks.exists()
        assert elsewhere.exists()

    def test_a_link_to_a_file_of_the_stack_leads_to_nothing_that_can_be_written(
        self, plan: Plan, executor: Executor, script: Script, tmp_path: Path
    ) -> None:
        # uv fills virtualenvs with hard links: the same file lies in its cache and in other stacks.
        cached, stack = tmp_path / "cached.py", tmp_path / "stack"
        cached.write_text("as it was")
        stack.mkdir()
        os.link(cached, stack / "module.py")
        planned = plan(script(f"open({str(cached)!r}, 'w').write('changed')"))
        there = replace(planned.environment, location=str(stack))
        (seen,) = executor.inspect([replace(planned, environment=there)])
        assert "read-only stack" in seen.unenforced or cached.read_text() == "as it was", seen.log

    def test_sockets_of_other_programs_are_out_of_reach(
        self, inspect: Inspect, script: Script, tmp_path: Path
    ) -> None:
        # As of an engine, of a session bus or of an agent with keys: they start what they are told.
        name = tmp_path / "a socket"
        with socket.socket(socket.AF_UNIX) as program:
            program.bind(str(name))
            program.listen()
            seen = inspect(script(f"import socket; socket.socket(1).connect({str(name)!r})"))
        if "read-only stack" in seen.unenforced:
            pytest.skip("this host lets nobody mount anything")
        assert "Connection refused" in seen.log

    def test_where_nothing_can_be_mounted_the_hosts_shared_memory_is_left_alone(
        self, tmp_path: Path
    ) -> None:
        # Namespaces without the rights that come with them.
        powerless = ("unshare", "--user", "--map-user=1234", "--mount", "--")
        with pytest.raises(SupervisorLostError, match=r"Permission denied|Operation not permitted"):
            HostSupervisor(tmp_path, powerless)
        assert list(tmp_path.iterdir()) == []

    def test_what_the_host_cannot_enforce_is_said(
        self, tmp_path: Path, plan: Plan, script: Script
    ) -> None:
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path, isolations=())
        with closing(made) as executor:
            (seen,) = executor.inspect([plan(script("pass"))])
        assert seen.outcome is Outcome.OK, seen.log
        assert set(seen.unenforced) >= {"network isolation", "read-only stack"}

    @pytest.mark.parametrize(
        "instead", ["", pytest.param("; os.symlink('../kept', t)", marks=pytest.mark.thorough)]
    )
    def test_without_namespaces_a_folder_that_an_indicator_took_away_is_replaced(
        self, tmp_path: Path, plan: Plan, script: Script, instead: str
    ) -> None:
        retained, scratch = tmp_path / "kept" / "file", tmp_path / "scratch"
        retained.parent.mkdir()
        retained.touch()
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=scratch, isolations=())
        with closing(made) as executor:
            for body in (f"t = os.environ['TMPDIR']; os.rmdir(t){instead}", "pass"):
                (seen,) = executor.inspect([plan(script(body))])
                assert seen.outcome is Outcome.OK, seen.log
        assert retained.exists()

    def test_processes_are_limited_or_that_is_said(self, inspect: Inspect, script: Script) -> None:
        body = "import resource; raise harness.Unsupported(repr(resource.getrlimit(6)))"
        seen = inspect(script(body))
        assert "(4096, 4096)" in seen.log or "process limit" in seen.unenforced

    def test_what_is_not_enforced_is_known_before_anything_runs(
        self, inspect: Inspect, script: Script, tmp_path: Path
    ) -> None:
        assert unenforced_limits(tmp_path / "scratch") == inspect(script("pass")).unenforced

    def test_without_namespaces_a_process_that_leaves_its_session_ends_all_the_same(
        self, tmp_path: Path, plan: Plan, script: Script
    ) -> None:
        body = (
            "import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True);"
            "print('child', p.pid, flush=True)"
        )
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path, isolations=())
        with closing(made) as executor:
            (seen,) = executor.inspect([plan(script(body))])
        if "end of all child processes" in seen.unenforced:
            pytest.skip("this system keeps no account of orphans")
        child = re.search(r"child (\d+)", seen.log)
        assert child is not None, seen.log
        assert not Path(f"/proc/{child.group(1)}").exists()

    def test_a_supervisor_that_was_killed_is_replaced(
        self, executor: VirtualenvExecutor, inspect: Inspect, script: Script
    ) -> None:
        assert inspect(script("pass")).outcome is Outcome.OK
        retained = executor._supervisor
        assert retained is not None
        os.killpg(retained._process.pid, signal.SIGKILL)
        assert inspect(script("pass")).outcome is Outcome.OK

    def test_memory_is_not_limited_beside_gpus_and_that_is_said(
        self, inspect: Inspect, script: Script
    ) -> None:
        body = "import resource; raise harness.Unsupported(repr(resource.getrlimit(2)))"
        limited = inspect(script(body), memory_bytes=1 << 30)
        beside = inspect(script(body), memory_bytes=1 << 30, gpus="0")
        assert (str(1 << 30) in limited.log) != ("memory limit" in limited.unenforced)
        assert "memory limit" in beside.unenforced
        assert str(1 << 30) not in beside.log

    @pytest.mark.parametrize(("requested", "seen_as"), [("0,2", "'0,2'"), ("all", "None")])
    def test_gpus_that_were_requested_are_seen(
        self, inspect: Inspect, script: Script, requested: str, seen_as: str
    ) -> None:
        body = "raise harness.Unsupported(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))"
        assert seen_as in inspect(script(body), gpus=requested).log

    def test_a_virtualenv_that_is_gone_is_no_fault_of_the_stack(
        self, executor: Executor, plan: Plan, script: Script, tmp_path: Path
    ) -> None:
        planned = plan(script("pass"))
        gone = replace(planned.environment, python=str(tmp_path / "bin" / "python"))
        (seen,) = executor.inspect([replace(planned, environment=gone)])
        assert seen.outcome.is_infrastructure
        assert "is gone" in seen.log

    def test_an_interpreter_that_does_not_start_is_the_stacks_own_fault(
        self, executor: Executor, plan: Plan, script: Script, tmp_path: Path
    ) -> None:
        planned, python = plan(script("pass")), tmp_path / "python"
        python.write_bytes(b"\x7fELF of another machine")
        python.chmod(0o755)
        broken = replace(planned.environment, python=str(python))
        (seen,) = executor.inspect([replace(planned, environment=broken)])
        assert seen.outcome is Outcome.BUILD_FAILED
        assert "Exec format error" in seen.log
