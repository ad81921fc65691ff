"""Blocks, effects and controls: what may be said from observations."""

from stackgen.measure.blocks import SAMPLES, Design, calibration_plan, plan_block, plan_search
from stackgen.measure.effects import (
    ALPHA,
    LOOKS,
    MARGIN,
    block_contrasts,
    effect,
    level_of_a_look,
    p_value,
    verdict,
)
from stackgen.measure.pressure import Aside, BlockKey, set_aside
from stackgen.measure.ranking import (
    block_times,
    candidates_of,
    controls,
    count_failures,
    decided,
    fewest_blocks,
    rank,
)
from stackgen.measure.results import Seen, by_place, deviation, deviations, not_repeatable

__all__ = [
    "ALPHA",
    "LOOKS",
    "MARGIN",
    "SAMPLES",
    "Aside",
    "BlockKey",
    "Design",
    "Seen",
    "block_contrasts",
    "block_times",
    "by_place",
    "calibration_plan",
    "candidates_of",
    "controls",
    "count_failures",
    "decided",
    "deviation",
    "deviations",
    "effect",
    "fewest_blocks",
    "level_of_a_look",
    "not_repeatable",
    "p_value",
    "plan_block",
    "plan_search",
    "rank",
    "set_aside",
    "verdict",
]
