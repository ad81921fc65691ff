"""The resolver beside uv and pip-tools, warm, in one run; each figure from a process of its own.

python benchmarks/resolve.py [--runs N] [--without-pip-tools]

Medians. "Warm" means that the index pages are younger than ten minutes and all metadata are cached;
the first thing that happens here is a resolution that makes it so.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import uv

REQUESTED = ("tensorflow>=2.12", "numpy")
FIVE = ("tensorflow", "numpy", "protobuf", "h5py", "ml-dtypes")
WIDE = (
    ("torch", "numpy"),
    ("apache-airflow",),
    ("jupyterlab",),
    ("transformers[torch]",),
    ("scikit-learn", "pandas[all]"),
)
ENUMERATED, DRAWN = 2_000_000, 20_000


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure(kind: str) -> Mapping[str, float]:
    """Return figures of one kind; runs in a process of its own, so that memory is its own, too."""
    from stackgen.images.targets import probe
    from stackgen.index import PackageIndex, load_config
    from stackgen.index.closure import read_universe
    from stackgen.model.progress import NullProgress
    from stackgen.resolve.requirements import parse_requirements
    from stackgen.resolve.space import Space
    from stackgen.storage.paths import find_paths

    target = probe(sys.executable).target
    with PackageIndex(load_config(environ=os.environ), find_paths(os.environ).cache) as index:
        start = time.perf_counter()
        universe = read_universe(
            index, parse_requirements(*REQUESTED), target, progress=NullProgress()
        )
        found = {"read": time.perf_counter() - start}
    found["compile"] = statistics.median(seconds(lambda: Space(universe)) for _ in range(5))
    space = Space(universe)
    found |= {"stacks": float(space.count), "nodes": space.nodes}
    if kind == "newest":
        found["newest"] = statistics.median(seconds(space.newest) for _ in range(50))
    elif kind == "enumerate":
        taken = seconds(lambda: sum(1 for _ in islice(space.assignments(), ENUMERATED)))
        found["enumerate"] = ENUMERATED / taken
        taken = seconds(lambda: sum(1 for _ in islice(space.stacks(), DRAWN)))
        found["locks"] = DRAWN / taken
    elif kind == "sample":
        generator = random.Random(1)
        taken = seconds(lambda: sum(1 for _ in space.draw(generator, DRAWN)))
        found["sample"] = DRAWN / taken
    else:
        varied = REQUESTED_NAMES if kind == "slices" else FIVE
        found[kind] = seconds(lambda: found.update(choices=len(space.slices(varied))))
    found["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


REQUESTED_NAMES = ("tensorflow", "numpy")


def own(kind: str, runs: int) -> Mapping[str, float]:
    """Return the medians of one kind of figure over several processes."""
    rows = []
    for _ in range(runs):
        command = [sys.executable, __file__, "--kind", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def command_s(arguments: tuple[str, ...], runs: int) -> tuple[float, float, str]:
    """Return median seconds, memory in MB and output of the whole command."""
    stackgen = str(Path(sys.executable).with_name("stackgen"))
    times, peaks, text = [], [], ""
    for _ in range(runs):
        with tempfile.TemporaryFile("w+") as output:
            start = time.perf_counter()
            process = subprocess.Popen(
                [stackgen, "resolve", *arguments, "--count"],
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(process.pid, 0)
            times.append(time.perf_counter() - start)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, f"{arguments} ended with {process.returncode}"
            peaks.append(usage.ru_maxrss / 1024)
            output.seek(0)
            text = output.read().strip()
    return statistics.median(times), statistics.median(peaks), text


def uv_s(runs: int) -> float:
    """Return the median seconds in which uv, offline, finds one stack."""
    command = [uv.find_uv_bin(), "pip", "compile", "--quiet", "-", "--only-binary", ":all:"]

    def run(*more: str) -> None:
        text = "\n".join(REQUESTED).encode()
        subprocess.run([*command, *more], input=text, capture_output=True, check=True)

    run()
    return statistics.median(seconds(lambda: run("--offline")) for _ in range(runs))


def pip_tools_s() -> float:
    """Return the seconds of one run of pip-tools, after one that filled its cache."""
    options = "--only-binary :all: --use-feature=fast-deps --no-input"
    with tempfile.TemporaryDirectory() as folder:
        requested = Path(folder, "requirements.in")
        requested.write_text("\n".join(REQUESTED))
        command = [sys.executable, "-m", "piptools", "compile", str(requested), "--quiet"]
        command += ["--strip-extras", "--allow-unsafe", "--output-file", "-", "--pip-args", options]

        def run() -> None:
            subprocess.run(command, capture_output=True, check=True, cwd=folder)

        run()
        return seconds(run)


def cold_s(arguments: tuple[str, ...]) -> float:
    """Return the seconds of the whole command with an empty cache."""
    stackgen = str(Path(sys.executable).with_name("stackgen"))
    cache = tempfile.mkdtemp()
    environ = {**os.environ, "STACKGEN_CACHE": cache}
    command = [stackgen, "resolve", *arguments, "--count"]
    try:
        return seconds(
            lambda: subprocess.run(command, env=environ, capture_output=True, check=True)
        )
    finally:
        shutil.rmtree(cache)


def main() -> None:
    """Print each figure beside what is wanted of it and beside its peers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--without-pip-tools", action="store_true")
    parser.add_argument("--cold", action="store_true", help="also with an empty cache")
    parser.add_argument("--kind", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kind:
        print(json.dumps(measure(given.kind)))
        return
    command_s(REQUESTED, 1)
    _print_own(given.runs)
    one = own("newest", given.runs)["newest"]
    theirs = uv_s(given.runs)
    print(f"one stack: uv, offline              {theirs:10.3f} s")
    print(f"one stack: a further one, here      {one:10.6f} s  ({theirs / one:,.0f} times less)")
    if not given.without_pip_tools:
        slow = pip_tools_s()
        print(
            f"one stack: pip-tools, warm          {slow:10.3f} s  ({slow / theirs:.0f} times uv's)"
        )
    for arguments in (("tensorflow>=2.7", "numpy"), *WIDE):
        command_s(arguments, 1)
        taken, memory, text = command_s(arguments, given.runs)
        bound = text.startswith(">=")
        count = f"{'at least ' if bound else ''}{float(text.removeprefix('>=')):.1e} stacks"
        print(f"resolve {' '.join(arguments):28}{taken:9.2f} s {memory:6.0f} MB  {count}")
    if given.cold:
        taken = cold_s(("tensorflow>=2.7", "numpy"))
        print(f"resolve tensorflow>=2.7 numpy, cold {taken:10.1f} s  (wanted 60)")


def _print_own(runs: int) -> None:
    found = own("enumerate", runs)
    print(f"{', '.join(REQUESTED)}: {found['stacks']:.3g} stacks, {found['nodes']:.0f} nodes")
    print(f"compile, warm                       {found['compile']:10.3f} s  (wanted 0.15)")
    print(f"enumerate                           {found['enumerate']:10,.0f} stacks/s (wanted 2 M)")
    print(f"   the same as locks with hashes    {found['locks']:10,.0f} stacks/s")
    print(f"   memory                           {found['mb']:10.0f} MB (wanted 250)")
    found = own("sample", runs)
    print(f"sample uniformly                    {found['sample']:10,.0f} stacks/s (wanted 10,000)")
    found = own("slices", runs)
    print(f"slices over tensorflow, numpy       {found['slices']:10.3f} s  (wanted 0.1)")
    print(f"   memory                           {found['mb']:10.0f} MB (wanted 250)")
    found = own("five", runs)
    print(f"slices over five packages           {found['five']:10.3f} s  (wanted 4)")
    print(f"   {found['choices']:,.0f} choices, {found['mb']:.0f} MB (wanted 600)")


if __name__ == "__main__":
    main()
