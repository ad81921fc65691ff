"""A container is locked down, and however it ends, that is an inspection."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from stackgen.executors import Executor, ExecutorUnavailableError
from stackgen.executors.docker import CAMPAIGN_LABEL, DockerExecutor, gpu_requests
from stackgen.images.engine import Engine
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import (
    IMAGE,
    Indicator,
    IndicatorCall,
    Inspection,
    InspectionPlan,
    Limits,
    Outcome,
)
from stackgen.model.stacks import Base, Environment, EnvironmentKind, Machine
from stackgen.sandbox.supervised import CommandReply, Request, Supervised
from stackgen.storage.leases import process_identity
from stackgen.storage.paths import shipped_folder
from tests.containers.wheels import stack_of
from tests.executor_contract import ExecutorContract

pytestmark = pytest.mark.docker
MACHINE = Machine(identity=(("cpu", "test"),))
CAMPAIGN = CampaignId("c" * 64)
REPORT = """
import json
def tell(**seen):
    ok = {"stackgen": 1, "outcome": "ok", "reason": "", "values_s": [1e-6], "loops": 1,
          "circumstances": {key: str(value) for key, value in seen.items()}}
    print(json.dumps(ok))
"""


def plan_of(
    base: Base,
    script: Path,
    *,
    timeout_s: float = 60.0,
    memory_bytes: int | None = None,
    cpus: tuple[int, ...] = (),
    image: str = "",
) -> InspectionPlan:
    indicator = Indicator(
        name=script.stem, component="python", summary="", sha256="0" * 64, path=str(script)
    )
    environment = Environment(
        stack=stack_of(base=base, A_SETTING="on"),
        kind=EnvironmentKind.DOCKER,
        location=image or base.reference,
        python=base.python,
    )
    return InspectionPlan(
        environment=environment,
        call=IndicatorCall(indicator=indicator),
        campaign_id=CAMPAIGN,
        limits=Limits(threads=1, cpus=cpus, timeout_s=timeout_s, memory_bytes=memory_bytes),
    )


def written(tmp_path: Path, code: str) -> Path:
    script = tmp_path / "indicator.py"
    script.write_text(REPORT + code)
    script.chmod(0o644)
    return script


def inspect(engine: Engine, plan: InspectionPlan) -> Inspection:
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        (seen,) = executor.inspect([plan])
    return seen


def reported(seen: Inspection) -> dict[str, str]:
    """Return what the indicator reported: every circumstance but the image, which is recorded."""
    assert seen.observation is not None, seen.log
    found = dict(seen.observation.circumstances)
    assert found.pop(IMAGE).startswith("sha256:")
    return found


def containers(engine: Engine) -> list[str]:
    found = engine.api.containers(all=True, filters={"label": f"{CAMPAIGN_LABEL}={CAMPAIGN}"})
    return [container["Id"] for container in found]


class TestDockerExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, engine: Engine) -> Iterator[Executor]:
        with closing(DockerExecutor(engine.api, MACHINE)) as executor:
            yield executor

    @pytest.fixture
    def environment(self, base: Base) -> Environment:
        return Environment(
            stack=stack_of(base=base),
            kind=EnvironmentKind.DOCKER,
            location=base.reference,
            python=base.python,
        )


def test_a_shipped_indicator_runs(engine: Engine, base: Base) -> None:
    seen = inspect(engine, plan_of(base, shipped_folder("pis") / "python" / "pure.py"))
    assert seen.outcome is Outcome.OK, seen.log
    assert seen.observation is not None
    assert len(seen.observation.values_s) == 30
    assert (seen.machine_id, seen.campaign_id) == (MACHINE.id, CAMPAIGN)
    assert containers(engine) == []


LOCKED_DOWN = """
import os, socket
def refused(act):
    try:
        act()
    except OSError:
        return True
    return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
