"""Record blocks of stackgen's own, on TensorFlow, with an arm that does 5 % more work.

python -m benchmarks.live.planted [--blocks 42] [--go-on] [--output FILE]

Blocks are planned and run as in a campaign: baseline, its twin, a third one that is equal, and one
with 21 products of matrices in place of 20; beside them the pure-Python control. Written after each
block: the fastest sample by indicator, arm and block, in nanoseconds. tests/test_recorded_live.py
judges what is recorded. 42 blocks are the fifth look; they take about 15 minutes on a machine where
nothing else runs, which it should be: this is the recording that is kept.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.live.bench import CAMPAIGN, Bench, call_of, opened, ratio, reported, seen
from stackgen import __version__
from stackgen.campaign.indicators import limits
from stackgen.measure import SAMPLES, Design, block_contrasts, calibration_plan, plan_block
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import InspectionPlan, Role
from stackgen.model.stacks import Environment

STACK, PYTHON, SIZE = "tensorflow-cpu==2.16.2", "3.11", 256
VARIABLE = "PLANTED_PRODUCTS"
# "020" is the same number: a stack of another name, and nothing else.
BASELINE, THIRD, PLANTED = "20", "020", "21"
ARMS = {BASELINE: "A1", THIRD: "A3", PLANTED: "P5"}
SEED = 1
RECORDED = Path(__file__).parent.parent.parent / "tests/recorded/tensorflow-live.json.gz"

Times = dict[str, dict[str, dict[str, int]]]


@dataclass(slots=True)
class Recording:
    """What was recorded so far.

    about: how. fastest_ns: by indicator, by arm, by block.
    """

    about: dict[str, str]
    fastest_ns: Times = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Return how many blocks there are."""
        arms = self.fastest_ns.get("matmul", {})
        return max((int(block) for each in arms.values() for block in each), default=0)

    def add(self, indicator: str, arm: str, block: int, seconds: float) -> None:
        """Note the fastest sample of one process."""
        arms = self.fastest_ns.setdefault(indicator, {})
        arms.setdefault(arm, {})[str(block)] = round(seconds * 1e9)

    def write(self, path: Path) -> None:
        """Write all of it; equal recordings are equal bytes."""
        document = {"about": self.about, "fastest_ns": self.fastest_ns}
        text = json.dumps(document, sort_keys=True).encode()
        path.write_bytes(gzip.compress(text, mtime=0))


def read(path: Path) -> Recording:
    """Return a recording."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    return Recording(document["about"], document["fastest_ns"])


def design_of(bench: Bench) -> Design:
    """Return what every block holds; the loops are found on the baseline."""
    stack = bench.environment(STACK)
    baseline, third, planted = (_with(stack, number) for number in ARMS)
    calls = {
        "matmul": call_of("planted_tensorflow", {"size": SIZE}),
        "pure": call_of("python/pure", {}),
    }
    loops: dict[IndicatorId, int] = {}
    for call in calls.values():
        plan = calibration_plan(baseline, call, campaign_id=CAMPAIGN, limits=limits(0))
        loops[call.id] = seen(bench.inspect(plan)).loops
    return Design(
        campaign_id=CAMPAIGN,
        seed=SEED,
        baseline=baseline,
        candidates=(third, planted),
        calls=(calls["matmul"],),
        control=calls["pure"],
        loops=loops,
        limits=limits(0),
    )


def _with(environment: Environment, number: str) -> Environment:
    """Return a stack with so many products: the same files, another setting."""
    return replace(environment, stack=replace(environment.stack, settings=((VARIABLE, number),)))


def record(bench: Bench, recording: Recording, blocks: int, output: Path) -> None:
    """Run the blocks that are missing, and write each."""
    design = design_of(bench)
    for block in range(recording.blocks + 1, blocks + 1):
        plans = plan_block(design, block)
        for plan, inspection in zip(plans, bench.together(plans), strict=True):
            best_s = seen(inspection).best_s
            recording.add(_indicator(design, plan), _arm(plan), block, best_s)
        recording.write(output)
        print(f"block {block} of {blocks}", flush=True)


def _indicator(design: Design, plan: InspectionPlan) -> str:
    return "pure" if plan.call.id == design.control.id else "matmul"


def _arm(plan: InspectionPlan) -> str:
    if plan.role is Role.TWIN:
        return "A2"
    return ARMS[dict(plan.environment.stack.settings)[VARIABLE]]


def about(bench: Bench, stack: str) -> dict[str, str]:
    """Return how it is recorded."""
    return {
        "stack": stack,
        "base": bench.backend.base.name,
        "executor": "virtualenv",
        "machine": dict(bench.backend.machine.identity).get("cpu_name", ""),
        "threads": str(limits(0).threads),
        "size": str(SIZE),
        "samples": str(SAMPLES),
        "seed": str(SEED),
        "stackgen": __version__,
    }


def report(recording: Recording) -> None:
    """Print every pair, as stackgen judges it."""
    for indicator, arms in recording.fastest_ns.items():
        names: Sequence[str] = sorted(arms)
        for place, a in enumerate(names):
            for b in names[place + 1 :]:
                one, two = ({int(k): float(v) for k, v in arms[x].items()} for x in (a, b))
                found = ratio(StackId(a), StackId(b), block_contrasts(a_s=one, b_s=two))
                print(f"{indicator:7} {a} beside {b}: {reported(found)}, {found.blocks} blocks")


def main() -> None:
    """Record, and print what it shows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=42)
    parser.add_argument("--go-on", action="store_true", help="keep the blocks that are there")
    parser.add_argument("--output", type=Path, default=RECORDED)
    options = parser.parse_args()
    with opened(PYTHON) as bench:
        recording = Recording(about(bench, STACK))
        if options.go_on and options.output.exists():
            recording = read(options.output)
        record(bench, recording, options.blocks, options.output)
    report(recording)


if __name__ == "__main__":
    main()
