"""Blocks, effects and controls: what may be said from observations."""

from stackgen.measure.blocks import SAMPLES, Design, calibration_plan, plan_block
from stackgen.measure.effects import (
    ALPHA,
    LOOKS,
    MARGIN,
    block_contrasts,
    effect,
    p_value,
    verdict,
)
from stackgen.measure.ranking import (
    block_times,
    controls,
    count_failures,
    decided,
    fewest_blocks,
    rank,
)

__all__ = [
    "ALPHA",
    "LOOKS",
    "MARGIN",
    "SAMPLES",
    "Design",
    "block_contrasts",
    "block_times",
    "calibration_plan",
    "controls",
    "count_failures",
    "decided",
    "effect",
    "fewest_blocks",
    "p_value",
    "plan_block",
    "rank",
    "verdict",
]
