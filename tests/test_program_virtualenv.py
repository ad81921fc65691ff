"""A user's own command in the interpreter that runs the tests."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts, Environment, Kind, Machine, Stack
from tests.program_contract import Measure, ProgramContract, calling, listening

FACTS = BaseFacts(python="CPython", python_build="", libc="", distribution="")


class TestProgramsInVirtualenvs(ProgramContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Iterator[Executor]:
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path / "scratch")
        with closing(made) as executor:
            yield executor

    @pytest.fixture
    def environment(self) -> Environment:
        stack = Stack(lock=Lock(artifacts=()), facts=FACTS)
        return Environment(
            stack=stack, kind=Kind.VIRTUALENV, location=sys.prefix, python=sys.executable
        )

    def test_the_network_of_the_host_is_there_when_asked_for(self, measure: Measure) -> None:
        with listening() as port:
            seen = measure(calling(port), network=True)
        assert seen.log == "b'hello'"
        assert "network isolation" not in seen.unenforced
        with listening() as port:
            again = measure(calling(port))
        assert "refused" in again.log or "network isolation" in again.unenforced

    def test_packages_of_the_virtualenv_are_found_through_a_shell(self, measure: Measure) -> None:
        seen = measure("", "sh", "-c", "pytest --version && python3 -m pytest --version")
        assert seen.log.count("pytest ") == 2, seen.log
