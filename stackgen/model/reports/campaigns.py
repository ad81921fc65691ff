"""Reports of campaigns: what is measured, what it costs, how it was searched, what it found.

Among them are what stacks need besides time (import, memory, download, disk), and the noise of a
stack that was measured against itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stackgen.model.evidence import Control, Effect, Ranked
from stackgen.model.goals import SPEED_ALONE, Goals
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Outcome
from stackgen.model.packages import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a machine's time costs per hour.

    machine_cpus: how many CPUs this machine has for us.
    whole: price of all of them; None where prices are given by their number.
    by_cpus: (number of CPUs, price) pairs, sorted.
    currency: of both, for reports; "" where none is given.
    """

    machine_cpus: int
    whole: float | None = None
    by_cpus: tuple[tuple[int, float], ...] = ()
    currency: str = ""

    def per_hour(self, cpus: int) -> float | None:
        """Return the price of so many CPUs, in proportion where that of the whole is known.

        None where it is not given.
        """
        if self.whole is not None:
            return self.whole * cpus / self.machine_cpus
        return dict(self.by_cpus).get(cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an indicator's work costs on a stack.

    seconds: per operation: the baseline's, by the fastest samples of its blocks; of others, that
        by their speed.
    items: samples that an operation processes; None where it counts as one.
    per_hour: price of the CPUs that count, in the currency of the prices.
    per_million: price of a million samples (of operations, where there are no samples).
    per_unit: samples (operations) that one unit of the currency pays for.
    """

    stack_id: StackId
    indicator_id: IndicatorId
    seconds: float
    items: int | None
    per_hour: float
    per_million: float
    per_unit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuScaling:
    """A stack on a number of CPUs, beside the baseline on the fewest, from the same blocks.

    indicator: what was measured, without the number of CPUs.
    time: ratio of times, so below 1 means faster; low, high: its interval; 0 and infinity where
        too few blocks allow none.
    cost: ratio of costs: that of times by that of prices; None where no time was measured.
    """

    stack_id: StackId
    indicator: str
    cpus: int
    time: float
    low: float
    high: float
    blocks: int
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a plan will move and take, before it does.

    download_bytes: of wheels that are not in the store yet; unknown sizes count as 0.
    disk_bytes: of everything that will be new on disk, unpacked.
    free_bytes: on that disk.
    seconds: until the first block can begin, roughly.
    """

    wheels: int
    download_bytes: int
    disk_bytes: int
    free_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStack:
    """A stack that takes part in a campaign.

    label: what distinguishes it from the others (``tensorflow 2.12.0, numpy 1.23.5``).
    completion: ``newest``, ``newest-working`` or ``lock``; ``earlier`` where another run of the
        campaign had it ready, and this one only reports it.
    held_back: versions that are older than the newest ones, which do not run.
    settings: environment variables that it is run with.
    """

    stack_id: StackId
    label: str
    completion: str
    lock: Lock
    held_back: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStack:
    """A stack that takes no part, and why.

    reason: the last telling line of its log.
    log: the end of it, where it never came to be measured.
    """

    label: str
    outcome: Outcome
    reason: str
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSetup:
    """Where stacks are installed and measured, in words for a report."""

    executor: str
    base: str
    python: str
    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorePlan:
    """What an exploration would do.

    count: stacks in the whole space.
    choices: feasible versions of the varied packages.
    chosen: labels with the number of completions of each, first of all to be measured.
    strategy: which of them are measured in which block.
    searched: whether a search builds them one after the other, when it chooses them, and perhaps
        never; otherwise all of them are built before the first block.
    spread: whether they are spread over releases and settings, and not the newest ones.
    too_large: releases of the first varied package that the download budget leaves out.
    indicators: what they are measured by.
    short_budget: that the budget ends before the first comparison, in words; "" where it does not.
    """

    requirements: tuple[str, ...]
    varied: tuple[str, ...]
    setup: MeasurementSetup
    count: int
    choices: int
    chosen: tuple[tuple[str, int], ...]
    estimate: Estimate
    budget_s: float
    seed: int
    strategy: str
    searched: bool
    spread: bool = False
    too_large: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    short_budget: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakMemory:
    """The most memory that an indicator's process had at once on a stack.

    Of a program, the largest of its processes counts.
    """

    stack_id: StackId
    indicator_id: IndicatorId
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedSpeed:
    """Posterior of the speed of a stack, measured or not.

    ratio: time of the baseline over the stack's own, so above 1 means faster.
    low, high: the interval that holds it with 95 % probability.
    within: the probability that the stack is within the margin of the best.
    measured: in how many blocks it was, of the search and of the comparison afterwards.
    """

    label: str
    ratio: float
    low: float
    high: float
    within: float
    measured: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """How the stacks that were compared in the end had been chosen.

    strategy: by which they were measured until then.
    leader: the stack that it found; "" where that was never made ready. leader_label: its label.
    confidence: the probability that the leader is within ``margin`` of the best of those that take
        part; ``required_confidence`` ends the search.
    blocks, inspections: of the search; without those that tried or calibrated.
    machine_s: what these took.
    comparison_inspections: of the comparison afterwards. comparison_s: what these took.
    uniform_inspections: roughly how many it would have taken to be as certain with every stack in
        every block. uniform_s: what they would have taken.
    predictions: of all stacks that take part, the best one first.
    calibration: how many of how many measurements fell within the 90 % intervals that were
        predicted before they were made.
    """

    strategy: str
    leader: str
    leader_label: str
    confidence: float
    required_confidence: float
    margin: float
    blocks: int
    inspections: int
    machine_s: float
    comparison_inspections: int
    comparison_s: float
    uniform_inspections: int
    uniform_s: float
    predictions: tuple[PredictedSpeed, ...]
    calibration: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredIndicator:
    """An indicator of a campaign.

    weight: in what is said of all indicators together.
    is_figure: whether it gives a figure of its own in place of a time.
    baseline_s: seconds of one operation on the baseline; None where it gives no time.
    checked_file: the file that it writes and that was compared; "" where there is none.
    """

    indicator_id: IndicatorId
    label: str
    weight: float = 1.0
    is_figure: bool = False
    baseline_s: float | None = None
    checked_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How one run of a campaign went.

    seconds: wall time.
    new_inspections: how many this run added; the rest of the evidence was there before.
    untried: feasible choices that were not measured.
    to_analysis: how many more blocks the next interim analysis takes of what is not decided.
    block_s: what a block that compared stacks took (median), in seconds; 0 before there is any.
    stopped: why measuring ended, in words.
    exit_code: of the command that prints the report.
    campaign_id: of the campaign in the knowledge base.
    waited_s: for other measurements and builds on this machine; it counts for no budget.
    """

    blocks: int
    new_inspections: int
    seconds: float
    untried: int
    stopped: str
    interrupted: bool
    exit_code: int
    to_analysis: int = 0
    block_s: float = 0.0
    campaign_id: str = ""
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementHealth:
    """Whether the machine allows conclusions.

    excluded: what disturbed each excluded block, in words, in their order.
    tolerated: the same of disturbed blocks that count all the same.
    """

    controls: tuple[Control, ...] = ()
    excluded: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Cost of each indicator on each stack, and of each number of CPUs, where requested.

    by_stack: in ``currency``, where prices were given.
    by_cpus: where several numbers of CPUs were requested.
    """

    by_stack: tuple[Cost, ...] = ()
    currency: str = ""
    by_cpus: tuple[CpuScaling, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSize:
    """Exact sizes of a stack: its wheels as files, and their members unpacked, without bytecode.

    None where the size of a file is not known.
    """

    download_bytes: int | None = None
    installed_bytes: int | None = None


UNKNOWN_SIZE = StackSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackQuantities:
    """What one stack needs besides time.

    import_s, import_peak_bytes: medians over blocks; None where no import is recorded.
    peak_bytes: the largest peak of any process that ran an indicator.
    speed_effect, import_effect, memory_effect: against the baseline, above 1 is better; None for
        the baseline itself, and where no block has both. The speed is that of all indicators.
    decision: against the baseline, of all goals by their weights; None where speed alone decides,
        where the goals have a Pareto front, and for the baseline.
    exceeded: the limits that it does not keep, in words.
    on_front: whether no other stack is shown to dominate it.
    """

    stack_id: StackId
    size: StackSize = UNKNOWN_SIZE
    import_s: float | None = None
    import_peak_bytes: float | None = None
    peak_bytes: int | None = None
    speed_effect: Effect | None = None
    import_effect: Effect | None = None
    memory_effect: Effect | None = None
    decision: Effect | None = None
    exceeded: tuple[str, ...] = ()
    on_front: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """What stacks need besides time, and what follows from the goals of the user.

    imported: what is imported, such as ``tensorflow``; "" where no import is recorded.
    memory_of: what the memory effects are of: ``import`` or ``run``.
    stacks: in the order of the ranking.
    """

    goals: Goals = SPEED_ALONE
    imported: str = ""
    memory_of: str = "import"
    stacks: tuple[StackQuantities, ...] = ()

    def of(self, stack: StackId) -> StackQuantities:
        """Return the quantities of a stack; without any where nothing is recorded of it."""
        found = (each for each in self.stacks if each.stack_id == stack)
        return next(found, StackQuantities(stack_id=stack))


NO_QUANTITIES = GoalReport()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreReport:
    """What an exploration found.

    indicators: of the campaign; the control is the last one.
    margin: relative difference below which two stacks count as the same.
    answer: of the ranking: ``faster``, ``nothing faster``, or why there is none.
    winner: the stack to take; "" where there is none.
    memory: peak of each indicator on each stack.
    goals: what each stack needs besides time, and what follows from the goals of the user.
    search: how the stacks in the ranking were chosen; None where all of them were measured alike.
    """

    plan: ExplorePlan
    stacks: tuple[ChosenStack, ...]
    failed: tuple[FailedStack, ...]
    indicators: tuple[MeasuredIndicator, ...]
    ranking: tuple[Ranked, ...]
    margin: float
    run: RunSummary
    knowledge_base: str
    answer: str = ""
    winner: str = ""
    health: MeasurementHealth = MeasurementHealth()
    cost: CostReport = CostReport()
    memory: tuple[PeakMemory, ...] = ()
    goals: GoalReport = NO_QUANTITIES
    search: SearchReport | None = None

    @property
    def labels(self) -> Mapping[IndicatorId, str]:
        """Return the label of each indicator."""
        return {each.indicator_id: each.label for each in self.indicators}

    @property
    def figures(self) -> frozenset[IndicatorId]:
        """Return the indicators that give a figure of their own in place of a time."""
        return frozenset(each.indicator_id for each in self.indicators if each.is_figure)


NOISE = "noise"
"""The kind of campaigns that measure one stack against itself; they compare no two stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """What a comparison of two stacks shows by so many blocks.

    effect: the smallest difference that it finds in 95 of 100 cases, as a ratio less one: 0.05
        where one stack takes 5 % longer. Infinite where no difference would do.
    machine_s: seconds that these blocks take.
    """

    blocks: int
    effect: float
    machine_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorNoise:
    """What equal runs of one indicator differ by.

    run_s: seconds of one run, its process's start included; None where none ended well.
    blocks: that hold a pair of equal runs, and count. left_out: further ones, which were excluded
        or in which a run failed.
    spread: of a pair's difference, as a ratio: 1.48 times its median, so of normal noise the
        standard deviation, and outliers do not count.
    deviation: its plain standard deviation, which outliers enlarge.
    p_value: of "both runs of a pair are the same"; None while there are too few blocks.
    differs: they are shown not to be, which is wrong: nothing was different.
    detectable: by number of blocks; empty where ``unusable`` says why.
    failed: a run in a block did; what survived is not judged.
    """

    indicator_id: IndicatorId
    label: str
    run_s: float | None
    blocks: int
    left_out: int = 0
    spread: float | None = None
    deviation: float | None = None
    p_value: float | None = None
    differs: bool = False
    detectable: tuple[DetectableEffect, ...] = ()
    unusable: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What else went on while samples were taken; shares are of that time.

    waited: runs wanted a CPU and others had it. stolen: of all CPUs, by the host of this virtual
    machine. throttled: a CPU quota stopped runs. None where the system does not report it.
    """

    waited: float | None
    stolen: float | None
    throttled: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReport:
    """What measuring one stack against itself shows of a machine.

    stack: its label.
    control_s: seconds of one run of the control, which is part of every comparison.
    excluded: blocks that were disturbed and do not count, each with what disturbed it.
    tolerated: disturbed blocks that count all the same, because most of them are.
    new_inspections: how many this run added. stopped: why it ended, in words.
    """

    requirements: tuple[str, ...]
    stack: str
    setup: MeasurementSetup
    seed: int
    indicators: tuple[IndicatorNoise, ...]
    disturbance: Disturbance
    control_s: float | None
    excluded: tuple[tuple[int, str], ...]
    tolerated: int
    new_inspections: int
    seconds: float
    stopped: str
    interrupted: bool
    exit_code: int
    knowledge_base: str
