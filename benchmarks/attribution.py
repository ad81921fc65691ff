"""Attribution simulated: how often it is wrong, and how many blocks and builds it takes.

Some packages changed between two stacks; new versions may need other new versions, so only some
hybrids are valid. The truth is one culprit, two that act together, two whose effects add up (equal,
unequal, opposite), three with equal shares, or none at all. The true effect is .5 to 1.5 times the
estimate that attribution starts from; each build has an offset; noise has the tails of a t
distribution with 4 degrees of freedom. Beside it: delta debugging (Zeller and Hildebrandt 2002,
ddmin) with repeated tests, and Bayesian bisection over Bernoulli outcomes along one order of the
packages, as git_bayesect does it over commits.

python -m benchmarks.attribution [--runs 100] [--first-seed 0] [--packages 4 8 12] [--peers]
    [--results FILE]
python -m benchmarks.attribution --locks GOOD.txt BAD.txt

With locks, hybrids are those that the search space of their closure proposes (read from the
index, for this interpreter).
"""

import argparse
import json
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import betaincinv

from stackgen.campaign.backend import open_backend
from stackgen.campaign.candidates import pinned, read_pins
from stackgen.campaign.hybrids import Hybrids, hybrids
from stackgen.campaign.options import IndexOptions
from stackgen.campaign.user_input import index_config
from stackgen.index import PackageIndex
from stackgen.measure.attribution import (
    POSTERIOR,
    CauseKind,
    CulpritAnswer,
    CulpritSearch,
    Hybrid,
    Trial,
)
from stackgen.measure.likelihoods import Timings
from stackgen.model.choices import ExecutorChoice, Prereleases
from stackgen.model.progress import NullProgress
from stackgen.resolve.candidates import Policy
from stackgen.storage.paths import find_paths

KINDS = ("single", "together", "equal", "unequal", "opposite", "three", "none")
MOST_BLOCKS = 150
BUILD_COST = 2.0
OFFSET = 0.25
"""Standard deviation of a build's offset over that of a block's log contrast."""


@dataclass(frozen=True)
class Rules:
    """Valid hybrids: a new version of one package needs the new version of others."""

    packages: tuple[str, ...]
    needs: Mapping[str, frozenset[str]]

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return the smallest valid hybrid with all of the first and none of the second."""
        found = set(include)
        while True:
            more = set().union(*(self.needs[each] for each in found)) - found if found else set()
            if not more:
                break
            found |= more
        return frozenset(found) if not found & exclude else None

    def is_valid(self, hybrid: Hybrid) -> bool:
        """Return whether every need is met."""
        return all(self.needs[each] <= hybrid for each in hybrid)


@dataclass(frozen=True)
class Closure:
    """Valid hybrids of two locks."""

    found: Hybrids

    @property
    def packages(self) -> tuple[str, ...]:
        """Return what changed."""
        return self.found.packages

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return what the search space proposes."""
        return self.found.find(include, exclude)

    def is_valid(self, hybrid: Hybrid) -> bool:
        """Return whether its lock is of both, and has each new version that it is said to have."""
        lock, old, new = self.found.lock(hybrid), self.found.good.versions, self.found.bad.versions
        return all(
            lock.versions.get(each) == (new if each in hybrid else old).get(each)
            for each in self.packages
        )


@contextmanager
def closure(good: Path, bad: Path) -> Iterator[Closure]:
    """Read two locks and their closure for this interpreter."""
    paths, progress = find_paths(os.environ), NullProgress()
    policy = Policy(prereleases=Prereleases.ALLOW)
    with (
        open_backend(ExecutorChoice.VIRTUALENV, "", paths, progress) as backend,
        PackageIndex(index_config(IndexOptions(), os.environ), paths.cache) as index,
    ):
        target = backend.base.target
        locks = [pinned(index, read_pins(each), target, policy) for each in (good, bad)]
        yield Closure(hybrids(index, locks[0], locks[1], target, policy, progress))


