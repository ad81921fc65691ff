"""A grid measured in full, and races on it: how good are winners, and how many inspections.

python -m benchmarks.live.grid --folder DIR [--exhaustive 40m] [--race 8m] [--seeds 1,2,3] [--pi X]

Four TensorFlow by four NumPy versions. First ``stackgen explore --strategy exhaustive`` (every
stack in every block), then ``--strategy racing`` with a seed and a knowledge base of its own each.
The winner of a race is the leader of its search, unless the comparison shows another to be faster
(docs/adr/0021); how far it is from the best is told by the blocks
of the exhaustive run, which it did not see. What was finished in the same DIR is not measured
again, and what was interrupted goes on. On a machine where nothing else runs a block of all 16
takes about a minute, so that 40 minutes are 26 blocks and more: a look at which equal stacks can be
told to be equal. A race spends what is left of its budget on comparing the best ones head to head.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.bench import ratio, reported
from stackgen.knowledge.database import open_database
from stackgen.measure import MARGIN, block_times
from stackgen.model.evidence import Effect
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Inspection, Role

REQUESTED = ("tensorflow-cpu>=2.14,<2.18", "numpy>=1.23.5,<2")
STACKS, PYTHON = 16, "3.11"
INDICATORS = ("tensorflow/mlp", "numpy/ufunc")  # both differ from version to version
WANTED = 1 / 3  # of the inspections of the exhaustive run
REPORTED = (0, 3, 6)  # done; no evidence of a difference; a control failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What one run of the command printed, and what is in its knowledge base."""

    printed: Mapping[str, Any]
    inspections: tuple[Inspection, ...]

    @property
    def winner(self) -> tuple[StackId, str]:
        """Return what a race found, unless something else is shown to beat it: id and label."""
        ranking, search = self.printed["ranking"], self.printed["search"] or {}
        leads = (row for row in ranking if row["stack_id"] == search.get("leader") and row["best"])
        first = next(leads, ranking[0])
        return StackId(first["stack_id"]), first["label"]

    @property
    def controls_failed(self) -> list[str]:
        """Return the names of controls that failed."""
        return [each["name"] for each in self.printed["health"]["controls"] if each["failed"]]

    @property
    def counts(self) -> Counter[str]:
        """Return how many inspections there were: trials, of a search, in other blocks."""
        return Counter(_kind(each) for each in self.inspections)

    @property
    def minutes(self) -> dict[str, float]:
        """Return the machine time of each kind."""
        found: dict[str, float] = {}
        for each in self.inspections:
            found[_kind(each)] = found.get(_kind(each), 0.0) + each.duration_s / 60
        return found

    def compared(self, a: StackId, b: StackId) -> Effect:
        """Return how much faster A is than B, by the geometric mean over the indicators."""
        logs: dict[object, list[float]] = {}
        names = [
            each["indicator_id"]
            for each in self.printed["indicators"]
            if not _is_control(each["label"])
        ]
        for name in names:
            one, two = (
                block_times(self.inspections, indicator=IndicatorId(name), stack=x) for x in (a, b)
            )
            for block in sorted(one.keys() & two.keys()):
                logs.setdefault(block, []).append(math.log(two[block] / one[block]))
        whole = [each for each in logs.values() if len(each) == len(names)]
        return ratio(a, b, [math.fsum(each) / len(each) for each in whole])


def _kind(inspection: Inspection) -> str:
    if inspection.role is Role.CALIBRATION:
        return "trial"
    return "search" if inspection.role is Role.SEARCH else "blocks"


def _is_control(label: str) -> bool:
    return label.startswith("python/pure")


def explore(options: argparse.Namespace, strategy: str, seed: int, budget: str) -> Explored:
    """Run the command, or read what it printed before; it goes on where it was interrupted."""
    kb = options.folder / f"{strategy}-{seed}.db"
    document = kb.with_suffix(".json")
    if not document.exists():
        document.write_text(_run(options, strategy, seed, budget, kb))
    with open_database(kb) as database:
        inspections = tuple(database.inspections())
    return Explored(printed=json.loads(document.read_text()), inspections=inspections)


