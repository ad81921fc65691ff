"""Inspections in the interpreter that runs the tests: everything but the packages is real."""

import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.values import (
    BaseFacts,
    Environment,
    Kind,
    Lock,
    Machine,
    Stack,
)
from tests.executor_contract import ExecutorContract, Inspect, Plan, Script

FACTS = BaseFacts(python="CPython", python_build="", libc="", distribution="")


class TestVirtualenvExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Executor:
        return VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path / "scratch")

    @pytest.fixture
    def environment(self) -> Environment:
        stack = Stack(lock=Lock(artifacts=()), facts=FACTS)
        return Environment(
            stack=stack, kind=Kind.VIRTUALENV, location=sys.prefix, python=sys.executable
        )

    def test_children_end_with_their_inspection(self, inspect: Inspect, script: Script) -> None:
        body = (
            "import subprocess; p = subprocess.Popen(['sleep', '600']);"
            "print('child', p.pid, flush=True); time.sleep(600)"
        )
        child = re.search(r"child (\d+)", inspect(script(body), timeout_s=2).log)
        assert child is not None
        # A kill takes a moment; where no init reaps it, a zombie is left, which runs no more.
        status, deadline = Path(f"/proc/{child.group(1)}/status"), time.monotonic() + 30
        while status.exists() and "State:\tZ" not in status.read_text():
            assert time.monotonic() < deadline, "the child goes on"
            time.sleep(0.05)

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
        self, inspect: Inspect, script: Script, tmp_path: Path
    ) -> None:
        inspect(script("open('left-behind', 'w').close()"))
        assert list((tmp_path / "scratch").iterdir()) == []

    def test_what_the_host_cannot_enforce_is_said(
        self, executor: VirtualenvExecutor, plan: Plan, script: Script
    ) -> None:
        (seen,) = replace(executor, isolation=()).inspect([plan(script("pass"))])
        assert seen.unenforced == ("network isolation",)

    def test_a_virtualenv_that_is_gone_is_no_fault_of_the_stack(
        self, executor: Executor, plan: Plan, script: Script, tmp_path: Path
    ) -> None:
        planned = plan(script("pass"))
        gone = replace(planned.environment, python=str(tmp_path / "bin" / "python"))
        (seen,) = executor.inspect([replace(planned, environment=gone)])
        assert seen.outcome.is_infrastructure
        assert "is gone" in seen.log
