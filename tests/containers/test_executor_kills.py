"""kill -9 of stackgen while a container measures: that ends by itself, the next run removes it."""

from contextlib import closing
from pathlib import Path

import pytest

from stackgen.executors.docker import CAMPAIGN_LABEL, DockerExecutor
from stackgen.images.engine import Engine
from stackgen.model.inspections import Outcome
from stackgen.model.stacks import Base, EnvironmentKind
from tests.killed_executor import CAMPAIGN, HANGS, MACHINE, eventually, kill, plan_of, running

pytestmark = pytest.mark.docker


def containers(engine: Engine, *, alive: bool = False) -> list[str]:
    found = engine.api.containers(all=not alive, filters={"label": f"{CAMPAIGN_LABEL}={CAMPAIGN}"})
    return [container["Id"] for container in found]


def test_a_container_ends_with_a_stackgen_that_is_killed(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    script.chmod(0o644)
    with running("docker", str(script), base.reference, base.python) as process:
        (busy,) = containers(engine, alive=True)
        assert eventually(lambda: "sleep 1000" in str(engine.api.top(busy)))
        kill(process)
        assert eventually(lambda: containers(engine, alive=True) == [])
    assert containers(engine) == [busy]

    plan = plan_of(EnvironmentKind.DOCKER, str(script), location=base.reference, python=base.python)
    with closing(DockerExecutor(engine.api, MACHINE)) as executor:
        (after,) = executor.inspect([plan])
        assert after.outcome is Outcome.OK, after.log
        assert busy not in containers(engine)
    assert containers(engine) == []