def _run(options: argparse.Namespace, strategy: str, seed: int, budget: str, kb: Path) -> str:
    """Return what the command prints."""
    command = [sys.executable, "-m", "stackgen", "explore", *REQUESTED, "--json", "--kb", str(kb)]
    command += ["--executor", "virtualenv", "--base", PYTHON, "--stacks", str(options.stacks)]
    command += ["--strategy", strategy, "--seed", str(seed), "--budget", budget]
    command += [part for name in options.pi for part in ("--pi", name)]
    log = kb.with_suffix(".log")
    print(f"{strategy}, seed {seed}, at most {budget} (its words: {log.name})", flush=True)
    with log.open("a") as words:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=words, text=True, check=False, env=os.environ
        )
    if done.returncode not in REPORTED:
        raise SystemExit(f"exit code {done.returncode}; {log} tells why")
    return done.stdout


def standing(every: Explored) -> None:
    """Print the whole grid."""
    for each in every.printed["failed"]:
        print(f"  failed: {each['label']}: {each['outcome']}: {each['reason']}")
    baseline = next(row for row in every.printed["ranking"] if row["is_baseline"])
    for row in every.printed["ranking"]:
        found = every.compared(StackId(row["stack_id"]), StackId(baseline["stack_id"]))
        words = "baseline" if row["is_baseline"] else reported(found)
        print(f"  {row['label']:44} {words}")
    print(f"  {_spent(every)}; stopped: {every.printed['stopped']}")


def _spent(found: Explored) -> str:
    parts = [f"{many} {kind}" for kind, many in sorted(found.counts.items())]
    failed = "".join(f"; CONTROL FAILED: {each}" for each in found.controls_failed)
    return f"inspections: {', '.join(parts)}; {sum(found.minutes.values()):.0f} min{failed}"


def beside(every: Explored, race: Explored, seed: int) -> tuple[bool, float]:
    """Print how a race ended; return whether its winner is within the margin, and its share."""
    best, _ = every.winner
    winner, label = race.winner
    lost = every.compared(best, winner).ratio if winner != best else 1.0
    share = _measured(race) / _measured(every)
    good = math.log(lost) <= math.log1p(MARGIN)
    interval = "the same stack" if winner == best else reported(every.compared(best, winner))
    print(f"  seed {seed}: {label}")
    print(f"    the best beside it: {interval}: {'within' if good else 'NOT within'} {MARGIN:.0%}")
    if answer := race.printed.get("answer"):
        print(f"    the report answers: {answer}")
    print(f"    {_spent(race)}; stopped: {race.printed['stopped']}")
    print(f"    search and blocks: {share:.2f} of the exhaustive run's (wanted {WANTED:.2f})")
    if search := race.printed["search"]:
        alone = race.counts["search"] / _measured(every)
        print(
            f"    the search alone: {alone:.2f} of them; it was {search['confidence']:.0%} certain,"
            f" for which every stack in every block takes some {search['uniform_inspections']}"
        )
    return good, share


def _measured(found: Explored) -> int:
    """Return the inspections without those that only tried or calibrated."""
    return found.counts["search"] + found.counts["blocks"]


def summary(rows: Sequence[tuple[bool, float]]) -> None:
    """Print all races in one line."""
    good = sum(each for each, _ in rows)
    shares = sorted(share for _, share in rows)
    print(
        f"{good} of {len(rows)} winners within {MARGIN:.0%} of the best; shares of inspections "
        + ", ".join(f"{share:.2f}" for share in shares)
    )


def main() -> None:
    """Measure the grid, race on it, and print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for knowledge bases and logs")
    parser.add_argument("--exhaustive", default="40m", help="budget of the exhaustive run")
    parser.add_argument("--race", default="8m", help="budget of each race")
    parser.add_argument("--seeds", default="1,2,3", help="of the races")
    parser.add_argument("--pi", action="append", default=[], help="indicator, may be repeated")
    parser.add_argument("--stacks", type=int, default=STACKS, help="the newest of the grid alone")
    options = parser.parse_args()
    options.pi = options.pi or list(INDICATORS)
    options.folder.mkdir(parents=True, exist_ok=True)
    every = explore(options, "exhaustive", 0, options.exhaustive)
    standing(every)
    seeds = [int(each) for each in options.seeds.split(",") if each]
    if not seeds:
        return
    races = [(explore(options, "racing", seed, options.race), seed) for seed in seeds]
    print()
    summary([beside(every, race, seed) for race, seed in races])


if __name__ == "__main__":
    main()
