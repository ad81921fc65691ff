"""What the evidence graph promises, simulated: coverage of intervals, and false recommendations.

Every simulated campaign runs blocks with heavy tails (t of 4 degrees of freedom) until stackgen's
own interim analyses decide every comparison, or its budget ends. Stacks are versions of two
packages, with effects of their own and of pairs. Then the same code as in ``stackgen advise`` reads
the campaigns.

coverage   95 % intervals: direct, indirect and predicted log ratios, by campaigns and spread.
machines   the same for a machine on which nothing was measured, by machines that are known.
equal      knowledge bases of equal stacks: how many hold any false recommendation (all locks are
           tried); gate: 66 of 1,000, where 5 % are allowed.
seeded     equal stacks again, on a machine that may repeat worse than those of the observations
           that come with stackgen, which the prior is learned from; gate: 5 % up to 2 % of spread.
broken     as equal, where what the model assumes does not hold; no gate.
repeated   ``advise --measure`` again and again for one lock among equal stacks, until it recommends
           one or nothing is left that may be faster; gate: as for equal.
poisoned   a fifth of the origins scale one stack's times by 0.8; gate: 5 % false recommendations
           where five origins or more measured the pair.
power      how often a stack that is faster than the lock's own is recommended.
shipped    the same, and half widths, of the observations that come with stackgen.
recorded   leave-one-campaign-out on recorded blocks, as prediction intervals.

python -m benchmarks.knowledge [--bases 1000] [--minutes 60] [equal poisoned ...]
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from stackgen.knowledge.database import open_database
from stackgen.knowledge.graph import Comparisons, EvidenceGraph, Place, StackNode, repeats_on
from stackgen.knowledge.proposals import predict
from stackgen.knowledge.recommendation import (
    FEWEST_ORIGINS,
    Assessment,
    Standing,
    alpha_after,
    assess,
)
from stackgen.knowledge.seed import load_seeds
from stackgen.measure import ALPHA, INTERIM_ANALYSES, MARGIN, effect
from stackgen.measure.contrasts import CampaignContrasts, estimates
from stackgen.measure.meta_analysis import Mixture, Repeats, learned_prior
from stackgen.measure.posterior import Array, Places
from stackgen.model.evidence import Verdict
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.storage.paths import shipped_folder
from tests import recordings
from tools import seed

CAMPAIGNS = (1, 2, 3, 5, 10, 25)
SPREADS = (0.0, 0.005, 0.02, 0.05, 0.12, 0.20)
MACHINES = (1, 2, 3, 5)
TAILS, DEVIATIONS = 4, (0.02, 0.04, 0.08)
BUDGET_ENDS = 0.15  # the chance at each interim analysis
POISON, POISONED = 0.8, 0.2
GATE, GATE_OF = 66, 1000
CALM = 0.02
HERE = MachineId("m0")


@dataclass(frozen=True)
class World:
    """A truth, and the campaigns that measured it.

    speeds: log of each stack's speed, shape (stacks,). rows: by indicator.
    """

    speeds: Array
    rows: dict[IndicatorId, list[CampaignContrasts]]

    @property
    def nodes(self) -> dict[StackId, StackNode]:
        """Return each stack as a node of its own."""
        return {stack(n): StackNode(key=stack(n)) for n in range(len(self.speeds))}

    def graphs(self) -> dict[IndicatorId, EvidenceGraph]:
        """Return the evidence graph of each indicator."""
        return {what: EvidenceGraph(rows, self.nodes) for what, rows in self.rows.items()}


@dataclass(frozen=True)
class Plan:
    """How a knowledge base comes about.

    spread: between campaigns (of a log ratio). between_machines: likewise. machines: how many take
    part. here: whether the first of them is the user's. origins: how many installations measure.
    noisy: factor of the noise of every fourth stack. odd: log ratio by which one stack is faster in
    one campaign alone. one_spread: whether campaigns differ on the first indicator alone.
    """

    stacks: int
    campaigns: int
    spread: float
    effects: float = 0.05
    interactions: float = 0.0
    machines: int = 1
    between_machines: float = 0.0
    here: bool = True
    origins: int = 1
    poisoned: int = 0
    indicators: int = 1
    noisy: float = 1.0
    odd: float = 0.0
    one_spread: bool = False


def stack(number: int) -> StackId:
    """Return the name of a stack."""
    return StackId(f"s{number:03}")


def versions(number: int) -> tuple[tuple[str, str], ...]:
    """Return the versions of a stack: four of NumPy by as many of the framework as are needed."""
    return (("framework", str(number // 4)), ("numpy", str(number % 4)))


def speeds(plan: Plan, dice: np.random.Generator) -> Array:
    """Return log speeds: an effect of each version, and of pairs of versions."""
    rows = math.ceil(plan.stacks / 4)
    found = dice.normal(0, 0.8 * plan.effects, (rows, 1)) + dice.normal(
        0, 0.6 * plan.effects, (1, 4)
    )
    found = found + dice.normal(0, plan.interactions, (rows, 4))
    return np.asarray(found.ravel()[: plan.stacks])


def blocks(truth: Array, deviation: float | Array, dice: np.random.Generator) -> tuple[Array, int]:
    """Return contrasts of the arms to the first one, and at how many blocks the campaign ended."""
    count = len(truth) - 1
    noise = dice.standard_t(TAILS, (INTERIM_ANALYSES[-1], len(truth)))
    noise = noise * deviation / math.sqrt(2 * TAILS / (TAILS - 2))
    times = noise - truth
    contrasts = times[:, :1] - times[:, 1:]
    for analysis in INTERIM_ANALYSES:
        verdicts = (
            effect(
                a=stack(0),
                b=stack(1),
                indicator_id=IndicatorId("i"),
                contrasts=contrasts[:analysis, place].tolist(),
                alpha=ALPHA / count,
            ).verdict
            for place in range(count)
        )
        if dice.random() < BUDGET_ENDS or Verdict.INCONCLUSIVE not in verdicts:
            return contrasts, analysis
    return contrasts, INTERIM_ANALYSES[-1]


def simulate(plan: Plan, dice: np.random.Generator) -> World:
    """Return a truth and what campaigns measured of it."""
    truth = speeds(plan, dice)
    machines = [
        dice.normal(0, plan.between_machines / math.sqrt(2), plan.stacks)
        for _ in range(plan.machines + (not plan.here))
    ]
    if not plan.effects:
        machines[0][:] = 0.0  # equal stacks are equal where the user is
    if plan.poisoned:
        favoured = int(dice.integers(plan.stacks))
    rows: dict[IndicatorId, list[CampaignContrasts]] = {}
    for indicator in range(plan.indicators):
        deviation = float(dice.choice(DEVIATIONS))
        deviations = np.where(np.arange(plan.stacks) % 4, deviation, deviation * plan.noisy)
        spread = 0.0 if plan.one_spread and indicator else plan.spread
        for number in range(plan.campaigns):
            machine = number % plan.machines + (not plan.here)
            origin = number % plan.origins
            size = min(plan.stacks, int(dice.integers(2, 7)))
            arms = dice.choice(plan.stacks, size, replace=False)
            log_speeds = truth[arms] + machines[machine][arms]
            log_speeds = log_speeds + dice.normal(0, spread / math.sqrt(2), size)
            log_speeds[-1] += plan.odd * (number == plan.campaigns // 2)
            if origin < plan.poisoned:
                log_speeds = log_speeds - math.log(POISON) * (arms == favoured)
            what = IndicatorId(f"i{indicator}")
            row = contrasts(arms, log_speeds, deviations[arms], dice)
            key = CampaignId(f"c{number}"), what, MachineId(f"m{machine}"), (f"o{origin}",)
            rows.setdefault(what, []).append(row(*key))
    return World(truth + machines[0], rows)


def contrasts(
    arms: Places, log_speeds: Array, deviation: float | Array, dice: np.random.Generator
) -> Callable[[CampaignId, IndicatorId, MachineId, tuple[str, ...]], CampaignContrasts]:
    """Return what makes a campaign's row, once it is named."""
    values, ended = blocks(log_speeds, deviation, dice)
    order = np.argsort(arms[1:])
    name = CampaignId("c")
    found = estimates(
        [{(name, block): float(values[block, place]) for block in range(ended)} for place in order]
    )
    return lambda campaign, indicator, machine, origins: CampaignContrasts(
        campaign_id=campaign,
        indicator_id=indicator,
        machine_id=machine,
        origins=origins,
        date="2026-01-01",
        baseline=stack(int(arms[0])),
        candidates=tuple(stack(int(arms[1 + place])) for place in order),
        log_ratios=found.log_ratios,
        covariance=found.covariance,
        blocks=found.blocks,
        freedom=found.freedom,
    )


