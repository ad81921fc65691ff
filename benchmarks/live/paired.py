"""Compare this version of stackgen with an earlier commit, in turn, in one run.

python -m benchmarks.live.paired FOLDER [--commit 11f935e] [--rounds N] [--starts N]

Each round does each thing once with either version, the order changing from round to round: build
a further image and a further virtualenv (NumPy alone is new), run one inspection in each (an
indicator that does nothing), and start commands. Printed: medians, and the ratio now / then, what
came first in a round compared with what came first; more than 1.05 is marked. FOLDER, on the disk
of the container engine's user, gets a work tree of the commit, a virtualenv for it with our
versions of all dependencies, and a cache for each version (4 GB); a second run finds them there.
Ten minutes, three of them for downloads, on a machine where nothing else runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
BASE = "bookworm-py311"
COMMANDS = (("--version",), ("--help",), ("explore", "--help"), ("advise", "--help"))
DONE = ("image", "virtualenv", "inspection in a container", "inspection in a virtualenv")
NOTHING = """
import harness
INDICATOR = {"summary": "does nothing", "component": "python", "one_shot": True, "parameters": {}}

def setup(parameters):
    return harness.Operation(lambda: None)

if __name__ == "__main__":
    harness.main(INDICATOR, setup)
"""
WORSE = 1.05


@dataclass(frozen=True)
class Version:
    """One version: where it lies, and the process of it that builds and inspects."""

    tree: Path
    python: str
    cache: Path

    @property
    def environ(self) -> dict[str, str]:
        """Return what its processes get; the user's own stackgen is left alone."""
        own = {"PYTHONPATH": str(self.tree), "STACKGEN_CACHE": str(self.cache)}
        return {**os.environ, **own, "STACKGEN_KB": str(self.cache / "kb.db")}

    def start_s(self, words: tuple[str, ...]) -> float:
        """Return the seconds that a command takes from its start to its end."""
        command = [self.python, "-m", "stackgen", *words]
        start = time.perf_counter()
        subprocess.run(command, env=self.environ, cwd=self.tree, stdout=subprocess.DEVNULL)  # noqa: PLW1510
        return time.perf_counter() - start

    @contextmanager
    def working(self, rounds: int) -> Iterator[Callable[[str, int], float]]:
        """Yield what has its process do something (name, number), and returns the seconds."""
        worker = subprocess.Popen(
            [self.python, __file__, str(self.cache), "--work", "--rounds", str(rounds)],
            env=self.environ, cwd=self.tree, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert worker.stdin
        assert worker.stdout
        lines = iter(worker.stdout)

        def do(name: str, number: int) -> float:
            assert worker.stdin
            worker.stdin.write(json.dumps([name, number]) + "\n")
            worker.stdin.flush()
            for line in lines:
                if line.startswith("took "):
                    return float(line.split()[1])
            raise SystemExit(f"{self.tree}: the process that works there ended")

        try:
            do("nothing", 0)
            yield do
        finally:
            worker.stdin.close()
            worker.wait()


def earlier(commit: str, folder: Path) -> Version:
    """Return the earlier version, checked out and installed now or before."""
    import uv

    tree, python = folder / "tree", str(folder / "venv" / "bin" / "python")
    if not tree.exists():
        git = ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(tree), commit]
        subprocess.run(git, check=True)
    if not Path(python).exists():
        pins = folder / "constraints.txt"
        named = ((each.metadata["Name"], each.version) for each in distributions())
        pins.write_text("".join(f"{n}=={v}\n" for n, v in named if n != "stackgen"))
        tool = uv.find_uv_bin()
        subprocess.run(
            [tool, "venv", "-q", "--python", sys.executable, str(folder / "venv")], check=True
        )
        install = [tool, "pip", "install", "-q", "-p", python, "-c", str(pins), "-e", str(tree)]
        subprocess.run(install, check=True)
    return Version(tree, python, folder / "cache-then")


@dataclass
class Worker:
    """Builds and inspects, in the version whose code this process imports.

    images, bench: modules of that version. stack: closes what is opened. own: its benchmark of
    images, with its engine, base and wheels. built: the newest environment of each kind.
    """

    images: Any
    bench: Any
    stack: ExitStack
    own: Any
    locks: Sequence[Any]
    layers: Any
    local: Any
    virtualenvs: Any
    call: Any
    built: dict[str, Any] = field(default_factory=dict)
    executors: dict[str, Any] = field(default_factory=dict)

    def build_image(self, number: int) -> None:
        """Build the image of one more stack."""
        setting = (("STACKGEN_BENCHMARK", self.own.run),)
        facts = self.own.base.facts
        wanted = self.images.Stack(lock=self.locks[number], facts=facts, settings=setting)
        varied = frozenset({self.images.FRAMEWORK, "numpy"})
        self.built["docker"] = self.layers.build(wanted, self.own.base, self.own.wheels, varied)
        self.own.tags.append(self.built["docker"].location)

    def build_virtualenv(self, number: int) -> None:
        """Build the virtualenv of one more stack."""
        wanted = self.images.Stack(lock=self.locks[number], facts=self.local.facts)
        made = self.virtualenvs.build(wanted, self.local, self.own.wheels)
        self.built["virtualenv"] = made

    def inspect(self, kind: str, name: str) -> None:
        """Run one inspection in the newest environment of a kind; its base has this name."""
        if kind not in self.executors:
            opened = self.bench.opened(name, self.bench.ExecutorChoice(kind))
            live = self.stack.enter_context(opened)
            backend = getattr(live, "backend", None) or live.workshop
            self.executors[kind] = backend.executor
        arm = self.bench.Arm(
            name=kind,
            environment=self.built[kind],
            call=self.call,
            limits=self.bench.limits(0),
            samples=1,
        )
        (result,) = self.executors[kind].inspect([arm.plan()])
        self.bench.seen(result)


