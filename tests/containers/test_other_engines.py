"""Podman's socket, the real engine that refuses thin archives: stacks are built and run there."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.commands.images import find_image
from stackgen.errors import BuildError, EngineError
from stackgen.executors.docker import DockerExecutor
from stackgen.images.bases import BaseBuilder
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine, connect
from stackgen.images.exports import write_layout
from stackgen.images.image_store import engine_images
from stackgen.images.layer_store import LayerStore
from stackgen.model.inspections import Outcome
from stackgen.model.stacks import Base, EnvironmentKind, Machine
from tests.containers.test_images import Line, build, run
from tests.containers.wheels import make_wheel
from tests.killed_executor import HANGS, hanging, plan_of

pytestmark = pytest.mark.docker
# A container may not raise limits above those of whoever starts it, which podman tries otherwise.
LIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    """Start a podman with a store of its own; nobody else's containers are touched."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed (apt-get install podman)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:  # sockets: short paths
        folder = Path(place)
        (folder / "limits.conf").write_text(LIMITS, encoding="utf-8")
        own = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run"]
        environ = {**os.environ, "CONTAINERS_CONF": f"{folder}/limits.conf"}
        address = f"unix://{folder}/socket"
        with (folder / "log").open("wb") as log:
            service = subprocess.Popen(
                [*own, "system", "service", "--time=0", address],
                env=environ, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield address
        finally:
            service.terminate()
            service.wait(30)
            subprocess.run([*own, "rmi", "--all", "--force"], capture_output=True, check=False)


@pytest.fixture
def podman(socket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("DOCKER_HOST", socket)
    with contextlib.closing(connected(socket)) as engine:
        yield engine


def connected(socket: str) -> Engine:
    end = time.monotonic() + 20
    while True:
        try:
            return connect()
        except EngineError as error:
            if time.monotonic() > end:
                pytest.skip(f"podman does not serve {socket} here: {error.why}")
            time.sleep(0.1)


@pytest.fixture
def podman_base(podman: Engine, cache: Path) -> Base:
    try:
        return BaseBuilder(podman, cache).make("bookworm-py311", lambda _: None)
    except BuildError as error:
        pytest.skip(f"podman cannot run the base here: {error.why}")


def test_podman_gets_whole_archives_and_the_next_run_knows_that(
    podman: Engine, podman_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, memory = LayerStore(tmp_path / "layers"), tmp_path / "engines.json"
    line = Line(podman, monkeypatch)
    first = build(ImageBuilder(podman, store, memory), podman_base, [make_wheel(tmp_path, "one")])
    assert run(podman, first, "import one; print(one.VERSION)") == "1.0\n"
    thin, whole = line.sent
    assert thin < 1_000_000 < whole
    with contextlib.closing(connect()) as later:
        line = Line(later, monkeypatch)
        pairs = [make_wheel(tmp_path, "one", version="2.0")]
        builder = ImageBuilder(later, store, memory)
        second = build(builder, podman_base, pairs)
        assert run(later, second, "import one; print(one.VERSION)") == "2.0\n"
        assert len(line.sent) == 1
        assert build(builder, podman_base, pairs) == second
        assert len(line.sent) == 1


def test_podman_lists_and_hands_out_what_it_holds(
    podman: Engine, podman_base: Base, tmp_path: Path
) -> None:
    builder = ImageBuilder(podman, LayerStore(tmp_path / "layers"), tmp_path / "engines.json")
    image_id = build(builder, podman_base, [make_wheel(tmp_path, "listed")]).location
    builder.tag(image_id, "mine:7")
    stored = engine_images(podman)
    image = next(each for each in stored.images if each.id == image_id)
    assert find_image(stored, "mine:7") == find_image(stored, image_id[7:20]) == image
    state = stored.state(image)
    assert state.packages == "listed==1.0"
    assert state.own_bytes is not None
    assert 0 < state.own_bytes < 1_000_000
    write_layout(podman, image_id, tmp_path / "layout", name="x")
    assert (tmp_path / "layout" / "index.json").exists()


def test_podman_runs_inspections_and_keeps_no_container(
    podman: Engine, podman_base: Base, tmp_path: Path
) -> None:
    script = tmp_path / "aborts.py"
    script.write_text(f"import os\nif 'HANG' in os.environ: os.abort()\n{HANGS}")
    script.chmod(0o644)
    plan = plan_of(
        EnvironmentKind.DOCKER,
        str(script),
        location=podman_base.reference,
        python=podman_base.python,
    )
    with contextlib.closing(DockerExecutor(podman.api, Machine(identity=()))) as executor:
        fine, again, aborted = executor.inspect([plan, plan, hanging(plan)])
    assert [fine.outcome, again.outcome] == [Outcome.OK, Outcome.OK], fine.log
    assert fine.unenforced == ()
    assert aborted.outcome is Outcome.CRASHED
    assert "SIGABRT" in aborted.log
    assert podman.api.containers(all=True) == []
