"""What the blocks so far say of every stack, measured or not: a linear model of log time.

log y = block + one effect for each package version + one for each pair of versions + noise. The
effects are normal around zero, those of pairs more tightly, so that a stack nobody has measured is
predicted from its versions, with the uncertainty that this deserves. Blocks are taken out by
centring. In closed form: Gelman et al. (2013), Bayesian Data Analysis, chapter 14; the scales of
effects and noise are those with the highest marginal likelihood on a grid.

Predictions choose what is measured next. What is reported never rests on them (DESIGN.md, 5).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Versions: TypeAlias = tuple[tuple[str, str], ...]
"""Sorted (package, version) pairs of what varies in a stack."""
Array: TypeAlias = NDArray[np.float64]

_MAIN = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_PAIRS = (0.05, 0.25, 0.5, 1.0, 2.0)
"""Candidates for the standard deviations of effects, in those of the noise."""
_FURTHEST = 4.0
"""Residuals beyond so many deviations of their middle half are drawn in: noise has tails."""
_TINY, _UNLIKELY = 1e-12, 0.02
_BELIEVED = 3
"""How many contrasts the belief counts for that noise is about 3 %."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One inspection that ended well: the block that held it, the stack (its place), log time."""

    block: int
    stack: int
    log_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What one choice of scales says of the log time of each stack, up to a shared constant.

    weight: how likely the scales are. mean: shape (stacks,). covariance: shape (stacks, stacks).
    noise: standard deviation of one inspection around its stack and block.
    freedom: how well the noise is known (the log times follow a multivariate t).
    """

    weight: float
    mean: Array
    covariance: Array
    noise: float
    freedom: int

    def draws(self, count: int, dice: np.random.Generator) -> Array:
        """Return so many guesses of all log times, shape (count, stacks)."""
        values, vectors = np.linalg.eigh(self.covariance)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        guesses = dice.standard_normal((count, len(values))) @ spread.T
        tails = np.sqrt(self.freedom / dice.chisquare(self.freedom, size=(count, 1)))
        found: Array = self.mean + tails * guesses
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is believed of the log time of each stack, over all likely scales of effects."""

    beliefs: tuple[Belief, ...]

    @property
    def mean(self) -> Array:
        """Return the expected log time of each stack, shape (stacks,)."""
        found: Array = np.sum([each.weight * each.mean for each in self.beliefs], axis=0)
        return found

    @property
    def covariance(self) -> Array:
        """Return the covariance of the log times, shape (stacks, stacks)."""
        centre = self.mean
        parts = [
            each.weight * (each.covariance + np.outer(each.mean - centre, each.mean - centre))
            for each in self.beliefs
        ]
        found: Array = np.sum(parts, axis=0)
        return found

    @property
    def noise(self) -> float:
        """Return the standard deviation of one inspection."""
        return math.sqrt(sum(each.weight * each.noise**2 for each in self.beliefs))

    def interval(self, a: int, b: int, reach: float = 1.96) -> tuple[float, float]:
        """Return bounds of the log ratio of the time of ``b`` to that of ``a``."""
        means, each = self.mean, self.covariance
        middle = means[b] - means[a]
        half = reach * math.sqrt(max(0.0, each[a, a] + each[b, b] - 2 * each[a, b]))
        return float(middle - half), float(middle + half)

    def draws(self, count: int, dice: np.random.Generator) -> Array:
        """Return so many guesses of all log times, shape (count, stacks)."""
        shares = dice.multinomial(count, [each.weight for each in self.beliefs])
        return np.concatenate(
            [each.draws(int(n), dice) for each, n in zip(self.beliefs, shares, strict=True) if n]
        )


