"""Measure the observations that come with stackgen, and write them to ``kb/seed``.

``python -m tools.seed 35m`` (``make seed TIME=35m``) goes through the steps below, one campaign
after the other. A step has at least two campaigns, and more until its half widths are small
enough; what is there already is skipped, so the next call goes on. All results are in a knowledge
base of their own; ``--list`` prints how far each step is, and measures nothing.
"""

import argparse
import gzip
import hashlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.graph import EvidenceGraph, StackNode, repeats_on
from stackgen.knowledge.public import Redaction
from stackgen.knowledge.seed import load_seeds
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.measure.meta_analysis import learned_prior
from stackgen.measure.posterior import Array
from stackgen.model.identity import IndicatorId
from stackgen.model.options import parse_duration
from stackgen.storage.paths import shipped_folder

BASES = ("3.11", "3.12", "3.13", "3.10")
"""Versions of Python of which a virtualenv is made: any machine with an interpreter has that."""
LEAST_CAMPAIGNS, MOST_CAMPAIGNS = 2, 8
HALF_WIDTH = 0.03
"""Of a ratio to the newest stack, at 95 %, of the indicators that have to be precise."""
MOST_BYTES = 5_000_000
_READY = re.compile(r"Ready \(\d+ of (\d+)\)")  # progress of `explore`: how many take part
_REFUSALS = (2, 4, 8, 9, 10)  # usage, resolution, index, disk, database: it would say it again


@dataclass(frozen=True, slots=True)
class Step:
    """What one campaign measures: stacks, the newest of which is the baseline, and indicators.

    minutes: what a campaign may take at most, builds included; most need half of it.
    precise: indicators of which the half width counts.
    by_name: only run where --step names it, since it downloads gigabytes.
    """

    name: str
    requirement: str
    indicators: tuple[str, ...]
    precise: tuple[str, ...]
    minutes: int
    options: tuple[str, ...] = ()
    by_name: bool = False

    def seed(self, base: str, number: int) -> int:
        """Return the seed of a campaign: it is known again by that."""
        digest = hashlib.sha256(f"{self.name} {base}".encode()).hexdigest()
        return int(digest[:6], 16) * 100 + number

    def command(self, base: str, number: int, budget_s: float, database: Path) -> list[str]:
        """Return the command that measures a campaign, or goes on with it."""
        indicators = [word for each in self.indicators for word in ("--pi", each)]
        own = [
            "--base",
            base,
            "--seed",
            str(self.seed(base, number)),
            "--budget",
            f"{budget_s:.0f}s",
        ]
        fixed = ["--executor", "virtualenv", "--strategy", "newest", "--stacks", "20"]
        start = [sys.executable, "-m", "stackgen", "explore", self.requirement]
        return [*start, *self.options, *indicators, *own, *fixed, "--kb", str(database)]


