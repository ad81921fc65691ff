"""A user's own command in containers."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stackgen.executors import Executor, ExecutorUnavailableError
from stackgen.executors.docker import DockerExecutor
from stackgen.images.engine import Engine
from stackgen.model.stacks import Base, Environment, EnvironmentKind, Machine
from tests.containers.wheels import stack_of
from tests.program_contract import Measure, ProgramContract

pytestmark = pytest.mark.docker


class TestProgramsInContainers(ProgramContract):
    @pytest.fixture
    def executor(self, engine: Engine) -> Iterator[Executor]:
        with closing(DockerExecutor(engine.api, Machine(identity=()))) as executor:
            yield executor

    @pytest.fixture
    def environment(self, base: Base) -> Environment:
        return Environment(
            stack=stack_of(base=base),
            kind=EnvironmentKind.DOCKER,
            location=base.reference,
            python=base.python,
        )

    def test_nothing_but_project_and_data_of_this_host_is_seen(
        self, measure: Measure, tmp_path: Path
    ) -> None:
        (tmp_path / "of somebody else").touch()
        seen = measure(f"import os; print(os.path.exists('{tmp_path}/of somebody else'))")
        assert seen.log == "False"

    def test_what_is_written_beside_data_in_the_folder_of_temporary_files_is_removed(
        self, measure: Measure, executor: DockerExecutor, tmp_path: Path
    ) -> None:
        if not tmp_path.is_relative_to("/tmp"):
            pytest.skip("temporary files of this machine are not in /tmp")
        leaving = "import os; print(sorted(os.listdir('/tmp'))); open('/tmp/left', 'w').close()"
        first, again = (measure(leaving, data=(str(tmp_path),)).log for _ in range(2))
        assert first == again
        assert tmp_path.parts[2] in first
        assert executor._containers._running  # the container was good enough for more

    def test_a_network_leads_out_or_the_engine_says_that_it_has_none(
        self, measure: Measure
    ) -> None:
        try:
            seen = measure("import socket; print(socket.if_nameindex())", network=True)
        except ExecutorUnavailableError as error:
            assert "cannot give a program its network" in str(error)  # noqa: PT017
        else:
            assert "eth0" in seen.log or "tap0" in seen.log

    def test_a_project_that_only_its_owner_may_read_is_read_as_its_owner(
        self, measure: Measure, project: Path
    ) -> None:
        if os.getuid() == 0:
            os.chown(project, 4321, 4321)
        project.chmod(0o700)
        seen = measure("import os; print(os.getuid())")
        assert seen.log == str(project.stat().st_uid), seen.log
        assert any("unprivileged user" in each for each in seen.unenforced)
