"""What every executor does with a user's own command: subclass it, and give the two fixtures."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.executors import Executor
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import (
    Indicator,
    IndicatorCall,
    Inspection,
    InspectionPlan,
    Limits,
    Outcome,
)
from stackgen.model.stacks import PROGRAM, Environment, Program
from stackgen.storage.paths import shipped_folder

DRIVER = Indicator(
    name=PROGRAM,
    component=PROGRAM,
    summary="",
    sha256="0" * 64,
    path=str(shipped_folder("pis") / "program.py"),
    one_shot=True,
)
Measure = Callable[..., Inspection]


def reported(seen: Inspection) -> dict[str, str]:
    assert seen.observation is not None, seen.log
    return dict(seen.observation.circumstances)


@contextmanager
def listening() -> Iterator[int]:
    """Answer one connection to this host's loopback with "hello"; return the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def answer() -> None:
            try:
                with server.accept()[0] as caller:
                    caller.sendall(b"hello")
            except OSError:
                pass  # nobody came

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def calling(port: int) -> str:
    return f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).recv(9))"


class ProgramContract:
    """The shared tests; pytest collects them through the subclasses."""

    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        raise NotImplementedError

    @pytest.fixture
    def environment(self) -> Environment:
        raise NotImplementedError

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        tmp_path.chmod(0o755)
        folder = tmp_path / "a project"
        folder.mkdir()
        return folder

    @pytest.fixture
    def measure(self, executor: Executor, environment: Environment, project: Path) -> Measure:
        """Return what runs a script of the project's."""

        def run(script: str = "", *command: str, **options: object) -> Inspection:
            if script:
                (project / "train.py").write_text(script)
            words = command or ("python", "train.py")
            limits = Limits(threads=1, timeout_s=float(str(options.pop("timeout_s", 60))))
            settings = options.pop("settings", ())
            program = Program(command=words, project=str(project), **options)  # type: ignore[arg-type]
            stack = replace(environment.stack, settings=settings)  # type: ignore[arg-type]
            plan = InspectionPlan(
                environment=replace(environment, stack=stack),
                call=IndicatorCall(indicator=DRIVER, program=program),
                campaign_id=CampaignId("campaign"),
                limits=limits,
                samples=1,
            )
            (seen,) = executor.inspect([plan])
            return seen

        return run

    def test_the_time_of_the_command_alone_is_measured(self, measure: Measure) -> None:
        seen = measure("import time; time.sleep(0.5); print('done')")
        assert seen.observation is not None, seen.log
        (took_s,) = seen.observation.values_s
        assert 0.5 <= took_s <= seen.duration_s
        assert seen.log == "done"

    def test_its_memory_is_reported(self, measure: Measure) -> None:
        small, large = measure("pass"), measure("b'x' * (200 << 20)")
        assert small.observation is not None
        assert large.observation is not None
        more = (large.observation.peak_memory_bytes or 0) - (
            small.observation.peak_memory_bytes or 0
        )
        assert 180 << 20 < more < 220 << 20

    def test_what_it_writes_never_reaches_the_project(
        self, measure: Measure, project: Path
    ) -> None:
        (project / "model.py").write_text("import os; HERE = os.path.dirname(__file__)")
        (project / "state.txt").write_text("as it was")
        script = """
import model, os
open("in the folder", "w").close()
open(os.path.join(model.HERE, "beside"), "w").close()
open("state.txt", "a").write(" and more")
open(os.path.join(os.environ["STACKGEN_SCRATCH"], "aside"), "w").close()
print(sorted(os.listdir()), open("state.txt").read(), os.listdir(os.environ["STACKGEN_SCRATCH"]))
"""
        for _ in range(2):
            seen = measure(script)
            assert seen.outcome is Outcome.OK, seen.log
            assert (
                "['beside', 'in the folder', 'model.py', 'state.txt', 'train.py'] "
                "as it was and more ['aside']"
            ) in seen.log
        assert sorted(each.name for each in project.iterdir()) == [
            "model.py",
            "state.txt",
            "train.py",
        ]
        assert (project / "state.txt").read_text() == "as it was"

    def test_a_large_file_of_the_project_is_read_and_cannot_be_written(
        self, measure: Measure, project: Path
    ) -> None:
        (project / "large.bin").write_bytes(b"x" * (2 << 20))
        assert "2097152" in measure("print(len(open('large.bin', 'rb').read()))").log
        seen = measure("open('large.bin', 'ab').write(b'y')")
        if "read-only project and data" not in seen.unenforced:
            assert seen.outcome is Outcome.CRASHED
            assert (project / "large.bin").stat().st_size == 2 << 20

    def test_data_is_where_it_is_and_cannot_be_written(
        self, measure: Measure, tmp_path: Path
    ) -> None:
        data = tmp_path / "data" / "set"
        data.mkdir(parents=True)
        (data / "one").write_text("42")
        seen = measure(f"print(open('{data}/one').read())", data=(str(data),))
        assert seen.log == "42"
        seen = measure(f"open('{data}/two', 'w')", data=(str(data),))
        assert not (data / "two").exists() or "read-only project and data" in seen.unenforced

    def test_a_variable_is_seen_and_its_value_shows_up_nowhere(self, measure: Measure) -> None:
        script = "import os, sys; print(len(os.environ['TOKEN']), os.environ['TOKEN']); sys.exit(3)"
        seen = measure(script, variables=(("TOKEN", "sesame-open"),))
        assert seen.outcome is Outcome.CRASHED
        assert "11 $TOKEN" in seen.log
        assert "sesame" not in repr(seen)

    def test_what_a_stack_sets_wins_over_a_variable(self, measure: Measure) -> None:
        script = "import os; print(os.environ['KIND'])"
        given = (("KIND", "of the user"),)
        seen = measure(script, variables=given, settings=(("KIND", "varied"),))
        assert seen.log == "varied"

    def test_variables_change_nothing_but_the_command(self, measure: Measure) -> None:
        seen = measure("print('fine')", variables=(("PYTHONVERBOSE", "1"),))
        assert seen.outcome is Outcome.OK, seen.log
        assert "program.py" not in seen.log

    @pytest.mark.parametrize(
        ("script", "outcome", "words"),
        [
            ("import sys; sys.exit(3)", Outcome.CRASHED, "exit code 3"),
            pytest.param(
                "import sys; sys.exit(64)",
                Outcome.CRASHED,
                "exit code 64",
                marks=pytest.mark.thorough,
            ),
            ("raise ValueError('wrong')", Outcome.CRASHED, "ValueError: wrong"),
            ("import os; os.kill(os.getpid(), 11)", Outcome.CRASHED, "SIGSEGV"),
            ("import no_such_module", Outcome.IMPORT_FAILED, "No module named 'no_such_module'"),
            pytest.param(
                "from os import no_such_name",
                Outcome.IMPORT_FAILED,
                "no_such_name",
                marks=pytest.mark.thorough,
            ),
            (
                "try:\n import no_such_module\nexcept ImportError:\n raise ValueError('other')",
                Outcome.CRASHED,
                "ValueError: other",
            ),
            ("raise MemoryError", Outcome.OUT_OF_MEMORY, "out of memory"),
        ],
    )
    def test_how_it_ended_is_distinguished(
        self, measure: Measure, script: str, outcome: Outcome, words: str
    ) -> None:
        seen = measure(script)
        assert seen.outcome is outcome, seen.log
        assert words in seen.log

    def test_it_is_stopped_at_its_time_limit(self, measure: Measure) -> None:
        seen = measure("import time; time.sleep(600)", timeout_s=2)
        assert seen.outcome is Outcome.TIMEOUT
        assert seen.duration_s < 30

    def test_a_command_that_no_stack_has_is_not_the_stacks_fault(self, measure: Measure) -> None:
        seen = measure("", "no-such-program", "--fast")
        assert seen.outcome is Outcome.UNSUPPORTED
        assert "no program 'no-such-program'" in seen.log

    @pytest.mark.parametrize("better", ["lower", "higher"])
    def test_the_last_figure_that_it_prints_is_taken(self, measure: Measure, better: str) -> None:
        script = "print('speed 3 it/s'); print('speed 8 it/s'); print('end')"
        seen = measure(script, figure=r"speed (\S+) it", better=better)
        assert seen.observation is not None, seen.log
        assert seen.observation.values_s == (8.0 if better == "lower" else 1 / 8,)
        assert reported(seen)["figure"] == "8.0"
        assert seen.log == "speed 3 it/s\nspeed 8 it/s\nend"

    @pytest.mark.parametrize(
        ("printed", "words"),
        [
            ("nothing", "nothing that it printed matches"),
            ("loss: none", "no number: 'none'"),
            ("loss: nan", "not above zero: 'nan'"),
            pytest.param("loss: -1", "not above zero: '-1'", marks=pytest.mark.thorough),
        ],
    )
    def test_without_a_figure_there_is_no_measurement(
        self, measure: Measure, printed: str, words: str
    ) -> None:
        seen = measure(f"print({printed!r})", figure=r"loss: (\S+)")
        assert seen.outcome is Outcome.INVALID_OUTPUT
        assert words in seen.log

    def test_equal_results_have_equal_digests_and_others_do_not(self, measure: Measure) -> None:
        def results(text: str) -> tuple[object, ...]:
            seen = measure(f"open('out.txt', 'w').write({text!r})", check="out.txt")
            assert seen.observation is not None, seen.log
            facts = reported(seen)
            return facts["check"], facts["check_text"], seen.observation.checksum

        first, again = results("loss 0.25 -3"), results("loss 0.25 -3")
        swapped, worded = results("loss -3 0.25"), results("Loss 0.25 -3")
        assert first == again
        assert first[1] == swapped[1]
        assert first[2] != swapped[2]
        assert first[1] != worded[1]
        assert len({first[0], swapped[0], worded[0]}) == 3

    def test_an_old_result_in_the_project_does_not_count(
        self, measure: Measure, project: Path
    ) -> None:
        (project / "out.txt").write_text("of yesterday")
        seen = measure("pass", check="out.txt")
        assert seen.outcome is Outcome.INVALID_OUTPUT
        assert "did not write out.txt" in seen.log

    def test_python_is_the_stacks_own_however_it_is_called(
        self, measure: Measure, project: Path
    ) -> None:
        shown = "import sys; print(sys.version_info[:3], sys.prefix)"
        (project / "run.sh").write_text(
            f'#!/bin/sh\nset -e\npython -c "{shown}"\npython3 -c "{shown}"\nenv python -c "{shown}"'
        )
        (project / "run.sh").chmod(0o755)
        direct = measure(shown)
        through = measure("", "./run.sh")
        assert through.outcome is Outcome.OK, through.log
        assert through.log.splitlines() == direct.log.splitlines() * 3

    def test_what_it_leaves_running_is_ended(self, measure: Measure) -> None:
        script = """
import subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("speed 5")
"""
        seen = measure(script, figure=r"speed (\d+)")
        assert seen.outcome is Outcome.OK, seen.log
        assert seen.duration_s < 30

    def test_its_processes_talk_to_each_other_on_the_loopback(self, measure: Measure) -> None:
        script = """
import socket, threading
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
    print(socket.create_connection(server.getsockname(), 5).recv(9))
"""
        assert measure(script).log == "b'hello'"

    def test_the_network_is_out_of_reach_or_that_is_said(self, measure: Measure) -> None:
        with listening() as port:
            seen = measure(calling(port))
        assert "refused" in seen.log or "network isolation" in seen.unenforced, seen.log

    def test_threads_are_limited_as_for_indicators(self, measure: Measure) -> None:
        assert measure("import os; print(os.environ['OMP_NUM_THREADS'])").log == "1"

    def test_nothing_of_one_run_meets_the_next(self, measure: Measure) -> None:
        looking = "import os; print(sorted(os.listdir(os.environ['TMPDIR'])))"
        leaving = "import os; open(os.path.join(os.environ['TMPDIR'], 'left'), 'w').close()"
        before = measure(looking).log
        assert measure(leaving).outcome is Outcome.OK
        assert measure(looking).log == before