@dataclass
class World:
    """A truth, and what has been run of it."""

    rules: Rules | Closure
    name: str
    culprits: tuple[str, ...]
    effect: Callable[[Hybrid], float]
    estimate: float
    dice: np.random.Generator
    offsets: dict[Hybrid, float] = field(default_factory=dict)
    blocks: dict[tuple[Hybrid, Hybrid], list[float]] = field(default_factory=dict)

    def run(self, hybrid: Hybrid, reference: Hybrid = frozenset()) -> float:
        """Run a block of two hybrids, each built once; return the log contrast, in deviations."""
        for each in (reference, hybrid):
            if each not in self.offsets:
                self.offsets[each] = float(self.dice.normal(0, OFFSET))
        noise = float(self.dice.standard_t(4)) / math.sqrt(2)
        found = self.effect(hybrid) + self.offsets[hybrid] + noise
        found -= self.effect(reference) + self.offsets[reference]
        self.blocks.setdefault((hybrid, reference), []).append(found)
        return found

    @property
    def count(self) -> int:
        """Return the number of blocks so far."""
        return sum(map(len, self.blocks.values()))

    @property
    def builds(self) -> int:
        """Return the number of hybrids that were built; the good stack was there."""
        return len(self.offsets.keys() - {frozenset()})


def world(size: int, kind: str, estimate: float, seed: int, rules: Closure | None = None) -> World:
    """Return a world with this many changed packages and a truth of this kind."""
    dice = np.random.default_rng(seed)
    packages = rules.packages if rules else tuple(f"p{i}" for i in range(size))
    order = list(dice.permutation(size))
    needs: dict[str, frozenset[str]] = dict.fromkeys(packages, frozenset())
    for _ in range(size // 3):
        later, earlier = sorted(dice.choice(size, 2, replace=False))
        one, other = packages[order[later]], packages[order[earlier]]
        needs[one] |= {other}
    true = estimate * dice.uniform(0.5, 1.5)
    some = [packages[i] for i in dice.choice(size, 3, replace=False)]
    share = {"equal": 0.5, "unequal": 0.7, "opposite": 1.5}.get(kind, 0.0)
    a, b, c = some
    effects: dict[str, tuple[tuple[str, ...], Callable[[Hybrid], float]]] = {
        "single": ((a,), lambda hybrid: true * (a in hybrid)),
        "together": ((a, b), lambda hybrid: true * (a in hybrid and b in hybrid)),
        "three": ((a, b, c), lambda hybrid: true * sum(x in hybrid for x in some) / 3),
        "none": ((), lambda hybrid: 0.0 * len(hybrid)),
    }
    pair = ((a, b), lambda hybrid: true * (share * (a in hybrid) + (1 - share) * (b in hybrid)))
    culprits, effect = effects.get(kind, pair)
    return World(rules or Rules(packages, needs), kind, culprits, effect, estimate, dice)


@dataclass(frozen=True)
class Outcome:
    """How one search ended: "right", "part", "wrong" or "undecided".

    over_bound: blocks over the bound. named_after: blocks after which a package was first known to
        be involved; named_over_bound: over the bound of what was known then.
    """

    verdict: str
    blocks: int
    builds: int
    over_bound: float | None = None
    named_after: int | None = None
    named_over_bound: float | None = None
    posterior: float | None = None


def ours(truth: World, seed: int) -> Outcome:
    """Attribute with stackgen."""
    spread = math.hypot(0.35 * truth.estimate, math.sqrt(2) * OFFSET)
    evidence = Timings(
        effect=truth.estimate, effect_sd=spread, noise_sd=1.0, freedom=15, build_sd=OFFSET
    )
    search = CulpritSearch(truth.rules, evidence, build_cost=BUILD_COST, seed=seed)
    named: tuple[int, CulpritAnswer] | None = None
    while True:
        trials = [
            Trial(hybrid=hybrid, reference=reference, log_contrasts=tuple(seen))
            for (hybrid, reference), seen in truth.blocks.items()
        ]
        answer = search.answer(trials)
        if answer.responsible and named is None:
            named = truth.count, answer
        best = search.next_run(trials, answer)
        if best is None or truth.count >= MOST_BLOCKS:
            break
        assert truth.rules.is_valid(best.hybrid)
        truth.run(best.hybrid, best.reference)
    bound = search.bound(answer)
    return Outcome(
        _verdict(truth, search, answer),
        truth.count,
        truth.builds,
        over_bound=truth.count / bound if bound else None,
        named_after=named[0] if named else None,
        named_over_bound=named[0] / search.bound(named[1]) if named else None,
        posterior=round(answer.posterior, 4),
    )


def _verdict(truth: World, search: CulpritSearch, answer: CulpritAnswer) -> str:
    """Return "right", "part" (true, and says that others may take part), "wrong", "undecided"."""
    kind = {
        "single": CauseKind.SINGLE,
        "together": CauseKind.TOGETHER,
        "three": CauseKind.THREE,
        "none": CauseKind.NONE,
    }
    wanted = kind.get(truth.name, CauseKind.BOTH)
    culprits = {
        first for first, names in search.together.items() if set(names) & set(truth.culprits)
    }
    if len(culprits) == 1 and wanted is not CauseKind.NONE:
        wanted = CauseKind.SINGLE  # both always change together
    if answer.none_fits:
        return "right" if truth.name == "three" else "undecided"
    if answer.causes:
        if any(each.kind is wanted and set(each.packages) == culprits for each in answer.causes):
            return "right"
        # Of several that no valid hybrid distinguishes, only what all of them name is claimed.
        claimed = set.intersection(*(set(each.packages) for each in answer.causes))
        return "part" if len(answer.causes) > 1 and claimed <= culprits else "wrong"
    if answer.responsible:
        return "part" if set(answer.responsible) <= culprits else "wrong"
    return "undecided"


def delta_debugging(truth: World, repeats: int) -> Outcome:
    """Find a smallest set of new versions that is slow, each test being the mean of some blocks."""
    packages = list(truth.rules.packages)

    def is_slow(subset: Sequence[str]) -> bool:
        hybrid = frozenset(subset)
        if not truth.rules.is_valid(hybrid) or truth.count >= 4 * MOST_BLOCKS:
            return False
        mean = statistics.fmean(truth.run(hybrid) for _ in range(repeats))
        return mean > truth.estimate / 2

    parts = 2
    while len(packages) > 1 and parts <= len(packages):
        chunks = [packages[i::parts] for i in range(parts)]
        rests = [[each for each in packages if each not in chunk] for chunk in chunks]
        found = next((each for each in (*chunks, *rests) if each and is_slow(each)), None)
        if found is None:
            parts = min(2 * parts, len(packages)) if parts < len(packages) else parts + 1
        else:
            parts = 2 if found in chunks else max(2, parts - 1)
            packages = found
    right = set(packages) == set(truth.culprits)
    return Outcome("right" if right else "wrong", truth.count, truth.builds)


def bernoulli_bisection(truth: World) -> Outcome:
    """Bisect an order in which every prefix is valid, by outcomes above half the effect."""
    assert isinstance(truth.rules, Rules)
    order: list[str] = []
    while len(order) < len(truth.rules.packages):
        order += [
            each
            for each in truth.rules.packages
            if each not in order and truth.rules.needs[each] <= set(order)
        ][:1]
    size = len(order)
    # First bad prefix, and counts per prefix; probabilities of "slow" are beta, before and after.
    slow, fast = np.zeros(size + 1), np.zeros(size + 1)
    while truth.count < MOST_BLOCKS:
        logs = []
        for first in range(1, size + 1):
            total = 0.0
            for part in (slice(0, first), slice(first, None)):
                s, f = slow[part].sum(), fast[part].sum()
                a, b = (1, 4) if part.start == 0 else (4, 1)
                total += math.lgamma(s + a) + math.lgamma(f + b) - math.lgamma(s + f + a + b)
            logs.append(total)
        posterior = np.exp(np.array(logs) - max(logs))
        posterior /= posterior.sum()
        if posterior.max() >= POSTERIOR:
            break
        middle = int(np.searchsorted(posterior.cumsum(), 0.5)) + 1
        middle = min(max(1, middle), size)
        if truth.run(frozenset(order[:middle])) > truth.estimate / 2:
            slow[middle] += 1
        else:
            fast[middle] += 1
    right = {order[int(posterior.argmax())]} == set(truth.culprits)
    verdict = ("right" if right else "wrong") if posterior.max() >= POSTERIOR else "undecided"
    return Outcome(verdict, truth.count, truth.builds)


def report(name: str, outcomes: Sequence[Outcome]) -> str:
    """Return a line about many searches."""
    counts = Counter(each.verdict for each in outcomes)
    shares = {
        each: counts[each] / len(outcomes) for each in ("right", "part", "wrong", "undecided")
    }
    line = f"  {name:28}" + "".join(f" {k} {v:.2f}" for k, v in shares.items())
    for label, field_ in (("blocks", "blocks"), ("builds", "builds"), ("named", "named_after")):
        found = [value for e in outcomes if (value := getattr(e, field_)) is not None]
        if found:
            line += f"  {label} {statistics.median(found):.0f} (p90 {np.percentile(found, 90):.0f})"
    for label, field_ in (("", "over_bound"), (" when named", "named_over_bound")):
        found = [value for e in outcomes if (value := getattr(e, field_)) is not None]
        line += f"  {statistics.median(found):.1f} x bound{label}" if found else ""
    return line


def wrong_interval(outcomes: Sequence[Outcome]) -> str:
    """Return how many answers were wrong, with the 95 % interval of Clopper and Pearson."""
    wrong, size = sum(each.verdict == "wrong" for each in outcomes), len(outcomes)
    low = float(betaincinv(wrong, size - wrong + 1, 0.025)) if wrong else 0.0
    high = float(betaincinv(wrong + 1, size - wrong, 0.975)) if wrong < size else 1.0
    return f"wrong {wrong} of {size} ({low:.3f} to {high:.3f})"


class Results:
    """Searches that are done, in a file with a line for each: a later run goes on."""

    def __init__(self, path: Path | None) -> None:
        """Read what is there."""
        self._path = path
        self._known: dict[tuple[int, float, str, int], Outcome] = {}
        for line in path.read_text().splitlines() if path and path.exists() else ():
            size, effect, kind, seed, found = json.loads(line)
            self._known[size, effect, kind, seed] = Outcome(**found)

    def search(
        self, size: int, effect: float, kind: str, seed: int, rules: Closure | None
    ) -> Outcome:
        """Return how a search ended, now or before."""
        key = size, effect, kind, seed
        if key not in self._known:
            self._known[key] = ours(world(size, kind, effect, seed, rules), seed)
            if self._path:
                with self._path.open("a") as file:
                    file.write(json.dumps([*key, asdict(self._known[key])]) + "\n")
        return self._known[key]


def main() -> None:
    """Print a table for each number of packages and size of effect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--packages", type=int, nargs="+", default=[4, 8, 12])
    parser.add_argument("--effects", type=float, nargs="+", default=[1.5, 3.0])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--locks", nargs=2, metavar=("GOOD", "BAD"))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--results", type=Path, help="keep searches here, and go on with them")
    given = parser.parse_args()
    if given.locks:
        start = time.process_time()
        with closure(*map(Path, given.locks)) as rules:
            print(f"{len(rules.packages)} packages changed between two real locks", flush=True)
            simulate(given, len(rules.packages), rules)
        print(f"{time.process_time() - start:.0f} s of CPU time")
        return
    for size in given.packages:
        simulate(given, size)


def simulate(given: argparse.Namespace, size: int, rules: Closure | None = None) -> None:
    """Print a table for each size of effect."""
    results, seeds = Results(given.results), range(given.first_seed, given.first_seed + given.runs)
    for effect in given.effects:
        everything: list[Outcome] = []
        print(f"{size} packages, estimate {effect} deviations of a block", flush=True)
        for kind in given.kinds:
            found = [results.search(size, effect, kind, seed, rules) for seed in seeds]
            everything += found
            print(report(kind, found), flush=True)
        print(report("all", everything), wrong_interval(everything), sep="  ", flush=True)
        if given.peers:
            peers = {
                "single, ddmin of 4 blocks": lambda truth: delta_debugging(truth, 4),
                "single, ddmin of 8 blocks": lambda truth: delta_debugging(truth, 8),
                "single, Bernoulli bisection": bernoulli_bisection,
            }
            for name, peer in peers.items():
                found = [peer(world(size, "single", effect, seed)) for seed in seeds]
                print(report(name, found), flush=True)


if __name__ == "__main__":
    main()
