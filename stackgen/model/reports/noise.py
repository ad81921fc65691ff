"""Report of a stack that was measured against itself: the smallest difference that shows."""

from dataclasses import dataclass

from stackgen.model.identity import IndicatorId
from stackgen.model.reports.campaigns import MeasurementSetup

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
    drift: correlation of a block's level with that of the block before it; it cancels in pairs.
    carry_over: the same of the differences, which should be none. Both are None for few blocks.
    p_value: of "both runs of a pair are the same"; None while there are too few blocks.
    differs: they are shown not to be, which is wrong: nothing was different.
    detectable: by number of blocks; empty where ``nothing`` says why.
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
    carry_over: float | None = None
    p_value: float | None = None
    differs: bool = False
    detectable: tuple[DetectableEffect, ...] = ()
    nothing: str = ""
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
