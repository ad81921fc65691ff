"""What every executor does: subclass it, and give an executor and an environment as fixtures."""

import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from stackgen.executors import Executor
from stackgen.indicators.declaration import bind, find
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import IndicatorCall, Inspection, InspectionPlan, Limits, Outcome
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts, Environment, EnvironmentKind, Stack
from stackgen.sandbox.process import LOG_BYTES
from stackgen.storage.paths import shipped_folder

PIS = shipped_folder("pis")
HEAD = """
import os, sys, time
import harness
harness.WARM_UP_S = 0.01  # executors are tested here, not timings
INDICATOR = {"summary": "s", "component": "python", "parameters": {}}
def setup(parameters):
    {}
    return harness.Operation(lambda: None)
harness.main(INDICATOR, setup)
"""
CLAIM = (
    "harness.publish({{'stackgen': 1, 'outcome': 'ok', 'values_s': [{}], 'loops': 1, "
    "'circumstances': {{}}}}, ''); os._exit(0)"
)

Inspect = Callable[..., Inspection]
Plan = Callable[..., InspectionPlan]
Script = Callable[[str], IndicatorCall]


class OwnInterpreter:
    """The environment is the interpreter that runs the tests."""

    @pytest.fixture
    def environment(self) -> Environment:
        facts = BaseFacts(python="CPython", python_build="", libc="", distribution="")
        stack = Stack(lock=Lock(artifacts=()), facts=facts)
        return Environment(
            stack=stack, kind=EnvironmentKind.VIRTUALENV, location=sys.prefix, python=sys.executable
        )


