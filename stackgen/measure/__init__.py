"""Statistics, without I/O: blocks, effects, controls, search, attribution; what may be said."""

from stackgen.measure.blocks import SAMPLES, Design, calibration_plan, plan_block, plan_search
from stackgen.measure.disturbances import exclude_disturbed
from stackgen.measure.effects import (
    ALPHA,
    INTERIM_ANALYSES,
    MARGIN,
    WORTH_DECIDING,
    block_contrasts,
    effect,
    level_per_analysis,
    p_value,
    sequential_p,
    verdict,
)
from stackgen.measure.ranking import (
    block_times,
    candidates_of,
    controls,
    count_failures,
    decided,
    fewest_blocks,
    rank,
)
from stackgen.measure.results import (
    Computed,
    Result,
    Seen,
    by_place,
    deviation,
    deviations,
    deviations_in,
    not_repeatable,
)

__all__ = [
    "ALPHA",
    "INTERIM_ANALYSES",
    "MARGIN",
    "SAMPLES",
    "WORTH_DECIDING",
    "Computed",
    "Design",
    "Result",
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
    "deviations_in",
    "effect",
    "exclude_disturbed",
    "fewest_blocks",
    "level_per_analysis",
    "not_repeatable",
    "p_value",
    "plan_block",
    "plan_search",
    "rank",
    "sequential_p",
    "verdict",
]
