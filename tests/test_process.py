"""The verdict on a process, for signals as Python and as container engines tell them."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackgen.campaign.indicators import load_indicators
from stackgen.indicators.declaration import bind, find
from stackgen.model.identity import CampaignId, MachineId
from stackgen.model.inspections import InspectionPlan, Limits, Outcome
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts, Environment, EnvironmentKind, Stack
from stackgen.sandbox.process import Begun, indicator_command, log_tail, process_environment
from stackgen.sandbox.supervised import CommandReply
from stackgen.storage.paths import shipped_folder


def plan(loops: int | None = None, **given: str) -> InspectionPlan:
    facts = BaseFacts(python="CPython", python_build="", libc="", distribution="")
    stack = Stack(
        lock=Lock(artifacts=()), facts=facts, settings=(("OMP_NUM_THREADS", "7"), ("X", "y"))
    )
    pis = load_indicators(shipped_folder("pis"))
    return InspectionPlan(
        environment=Environment(
            stack=stack, kind=EnvironmentKind.DOCKER, location="image", python="python"
        ),
        call=bind(find(pis, "python/pure"), given),
        campaign_id=CampaignId("c"),
        limits=Limits(threads=3),
        loops=loops,
        samples=9,
    )


def outcome_of(exit_code: int, **reply: Any) -> tuple[Outcome, str]:
    begun = Begun(plan(), MachineId("m"), "2026-01-01T00:00:00+00:00", time.monotonic() - 1)
    seen = begun.ended(CommandReply(exit_code=exit_code, **reply))
    return seen.outcome, seen.log


def test_the_command_gives_every_parameter_and_the_fixed_counts() -> None:
    command = indicator_command(plan(loops=4), python="py", script_path="/pis/pure.py")
    assert command == (
        *("py", "-s", "-B", "/pis/pure.py", "--rounds", "1500", "--threads", "3"),
        *("--samples", "9", "--loops", "4"),
    )


def test_without_loops_the_indicator_calibrates() -> None:
    assert "--loops" not in indicator_command(plan(), python="py", script_path="s")


def test_the_row_of_a_table_is_the_first_argument_of_its_script() -> None:
    matmul = bind(find(load_indicators(shipped_folder("pis")), "numpy/matmul"), {"size": "9"})
    command = indicator_command(replace(plan(), call=matmul), python="py", script_path="m.py")
    assert command[:8] == ("py", "-s", "-B", "m.py", "matmul", "--dtype", "float32", "--size")


def test_threads_of_the_call_win_over_the_limit_and_settings_over_both() -> None:
    environment = process_environment(plan(threads="5"))
    assert environment["MKL_NUM_THREADS"] == "5"
    assert environment["OMP_NUM_THREADS"] == "7"
    assert environment["X"] == "y"


def test_a_repetition_has_an_environment_block_of_another_size() -> None:
    usual = process_environment(plan())
    padded = replace(plan(), limits=replace(plan().limits, padding=1031))
    added = process_environment(padded).items() - usual.items()
    assert [len(value) for _, value in added] == [1031]


@pytest.mark.parametrize("exit_code", [-11, 139])
def test_a_signal_is_named_however_it_is_reported(exit_code: int) -> None:
    assert outcome_of(exit_code) == (Outcome.CRASHED, "killed by SIGSEGV")


@pytest.mark.parametrize("exit_code", [-9, 137])
def test_a_kill_is_a_lack_of_memory_only_when_the_system_says_so(exit_code: int) -> None:
    assert outcome_of(exit_code)[0] is Outcome.CRASHED
    assert outcome_of(exit_code, oom=True)[0] is Outcome.OUT_OF_MEMORY


def test_a_kill_at_our_own_memory_limit_is_distinguished_from_one_for_the_whole_machine() -> None:
    reported = [outcome_of(-9, oom=True, at_limit=each)[1] for each in (False, True)]
    assert reported == [
        "out of memory (killed by SIGKILL)",
        "out of memory (killed by SIGKILL at its own limit)",
    ]


def test_an_allocation_that_failed_is_a_lack_of_memory() -> None:
    words = "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB"
    assert outcome_of(1, stderr=words)[0] is Outcome.OUT_OF_MEMORY


def test_our_own_kill_for_time_is_a_timeout() -> None:
    assert outcome_of(-9, timed_out=True)[0] is Outcome.TIMEOUT


def printed(loops: int, *values_s: float, **circumstances: str) -> str:
    return json.dumps(
        {
            "stackgen": 1,
            "outcome": "ok",
            "values_s": values_s,
            "loops": loops,
            "circumstances": circumstances,
        }
    )


@pytest.mark.parametrize(
    ("loops", "values_s", "message"),
    [
        (1, (1e308,), "1e+308 s"),
        (1, (1e308,) * 3, "3 samples"),
        (1, (1.5,), "lasted 1 s"),
        (1, (0.3,) * 4, "lasted 1 s"),
        (1000, (0.002,), "1000 operations"),
        (2**62, (1e-9,), "lasted 1 s"),
        (1, (1e-12,), "1e-12 s per operation"),
        (10**6, (1e-12,), "1e-12 s per operation"),
        (1, (0.1, 1e-300), "1e-300 s per operation"),
    ],
)
def test_times_that_do_not_fit_into_the_process_are_no_measurement(
    loops: int, values_s: tuple[float, ...], message: str
) -> None:
    outcome, log = outcome_of(0, stdout=printed(loops, *values_s))
    assert outcome is Outcome.INVALID_OUTPUT
    assert "impossible times" in log
    assert message in log


@pytest.mark.parametrize(
    ("loops", "values_s"), [(1, (1.0,)), (1, (0.25,) * 4), (10**6, (1e-7,)), (1, (1e-9,))]
)
def test_times_that_fill_the_process_are_a_measurement(
    loops: int, values_s: tuple[float, ...]
) -> None:
    assert outcome_of(0, stdout=printed(loops, *values_s)) == (Outcome.OK, "")


def test_a_figure_is_no_time_and_may_be_any_number() -> None:
    assert outcome_of(0, stdout=printed(1, 1e308, figure="lower"))[0] is Outcome.OK
    assert outcome_of(0, stdout=printed(1, 1e-12, figure="lower"))[0] is Outcome.OK


def test_a_log_does_not_name_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    assert log_tail("File /home/ada/x.py") == "File ~/x.py"
