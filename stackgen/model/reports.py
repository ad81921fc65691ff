"""What a command found, ready to be shown to a person or to a machine."""

from dataclasses import dataclass
from enum import Enum

from stackgen.model.evidence import Advice, Control, Origin, Ranked
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.inspections import Indicator, Inspection, Observation, Outcome
from stackgen.model.packages import Exclusion, Lock, LockFile, Target
from stackgen.model.stacks import Machine

# What work costs: prices of a machine's time, and what follows from them


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a machine's time costs per hour.

    machine_cpus: how many CPUs this machine has for us.
    whole: price of all of them; None where prices are given by their number.
    by_cpus: (number of CPUs, price) pairs, sorted.
    currency: of both, for reports; "" where nobody said it.
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
class Scaled:
    """A stack on a number of CPUs, beside the baseline on the fewest, from the same blocks.

    indicator: what was measured, the number of CPUs apart.
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

    label: what tells it from the others (``tensorflow 2.12.0, numpy 1.23.5``).
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
    """What a search believes of a stack, measured or not.

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
        part; what was asked for is ``wanted``.
    blocks, inspections: of the search; without those that tried or calibrated.
    machine_s: what these took.
    compared: inspections of the comparison afterwards. compared_s: what these took.
    uniform_inspections: roughly how many it would have taken to be as certain with every stack in
        every block. uniform_s: what they would have taken.
    predictions: of all stacks that take part, the best one first.
    foretold: how many of so many measurements fell within the intervals (90 %) that were predicted
        before they were made.
    """

    strategy: str
    leader: str
    leader_label: str
    confidence: float
    wanted: float
    margin: float
    blocks: int
    inspections: int
    machine_s: float
    compared: int
    compared_s: float
    uniform_inspections: int
    uniform_s: float
    predictions: tuple[PredictedSpeed, ...]
    foretold: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreReport:
    """What an exploration found.

    seconds: wall time of this run.
    new_inspections: how many this run added; the rest of the evidence was there before.
    untried: feasible choices that were not measured.
    stopped: why measuring ended, in words.
    exit_code: of the command that prints this report.
    costs: of each indicator's work on each stack, in ``currency``, where prices were given.
    scaled: of each stack on several numbers of CPUs, where these were asked for.
    memory: of each indicator on each stack.
    figures: ids of the indicators that give a figure of their own, in place of a time.
    baseline_s: seconds of one operation on the baseline, by id of those that give a time.
    checks: (id, file) pairs of those whose result was written into a file and compared.
    margin: a relative difference that nobody cares about: less than that is "the same".
    search: how the stacks in the ranking were chosen; None where all of them were measured alike.
    weights: of indicators in what is said of all of them together; 1 where none is given.
    answer: what the ranking answers, as ``measure.conclusion`` has it: ``faster``, ``nothing
        faster``, or why there is none. winner: the stack to take; "" where none can be named.
    excluded: what disturbed each block that was excluded, in words, in their order.
    tolerated: the same of blocks that count all the same.
    """

    plan: ExplorePlan
    stacks: tuple[ChosenStack, ...]
    failed: tuple[FailedStack, ...]
    ranking: tuple[Ranked, ...]
    controls: tuple[Control, ...]
    indicators: tuple[tuple[str, str], ...]
    blocks: int
    new_inspections: int
    seconds: float
    untried: int
    stopped: str
    interrupted: bool
    exit_code: int
    knowledge_base: str
    margin: float
    costs: tuple[Cost, ...] = ()
    currency: str = ""
    scaled: tuple[Scaled, ...] = ()
    memory: tuple[PeakMemory, ...] = ()
    figures: tuple[IndicatorId, ...] = ()
    baseline_s: tuple[tuple[IndicatorId, float], ...] = ()
    checks: tuple[tuple[IndicatorId, str], ...] = ()
    search: SearchReport | None = None
    weights: tuple[tuple[IndicatorId, float], ...] = ()
    excluded: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    answer: str = ""
    winner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """An advice for a lock file.

    indicators: (id, label) pairs of what the advice rests on.
    inspections: how many the effects were computed from.
    merged: how many of them came from each other knowledge base; empty where all were recorded in
        this one.
    """

    lockfile: LockFile
    advice: Advice
    indicators: tuple[tuple[str, str], ...]
    knowledge_base: str
    explore_command: str
    inspections: int = 0
    merged: tuple[tuple[Origin, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that doctor looked at.

    fix: what to do where it is not fine; "" where it is.
    essential: nothing can be explored without it.
    """

    name: str
    fine: bool
    found: str
    fix: str = ""
    essential: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyReport:
    """What a night brought.

    new: by package, the releases that the knowledge base had not seen.
    explored: of the new releases that could be measured, each with what was found.
    noted: packages that were never watched before; what there is of them counts as seen now.
    cannot_run: new releases that do not resolve or run here, each with the reason.
    undecided: new releases without an answer, each with what is missing.
    postponed: new releases for which the budget was spent. These and the undecided stay new.
    """

    new: tuple[tuple[str, tuple[str, ...]], ...]
    explored: tuple[ExploreReport, ...]
    findings: tuple[str, ...]
    cannot_run: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    postponed: tuple[str, ...] = ()
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseState:
    """A base that can be named with --base.

    state: ``ready``, ``can be made``, or why not.
    """

    name: str
    summary: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageState:
    """The image of a stack that the engine holds.

    packages: ``name==version`` of each.
    size: bytes of all its layers, shared ones included.
    used_at: ISO 8601, when it was last built or reused; "" where the engine does not say.
    base: name of what it was made on; "" where its labels do not say.
    own_bytes: of the layers above the base that no other stack has; None where nobody can tell.
    """

    image_id: str
    packages: str
    size: int
    used_at: str
    stack_id: str = ""
    tags: tuple[str, ...] = ()
    base: str = ""
    own_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesReport:
    """The bases, and the images of stacks, the latest used first.

    no_engine: why nobody knows which images there are; "" where an engine answered.
    """

    bases: tuple[BaseState, ...]
    images: tuple[ImageState, ...]
    no_engine: str = ""