# Coverage of intervals


@dataclass
class Cover:
    """How many intervals held the truth, and half their widths."""

    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, truth: Array, low: Array, high: Array) -> None:
        """Count intervals."""
        self.inside += [bool(each) for each in (low <= truth) & (truth <= high)]
        self.widths += [float(each) for each in (high - low) / 2]

    def __str__(self) -> str:
        if not self.inside:
            return "      -      "
        share, width = statistics.fmean(self.inside), statistics.median(self.widths)
        return f"{share:.3f} +-{width:6.1%}"


def cover(plan: Plan, bases: int, seed: int) -> dict[str, Cover]:
    """Return the coverage of direct, indirect and predicted log ratios over so many bases."""
    found = {"direct": Cover(), "indirect": Cover(), "predicted": Cover()}
    for number in range(bases):
        dice = np.random.default_rng([seed, number])
        world = simulate(plan, dice)
        (graph,) = world.graphs().values()
        current = graph.components[0][0]
        known = graph.fit(current, Place(machine_id=HERE))
        for one in known.stacks:
            for kind, others in _kinds(known, one).items():
                asked = [each for each in others if each > one]
                if asked:
                    _count(found[kind], known.log_ratios(one, asked), world, one, asked)
        missing = sorted({stack(n) for n in range(plan.stacks)} - set(known.stacks))
        if missing:
            every = {str(stack(n)): versions(n) for n in range(plan.stacks)}
            predicted = predict(known, every, current, missing)
            _count(found["predicted"], predicted, world, current, missing)
    return found