STEPS = (
    Step(
        "tensorflow",
        "tensorflow-cpu>=2.12",
        ("tensorflow/matmul", "tensorflow/cnn"),
        ("tensorflow/matmul", "tensorflow/cnn"),
        30,
        ("--fix", "numpy", "--param", "step=training"),
    ),
    Step(
        "numpy",
        "numpy>=1.26",
        ("numpy/matmul", "numpy/sort", "numpy/fft", "numpy/reduction", "numpy/ufunc"),
        ("numpy/matmul",),
        12,
    ),
    Step(
        "tensorflow inference",
        "tensorflow-cpu>=2.12",
        ("tensorflow/cnn",),
        ("tensorflow/cnn",),
        20,
        ("--fix", "numpy", "--param", "step=inference"),
    ),
    # Without a CPU wheel, PyTorch brings gigabytes for GPUs: then the step is left out.
    Step(
        "torch",
        "torch==2.13.0+cpu",
        ("torch/matmul", "torch/cnn"),
        ("torch/matmul", "torch/cnn"),
        12,
        ("--vary", "numpy", "--param", "step=training"),
    ),
    # Ten times as many locks hold it as tensorflow-cpu: 5.7 GB to download, 23 GB of disk.
    Step(
        "tensorflow with GPU",
        "tensorflow>=2.12",
        ("tensorflow/matmul", "tensorflow/cnn"),
        ("tensorflow/matmul", "tensorflow/cnn"),
        45,
        ("--fix", "numpy", "--param", "step=training"),
        by_name=True,
    ),
    # What PyPI has for Linux, for GPUs; CPUs run it too. Every third minor release: 2 GB each.
    Step(
        "torch with GPU",
        "torch>=2.2" + "".join(f",!=2.{minor}.*" for minor in (3, 4, 6, 7, 9, 10, 12, 13)),
        ("torch/matmul", "torch/cnn"),
        ("torch/matmul", "torch/cnn"),
        45,
        ("--fix", "numpy", "--param", "step=training"),
        by_name=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step is on this machine.

    campaigns: numbers of those that compared anything. half_width: the largest that counts.
    """

    campaigns: tuple[int, ...]
    half_width: float

    @property
    def is_done(self) -> bool:
        """Return whether nothing remains to be measured."""
        count = len(self.campaigns)
        precise = self.half_width <= HALF_WIDTH
        return count >= LEAST_CAMPAIGNS and (precise or count >= MOST_CAMPAIGNS)


def progress_of(database: Database, step: Step, base: str) -> Progress:
    """Return how far a step is on this machine.

    A campaign that compared fewer stacks than another one of the step, here or elsewhere, does
    not count: it was ended early, and goes on.
    """
    machine = this_machine().id
    numbers = {step.seed(base, number): number for number in range(1, MOST_CAMPAIGNS + 1)}
    campaigns = {
        each.id: numbers[each.seed] for each in database.campaigns() if each.seed in numbers
    }
    precise = {c.id for c in database.calls() if c.indicator.name in step.precise}
    anywhere = [each for each in database.contrasts() if each.campaign_id in campaigns]
    found = [each for each in anywhere if each.machine_id == machine]
    rows = [each for each in found if each.indicator_id in precise]
    most = max((len(each.stacks) for each in anywhere if each.indicator_id in precise), default=0)
    compared = {campaigns[each.campaign_id] for each in rows if len(each.stacks) == most}
    widths = [width for indicator, width in half_widths(found) if indicator in precise]
    return Progress(tuple(sorted(compared)), max(widths, default=math.inf))


def half_widths(rows: Sequence[CampaignContrasts]) -> Iterator[tuple[IndicatorId, float]]:
    """Yield the half width at 95 % of each candidate's ratio to its baseline, as advice has it.

    The spread between campaigns is part of it: a second campaign may differ by more than blocks
    of the first one do.
    """
    graphs = evidence_graphs(rows)
    priors = learned_priors(rows)
    pairs = {(each.indicator_id, each.baseline, each.candidates) for each in rows}
    for indicator, baseline, candidates in sorted(pairs):
        fit = graphs[indicator].fit(baseline, None, prior=priors[indicator])
        low, high = fit.log_ratios(baseline, candidates).bounds
        yield from ((indicator, math.expm1(width)) for width in (high - low) / 2)


def learned_priors(rows: Sequence[CampaignContrasts]) -> Mapping[IndicatorId, Array]:
    """Return the prior of the spread between campaigns that the other indicators leave to each.

    For a machine that has none: how well machines repeat differs.
    """
    machines = sorted({each.machine_id for each in rows})
    known = [
        repeats_on(machine, evidence_graphs([r for r in rows if r.machine_id == machine]))
        for machine in machines
    ]
    indicators = sorted({each.indicator_id for each in rows})
    return {i: learned_prior(others=[each.without(i) for each in known]) for i in indicators}


def evidence_graphs(rows: Sequence[CampaignContrasts]) -> Mapping[IndicatorId, EvidenceGraph]:
    """Return the evidence graph of each indicator; no two stacks count as equivalent."""
    by_indicator: dict[IndicatorId, list[CampaignContrasts]] = {}
    for each in rows:
        by_indicator.setdefault(each.indicator_id, []).append(each)
    nodes = {stack: StackNode(key=stack) for each in rows for stack in each.stacks}
    return {indicator: EvidenceGraph(own, nodes) for indicator, own in by_indicator.items()}


def half_widths_of_blocks(rows: Sequence[CampaignContrasts]) -> Iterator[float]:
    """Yield the half width of each candidate's ratio in one campaign, by the noise of blocks."""
    for row in rows:
        reach = float(stats.t.ppf(0.975, row.freedom))
        for place in range(len(row.candidates)):
            yield math.expm1(reach * math.sqrt(row.covariance[place][place]))


def measure(step: Step, base: str, number: int, budget_s: float, database: Path) -> int:
    """Measure a campaign until it is decided, precise enough, or out of time; return exit code.

    The first stacks are compared before the others are built: all have to be compared.
    """
    command = step.command(base, number, budget_s, database)
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    planned = 0
    for line in process.stderr or ():
        print(f"  {line}", end="", flush=True)
        if ready := _READY.match(line):
            planned = int(ready[1])
        if line.startswith("After "):
            with open_database(database) as found:
                own = {
                    each.id for each in found.campaigns() if each.seed == step.seed(base, number)
                }
                names = {c.id for c in found.calls() if c.indicator.name in step.precise}
                rows = [
                    each
                    for each in found.contrasts()
                    if each.campaign_id in own and each.indicator_id in names
                ]
            whole = min((len(each.stacks) for each in rows), default=0) >= planned
            width = max(half_widths_of_blocks(rows), default=math.inf)
            if whole and width <= HALF_WIDTH * math.sqrt(LEAST_CAMPAIGNS):
                process.terminate()  # as Ctrl-C does; another campaign adds more than more blocks
    return process.wait()


def run(database: Path, steps: Sequence[Step], bases: Sequence[str], seconds: float) -> None:
    """Measure what is missing, one campaign of each step after the other."""
    end = time.monotonic() + seconds
    left_out: set[Step] = set()
    for base in bases:
        for number in range(1, MOST_CAMPAIGNS + 1):
            for step in steps:
                with open_database(database) as found:
                    progress = progress_of(found, step, base)
                if progress.is_done or number in progress.campaigns or step in left_out:
                    continue
                left_s = end - time.monotonic()
                if left_s < 60:
                    print("The time is spent: the same command goes on from here.")
                    return
                print(f"{step.name}, Python {base}, campaign {number}", flush=True)
                code = measure(step, base, number, min(left_s, step.minutes * 60), database)
                if code in _REFUSALS:
                    left_out.add(step)


def write(database: Path, output: Path) -> int:
    """Write the public export; return its size in bytes.

    Raises:
        SystemExit: it is larger than what may be shipped. The former one stays then.
    """
    with open_database(database) as found:
        content = "".join(found.export(Redaction())).encode("ascii")
    packed = gzip.compress(content, mtime=0)  # equal rows give equal bytes
    if len(packed) > MOST_BYTES:
        raise SystemExit(f"the export has {len(packed):,} bytes, more than {MOST_BYTES:,}")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(packed)
    return len(packed)


def main() -> None:
    """Measure, or list how far the steps are, and write what there is."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.seed")
    parser.add_argument(
        "time", nargs="?", default="35m", help="as in 35m; what is begun may end later"
    )
    parser.add_argument("--list", action="store_true", help="measure nothing")
    parser.add_argument("--base", action="append", help=f"of {', '.join(BASES)}")
    names = [each.name for each in STEPS]
    parser.add_argument("--step", action="append", choices=names, help="by default the small ones")
    parser.add_argument("--kb", type=Path, default=Path(".seed/stackgen.db"))
    parser.add_argument(
        "--output", type=Path, default=shipped_folder("kb") / "seed/stackgen-seed.jsonl.gz"
    )
    options = parser.parse_args()
    os.environ["STACKGEN_SEED"] = ""
    options.kb.parent.mkdir(parents=True, exist_ok=True)
    bases = options.base or BASES
    wanted = options.step or [each.name for each in STEPS if not each.by_name]
    steps = [each for each in STEPS if each.name in wanted]
    with open_database(options.kb) as database:
        load_seeds(database, options.output.parent)  # what was measured before, perhaps elsewhere
    if not options.list:
        run(options.kb.absolute(), steps, bases, parse_duration(options.time))
    with open_database(options.kb) as database:
        for base in bases:
            for step in steps:
                progress = progress_of(database, step, base)
                state = "done" if progress.is_done else "open"
                print(
                    f"{state}  Python {base}  {step.name}: {len(progress.campaigns)} campaigns, "
                    f"half width {progress.half_width:.1%} or less"
                )
    if not options.list:
        print(f"{options.output}: {write(options.kb, options.output):,} bytes")


if __name__ == "__main__":
    main()