# What was measured here and now, in an interpreter as it is

INTERRUPTED, NOTHING_RAN = 130, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the processes of one call say together.

    Each time is that of one operation, in seconds: the median over the processes of what each
    process's samples give; where each process has but one sample, what these give together.

    spread: the largest less the smallest of the processes' medians, as a ratio of their median;
        None for one process.
    rate: FLOP or bytes (the indicator's unit) per second, at the median time.
    items_per_s: samples (images, sentences) per second, at the median time.
    peak_memory_bytes, device_memory_bytes: the most of any process.
    gpu_percent: how busy the GPU was, by its driver: the most of any process.
    facts: sorted (name, value) pairs that the indicator tells of its operation.
    figure: ``lower`` or ``higher``, the better ones, where an indicator tells a figure of its own
        in place of a time; what is called seconds is then that figure, or one over it (higher).
    """

    processes: int
    samples: int
    loops: int
    best_s: float
    mean_s: float
    std_s: float
    median_s: float
    p90_s: float
    p99_s: float
    spread: float | None = None
    rate: float | None = None
    items: int | None = None
    items_per_s: float | None = None
    peak_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    gpu_percent: int | None = None
    steady: bool = True
    facts: tuple[tuple[str, str], ...] = ()
    figure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """One call of an indicator, run in one process or several.

    arguments: sorted (parameter, value) pairs.
    figures: of the processes that ended well; None where none did.
    inspections: in the order in which they ran.
    """

    arguments: tuple[tuple[str, str], ...]
    figures: Figures | None
    inspections: tuple[Inspection, ...]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Return what the processes that ended well observed."""
        seen = (each.observation for each in self.inspections)
        return tuple(each for each in seen if each is not None)

    @property
    def failure(self) -> Inspection | None:
        """Return the first process that did not end well, or None."""
        return next((each for each in self.inspections if each.observation is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """What people call this host; none of it is a machine's identity, or goes into a database.

    name: of the host in its network.
    os_release: sorted (name, value) pairs of ``/etc/os-release``, names in lower case.
    platform: sorted (name, value) pairs as of ``uname``.
    memory_total_bytes, memory_available_bytes, memory_used_bytes: before anything ran.
    """

    name: str
    os_release: tuple[tuple[str, str], ...] = ()
    platform: tuple[tuple[str, str], ...] = ()
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    memory_used_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReport:
    """What ``stackgen pi run`` found, or what a knowledge base holds of one stack.

    python: the interpreter, as it was named; "" where it is not known.
    python_version: such as ``CPython 3.11.2``.
    script_sha256: of the indicator's file alone; "" where that is not known.
    varied: the parameters that were given several values, in the order given.
    kept: names of the user's variables that the processes saw.
    traces: the folder where traces were kept, or "".
    began_at: ISO 8601 in UTC.
    """

    indicator: Indicator
    script_sha256: str
    python: str
    python_version: str
    machine: Machine
    host: LocalHost
    results: tuple[LocalResult, ...]
    varied: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    traces: str = ""
    began_at: str = ""
    interrupted: bool = False

    @property
    def component_version(self) -> str:
        """Return the version of the measured component, "" where no process told it."""
        seen = [each for result in self.results for each in result.observations]
        return dict(seen[0].circumstances).get("component_version", "") if seen else ""

    @property
    def exit_code(self) -> int:
        """Return 0 where anything was measured, 6 where nothing ran, 130 where we were stopped."""
        if self.interrupted:
            return INTERRUPTED
        return 0 if any(each.figures for each in self.results) else NOTHING_RAN


# How small a difference a machine can show, from one stack that was measured against itself

NOISE = "noise"
"""The kind of campaigns that measure one stack against itself; they compare no two stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
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
    drift: correlation of a block's level with that of the block before it; it cancels in pairs.
    carried: the same of the differences, which should be none. Both are None for few blocks.
    p_value: of "both runs of a pair are the same"; None while there are too few blocks.
    differs: they are shown not to be, which is wrong: nothing was different.
    shown: by number of blocks; empty where ``nothing`` says why.
    failed: a run in a block did; what survived is not judged.
    """

    indicator_id: IndicatorId
    label: str
    run_s: float | None
    blocks: int
    left_out: int = 0
    spread: float | None = None
    deviation: float | None = None
    drift: float | None = None
    carried: float | None = None
    p_value: float | None = None
    differs: bool = False
    shown: tuple[Shown, ...] = ()
    nothing: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What else went on while samples were taken; shares are of that time.

    waited: runs wanted a CPU and others had it. stolen: of all CPUs, by whoever hosts this virtual
    machine. throttled: a CPU quota stopped runs. None where the system does not tell.
    """

    waited: float | None
    stolen: float | None
    throttled: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReport:
    """What measuring one stack against itself told about a machine.

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


# Validation of a lock by independent resolvers

NO_VERDICT, CONTRADICTED, UNREACHABLE = 3, 4, 8
"""Exit codes: no validator has a verdict, one refuses the lock, the index does not answer."""


class Validity(str, Enum):
    """Whether a lock holds on a target, as one validator resolves it."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Result of one validator for a stack.

    validator: name and version.
    reasons: its messages where it refuses, else why there is no verdict.
    missing: pins that it would add, as ``name==version``.
    superfluous: pins that no requirement needs.
    unreachable: there is no verdict because the package index did not answer.
    """

    validator: str
    validity: Validity
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()
    unreachable: bool = False

    def __post_init__(self) -> None:
        if self.validity is Validity.FAILS and not (
            self.reasons or self.missing or self.superfluous
        ):
            raise ValueError("a validator that refuses gives a reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Results of all validators for a lock on one target.

    place: the base that the lock was read for, with its Python.
    pins: the whole stack as ``name==version``, sorted.
    skipped: what the lock holds and no index has, in words.
    superfluous_unknown: why superfluous packages cannot be found; "" where they can.
    """

    path: str
    place: str
    pins: tuple[str, ...]
    validations: tuple[Validation, ...]
    skipped: tuple[str, ...] = ()
    superfluous_unknown: str = ""

    @property
    def exit_code(self) -> int:
        """Return 0 where the lock holds for at least one validator and fails for none."""
        found = {each.validity for each in self.validations}
        if Validity.FAILS in found:
            return CONTRADICTED
        if Validity.HOLDS in found:
            return 0
        return UNREACHABLE if any(each.unreachable for each in self.validations) else NO_VERDICT


# What a resolution found, ready to be shown to a person or to a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageVersions:
    """The versions of a package that are part of any stack, newest first.

    left_out: versions that the user's own requirements admit, and that are no candidates.
    """

    name: str
    versions: tuple[str, ...]
    left_out: tuple[Exclusion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStack:
    """One of the stacks that a report lists.

    varied: versions of the varied packages.
    completions: how many stacks hold just these; 0 where nobody counted.
    """

    lock: Lock
    varied: tuple[tuple[str, str], ...]
    completions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What became of the versions of a package, or of a requirement.

    asked: what the user wanted to know.
    count: how many stacks hold it; a lower bound where not exact.
    left_out: versions that are no candidates, and why.
    in_none: versions that are candidates, and part of no stack.
    not_counted: versions that are no part of a space that was cut, and may be part of stacks.
    """

    asked: str
    count: int
    versions: tuple[str, ...]
    left_out: tuple[Exclusion, ...] = ()
    in_none: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Whether a lock holds one of the stacks.

    missing: packages that a stack with these versions needs, and the lock lacks.
    superfluous: packages of the lock that nothing requires; they do no harm.
    forbidden: why no stack has these versions; "" where one has.
    fix: what would let it in.
    """

    path: str
    inside: bool
    missing: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()
    forbidden: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A space, and what was asked of it.

    count: of stacks; a lower bound where not exact.
    exact: whether every stack was counted.
    kept: how many of the newest versions of each package were counted; 0 where all were.
    choices: how many feasible choices of the varied packages there are, of each minor release the
        newest patch unless patches are told apart; 0 where not asked for.
    patches: how many there are with every patch release.
    listed: in which way the stacks were chosen: ``newest first``, ``sampled``, ...
    notes: what the user should know: yanked releases, files nobody can read, lines left out.
    """

    requirements: tuple[str, ...]
    target: Target
    count: int
    exact: bool
    kept: int
    packages: tuple[PackageVersions, ...] = ()
    varied: tuple[str, ...] = ()
    choices: int = 0
    patches: int = 0
    listed: str = ""
    stacks: tuple[ListedStack, ...] = ()
    explained: Explained | None = None
    membership: Membership | None = None
    notes: tuple[str, ...] = ()


# What the store of wheels and layers holds, what was taken out of it, what is wrong with it


class ItemKind(Enum):
    """What lies in a store."""

    WHEEL = "wheel"
    LAYER = "layer"
    UNFINISHED = "unfinished download"
    VIRTUALENV = "virtualenv"
    UNPACKED = "unpacked wheel"
    BYTECODE = "compiled wheel"
    IMAGE = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreItem:
    """One thing in a store.

    name: for people; the layer of a wheel bears the wheel's file name.
    path: of its file.
    size: bytes.
    used_at: seconds since 1970, when it was last made or used.
    """

    kind: ItemKind
    name: str
    path: str
    size: int
    used_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePruned:
    """What was taken out of a store, least recently used first.

    in_use: what would have gone, had nobody been using it.
    kept_bytes: what the store holds now (in a dry run: would hold).
    """

    dropped: tuple[StoreItem, ...]
    in_use: tuple[StoreItem, ...]
    kept_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What ``stackgen images prune`` removed, or would remove.

    store: None where the store was not to be touched.
    images, images_in_use: of the engine; the latter are in use or have a name of the user's own.
    no_engine: why the images in the engine were not looked at; "" where they were, or need not be.
    """

    store: StorePruned | None
    images: tuple[ImageState, ...]
    images_in_use: tuple[ImageState, ...]
    dry_run: bool
    no_engine: str = ""


class FaultKind(Enum):
    """What is wrong with a file of a store."""

    DAMAGED = "damaged"
    LEFT_OVER = "left over"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFault:
    """A file that does not belong in a store as it is.

    name: for people, as of a ``StoreItem``.
    why: what shows it.
    removed: whether it is gone now.
    """

    kind: FaultKind
    name: str
    path: str
    why: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What a look at every byte of a store found.

    wheels, layers, virtualenvs: how many are whole.
    size: bytes of wheels and layers.
    unfinished: downloads that were cut off and go on where they stopped.
    """

    wheels: int
    layers: int
    size: int
    unfinished: tuple[StoreItem, ...]
    faults: tuple[StoreFault, ...]
    virtualenvs: int = 0

    @property
    def exit_code(self) -> int:
        """Return 9 where damage was found that is still there; what is left over harms nobody."""
        damaged = (x for x in self.faults if x.kind is FaultKind.DAMAGED and not x.removed)
        return 9 if any(damaged) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """A wheel of a stack, as the labels of its image name it."""

    name: str
    version: str
    filename: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayer:
    """A layer of a stack's image.

    chain_id: the engine's name for it and all that lies below.
    size: bytes; None where the engine does not tell layers apart.
    wheels: file names of what is installed in it.
    of_base: whether it belongs to the base, or to whatever lies below the stack.
    others: how many other images of stacks hold it.
    """

    diff_id: str
    chain_id: str
    size: int | None
    wheels: tuple[str, ...]
    of_base: bool
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDetails:
    """Everything that is known of a stack's image.

    labels: sorted (name, value) pairs.
    lock: what is installed; empty where an older stackgen made the image, which did not say.
    layers: bottom first.
    """

    image: ImageState
    labels: tuple[tuple[str, str], ...]
    lock: tuple[LockedWheel, ...]
    layers: tuple[ImageLayer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuilt:
    """What ``stackgen images build`` did.

    tag: the name that was asked for; "" where none was.
    layers_new: how many the engine did not have; none where it had the image.
    new_bytes: of these, as the engine counts them; None where it does not tell them apart.
    seconds: from the lock to the image.
    """

    image: ImageState
    tag: str
    packages: int
    had_it: bool
    layers_shared: int
    layers_new: int
    new_bytes: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A folder that was written.

    image_id: of the image in it; "" where the folder holds only how to make one.
    packages: how many are installed; 0 where nobody can tell.
    size: bytes of all files.
    """

    folder: str
    image_id: str
    packages: int
    size: int