class Model:
    """The space of one race: which versions each stack has."""

    def __init__(self, stacks: Sequence[Versions]) -> None:
        self._versions = _indicators([{each} for each in _column(stacks)], stacks)
        pairs = [set(each) for each in _column_of_pairs(stacks)]
        self._pairs = _indicators(pairs, stacks)

    def prior(self, main: float, pairs: float) -> Array:
        """Return the covariance of the stacks' log times before anything was measured."""
        same = self._versions @ self._versions.T
        return main**2 * same + pairs**2 * (self._pairs @ self._pairs.T)

    def predict(self, measured: Sequence[Measured]) -> Prediction:
        """Return what these inspections say of all stacks.

        Blocks with a single inspection say nothing. Without any others, this is the prior.
        """
        rows, values = _centred(measured, len(self._versions))
        # A constant that all stacks share cancels in every row: nothing is lost by the centring.
        if len(values):
            values = self._drawn_in(rows, values)
        scales = self._scales(rows, values)
        return Prediction(
            beliefs=tuple(self._belief(rows, values, *pair, w) for pair, w in scales.items())
        )

    def _belief(
        self, rows: Array, values: Array, main: float, pairs: float, weight: float
    ) -> Belief:
        prior = self.prior(main, pairs)
        spread = rows @ prior @ rows.T + np.eye(len(values))
        gain = np.linalg.solve(spread, rows @ prior).T
        square = _square(spread, values)
        return Belief(
            weight=weight,
            mean=gain @ values,
            covariance=square * (prior - gain @ rows @ prior),
            noise=math.sqrt(square),
            freedom=_BELIEVED + len(values),
        )

    def _scales(self, rows: Array, values: Array) -> dict[tuple[float, float], float]:
        """Return how likely versions' and pairs' deviations are, in those of the noise."""
        mains, pairs = rows @ self._versions, rows @ self._pairs
        mains, pairs = mains @ mains.T, pairs @ pairs.T
        found = {}
        for main, pair in product(_MAIN, _PAIRS):
            if pair > main:
                continue  # pairs are shrunken more than versions alone
            spread = main**2 * mains + pair**2 * pairs + np.eye(len(values))
            factor = np.linalg.cholesky(spread)
            logs = 2 * float(np.sum(np.log(np.diag(factor))))
            count = len(values) + _BELIEVED
            found[main, pair] = -0.5 * (logs + count * math.log(_square(spread, values)))
        most = max(found.values())
        likely = {pair: math.exp(each - most) for pair, each in found.items()}
        likely = {pair: each for pair, each in likely.items() if each >= _UNLIKELY}
        whole = sum(likely.values())
        return {pair: each / whole for pair, each in likely.items()}

    def _drawn_in(self, rows: Array, values: Array) -> Array:
        """Return the values with those far from their prediction drawn in to what is likely."""
        scales = self._scales(rows, values)
        main, pairs = max(scales, key=lambda pair: scales[pair])
        spread = rows @ self.prior(main, pairs) @ rows.T
        expected = spread @ np.linalg.solve(spread + np.eye(len(values)), values)
        residuals = values - expected
        quarter, three = np.quantile(residuals, [0.25, 0.75])
        reach = _FURTHEST * max((three - quarter) / 1.349, _TINY)
        drawn: Array = expected + np.clip(residuals, -reach, reach)
        return drawn


def _square(spread: Array, values: Array) -> float:
    """Return the variance of the noise; a little is believed before anything is seen."""
    seen = float(values @ np.linalg.solve(spread, values))
    return (_BELIEVED * 0.03**2 + seen) / (_BELIEVED + len(values))


def _column(stacks: Sequence[Versions]) -> list[tuple[str, str]]:
    return sorted({each for versions in stacks for each in versions})


def _column_of_pairs(
    stacks: Sequence[Versions],
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return sorted({pair for versions in stacks for pair in combinations(sorted(versions), 2)})


def _indicators(wanted: Sequence[set[tuple[str, str]]], stacks: Sequence[Versions]) -> Array:
    """Return 1 where a stack has all of the wanted versions, shape (stacks, wanted)."""
    held = [set(versions) for versions in stacks]
    rows = [[float(each <= versions) for each in wanted] for versions in held]
    return np.array(rows, dtype=float).reshape(len(stacks), len(wanted))


def _centred(measured: Sequence[Measured], stacks: int) -> tuple[Array, Array]:
    """Return contrasts within blocks (as rows over the stacks) and their values.

    A block of k inspections gives k - 1 orthonormal contrasts (Helmert's), so that what is left
    has independent noise of the same size as one inspection.
    """
    blocks: dict[int, list[Measured]] = {}
    for each in measured:
        blocks.setdefault(each.block, []).append(each)
    rows: list[Array] = []
    values: list[float] = []
    for _, held in sorted(blocks.items()):
        for place in range(1, len(held)):
            weights = np.array([1.0] * place + [-float(place)])
            weights /= np.sqrt(place * (place + 1))
            row = np.zeros(stacks)
            for weight, each in zip(weights, held, strict=False):
                row[each.stack] += weight
            rows.append(row)
            values.append(
                float(sum(w * each.log_s for w, each in zip(weights, held, strict=False)))
            )
    return np.array(rows).reshape(len(rows), stacks), np.array(values)
