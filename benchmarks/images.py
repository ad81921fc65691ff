"""Stack images beside a plain ``docker build`` with pip and one with uv, in one run.

python benchmarks/images.py [--base NAME] [--rounds N] [--pairs N] [--without-grid] [--json]

Medians; run it as root or with access to an engine, on a machine where nothing else runs. Wheels
come from the store, all of them warm, for everybody: the peers take them from a file server on
loopback, so that copying them costs nobody anything. Everything is built on a base of this run's
own (one empty layer more than the real one), so that nothing that was built before helps; the
images are removed at the end.
"""

import argparse
import contextlib
import functools
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import uv
from docker.types import Mount

from stackgen.images.bases import BaseBuilder
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine, connect
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import chain_ids
from stackgen.images.targets import find_interpreters, probe
from stackgen.images.unpack import unpacked_size
from stackgen.images.virtualenvs import VirtualenvBuilder
from stackgen.index import PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.model.packages import Artifact, Lock, Target
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Base, Stack
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from stackgen.storage.paths import find_paths, shipped_folder
from stackgen.storage.wheels import WheelStore

FRAMEWORK = "tensorflow-cpu"
REQUESTED = (f"{FRAMEWORK}>=2.14,<2.17", "numpy>=1.24,<2")
GRID_FRAMEWORKS, GRID_NUMPYS = 3, 10
IMPORTED = "import time; t = time.perf_counter(); import tensorflow; print(time.perf_counter() - t)"
PIP = """FROM {base}
RUN {python} -m venv /opt/peer
RUN /opt/peer/bin/pip install --no-cache-dir --no-index --find-links {links} {pins}
"""
UV = """FROM {base}
COPY uv /bin/uv
RUN /bin/uv venv --python {python} /opt/peer
RUN {cache} /bin/uv pip install --python /opt/peer --compile-bytecode \\
    --no-index --find-links {links} {pins}
"""
CACHE = "--mount=type=cache,target=/uv-cache UV_CACHE_DIR=/uv-cache UV_LINK_MODE=copy"
NO_CACHE = "UV_NO_CACHE=1"


