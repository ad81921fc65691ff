"""One block of ``benchmarks/indicators.py``: times operations by our harness and by peers.

Standalone: it runs in any interpreter that has NumPy or PyTorch, and reads its jobs from standard
input. The library is imported once; each job is a fork of that process, so that all of them are
alike, and none meets what another one left.
"""

import importlib
import json
import math
import os
import runpy
import statistics
import sys
import time
import timeit
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SAMPLES = 100
SAMPLE_S, WARM_UP_S = 0.002, 0.2


def ours(job: dict[str, Any], place: Path) -> list[float]:
    """Return the seconds of an operation, sample by sample, as one of our indicators says."""
    sys.argv = [job["script"], *job["arguments"], "--threads", "1", "--samples", str(SAMPLES)]
    sys.argv += ["--output", str(place)]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    runpy.run_path(job["script"], run_name="__main__")
    document = json.loads(place.read_text())
    if document["outcome"] != "ok":
        raise RuntimeError(document["reason"])
    return [float(each) for each in document["values_s"]]


def peers(job: dict[str, Any]) -> list[float]:
    """Return the seconds of a statement, sample by sample; samples are as many and long as ours."""
    names: dict[str, Any] = {}
    if job["library"] == "torch":
        torch = importlib.import_module("torch")
        with torch.inference_mode():
            exec(job["setup"], names)  # noqa: S102 # a line of indicators.py
            timer = torch.utils.benchmark.Timer(job["statement"], globals=names, num_threads=1)
            return samples(lambda number: timer.timeit(number).mean)
    exec(job["setup"], names)  # noqa: S102 # a line of indicators.py
    # Local names, as set-ups of timeit make them; it would make the inputs anew for each sample.
    local = "; ".join(f"{name} = _given[{name!r}]" for name in names if not name.startswith("_"))
    plain = timeit.Timer(job["statement"], local, globals={"_given": names})
    return samples(lambda number: plain.timeit(number) / number)


def samples(timed: Callable[[int], float]) -> list[float]:
    """Warm up, find how many operations are a sample, and take them."""
    number, fastest, start = 1, math.inf, time.perf_counter()
    while time.perf_counter() - start < WARM_UP_S:
        fastest = min(fastest, timed(number))
        number = max(1, round(SAMPLE_S / fastest))
    return [timed(number) for _ in range(SAMPLES)]


def run(job: dict[str, Any], place: Path) -> list[float]:
    """Return what a job takes."""
    return ours(job, place) if "script" in job else peers(job)


def forked(job: dict[str, Any], place: Path) -> tuple[float, float]:
    """Run a job in a fork of this process; return its fastest sample and its median, in seconds."""
    place.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            place.write_text(json.dumps(run(job, place)))
            status = 0
        except BaseException:  # noqa: BLE001 # the parent goes on as itself
            traceback.print_exc()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if ended:
        raise SystemExit(f"{job} failed")
    found = json.loads(place.read_text())
    return min(found), statistics.median(found)


def main() -> None:
    """Print what each job takes, in their order, as a line of JSON."""
    requested = json.load(sys.stdin)
    importlib.import_module(requested["library"])
    if requested["library"] == "torch":
        importlib.import_module("torch.utils.benchmark")
    place = Path(requested["place"])
    print(json.dumps([forked(job, place) for job in requested["jobs"]]))


if __name__ == "__main__":
    main()
