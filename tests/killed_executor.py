"""An executor in a process of its own, to be killed; ``python -m tests.killed_executor`` runs it.

    python -m tests.killed_executor virtualenv SCRIPT SCRATCH [unconfined]
    python -m tests.killed_executor docker SCRIPT IMAGE PYTHON

The indicator SCRIPT is inspected once as it should be and then, with ``hang`` among its settings,
for ever.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from stackgen.executors import Executor
from stackgen.executors.docker import DockerExecutor
from stackgen.executors.virtualenv import VirtualenvExecutor
from stackgen.images.engine import connect
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import Indicator, IndicatorCall, InspectionPlan, Limits
from stackgen.model.packages import Lock
from stackgen.model.stacks import BaseFacts, Environment, EnvironmentKind, Machine, Stack
from stackgen.sandbox.namespaces import ISOLATIONS

CAMPAIGN = CampaignId("d" * 64)
MACHINE = Machine(identity=())
HANGS = """
import json, os, subprocess, time
if "HANG" in os.environ:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    time.sleep(1000)
print(json.dumps({"stackgen": 1, "outcome": "ok", "reason": "", "values_s": [1e-6], "loops": 1,
                  "circumstances": {}}))
"""


def plan_of(kind: EnvironmentKind, script: str, *, location: str, python: str) -> InspectionPlan:
    indicator = Indicator(
        name="hangs", component="python", summary="", sha256="0" * 64, path=script
    )
    facts = BaseFacts(python="CPython", python_build="", libc="", distribution="")
    return InspectionPlan(
        environment=Environment(
            stack=Stack(lock=Lock(artifacts=()), facts=facts),
            kind=kind,
            location=location,
            python=python,
        ),
        call=IndicatorCall(indicator=indicator),
        campaign_id=CAMPAIGN,
        limits=Limits(threads=1, timeout_s=900),
    )


def hanging(plan: InspectionPlan) -> InspectionPlan:
    stack = replace(plan.environment.stack, settings=(("HANG", "1"),))
    return replace(plan, environment=replace(plan.environment, stack=stack))


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run this module until it is in the middle of the inspection that never ends."""
    command = [sys.executable, "-m", "tests.killed_executor", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ok\n"
            yield process
        finally:
            process.kill()


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def processes_with(words: str) -> list[psutil.Process]:
    """Return the processes that have these words on their command line, and what they started."""
    found = []
    for process in psutil.process_iter():
        try:
            if words in " ".join(process.cmdline()):
                found += [process, *process.children(recursive=True)]
        except psutil.Error:  # it ended just now
            continue
    return found


def eventually(holds: Callable[[], bool], *, within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def main(kind: str, script: str, *rest: str) -> None:
    executor: Executor
    if kind == "docker":
        executor = DockerExecutor(connect().api, MACHINE)
        plan = plan_of(EnvironmentKind.DOCKER, script, location=rest[0], python=rest[1])
    else:
        isolations = ISOLATIONS if len(rest) == 1 else ()
        executor = VirtualenvExecutor(machine=MACHINE, scratch=Path(rest[0]), isolations=isolations)
        plan = plan_of(
            EnvironmentKind.VIRTUALENV, script, location=sys.prefix, python=sys.executable
        )
    for seen in executor.inspect([plan, hanging(plan)]):
        sys.stdout.write(f"{seen.outcome.value}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