def prepared(stack: ExitStack, rounds: int) -> Worker:
    """Return a worker with the wheels of so many further stacks.

    Names that differ between both versions are taken from either.
    """
    images = __import__("benchmarks.images", fromlist=["images"])
    bench = __import__("benchmarks.live.bench", fromlist=["bench"])
    paths = getattr(images, "find_paths", None) or images.find_places
    shipped = getattr(bench, "shipped_folder", None) or bench.folder
    cache, engine = paths(os.environ).cache, images.connect()
    cache.mkdir(parents=True, exist_ok=True)
    run = uuid.uuid4().hex[:8]
    stack.enter_context(closing(engine))
    where = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache)))
    index = stack.enter_context(images.PackageIndex(images.load_config(environ=os.environ), cache))
    stack.callback(images.remove, f"stackgen-bench-base:{run}")
    base = images.own_base(images.BaseBuilder(engine, cache / "bases"), BASE, run, where)
    found = images.found_locks(index, base.target)
    locks = images.alike(found, next(iter(found))[0])[: rounds + 1]
    own = images.Bench(
        engine=engine, base=base, folder=where, links="", quiet=True, run=run, buildkit="",
        wheels=images.fetched(index, cache, locks),
    )  # fmt: skip
    stack.callback(own.remove)
    script = where / "nothing.py"
    script.write_text(NOTHING)
    indicators = bench.load_indicators(shipped("pis"), [script])
    minor = base.target.python_minor
    return Worker(
        images=images,
        bench=bench,
        stack=stack,
        own=own,
        locks=locks,
        layers=own.builder("first"),
        local=images.probe(next(p for p in images.find_interpreters() if p.endswith(minor))),
        virtualenvs=images.VirtualenvBuilder(root=where / "virtualenvs"),
        call=bench.bind(bench.find(indicators, "nothing"), {"threads": "1"}),
    )


def work(rounds: int) -> None:
    """Do what is read from standard input."""
    with ExitStack() as stack:
        worker = prepared(stack, rounds)
        actions: dict[str, Callable[[int], None]] = {
            "nothing": lambda _: None,
            "image": worker.build_image,
            "virtualenv": worker.build_virtualenv,
            "inspection in a container": lambda _: worker.inspect("docker", BASE),
            "inspection in a virtualenv": lambda _: worker.inspect(
                "virtualenv", worker.local.python
            ),
        }
        for line in sys.stdin:
            name, number = json.loads(line)
            start = time.perf_counter()
            actions[name](number)
            print(f"took {time.perf_counter() - start}", flush=True)


class Pair(NamedTuple):
    """Seconds of both versions in one round, and whether this one came first."""

    then: float
    now: float
    now_first: bool


def ratio_of(pairs: Sequence[Pair]) -> float:
    """Return the ratio now / then, which of them came first being without influence.

    What comes first in a round pays for what the machine still does after the step before (a
    container starts in 0.45 s then, in 0.30 s after that); so each place is compared by itself.
    """
    ratios = []
    for first in (True, False):
        if own := [each for each in pairs if each.now_first is first]:
            late = [each for each in pairs if each.now_first is not first] or own
            now = statistics.median(each.now for each in own)
            ratios.append(now / statistics.median(each.then for each in late))
    return statistics.geometric_mean(ratios)


def main() -> None:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", default="11f935e")
    parser.add_argument("--rounds", type=int, default=8, help="further stacks, and inspections")
    parser.add_argument("--starts", type=int, default=12, help="of each command")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.rounds)
        return
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    then = earlier(given.commit, folder)
    now = Version(ROOT, sys.executable, folder / "cache-now")
    taken: dict[str, list[Pair]] = {}

    def note(what: str, number: int, did: tuple[Callable[[], float], Callable[[], float]]) -> None:
        first = number % 2
        one, other = did[first](), did[1 - first]()
        pair = Pair(other, one, True) if first else Pair(one, other, False)
        if number or what in ("image", "virtualenv"):  # the first of the others warms up
            name = f"first {what}" if not number else what
            taken.setdefault(name, []).append(pair)
            print(f"{name}: then {pair.then:.3f} s, now {pair.now:.3f} s", file=sys.stderr)

    with then.working(given.rounds) as old, now.working(given.rounds) as new:
        for number in range(given.rounds + 1):
            for what in DONE:
                note(what, number, (partial(old, what, number), partial(new, what, number)))
    for number in range(given.starts + 1):
        for words in COMMANDS:
            starts = partial(then.start_s, words), partial(now.start_s, words)
            note(f"stackgen {' '.join(words)}", number, starts)
    print(f"{'seconds, medians':32}{given.commit:>10}{'now':>10}{'ratio':>8}")
    for what, pairs in taken.items():
        old_s = statistics.median(each.then for each in pairs)
        new_s, ratio = statistics.median(each.now for each in pairs), ratio_of(pairs)
        mark = "  worse" if ratio > WORSE else ""
        print(f"{what:32}{old_s:10.3f}{new_s:10.3f}{ratio:8.3f}{mark}   ({len(pairs)} pairs)")


if __name__ == "__main__":
    main()