def _kinds(known: Comparisons, one: str) -> dict[str, list[str]]:
    direct = known.neighbours(one)
    others = [each for each in known.stacks if each != one]
    return {
        "direct": [each for each in others if each in direct],
        "indirect": [each for each in others if each not in direct],
    }


def _count(
    into: Cover, posterior: Mixture, world: World, current: str, others: Sequence[str]
) -> None:
    place = {stack(n): n for n in range(len(world.speeds))}
    truth = np.array(
        [world.speeds[place[StackId(o)]] - world.speeds[place[StackId(current)]] for o in others]
    )
    into.add(truth, *posterior.interval())


def coverage(bases: int, seed: int, deadline: float) -> None:
    """Print coverage by campaigns and spread."""
    print("\ncoverage of 95 % intervals, and half their median width")
    print("campaigns  spread  direct          indirect        predicted")
    for number in _until(deadline, len(CAMPAIGNS) * len(SPREADS)):
        campaigns, spread = CAMPAIGNS[number // len(SPREADS)], SPREADS[number % len(SPREADS)]
        stacks = min(24, 4 + 2 * campaigns)
        plan = Plan(stacks=stacks, campaigns=campaigns, spread=spread, interactions=0.01)
        found = cover(plan, max(20, bases // (2 + campaigns)), seed)
        print(f"{campaigns:9}  {spread:6.3f}  {'   '.join(map(str, found.values()))}", flush=True)


def machines(bases: int, seed: int, deadline: float) -> None:
    """Print coverage for a machine on which nothing was measured."""
    print("\nthe same for a new machine, three campaigns on each that is known")
    print("machines  between them  direct          indirect        predicted")
    cells = list(product(MACHINES, (0.0, 0.02, 0.05, 0.12, 0.2)))
    for number in _until(deadline, len(cells)):
        count, between = cells[number]
        plan = Plan(
            stacks=6,
            campaigns=3 * count,
            spread=0.01,
            interactions=0.01,
            machines=count,
            between_machines=between,
            here=False,
        )
        found = cover(plan, max(20, bases // (3 + 3 * count)), seed)
        print(f"{count:8}  {between:12.3f}  {'   '.join(map(str, found.values()))}", flush=True)


# False and missed recommendations


def locks(
    world: World, place: Place, repeated: Sequence[Repeats] = ()
) -> Iterator[tuple[str, tuple[Assessment, ...]]]:
    """Yield what is said of each lock for which anything may be faster: each stack is one once."""
    graphs = world.graphs()
    names = {key for graph in graphs.values() for each in graph.components for key in each}
    for current in sorted(names):
        prior = learned_prior(others=repeated)
        if not any(_may_be_faster(graph, current, place, prior) for graph in graphs.values()):
            continue
        others = {name: dict.fromkeys(graphs, name) for name in sorted(names - {current})}
        own = dict.fromkeys(graphs, current)
        yield (
            current,
            assess(graphs, current=own, candidates=others, place=place, repeated=repeated),
        )


def _may_be_faster(graph: EvidenceGraph, current: str, place: Place, prior: Array) -> bool:
    """Return whether an interval alone is above 1, which a recommendation implies."""
    if not graph.component(current):
        return False
    known = graph.fit(current, place, prior=prior)
    found = known.log_ratios(current, [each for each in known.stacks if each != current])
    above = found.below(np.zeros(len(found.mean))) < ALPHA / 2
    return bool(np.any(above & (found.mean > math.log1p(MARGIN))))


def recommended(found: Sequence[Assessment]) -> list[str]:
    """Return what is said to be faster, measured elsewhere or not."""
    return [each.name for each in found if each.standing is Standing.FASTER]


def mixed(number: int, dice: np.random.Generator) -> Plan:
    """Return a plan of a knowledge base: sizes and spreads as they may come together."""
    campaigns = CAMPAIGNS[number % len(CAMPAIGNS)]
    return Plan(
        stacks=int(dice.choice((4, 8, 16, 30))),
        campaigns=campaigns,
        spread=SPREADS[(number // len(CAMPAIGNS)) % len(SPREADS)],
        effects=0.0,
        machines=int(dice.choice((1, 1, 2))),
        between_machines=0.05,
        origins=int(dice.integers(1, 1 + campaigns)),
        indicators=int(dice.choice((1, 1, 3))),
    )


def equal(bases: int, seed: int, deadline: float) -> None:
    """Print how many knowledge bases of equal stacks hold a false recommendation."""
    wrong: dict[tuple[int, float], list[bool]] = {}
    for number in _until(deadline, bases):
        dice = np.random.default_rng([seed, 1, number])
        plan = mixed(number, dice)
        world = simulate(plan, dice)
        false = any(recommended(found) for _, found in locks(world, Place(machine_id=HERE)))
        wrong.setdefault((plan.campaigns, plan.spread), []).append(false)
    count, tried = sum(map(sum, wrong.values())), sum(map(len, wrong.values()))
    print(f"\nequal stacks: {count} of {tried} knowledge bases hold a false recommendation")
    _print_wrong(wrong)
    _gate(count, math.ceil(GATE * tried / GATE_OF))


def seeded(bases: int, seed_number: int, deadline: float) -> None:
    """Print the same for a new machine, where the shipped observations are known."""
    rows = _shipped_rows()[0]
    known = [
        repeats_on(machine, seed.evidence_graphs([r for r in rows if r.machine_id == machine]))
        for machine in sorted({each.machine_id for each in rows})
    ]
    wrong: dict[tuple[int, float], list[bool]] = {}
    for number in _until(deadline, bases):
        dice = np.random.default_rng([seed_number, 5, number])
        plan = replace(mixed(number, dice), machines=1)
        world = simulate(plan, dice)
        place = Place(machine_id=HERE)
        false = any(recommended(found) for _, found in locks(world, place, known))
        wrong.setdefault((plan.campaigns, plan.spread), []).append(false)
    calm = [each for (_, spread), cell in wrong.items() if spread <= CALM for each in cell]
    print(
        f"\nequal stacks on a new machine, {len(known)} others known: {sum(calm)} of {len(calm)} "
        f"knowledge bases with spreads up to {CALM:.0%} hold a false recommendation"
    )
    _print_wrong(wrong)
    _gate(sum(calm), math.ceil(GATE * len(calm) / GATE_OF))


BROKEN: Mapping[str, Callable[[Plan], Plan]] = {
    "every fourth stack has six times the noise": lambda plan: replace(plan, noisy=6.0),
    "in one campaign, one stack is 25 % faster": lambda plan: replace(plan, odd=math.log(1.25)),
    "campaigns differ on one of five indicators": lambda plan: replace(
        plan, indicators=5, one_spread=True
    ),
}


def broken(bases: int, seed: int, deadline: float) -> None:
    """Print the same where the noise, a campaign or an indicator is unlike the others."""
    print("\nequal stacks where assumptions do not hold: bases with a false recommendation")
    for place, (what, change) in enumerate(BROKEN.items()):
        wrong = []
        ends = time.monotonic() + (deadline - time.monotonic()) / (len(BROKEN) - place)
        for number in _until(ends, bases):
            dice = np.random.default_rng([seed, 1, number])
            plan = change(replace(mixed(number, dice), machines=1))
            world = simulate(plan, dice)
            own = [repeats_on(HERE, world.graphs())]
            answers = locks(world, Place(machine_id=HERE), own)
            wrong.append(any(recommended(found) for _, found in answers))
        print(f"  {what}: {sum(wrong)} of {len(wrong)}", flush=True)


def _print_wrong(wrong: Mapping[tuple[int, float], Sequence[bool]]) -> None:
    print(f"campaigns  spread {'  '.join(f'{each:8.3f}' for each in SPREADS)}")
    for campaigns in CAMPAIGNS:
        cells = [wrong.get((campaigns, spread), []) for spread in SPREADS]
        shown = "  ".join(f"{sum(each):3} of {len(each):2}" for each in cells)
        print(f"{campaigns:9}         {shown}")


MOST_REPEATED = 12
MEASURED = 2  # candidates of a campaign of ``advise --measure``


def repeated(bases: int, seed: int, deadline: float) -> None:
    """Print how often campaigns that are repeated until one decides end with a wrong answer."""
    ended: dict[int, list[int]] = {}
    for number in _until(deadline, bases):
        dice = np.random.default_rng([seed, 4, number])
        plan = mixed(number, dice)
        run, wrong = _until_decided(plan, simulate(plan, dice), dice)
        ended.setdefault(run, []).append(wrong)
    count, tried = sum(map(sum, ended.values())), sum(map(len, ended.values()))
    print(f"\ncampaigns until decided: {count} of {tried} locks among equal stacks end wrongly")
    shown = (f"{run}: {sum(own)} of {len(own)}" for run, own in sorted(ended.items()))
    print(f"  by campaigns that were run (at most {MOST_REPEATED}): {', '.join(shown)}")
    _gate(count, math.ceil(GATE * tried / GATE_OF))


def _until_decided(plan: Plan, world: World, dice: np.random.Generator) -> tuple[int, bool]:
    """Return after how many campaigns an answer for one lock ended, and whether it was wrong."""
    place = Place(machine_id=HERE)
    current = int(dice.integers(plan.stacks))
    deviations = {what: float(dice.choice(DEVIATIONS)) for what in world.rows}
    for run in range(MOST_REPEATED + 1):
        graphs = world.graphs()
        names = {key for graph in graphs.values() for each in graph.components for key in each}
        found: Sequence[Assessment] = ()
        if stack(current) in names:
            found = assess(
                graphs,
                current=dict.fromkeys(graphs, stack(current)),
                candidates={n: dict.fromkeys(graphs, n) for n in names - {stack(current)}},
                place=place,
                alpha=alpha_after(run),
            )
        if any(e.standing is Standing.FASTER and not e.elsewhere for e in found):
            return run, True
        chosen = [e.name for e in found if e.standing is not Standing.SLOWER and _may_be(e)]
        if found and not chosen:
            return run, False
        arms = [int(name[1:]) for name in chosen[:MEASURED]]
        if not found:  # nothing is known: any others
            others = [n for n in range(plan.stacks) if n != current]
            arms = [int(n) for n in dice.choice(others, MEASURED, replace=False)]
        for what, rows in world.rows.items():
            log_speeds = world.speeds[[current, *arms]] + dice.normal(
                0, plan.spread / math.sqrt(2), 1 + len(arms)
            )
            row = contrasts(np.array([current, *arms]), log_speeds, deviations[what], dice)
            rows.append(row(CampaignId(f"r{run}"), what, HERE, ("o0",)))
    return MOST_REPEATED, False


def _may_be(found: Assessment) -> bool:
    """Return whether a candidate may be faster by more than the margin."""
    return max(each.highest for each in found.compared) > 1 + MARGIN


def poisoned(bases: int, seed: int, deadline: float) -> None:
    """Print how many pairs that many origins measured are recommended since a fifth lied."""
    wrong: list[bool] = []
    named = 0
    for number in _until(deadline, bases):
        dice = np.random.default_rng([seed, 2, number])
        origins = int(dice.choice((5, 6, 8, 10, 15)))
        plan = Plan(
            stacks=int(dice.choice((3, 4, 6))),
            campaigns=int(origins * dice.choice((1, 2, 3))),
            spread=float(dice.choice((0.0, 0.005, 0.02, 0.05))),
            effects=0.0,
            origins=origins,
            poisoned=max(1, int(POISONED * origins)),
        )
        world = simulate(plan, dice)
        (graph,) = world.graphs().values()
        false = False
        for current, found in locks(world, Place(machine_id=HERE)):
            best = recommended(found)
            if not best:
                continue
            named += any(e.sole_origins for e in found if e.name in best)
            known = graph.fit(current, Place(machine_id=HERE))
            many = [len(known.direct_origins(current, name)) >= FEWEST_ORIGINS for name in best]
            false = false or any(many)
        wrong.append(false)
    print(
        f"\npoisoned: {sum(wrong)} of {len(wrong)} knowledge bases recommend a stack falsely though"
    )
    print(f"  five origins or more measured the pair; {named} locks name a sole origin")
    _gate(sum(wrong), round(0.05 * len(wrong)))


def power(bases: int, seed: int, deadline: float) -> None:
    """Print how often a stack that is faster than the lock's own is recommended."""
    print("\npower: share of bases that recommend what is faster (four stacks, one faster)")
    print("campaigns  spread  5 % faster  10 %   20 %")
    plans = list(product((1, 2, 3, 5, 10), (0.0, 0.005, 0.02)))
    for place in _until(deadline, len(plans)):
        campaigns, spread = plans[place]
        cells = []
        for gain in (1.05, 1.1, 1.2):
            hits = [_finds(campaigns, spread, gain, seed, n) for n in range(max(20, bases // 20))]
            cells.append(f"{statistics.fmean(hits):5.2f}")
        print(f"{campaigns:9}  {spread:6.3f}  {'      '.join(cells)}", flush=True)


def recorded(_bases: int, _seed: int, deadline: float) -> None:
    """Print how recorded blocks, ten to a campaign, are predicted by the other campaigns."""
    print("\nrecorded on one machine in one session: log ratios that the other campaigns predicted")
    inside = total = 0
    for name, what in product(("eight-arms-quiet", "eight-arms-busy"), ("matmul", "fft", "sort")):
        if time.monotonic() > deadline:
            break
        arms = recordings.recording(name)[what]
        nodes = {StackId(arm): StackNode(key=arm) for arm in arms}
        found = EvidenceGraph(recordings.campaigns(arms, baseline="A1"), nodes).held_out()
        inside, total = inside + found.inside, total + found.total
        print(f"  {name} {what}: {found.inside} of {found.total}, {found.campaigns} campaigns")
    print(f"  together {inside} of {total}, nominal 95 %", flush=True)


def shipped(_bases: int, _seed: int, _deadline: float) -> None:
    """Print how campaigns that come with stackgen are predicted by the others, and half widths."""
    rows, calls = _shipped_rows()
    print("\nthe observations that come with stackgen: half widths of ratios to the newest stack")
    print("  by the evidence graph, and of blocks alone; log ratios that other campaigns predicted")
    widths: dict[IndicatorId, list[float]] = {}
    for indicator, width in seed.half_widths(rows):
        widths.setdefault(indicator, []).append(width)
    graphs = seed.evidence_graphs(rows)
    priors = seed.learned_priors(rows)
    inside = total = 0
    for indicator, graph in graphs.items():
        own = [each for each in rows if each.indicator_id == indicator]
        blocks = statistics.median(seed.half_widths_of_blocks(own))
        found = graph.held_out(priors[indicator])
        inside, total = inside + found.inside, total + found.total
        print(
            f"  {calls[indicator]}: median {statistics.median(widths[indicator]):.1%}, largest "
            f"{max(widths[indicator]):.1%}; blocks {blocks:.1%}; {found.inside} of {found.total} "
            f"of {found.campaigns} campaigns, +-{found.half_width:.1%}"
        )
    print(f"  together {inside} of {total}, nominal 95 %", flush=True)


def _shipped_rows() -> tuple[list[CampaignContrasts], Mapping[IndicatorId, str]]:
    """Return the contrasts that come with stackgen, and labels of indicators."""
    with TemporaryDirectory() as folder, open_database(Path(folder) / "kb.db") as database:
        load_seeds(database, shipped_folder("kb") / "seed")
        calls = {call.id: call.label for call in database.calls()}
        known = database.contrasts()
    return [each for each in known if not calls[each.indicator_id].startswith("python/")], calls


def _finds(campaigns: int, spread: float, gain: float, seed: int, number: int) -> bool:
    dice = np.random.default_rng([seed, 3, number])
    rows = []
    for each in range(campaigns):
        log_speeds = np.array([0.0, math.log(gain), 0.0, 0.0])
        log_speeds = log_speeds + dice.normal(0, spread / math.sqrt(2), 4)
        row = contrasts(np.arange(4), log_speeds, 0.04, dice)
        rows.append(row(CampaignId(f"c{each}"), IndicatorId("i0"), HERE, ("o0",)))
    world = World(np.zeros(4), {IndicatorId("i0"): rows})
    said = dict(locks(world, Place(machine_id=HERE)))
    return stack(1) in recommended(said.get(stack(0), ()))


def _until(deadline: float, count: int) -> Iterator[int]:
    """Yield numbers until there are so many, or until the time is over."""
    for number in range(count):
        if time.monotonic() > deadline:
            return
        yield number


def _gate(found: int, most: int) -> None:
    print(f"  gate: at most {most}: {'kept' if found <= most else 'BROKEN'}", flush=True)


def main() -> None:
    """Print the tables that are asked for; all by default."""
    tables = {
        "coverage": coverage,
        "machines": machines,
        "equal": equal,
        "seeded": seeded,
        "broken": broken,
        "repeated": repeated,
        "poisoned": poisoned,
        "power": power,
        "recorded": recorded,
        "shipped": shipped,
    }
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*tables, []], default=[])
    parser.add_argument("--bases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each table at most")
    options = parser.parse_args()
    for name in options.tables or tables:
        tables[name](options.bases, options.seed, time.monotonic() + 60 * options.minutes)


if __name__ == "__main__":
    main()
