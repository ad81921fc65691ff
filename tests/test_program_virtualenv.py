"""A user's own command in the interpreter that runs the tests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.model.stacks import Machine
from tests.executor_contract import OwnInterpreter
from tests.program_contract import Measure, ProgramContract, calling, listening


class TestProgramsInVirtualenvs(OwnInterpreter, ProgramContract):
    @pytest.fixture
    def executor(self, tmp_path: Path) -> Iterator[Executor]:
        made = VirtualenvExecutor(machine=Machine(identity=()), scratch=tmp_path / "scratch")
        with closing(made) as executor:
            yield executor

    def test_the_network_of_the_host_is_there_when_requested(self, measure: Measure) -> None:
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
