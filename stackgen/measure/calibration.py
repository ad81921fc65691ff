"""Whether a model's predictions can be believed: each block is held against those before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from stackgen.measure.model import Measured, Model, Prediction

LEVEL = 0.9
"""The share of inspections that a predictive interval should hold."""
_MOST = 60
"""Blocks that are looked at: of more, evenly spread ones, so that a report does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How many inspections fell within the interval that the model gave beforehand.

    inside of total; level: the share that should.
    """

    inside: int
    total: int
    level: float = LEVEL


def calibration(model: Model, measured: Sequence[Measured]) -> Calibration:
    """Hold each block against the prediction of the model that knew the blocks before it alone.

    What is predicted is the log time of each inspection against the mean of its block. The first
    block has nothing before it and is not judged, nor are blocks of a single inspection. Of more
    than sixty blocks sixty are looked at.

    Args:
        model: of the race.
        measured: all inspections that went well, in any order.

    Returns:
        Zero of zero where nothing can be judged.
    """
    ordered = sorted(measured, key=lambda each: each.block)
    blocks = [tuple(held) for _, held in groupby(ordered, key=lambda each: each.block)]
    judged = [n for n in range(1, len(blocks)) if len(blocks[n]) > 1]
    if len(judged) > _MOST:
        judged = [judged[round(n)] for n in np.linspace(0, len(judged) - 1, _MOST)]
    inside = total = 0
    for number in judged:
        before = [each for block in blocks[:number] for each in block]
        inside += _inside(model.predict(before), blocks[number])
        total += len(blocks[number])
    return Calibration(inside=inside, total=total)


def _inside(prediction: Prediction, block: Sequence[Measured]) -> int:
    """Return how many of the block's inspections lie within their predictive intervals."""
    from scipy.stats import t

    size = len(block)
    places = [each.stack for each in block]
    centring = np.eye(size) - 1.0 / size
    logs = centring @ np.array([each.log_s for each in block])
    expected = centring @ prediction.mean[places]
    spread = prediction.covariance[np.ix_(places, places)] + prediction.scatter**2 * np.eye(size)
    deviations = np.sqrt(np.diag(centring @ spread @ centring))
    reach = float(t.ppf((1 + LEVEL) / 2, prediction.freedom))
    return int(np.sum(np.abs(logs - expected) <= reach * deviations))