class ExecutorContract:
    """The shared tests; pytest collects them through the subclasses."""

    @pytest.fixture
    def executor(self) -> Executor:
        raise NotImplementedError

    @pytest.fixture
    def environment(self) -> Environment:
        """Give any environment with Python and without packages."""
        raise NotImplementedError

    @pytest.fixture
    def plan(self, environment: Environment) -> Plan:
        def make(
            call: IndicatorCall, *, settings: tuple[tuple[str, str], ...] = (), **limits: float
        ) -> InspectionPlan:
            stack = replace(environment.stack, settings=settings)
            return InspectionPlan(
                environment=replace(environment, stack=stack),
                call=call,
                campaign_id=CampaignId("campaign"),
                limits=replace(Limits(threads=1, timeout_s=60), **limits),  # type: ignore[arg-type]
                samples=5,
            )

        return make

    @pytest.fixture
    def inspect(self, executor: Executor, plan: Plan) -> Inspect:
        def inspect_one(call: IndicatorCall, **options: Any) -> Inspection:
            planned = plan(call, **options)
            (seen,) = executor.inspect([planned])
            assert seen.stack_id == planned.environment.stack.id
            assert seen.indicator_id == call.id
            return seen

        return inspect_one

    @pytest.fixture
    def script(self, tmp_path: Path) -> Script:
        def write(body: str, source: str = HEAD) -> IndicatorCall:
            path = tmp_path / "mine.py"
            path.write_text(source.replace("{}\n", body + "\n", 1))
            return bind(find(load_indicators(PIS, [path]), "mine"), {})

        return write

    def test_an_indicator_is_measured(self, inspect: Inspect) -> None:
        call = bind(find(load_indicators(PIS), "python/pure"), {"rounds": "10"})
        seen, again = inspect(call), inspect(call)
        assert seen.outcome is Outcome.OK, seen.log
        assert seen.observation is not None
        assert again.observation is not None
        assert len(seen.observation.values_s) == 5
        assert seen.observation.checksum == again.observation.checksum

    def test_chatter_on_standard_output_does_no_harm(
        self, inspect: Inspect, script: Script
    ) -> None:
        chatter = "import atexit; print('hi', end=''); atexit.register(print, 'bye')"
        seen = inspect(script(chatter))
        assert seen.outcome is Outcome.OK, seen.log
        assert seen.log == "hi\nbye"

    @pytest.mark.parametrize(
        ("body", "outcome", "words"),
        [
            ("os.kill(os.getpid(), 11)", Outcome.CRASHED, "SIGSEGV"),
            pytest.param("os.abort()", Outcome.CRASHED, "SIGABRT", marks=pytest.mark.thorough),
            pytest.param(
                "os.kill(os.getpid(), 9)", Outcome.CRASHED, "SIGKILL", marks=pytest.mark.thorough
            ),
            ("os._exit(3)", Outcome.CRASHED, "exit code 3"),
            ("raise KeyError('missing')", Outcome.CRASHED, "KeyError: 'missing'"),
            ("raise MemoryError", Outcome.OUT_OF_MEMORY, "out of memory"),
            ("harness.load('no_such_one')", Outcome.IMPORT_FAILED, "No module named 'no_such_one'"),
            ("raise harness.Unsupported('too old')", Outcome.UNSUPPORTED, "too old"),
            ("print('4.2'); os._exit(0)", Outcome.INVALID_OUTPUT, "no line of it"),
            (
                "harness.publish({'stackgen': 1}, ''); os._exit(0)",
                Outcome.INVALID_OUTPUT,
                "outcome",
            ),
            (CLAIM.format(1e308), Outcome.INVALID_OUTPUT, "1e+308 s each (the process itself"),
            pytest.param(
                CLAIM.format(1e-12),
                Outcome.INVALID_OUTPUT,
                "1e-12 s per operation",
                marks=pytest.mark.thorough,
            ),
        ],
    )
    def test_how_a_process_ended_is_distinguished(
        self,
        inspect: Inspect,
        script: Script,
        body: str,
        outcome: Outcome,
        words: str,
    ) -> None:
        seen = inspect(script(body))
        assert seen.outcome is outcome, seen.log
        assert words in seen.log

    def test_a_process_is_stopped_at_its_time_limit(self, inspect: Inspect, script: Script) -> None:
        seen = inspect(script("time.sleep(600)"), timeout_s=2)
        assert seen.outcome is Outcome.TIMEOUT
        assert "time limit of 2 s" in seen.log

    def test_what_ignores_signals_and_leaves_its_session_is_stopped_too(
        self, inspect: Inspect, script: Script
    ) -> None:
        body = (
            "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 15)]; "
            "os.fork() or os.setsid(); time.sleep(600)"
        )
        seen = inspect(script(body), timeout_s=2)
        assert seen.outcome is Outcome.TIMEOUT, seen.log
        assert seen.duration_s < 30

    def test_an_inspection_meets_nothing_of_the_one_before_it(
        self, inspect: Inspect, script: Script
    ) -> None:
        # A grandchild that nobody waits for, a closed folder, a file and shared memory.
        leaving = (
            "t = os.environ['TMPDIR']; os.makedirs(t + '/closed/deep'); os.chmod(t + '/closed', 0);"
            "open(t + '/file', 'w').close();"
            "os.fork() or (os.setsid(), os.fork() or time.sleep(600), os._exit(0))"
        )
        looking = (
            "raise harness.Unsupported(repr((os.listdir(os.environ['TMPDIR']), "
            "[p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())])))"
        )
        first = inspect(script(leaving))
        assert first.outcome is Outcome.OK, first.log
        second = inspect(script(looking))
        assert "([], " in second.log
        if "network isolation" not in second.unenforced:
            assert "([], [])" in second.log

    def test_an_indicator_cannot_write_into_its_stack_or_that_is_said(
        self, inspect: Inspect, script: Script
    ) -> None:
        body = (
            "import json; place = os.path.dirname(json.__file__);"
            "tried = [os.path.join(place, 'stackgen-wrote'), os.path.join(sys.prefix, 'wrote')];"
            "[open(each, 'w').close() for each in tried]"
        )
        seen = inspect(script(body))
        if "read-only stack" not in seen.unenforced:
            assert seen.outcome is Outcome.CRASHED
            assert "Read-only file system" in seen.log

    @pytest.mark.usefixtures("signals_as_usual")
    def test_what_stackgen_was_configured_to_ignore_is_not_ignored_in_there(
        self, inspect: Inspect, script: Script
    ) -> None:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        body = (
            "import signal; raise harness.Unsupported(repr(([n for n in (1, 2, 3, 15) "
            "if signal.getsignal(n) == signal.SIG_IGN], signal.pthread_sigmask(0, []))))"
        )
        try:
            seen = inspect(script(body))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        assert "([], set())" in seen.log

    def test_no_gpu_is_seen_that_was_not_requested(self, inspect: Inspect, script: Script) -> None:
        body = "raise harness.Unsupported(repr(os.environ['CUDA_VISIBLE_DEVICES']))"
        assert "''" in inspect(script(body)).log

    def test_the_end_of_a_long_log_is_kept(self, inspect: Inspect, script: Script) -> None:
        body = "print('x' * 100000, 'the end', file=sys.stderr); os._exit(1)"
        seen = inspect(script(body))
        assert "the end" in seen.log
        assert len(seen.log.encode()) <= LOG_BYTES

    def test_a_parameter_that_the_script_refuses_is_no_crash(
        self, inspect: Inspect, script: Script
    ) -> None:
        call = replace(script("pass"), arguments=(("colour", "red"),))
        seen = inspect(call)
        assert seen.outcome is Outcome.UNSUPPORTED
        assert "--colour" in seen.log

    def test_the_network_is_out_of_reach_or_that_is_said(
        self, inspect: Inspect, script: Script
    ) -> None:
        # A UDP socket sends nothing when it connects: it only asks for a route.
        route = "import socket; socket.socket(2, 2).connect(('192.0.2.1', 9))"
        seen = inspect(script(route))
        assert ("unreachable" in seen.log) or ("network isolation" in seen.unenforced), seen.log

    def test_memory_beyond_the_limit_is_refused_or_that_is_said(
        self, inspect: Inspect, script: Script
    ) -> None:
        seen = inspect(script("b'x' * (1 << 30)"), memory_bytes=1 << 28)
        assert seen.outcome is Outcome.OUT_OF_MEMORY or "memory limit" in seen.unenforced, seen.log

    def test_nothing_of_the_users_environment_gets_in_and_settings_do(
        self,
        inspect: Inspect,
        script: Script,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("STACKGEN_TEST_SECRET", "hush")
        body = "raise harness.Unsupported(repr(sorted(os.environ.items())))"
        seen = inspect(script(body), settings=(("OMP_WAIT_POLICY", "passive"),))
        assert "STACKGEN_TEST_SECRET" not in seen.log
        for pair in (("OMP_WAIT_POLICY", "passive"), ("PYTHONHASHSEED", "0")):
            assert repr(pair) in seen.log
        assert repr(("OMP_NUM_THREADS", "1")) in seen.log
