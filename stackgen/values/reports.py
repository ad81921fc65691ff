"""What a command found, ready to be shown to a person or to a machine."""

from dataclasses import dataclass

from stackgen.values.evidence import Advice, Control, Origin, Ranked
from stackgen.values.identity import IndicatorId, StackId
from stackgen.values.inspections import Outcome
from stackgen.values.money import Cost, Scaled
from stackgen.values.packages import Lock, LockFile


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
class Place:
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
    place: Place
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
class Predicted:
    """What a search believes of a stack, measured or not.

    ratio: time of the reference over the stack's own, so above 1 means faster.
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
    predictions: tuple[Predicted, ...]
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
    reference_s: seconds of one operation on the reference, by id of those that give a time.
    checks: (id, file) pairs of those whose result was written into a file and compared.
    margin: a relative difference that nobody cares about: less than that is "the same".
    search: how the stacks in the ranking were chosen; None where all of them were measured alike.
    weights: of indicators in what is said of all of them together; 1 where none is given.
    answer: what the ranking answers, as ``measure.conclusion`` has it: ``faster``, ``nothing
        faster``, or why there is none. winner: the stack to take; "" where none can be named.
    aside: what disturbed each block that was set aside, in words, in their order.
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
    reference_s: tuple[tuple[IndicatorId, float], ...] = ()
    checks: tuple[tuple[IndicatorId, str], ...] = ()
    search: SearchReport | None = None
    weights: tuple[tuple[IndicatorId, float], ...] = ()
    aside: tuple[str, ...] = ()
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