@dataclass(slots=True, kw_only=True)
class Bench:
    """What all parts of one run share; ``tags`` are images to be removed at the end."""

    engine: Engine
    base: Base
    folder: Path
    links: str
    wheels: Mapping[str, Path]
    quiet: bool
    run: str
    buildkit: str
    tags: list[str] = field(default_factory=list)

    def builder(self, name: str) -> ImageBuilder:
        """Return a builder with a store of layers of that name."""
        store = LayerStore(self.folder / name)
        return ImageBuilder(self.engine, store, self.folder / "engines.json")

    def build(self, builder: ImageBuilder, lock: Lock, *, setting: str = "") -> str:
        """Build a lock with stackgen; return the image's id."""
        settings = (("STACKGEN_BENCHMARK", self.run + setting),)  # never an image of another run
        stack = Stack(lock=lock, facts=self.base.facts, settings=settings)
        varied = frozenset({FRAMEWORK, "numpy"})
        image = builder.build(stack, self.base, self.wheels, varied).location
        self.tags.append(image)
        return image

    def peer(self, recipe: str, lock: Lock) -> str:
        """Build a lock with ``docker build``; return the image's tag.

        uv gets a cache that outlives the build where there is a client that has BuildKit.
        """
        cached = recipe is UV and bool(self.buildkit)
        tag = f"stackgen-bench:{uuid.uuid4().hex[:12]}"
        pins = " ".join(f"{name}=={version}" for name, version in lock.versions.items())
        with tempfile.TemporaryDirectory(dir=self.folder) as context:
            text = recipe.format(
                base=f"stackgen-bench-base:{self.run}",
                python=self.base.python,
                links=self.links,
                pins=pins,
                cache=CACHE if cached else NO_CACHE,
            )
            Path(context, "Dockerfile").write_text(text)
            if "COPY uv" in text:
                shutil.copy(uv.find_uv_bin(), context)
            done = subprocess.run(
                [
                    self.buildkit if cached else "docker",
                    "build",
                    "--quiet",
                    "--network",
                    "host",
                    "--tag",
                    tag,
                    context,
                ],
                env={**os.environ, "DOCKER_BUILDKIT": str(int(cached))},
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            sys.exit(f"docker build failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        self.tags.append(tag)
        return tag

    def size(self, image: str) -> int:
        """Return the bytes of an image that its base does not have."""
        found, base = self.engine.image(image), self.engine.image(self.base.reference)
        assert found is not None
        assert base is not None
        return found.size - base.size

    def remove(self) -> None:
        """Remove what was built so far."""
        while self.tags:
            remove(self.tags.pop())

    def tell(self, line: str) -> None:
        """Print a line of the report."""
        if not self.quiet:
            print(line, flush=True)


def remove(image: str) -> None:
    """Remove an image, which may be gone already."""
    subprocess.run(["docker", "rmi", "-f", image], capture_output=True, check=False)


def timed(action: Callable[[], str]) -> tuple[float, str]:
    """Return how long an action takes, and what it returns."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def locks(space: Space) -> dict[tuple[str, str], Lock]:
    """Return the newest stack of each framework and numpy version, newest first."""
    found = {}
    for choice in space.slices((FRAMEWORK, "numpy")):
        lock = space.complete(choice)
        assert lock is not None, f"{choice} has no stack"
        found[lock.versions[FRAMEWORK], lock.versions["numpy"]] = lock
    return found


def alike(found: Mapping[tuple[str, str], Lock], framework: str) -> list[Lock]:
    """Return locks of one framework version that differ in numpy alone."""
    own = [lock for (version, _), lock in found.items() if version == framework]

    def rest(lock: Lock) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in lock.versions.items() if pair[0] != "numpy")

    return [lock for lock in own if rest(lock) == rest(own[0])]


def first(bench: Bench, lock: Lock) -> dict[str, float]:
    """Build one stack from nothing but warm wheels, by each way once."""
    builder = bench.builder("first")
    ours, image = timed(lambda: bench.build(builder, lock))
    pip, naive = timed(lambda: bench.peer(PIP, lock))
    uv_s, other = timed(lambda: bench.peer(UV, lock))
    bench.tell(f"first image from warm wheels ({len(lock.versions)} packages)")
    for name, seconds, tag in (("stackgen", ours, image), ("pip", pip, naive), ("uv", uv_s, other)):
        bench.tell(f"  {name:34}{seconds:8.1f} s {bench.size(tag) / 1e6:8.0f} MB")
    return {"first": ours, "first_pip": pip, "first_uv": uv_s}


def marginal(bench: Bench, many: Sequence[Lock], rounds: int) -> dict[str, float]:
    """Change numpy alone, again and again, by each way in turn."""
    builder = bench.builder("first")
    rows: dict[str, list[float]] = {"new": [], "existing": [], "pip": [], "uv": []}
    sizes: list[float] = []
    for number, lock in enumerate(many[1 : rounds + 1]):
        before = listed(bench)
        rows["new"].append(timed(functools.partial(bench.build, builder, lock))[0])
        between = listed(bench)
        wheel = next(each for each in lock.artifacts if each.name == "numpy")
        sizes.append((between - before) / unpacked_size(bench.wheels[wheel.sha256]))
        again = functools.partial(bench.build, builder, lock, setting=f"-{number}")
        rows["existing"].append(timed(again)[0])
        assert listed(bench) == between, "a stack whose layers all exist took new bytes"
        rows["pip"].append(timed(functools.partial(bench.peer, PIP, lock))[0])
        rows["uv"].append(timed(functools.partial(bench.peer, UV, lock))[0])
    found = {name: statistics.median(values) for name, values in rows.items()}
    found["bytes"] = statistics.median(sizes)
    bench.tell(f"a further stack, medians of {len(sizes)}")
    bench.tell(f"  numpy's layer is new              {found['new']:8.2f} s  (wanted 3.5)")
    bench.tell(f"    new bytes / unpacked wheel      {found['bytes']:8.2f}    (wanted 1.3)")
    bench.tell(f"  all layers exist                  {found['existing']:8.2f} s  (wanted 0.8)")
    for peer in ("pip", "uv"):
        new, old = found[peer] / found["new"], found[peer] / found["existing"]
        wanted = "  (wanted 14 and 60)" if peer == "pip" else ""
        bench.tell(f"  {peer:34}{found[peer]:8.2f} s  {new:.0f} and {old:.0f} times ours{wanted}")
    return found


def listed(bench: Bench) -> int:
    """Return the bytes of the layers that this run's stack images hold, each counted once."""
    layers: dict[str, int] = {}
    for tag in set(bench.tags):
        if tag.startswith("sha256:") and (image := bench.engine.image(tag)):
            history = bench.engine.api.history(tag)  # type: ignore[no-untyped-call]
            sizes = [int(each["Size"]) for each in reversed(history)]
            layers |= zip(chain_ids(image.diff_ids), sizes, strict=True)
    return sum(layers.values())


def grid(bench: Bench, found: Mapping[tuple[str, str], Lock]) -> dict[str, float]:
    """Build the newest of each, all combinations, from nothing but warm wheels."""
    chosen = grid_locks(found)
    wheels = {each.sha256: each for lock in chosen for each in lock.artifacts}
    builder = bench.builder("grid")
    start = time.perf_counter()
    for lock in chosen:
        bench.build(builder, lock)
    seconds = time.perf_counter() - start
    stored = listed(bench)
    base = bench.engine.image(bench.base.reference)
    assert base is not None
    own = builder.store.layers(
        bench.base,
        [(each, bench.wheels[each.sha256]) for each in wheels.values()],
        _NeverCompiles(),
    )
    distinct = sum(layer.size for layer in own.values())
    ratio = (stored - base.size) / distinct
    bench.tell(f"{len(chosen)} stacks of {GRID_FRAMEWORKS} {FRAMEWORK} by {GRID_NUMPYS} numpy")
    bench.tell(f"  all                               {seconds:8.1f} s")
    bench.tell(f"  each, on average                  {seconds / len(chosen):8.1f} s")
    bench.tell(f"  in the engine                     {(stored - base.size) / 1e9:8.2f} GB")
    bench.tell(f"    / the distinct layers           {ratio:8.2f}    (wanted 1.5)")
    return {"grid": seconds, "grid_bytes": stored - base.size, "grid_ratio": ratio}


def grid_locks(found: Mapping[tuple[str, str], Lock]) -> list[Lock]:
    """Return the combinations of the newest versions that all go together."""
    frameworks = list(dict.fromkeys(framework for framework, _ in found))
    minors = {tuple(each.split(".")[:2]): each for each in reversed(frameworks)}
    newest = list(minors.values())[-GRID_FRAMEWORKS:]
    numpys = [
        numpy
        for numpy in dict.fromkeys(numpy for _, numpy in found)
        if all((framework, numpy) in found for framework in newest)
    ][:GRID_NUMPYS]
    if len(newest) < GRID_FRAMEWORKS or len(numpys) < GRID_NUMPYS:
        sys.exit(f"the index has no grid of that size: {newest} by {numpys}")
    return [found[framework, numpy] for framework in newest for numpy in numpys]


class _NeverCompiles:
    """For layers that all exist."""

    @contextlib.contextmanager
    def compiling(self, base: Base, staging: Path) -> Iterator[Callable[[], None]]:
        """Refuse."""
        raise AssertionError(f"{base.name}: layers below {staging} do not exist")
        yield


def inside(bench: Bench, lock: Lock, pairs: int) -> dict[str, float]:
    """Import and multiply in our image and in pip's, in turn; each time a process of its own."""
    builder = bench.builder("first")
    ours, naive = bench.build(builder, lock), bench.peer(PIP, lock)
    paths = {"stackgen": (ours, "/opt/stack/bin/python"), "pip": (naive, "/opt/peer/bin/python")}
    commands: dict[str, list[str]] = {
        "import tensorflow": ["-c", IMPORTED],
        "matmul": ["/pis/tensorflow/operations.py", "matmul", "--size", "1024", "--threads", "1"],
    }
    found = {}
    for what, command in commands.items():
        ratios, own = [], []
        for number in range(pairs + 1):
            taken = {}
            for name in sorted(paths, reverse=bool(number % 2)):
                image, python = paths[name]
                taken[name] = reported(bench.engine, image, [python, *command])
            if number:  # the first pair warms the disk
                ratios.append(taken["stackgen"] / taken["pip"])
                own.append(taken["stackgen"])
        ratio, seconds = statistics.median(ratios), statistics.median(own)
        bench.tell(f"{what:36}{seconds:8.4f} s, {ratio:.3f} of pip's image  (wanted within 1.10)")
        found[what] = ratio
    return found


def reported(engine: Engine, image: str, command: Sequence[str]) -> float:
    """Run a command in an image; return the seconds that it tells."""
    mounts = [Mount("/pis", str(shipped_folder("pis").resolve()), type="bind", read_only=True)]
    ran = engine.run(image, command, mounts=mounts, environment={"TF_CPP_MIN_LOG_LEVEL": "3"})
    last = ran.stdout.strip().splitlines()[-1] if ran.stdout.strip() else ran.stderr[-500:]
    if not last.startswith("{"):
        return float(last)
    values: list[float] = json.loads(last)["values_s"]
    return min(values)


def virtualenvs(bench: Bench, many: Sequence[Lock], rounds: int) -> dict[str, float]:
    """Make virtualenvs of the same stacks, where this machine has the base's Python."""
    minor = bench.base.target.python_minor
    name = next((each for each in find_interpreters() if each.endswith(f"python{minor}")), None)
    if name is None:
        bench.tell(f"virtualenv: not measured, there is no Python {minor} here")
        return {}
    base = probe(name)
    builder = VirtualenvBuilder(root=bench.folder / "virtualenvs")
    taken, new = [], []
    for lock in many[: rounds + 1]:
        before = disk(bench.folder / "virtualenvs")
        stack = Stack(lock=lock, facts=base.facts)
        taken.append(timed(lambda: builder.build(stack, base, bench.wheels).location)[0])  # noqa: B023
        new.append(disk(bench.folder / "virtualenvs") - before)
    further, size = statistics.median(taken[1:]), statistics.median(new[1:])
    # Once more where numpy's files are known already: nothing new but links.
    shutil.rmtree(builder.root / "environments")
    stack = Stack(lock=many[1], facts=base.facts)
    before = disk(builder.root)
    again = timed(lambda: builder.build(stack, base, bench.wheels).location)[0]
    linked = disk(builder.root) - before
    bench.tell("virtualenv")
    bench.tell(f"  the first                         {taken[0]:8.2f} s {new[0] / 1e6:8.0f} MB")
    bench.tell(
        f"  a further one, numpy is new       {further:8.2f} s {size / 1e6:8.0f} MB  (wanted 2 s)"
    )
    bench.tell(f"  a further one, all wheels known   {again:8.2f} s {linked / 1e6:8.1f} MB")
    return {"virtualenv": further, "virtualenv_bytes": size, "virtualenv_linked": again}


def disk(where: Path) -> int:
    """Return the bytes of all files below a folder, each inode once."""
    seen = {}
    for parent, _, names in os.walk(where):
        for name in names:
            status = Path(parent, name).lstat()
            seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


@contextlib.contextmanager
def file_server(wheels: Mapping[str, Path], where: Path) -> Iterator[str]:
    """Hand out the wheels on loopback; yield the address of the list."""
    where.mkdir()
    for path in wheels.values():
        if not (where / path.name).exists():
            (where / path.name).symlink_to(path)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(where))

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing: uv hangs up as soon as it has read what it wanted."""

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def buildkit_client() -> str:
    """Return a docker client that can build with BuildKit, "" where there is none."""
    for where in os.environ.get("PATH", "").split(os.pathsep):
        client = shutil.which("docker", path=where)
        if client is None:
            continue
        tried = subprocess.run(
            [client, "build", "--quiet", "-"],
            input="FROM scratch\nLABEL stackgen.bench=1\n",
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if not tried.returncode:
            remove(tried.stdout.strip())
            return client
    return ""


def own_base(bases: BaseBuilder, name: str, run: str, where: Path) -> Base:
    """Return a base like the named one with a layer more, so that no chain on it is known."""
    made = bases.make(name, lambda line: print(line, file=sys.stderr))
    context = where / f"base-{run}"
    context.mkdir()
    (context / "run").write_text(run)
    (context / "Dockerfile").write_text(f"FROM {made.reference}\nCOPY run /etc/stackgen-bench\n")
    tag = f"stackgen-bench-base:{run}"
    subprocess.run(
        ["docker", "build", "--quiet", "--tag", tag, str(context)],
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
        capture_output=True,
        check=True,
    )
    image = bases.engine.image(tag)
    assert image is not None
    return replace(made, reference=image.id)


def fetched(index: PackageIndex, cache: Path, chosen: Sequence[Lock]) -> Mapping[str, Path]:
    """Return all wheels, downloaded now where they were not yet."""
    every: dict[str, Artifact] = {each.sha256: each for lock in chosen for each in lock.artifacts}
    return WheelStore(cache).fetch(every.values(), downloader=index)


def found_locks(index: PackageIndex, target: Target) -> dict[tuple[str, str], Lock]:
    """Resolve what is built."""
    return locks(resolve(index, parse_requirements(*REQUESTED), target, progress=NullProgress()))


def main() -> None:
    """Run every part, print the figures, and remove what was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", default="bookworm-py311")
    parser.add_argument("--rounds", type=int, default=5, help="further stacks by each way")
    parser.add_argument("--pairs", type=int, default=9, help="of processes inside the images")
    parser.add_argument("--without-grid", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the figures for machines")
    given = parser.parse_args()
    engine, cache, run = connect(), find_paths(os.environ).cache, uuid.uuid4().hex[:8]
    with (
        contextlib.closing(engine),
        tempfile.TemporaryDirectory(prefix="bench-", dir=cache) as name,
        PackageIndex(load_config(environ=os.environ), cache) as index,
    ):
        where = Path(name)
        bases = BaseBuilder(engine, cache / "bases")
        base = own_base(bases, given.base, run, where)
        found = found_locks(index, base.target)
        many = alike(found, next(iter(found))[0])
        wheels = fetched(index, cache, [*many[: given.rounds + 1], *grid_locks(found)])
        with file_server(wheels, where / "links") as links:
            bench = Bench(
                engine=engine, base=base, folder=where, links=links, wheels=wheels,
                quiet=given.json, run=run, buildkit=buildkit_client(),
            )  # fmt: skip
            try:
                figures = first(bench, many[0])
                figures |= marginal(bench, many, given.rounds)
                figures |= inside(bench, many[0], given.pairs)
                figures |= virtualenvs(bench, many, given.rounds)
                bench.remove()
                if not given.without_grid:
                    bench.base = own_base(bases, given.base, f"{run}-grid", where)
                    figures |= grid(bench, found)
            finally:
                bench.remove()
                for tag in (run, f"{run}-grid"):
                    remove(f"stackgen-bench-base:{tag}")
        if given.json:
            print(json.dumps(figures))


if __name__ == "__main__":
    main()