open("/tmp/scratch", "w").write("#!/bin/sh\\nexit 7")
os.chmod("/tmp/scratch", 0o755)
tell(
    user=os.getuid(),
    capabilities=int(status["CapEff"], 16) + int(status["CapBnd"], 16),
    no_new_privileges=status["NoNewPrivs"].strip(),
    interfaces=[name for _, name in socket.if_nameindex() if name not in ("sit0", "tunl0")],
    cpus=sorted(os.sched_getaffinity(0)),
    root=refused(lambda: open("/x", "w")),
    own=refused(lambda: open(__file__, "a")),
    pis=refused(lambda: open("/stackgen/pis/harness.py", "a")),
    seed=os.environ["PYTHONHASHSEED"],
    setting=os.environ["A_SETTING"],
    scratch_runs=os.spawnv(os.P_WAIT, "/tmp/scratch", ["scratch"]) == 7,
)
"""


def test_a_container_is_locked_down(engine: Engine, base: Base, tmp_path: Path) -> None:
    plan = plan_of(base, written(tmp_path, LOCKED_DOWN), cpus=(0,), memory_bytes=1 << 30)
    seen = inspect(engine, plan)
    assert reported(seen) == {
        "user": "65534",
        "capabilities": "0",
        "no_new_privileges": "1",
        "interfaces": "['lo']",
        "cpus": "[0]",
        "root": "True",
        "own": "True",
        "pis": "True",
        "seed": "0",
        "setting": "on",
        "scratch_runs": "True",
    }
    assert seen.unenforced == ()


@pytest.mark.parametrize(
    ("code", "outcome", "log"),
    [
        ("import os; os.abort()", Outcome.CRASHED, "SIGABRT"),
        ("raise SystemExit(3)", Outcome.CRASHED, "exit code 3"),
        ("print('hello')", Outcome.INVALID_OUTPUT, "hello"),
        ("raise SystemExit(64)", Outcome.UNSUPPORTED, "refused its parameters"),
        ("1 / 0", Outcome.CRASHED, "ZeroDivisionError"),
    ],
)
def test_an_end_is_distinguished_from_another(
    engine: Engine, base: Base, tmp_path: Path, code: str, outcome: Outcome, log: str
) -> None:
    seen = inspect(engine, plan_of(base, written(tmp_path, code)))
    assert seen.outcome is outcome
    assert log in seen.log
    assert containers(engine) == []


def test_a_document_is_found_between_the_chatter_of_two_streams(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    code = "import sys; sys.stderr.write('warning '); tell(a=1); sys.stderr.write('at exit')"
    seen = inspect(engine, plan_of(base, written(tmp_path, code)))
    assert reported(seen) == {"a": "1"}
    assert seen.log == "warning at exit"


def test_what_takes_too_long_is_stopped(engine: Engine, base: Base, tmp_path: Path) -> None:
    code = "print('begun', flush=True)\nimport time; time.sleep(600)"
    seen = inspect(engine, plan_of(base, written(tmp_path, code), timeout_s=6))
    assert seen.outcome is Outcome.TIMEOUT
    assert "begun" in seen.log
    assert seen.duration_s < 60
    assert containers(engine) == []


def test_what_takes_too_much_memory_is_reported(engine: Engine, base: Base, tmp_path: Path) -> None:
    code = "held = []\nwhile True: held.append(bytearray(b'x' * 10_000_000))"
    seen = inspect(engine, plan_of(base, written(tmp_path, code), memory_bytes=64 << 20))
    assert seen.outcome is Outcome.OUT_OF_MEMORY


def test_an_image_without_the_interpreter_is_the_stacks_fault(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    plan = plan_of(base, written(tmp_path, "tell()"))
    broken = Environment(
        stack=plan.environment.stack,
        kind=EnvironmentKind.DOCKER,
        location=base.reference,
        python="/no/python",
    )
    seen = inspect(engine, InspectionPlan(
        environment=broken, call=plan.call, campaign_id=CAMPAIGN, limits=plan.limits
    ))  # fmt: skip
    assert seen.outcome is Outcome.BUILD_FAILED
    assert "/no/python" in seen.log
    assert containers(engine) == []


def test_one_fault_does_not_stop_the_plans_after_it(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    plans = [plan_of(base, written(bad, "1 / 0")), plan_of(base, written(good, "tell()"))]
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        seen = list(executor.inspect(plans))
    assert [one.outcome for one in seen] == [Outcome.CRASHED, Outcome.OK]


@pytest.mark.usefixtures("signals_as_usual")
def test_an_interrupted_inspection_leaves_no_container(
    engine: Engine, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ctrl-C comes while the answer is waited for.
    waiting = Supervised.run

    def interrupted(self: Supervised, request: Request) -> CommandReply:
        main = threading.main_thread().ident
        threading.Timer(1, signal.pthread_kill, [main, signal.SIGINT]).start()
        return waiting(self, request)

    monkeypatch.setattr(Supervised, "run", interrupted)
    executor = DockerExecutor(engine.api, MACHINE)
    plan = plan_of(base, written(tmp_path, "import time; time.sleep(600)"))
    with pytest.raises(KeyboardInterrupt):
        list(executor.inspect([plan]))
    assert containers(engine) == []


@pytest.mark.parametrize("maker", ["", "{host}:999999999:1", "{host}:{pid}:1"])
def test_containers_of_killed_runs_are_removed_at_the_next_start(
    engine: Engine, base: Base, tmp_path: Path, maker: str
) -> None:
    maker = maker.format(host=process_identity().rsplit(":", 2)[0], pid=os.getpid())
    labels = {CAMPAIGN_LABEL: CAMPAIGN, "stackgen.owner": maker}
    left = engine.api.create_container(base.reference, command=["true"], labels=labels)["Id"]
    assert containers(engine) == [left]
    assert inspect(engine, plan_of(base, written(tmp_path, "tell()"))).outcome is Outcome.OK
    assert containers(engine) == []


def test_containers_of_a_living_run_stay(engine: Engine, base: Base, tmp_path: Path) -> None:
    plan = plan_of(base, written(tmp_path, "tell()"))
    with closing(DockerExecutor(engine.api, MACHINE)) as running:
        list(running.inspect([plan]))
        (retained,) = containers(engine)
        inspect(engine, plan)
        assert containers(engine) == [retained]
    assert containers(engine) == []


def test_one_container_serves_the_plans_of_one_environment(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    tell = "import os; tell(host=os.uname().nodename, process=os.getpid())"
    plan, pure = (
        plan_of(base, written(tmp_path, tell)),
        shipped_folder("pis") / "python" / "pure.py",
    )
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        first, _, second = executor.inspect([plan, plan_of(base, pure), plan])
        assert reported(first)["host"] == reported(second)["host"]
        assert reported(first)["process"] != reported(second)["process"]
        assert len(containers(engine)) == 1


def test_a_container_whose_process_failed_is_thrown_away(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        list(executor.inspect([plan_of(base, written(tmp_path, "raise SystemExit(3)"))]))
        assert containers(engine) == []


def test_only_so_many_containers_are_kept(
    engine: Engine, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stackgen.executors.docker._MOST_RUNNING", 1)
    script = written(tmp_path, "tell()")
    plans = [plan_of(base, script, memory_bytes=each << 20) for each in (64, 65)]
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        assert [each.outcome for each in executor.inspect(plans)] == [Outcome.OK] * 2
        assert len(containers(engine)) == 1


def test_an_idle_container_takes_no_cpu(engine: Engine, base: Base, tmp_path: Path) -> None:
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        list(executor.inspect([plan_of(base, written(tmp_path, "tell()"))]))
        (retained,) = containers(engine)
        pid = engine.api.inspect_container(retained)["State"]["Pid"]
        if not Path(f"/proc/{pid}/stat").exists():
            pytest.skip("the engine's processes are not on this machine")
        before = cpu_ticks(pid)
        time.sleep(2)
        assert cpu_ticks(pid) == before


def cpu_ticks(pid: int) -> tuple[str, ...]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return tuple(fields[11:15])


def test_an_indicator_cannot_answer_in_its_supervisors_place(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    code = """
import os, signal
def refused(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        return True
    return False
for each in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP):
    os.kill(1, each)
