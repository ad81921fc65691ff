"""Containers of a moment: they end with what they are for, and the dead leave none."""

import os
from pathlib import Path

import pytest

from stackgen.images.build import BaseCompiler
from stackgen.images.engine import Engine, connect
from stackgen.model.stacks import Base
from stackgen.storage.leases import process_identity

pytestmark = pytest.mark.docker
LABEL = "stackgen.helper"


def left_by(engine: Engine, base: Base, who: str) -> str:
    made = engine.api.create_container(base.reference, ["/bin/true"], labels={LABEL: who})
    return str(made["Id"])


def test_what_a_killed_process_left_is_removed_and_what_others_use_is_not(
    engine: Engine, base: Base
) -> None:
    node = process_identity().rpartition(":")[0].rpartition(":")[0]
    dead = left_by(engine, base, f"{node}:{os.getpid()}:1")
    mine, strange = (
        left_by(engine, base, process_identity()),
        left_by(engine, base, "elsewhere:1:1"),
    )
    fresh = connect()
    try:
        assert fresh.run(base.reference, ["/bin/true"]).exit_code == 0
        stored = {each["Id"] for each in fresh.api.containers(all=True)}
        assert stored & {dead, mine, strange} == {mine, strange}
    finally:
        for container in (mine, strange):
            engine.api.remove_container(container)
        fresh.close()


def test_a_container_whose_end_is_not_awaited_is_removed(engine: Engine, base: Base) -> None:
    with pytest.raises(RuntimeError), engine.running(base.reference, ["/bin/sleep", "60"]):
        raise RuntimeError
    local = engine.api.containers(all=True, filters={"label": f"{LABEL}={process_identity()}"})
    assert local == []


def test_a_wheel_that_is_refused_leaves_no_container(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="refused"), BaseCompiler(engine).compiling(base, tmp_path):
        raise ValueError("refused")
    local = engine.api.containers(all=True, filters={"label": f"{LABEL}={process_identity()}"})
    assert local == []
