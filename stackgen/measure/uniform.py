"""What the same confidence would have cost if every stack were measured in every block."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from stackgen.measure.model import Array, Prediction

MOST = 1000
"""Blocks beyond which nobody counts."""
_CAMPAIGNS = 40
_NODES = 24
_FIRST = 3  # of fewer blocks nobody could tell how large the noise is


def uniform_blocks(
    prediction: Prediction,
    alive: Sequence[int],
    *,
    margin: float,
    confidence: float,
    seed: int,
) -> int:
    """Return how many blocks of uniform repetition would have given the same confidence.

    Campaigns are simulated with what is believed of times and noise now: every stack is in every
    block, each is judged by its own blocks alone, and it ends when the leader is within the margin
    of the best with this confidence, at two looks in a row. Rather too few than too many: who ends
    a race believes that the leader is further ahead than it is.

    Args:
        prediction: what is believed now.
        alive: places of the stacks that could be measured.
        margin: a relative difference that nobody cares about.
        confidence: what was asked for, or reached.
        seed: of the dice.

    Returns:
        The median of the simulated campaigns, from 4 to 1000 blocks.
    """
    if len(alive) < 2:
        return _FIRST + 1
    dice = np.random.default_rng([seed, len(alive)])
    looks = np.unique(np.geomspace(_FIRST, MOST, 60).round().astype(int))
    truths = prediction.draws(_CAMPAIGNS, dice)[:, list(alive)]
    needed = [
        _needed(truth, looks, prediction.scatter, math.log1p(margin), confidence, dice)
        for truth in truths
    ]
    return int(statistics.median_low(needed))


def _needed(
    truth: Array,
    looks: "np.ndarray[tuple[int, ...], np.dtype[np.int_]]",
    noise: float,
    margin: float,
    confidence: float,
    dice: np.random.Generator,
) -> int:
    """Return after how many blocks one campaign is certain enough."""
    steps = np.diff(looks, prepend=0)
    walk = np.cumsum(dice.standard_normal((len(looks), len(truth))) * np.sqrt(steps)[:, None], 0)
    sure = False
    for blocks, sums in zip(looks, walk, strict=True):
        error = noise / math.sqrt(blocks)
        reached = leader_confidence(truth + noise * sums / blocks, error=error, margin=margin)
        if sure and reached >= confidence:  # at two looks in a row, as a race is
            return int(blocks)
        sure = reached >= confidence
    return MOST


def leader_confidence(means: Array, *, error: float, margin: float) -> float:
    """Return how probable it is that the lowest mean is of a stack within the margin.

    Args:
        means: log times, each the mean of as many inspections, shape (stacks,), two at least.
        error: standard error of each.
        margin: a difference of log times that nobody cares about.

    Means are independent and normal, so for each value of the leader's the others' probabilities
    multiply; Gauss and Hermite's rule adds them up over these values.
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    leader = int(np.argmin(means))
    others = np.delete(means, leader)
    reached = (others[None, :] - means[leader] + margin) / error - nodes[:, None]
    found = weights @ np.prod(ndtr(reached), axis=1) / weights.sum()
    return float(found)