tell(out=refused(open, "/proc/1/fd/1", "w"), memory=refused(open, "/proc/1/mem", "r+b"))
"""
    seen = inspect(engine, plan_of(base, written(tmp_path, code)))
    assert reported(seen) == {"out": "True", "memory": "True"}


def test_memory_that_a_child_took_is_reported_too(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    code = """
import os
if os.fork() == 0:
    held = []
    while True: held.append(bytearray(b'x' * 10_000_000))
os.wait()
raise SystemExit(3)
"""
    seen = inspect(engine, plan_of(base, written(tmp_path, code), memory_bytes=64 << 20))
    assert seen.outcome is Outcome.OUT_OF_MEMORY


def test_gpus_that_an_engine_cannot_pass_on_are_refused_with_its_own_words(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    if "nvidia" in engine.api.info().get("Runtimes", {}):
        pytest.skip("this engine passes on GPUs")
    plan = plan_of(base, written(tmp_path, "tell()"))
    asking = replace(plan, limits=replace(plan.limits, gpus="all"))
    with pytest.raises(ExecutorUnavailableError, match="cannot pass on the GPUs") as refused:
        inspect(engine, asking)
    assert "gpu" in refused.value.why
    assert "--executor virtualenv" in refused.value.fix
    assert containers(engine) == []


def test_gpus_are_requested_as_the_engine_expects_it() -> None:
    assert gpu_requests("") == []
    (every,) = gpu_requests("all")
    assert (every["Count"], every["DeviceIDs"], every["Capabilities"]) == (-1, [], [["gpu"]])
    (two,) = gpu_requests("0,GPU-7")
    assert (two["Count"], two["DeviceIDs"]) == (0, ["0", "GPU-7"])


@pytest.fixture
def cut_line(tmp_path: Path) -> Iterator[Path]:
    """Return a socket that takes connections and ends them at once, as a dying engine does."""
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        done = threading.Event()

        def hang_up() -> None:
            while not done.is_set():
                connection, _ = listener.accept()
                connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield path
        done.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
        thread.join()


def test_a_lost_engine_is_an_outcome_of_every_plan_and_no_exception(
    cut_line: Path, base: Base, tmp_path: Path
) -> None:
    api = docker.APIClient(f"unix://{cut_line}", version="1.41")
    plan = plan_of(base, written(tmp_path, "tell()"))
    with closing(api), closing(DockerExecutor(api, MACHINE)) as executor:
        seen = list(executor.inspect([plan, plan, plan]))
    assert [one.outcome for one in seen] == [Outcome.ENGINE_LOST] * 3
    assert all("engine was lost" in one.log for one in seen)


def test_an_image_that_was_removed_is_no_fault_of_the_stack(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    plan = plan_of(base, written(tmp_path, "tell()"), image=f"sha256:{'0' * 64}")
    seen = inspect(engine, plan)
    assert seen.outcome is Outcome.ENGINE_LOST
    assert "No such image" in seen.log
