"""A container is locked down, and however it ends, that is an inspection."""

import os
import platform
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from stackgen.builders.engine import Engine
from stackgen.executors import Executor
from stackgen.executors.docker import CAMPAIGN_LABEL, DockerExecutor
from stackgen.resources import folder
from stackgen.values import (
    Base,
    CampaignId,
    Environment,
    Indicator,
    IndicatorCall,
    Inspection,
    InspectionPlan,
    Kind,
    Limits,
    Machine,
    Outcome,
)
from tests.containers.wheels import stack_of
from tests.executor_contract import ExecutorContract

pytestmark = pytest.mark.docker
MACHINE = Machine(identity=(("cpu", "test"),))
CAMPAIGN = CampaignId("c" * 64)
REPORT = """
import json
def tell(**seen):
    ok = {"stackgen": 1, "outcome": "ok", "reason": "", "values_s": [0.5], "loops": 1,
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
        kind=Kind.DOCKER,
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
    (seen,) = DockerExecutor(engine.api, MACHINE).inspect([plan])
    return seen


def told(seen: Inspection) -> dict[str, str]:
    assert seen.observation is not None, seen.log
    return dict(seen.observation.circumstances)


def containers(engine: Engine) -> list[str]:
    found = engine.api.containers(all=True, filters={"label": f"{CAMPAIGN_LABEL}={CAMPAIGN}"})
    return [container["Id"] for container in found]


class TestDockerExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, engine: Engine) -> Executor:
        return DockerExecutor(engine.api, MACHINE)

    @pytest.fixture
    def environment(self, base: Base) -> Environment:
        return Environment(
            stack=stack_of(base=base),
            kind=Kind.DOCKER,
            location=base.reference,
            python=base.python,
        )


def test_a_shipped_indicator_runs(engine: Engine, base: Base) -> None:
    seen = inspect(engine, plan_of(base, folder("pis") / "python" / "pure.py"))
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
open("/tmp/scratch", "w").write("x")
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
)
"""


def test_a_container_is_locked_down(engine: Engine, base: Base, tmp_path: Path) -> None:
    seen = inspect(engine, plan_of(base, written(tmp_path, LOCKED_DOWN), cpus=(0,)))
    assert told(seen) == {
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
def test_an_end_is_told_from_another(
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
    assert told(seen) == {"a": "1"}
    assert seen.log == "warning at exit"


def test_what_takes_too_long_is_stopped(engine: Engine, base: Base, tmp_path: Path) -> None:
    code = "print('begun', flush=True)\nimport time; time.sleep(600)"
    seen = inspect(engine, plan_of(base, written(tmp_path, code), timeout_s=2))
    assert seen.outcome is Outcome.TIMEOUT
    assert "begun" in seen.log
    assert seen.duration_s < 60
    assert containers(engine) == []


def test_what_takes_too_much_memory_is_told_so(engine: Engine, base: Base, tmp_path: Path) -> None:
    code = "held = []\nwhile True: held.append(bytearray(b'x' * 10_000_000))"
    seen = inspect(engine, plan_of(base, written(tmp_path, code), memory_bytes=64 << 20))
    assert seen.outcome is Outcome.OUT_OF_MEMORY


def test_an_image_without_the_interpreter_is_the_stacks_fault(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    plan = plan_of(base, written(tmp_path, "tell()"))
    broken = Environment(
        stack=plan.environment.stack, kind=Kind.DOCKER, location=base.reference, python="/no/python"
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
    seen = DockerExecutor(engine.api, MACHINE).inspect(plans)
    assert [one.outcome for one in seen] == [Outcome.CRASHED, Outcome.OK]


def test_an_interrupted_inspection_leaves_no_container(
    engine: Engine, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.api, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        inspect(engine, plan_of(base, written(tmp_path, "import time; time.sleep(600)")))
    assert containers(engine) == []


@pytest.mark.parametrize("owner", ["", "{node}:999999999:1", "{node}:{pid}:1"])
def test_containers_of_killed_runs_are_removed_at_the_next_start(
    engine: Engine, base: Base, tmp_path: Path, owner: str
) -> None:
    owner = owner.format(node=platform.node(), pid=os.getpid())
    labels = {CAMPAIGN_LABEL: CAMPAIGN, "stackgen.owner": owner}
    left = engine.api.create_container(base.reference, command=["true"], labels=labels)["Id"]
    assert containers(engine) == [left]
    assert inspect(engine, plan_of(base, written(tmp_path, "tell()"))).outcome is Outcome.OK
    assert containers(engine) == []


def test_containers_of_a_living_run_stay(engine: Engine, base: Base, tmp_path: Path) -> None:
    plan = plan_of(base, written(tmp_path, "tell()"))
    running = DockerExecutor(engine.api, MACHINE)._create(
        plan, "/x.py", [], "65534:65534", DockerExecutor(engine.api, MACHINE)._can()
    )
    try:
        inspect(engine, plan)
        assert containers(engine) == [running]
    finally:
        engine.api.remove_container(running)


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
    cut_line: Path, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("stackgen.executors.docker.time.sleep", pauses.append)
    api = docker.APIClient(f"unix://{cut_line}", version="1.41")
    plan = plan_of(base, written(tmp_path, "tell()"))
    seen = list(DockerExecutor(api, MACHINE).inspect([plan, plan, plan]))
    api.close()
    assert [one.outcome for one in seen] == [Outcome.ENGINE_LOST] * 3
    assert all("engine was lost" in one.log for one in seen)
    assert len([pause for pause in pauses if pause]) == 2  # only the first plan waits


def test_an_image_that_was_removed_is_no_fault_of_the_stack(
    engine: Engine, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stackgen.executors.docker.time.sleep", lambda _: None)
    plan = plan_of(base, written(tmp_path, "tell()"), image=f"sha256:{'0' * 64}")
    seen = inspect(engine, plan)
    assert seen.outcome is Outcome.ENGINE_LOST
    assert "No such image" in seen.log
