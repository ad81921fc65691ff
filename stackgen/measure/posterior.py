"""What the blocks so far say of every stack, measured or not: a linear model of log time.

log y = block + one effect for each package version + one for each pair of versions + noise. The
effects are normal around zero, those of pairs more tightly, so that an unmeasured stack is
predicted from its versions, with due uncertainty. In closed form: Gelman et al.
(2013), Bayesian Data Analysis, chapter 14; the scales of effects are weighed by their marginal
likelihood on a grid. Tails of the noise are drawn in by Huber's pseudo-values (1973, Robust
regression), which keep the stated uncertainty true.

Predictions choose what is measured next. What is reported never rests on them (DESIGN.md, 5).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# What blocks say once the blocks themselves are taken out: as few contrasts as there are stacks

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

_TINY = 1e-9
_FURTHEST = 2.5
"""Residuals beyond so many deviations are drawn in: noise has tails. Where it has none, nearer ones
would cost the stated confidence its truth (ADR 21)."""
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Measured:
    """One inspection that ended well: the block that held it, the stack (its place), log time."""

    block: int
    stack: int
    log_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrasts:
    """Differences within blocks.

    places: of the stacks that were measured, ascending, shape (measured,). rows: contrasts over
    these stacks, shape (contrasts, measured). values: theirs. left: the sum of squares that no
    difference between stacks explains. freedom: how many differences there were in all.
    """

    places: Places
    rows: Array
    values: Array
    left: float
    freedom: int
    blocks: Places
    stacks: Places
    log_s: Array

    def drawn_in(self, gain: Array) -> tuple[Array, float]:
        """Return values and what is left when residuals far from the rest are drawn in.

        What a residual loses is made up for in all of them, so that least squares of what comes
        out have the right uncertainty (Huber 1973).

        Args:
            gain: how values make the expected log times of the measured stacks, shape (measured,
                contrasts).
        """
        log_s = self.log_s
        values, left = self.values, self.left
        for _ in range(_ROUNDS):
            fitted = (gain @ values)[self.stacks]
            fitted = fitted + _means(log_s - fitted, self.blocks)[self.blocks]
            residuals = self.log_s - fitted
            # Of k residuals in a block only k - 1 are free; the median takes no notice.
            reach = _FURTHEST * float(np.median(np.abs(residuals))) / 0.6745
            inside = np.abs(residuals) <= reach
            if reach < _TINY or inside.all():
                break
            log_s = fitted + np.clip(residuals, -reach, reach) / inside.mean()
            values, left = _reduced(self.rows, log_s, blocks=self.blocks, stacks=self.stacks)
        return values, left


def contrasts(measured: Sequence[Measured]) -> Contrasts:
    """Reduce inspections to contrasts; blocks with a single one say nothing and are left out."""
    counts: dict[int, int] = {}
    for each in measured:
        counts[each.block] = counts.get(each.block, 0) + 1
    used = [each for each in measured if counts[each.block] > 1]
    places, stacks = _numbered([each.stack for each in used])
    known, blocks = _numbered([each.block for each in used])
    shared = np.zeros((len(known), len(places)))
    np.add.at(shared, (blocks, stacks), 1.0)
    sizes = shared.sum(axis=1)
    precision = np.diag(shared.sum(axis=0)) - shared.T @ (shared / sizes[:, None])
    strengths, vectors = np.linalg.eigh(precision)
    positive = strengths > _TINY * max(1.0, float(strengths.max(initial=0.0)))
    rows: Array = (vectors[:, positive] * np.sqrt(strengths[positive])).T
    log_s = np.array([each.log_s for each in used], dtype=float)
    reduced = _reduced(rows, log_s, blocks=blocks, stacks=stacks)
    return Contrasts(
        places=np.array(places, dtype=np.intp),
        rows=rows,
        values=reduced[0],
        left=reduced[1],
        freedom=len(used) - len(known),
        blocks=blocks,
        stacks=stacks,
        log_s=log_s,
    )


def _reduced(rows: Array, log_s: Array, *, blocks: Places, stacks: Places) -> tuple[Array, float]:
    """Return the value of each row of contrasts, and the sum of squares that they leave."""
    centred = log_s - _means(log_s, blocks)[blocks]
    sums = np.bincount(stacks, centred, rows.shape[1])
    # The rows are orthogonal: their pseudo-inverse is themselves, over their squared lengths.
    values: Array = rows @ sums / np.maximum((rows**2).sum(axis=1), _TINY)
    return values, max(0.0, float(centred @ centred) - float(values @ values))


def _means(values: Array, groups: Places) -> Array:
    found: Array = np.bincount(groups, values) / np.bincount(groups)
    return found


def _numbered(names: Sequence[int]) -> tuple[list[int], Places]:
    known = sorted(set(names))
    numbers = {name: number for number, name in enumerate(known)}
    return known, np.array([numbers[name] for name in names], dtype=np.intp)


Versions: TypeAlias = tuple[tuple[str, str], ...]
"""Sorted (package, version) pairs of what varies in a stack."""

_MAIN = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_PAIRS = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates for the standard deviations of effects, in those of the noise."""
_UNLIKELY = 0.02
_PRIOR_WEIGHT, _NOISE = 1, 0.05
"""How many contrasts the posterior counts for that noise is about so large."""
_JITTER, _CACHED = 1e-9, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
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
        size = len(self.mean)
        little = _JITTER * (float(np.trace(self.covariance)) / size + self.noise**2)
        root = _root(self.covariance + little * np.eye(size))
        guesses = dice.standard_normal((count, size)) @ root.T
        tails = np.sqrt(self.freedom / dice.chisquare(self.freedom, size=(count, 1)))
        found: Array = self.mean + tails * guesses
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Posterior of the log time of each stack, over all likely scales of effects.

    mean: the expected log time of each stack, shape (stacks,). covariance: of the log times, shape
    (stacks, stacks). noise: the standard deviation of one inspection, as far as it blurs the means.
    scatter: the same with what is far out, as the next inspection will show it.
    """

    components: tuple[Component, ...]
    mean: Array
    covariance: Array
    noise: float
    scatter: float

    @property
    def freedom(self) -> int:
        """Return how well the noise is known: degrees of freedom of a t distribution."""
        return self.components[0].freedom

    def interval(self, a: int, b: int, reach: float = 1.96) -> tuple[float, float]:
        """Return bounds of the log ratio of the time of ``b`` to that of ``a``."""
        each = self.covariance
        middle = self.mean[b] - self.mean[a]
        half = reach * math.sqrt(max(0.0, each[a, a] + each[b, b] - 2 * each[a, b]))
        return float(middle - half), float(middle + half)

    def draws(self, count: int, dice: np.random.Generator) -> Array:
        """Return so many guesses of all log times, shape (count, stacks)."""
        shares = dice.multinomial(count, [each.weight for each in self.components])
        return np.concatenate(
            [each.draws(int(n), dice) for each, n in zip(self.components, shares, strict=True) if n]
        )


class Model:
    """The space of one race: which versions each stack has.

    The work is that of matrices over the stacks, however many inspections there were: of 400
    stacks half a second.
    """

    def __init__(self, stacks: Sequence[Versions]) -> None:
        singles = sorted({each for versions in stacks for each in versions})
        both = sorted({pair for each in stacks for pair in combinations(sorted(each), 2)})
        versions = _indicators([{each} for each in singles], stacks)
        pairs = _indicators([set(each) for each in both], stacks)
        self._versions, self._pairs = versions @ versions.T, pairs @ pairs.T
        self._last: dict[tuple[Measured, ...], Prediction] = {}

    @property
    def stacks(self) -> int:
        """Return how many stacks there are."""
        return len(self._versions)

    def prior(self, main: float, pairs: float) -> Array:
        """Return the covariance of the stacks' log times before anything was measured."""
        found: Array = main**2 * self._versions + pairs**2 * self._pairs
        return found

    def predict(self, measured: Sequence[Measured]) -> Prediction:
        """Return what these inspections say of all stacks.

        Blocks with a single inspection say nothing. Without any others, this is the prior.
        """
        key = tuple(measured)
        if key not in self._last:
            # A search predicts for now, and for one block before.
            newest = list(self._last.items())[-(_CACHED - 1) :]
            self._last = {**dict(newest), key: self._predict(key)}
        return self._last[key]

    def _predict(self, measured: Sequence[Measured]) -> Prediction:
        seen = contrasts(measured)
        fit = _Fit(self, seen)
        values, left = fit.drawn_in()
        scales = fit.scales(values, left)
        components = tuple(fit.posterior(values, left, *pair, w) for pair, w in scales.items())
        centre: Array = np.sum([each.weight * each.mean for each in components], axis=0)
        parts = [
            each.weight * (each.covariance + np.outer(each.mean - centre, each.mean - centre))
            for each in components
        ]
        return Prediction(
            components=components,
            mean=centre,
            covariance=np.sum(parts, axis=0),
            noise=math.sqrt(sum(each.weight * each.noise**2 for each in components)),
            scatter=fit.scatter(scales),
        )


class _Fit:
    """A model and the contrasts that it is to explain, with what their algebra shares."""

    def __init__(self, model: Model, seen: Contrasts) -> None:
        self._model, self._seen = model, seen
        self._main = model.prior(1.0, 0.0)[:, seen.places] @ seen.rows.T
        self._pair = model.prior(0.0, 1.0)[:, seen.places] @ seen.rows.T
        self._mains = seen.rows @ self._main[seen.places]
        self._pairs = seen.rows @ self._pair[seen.places]
        # Pairs are shrunken more than versions alone.
        choices = [(main, pair) for main in _MAIN for pair in _PAIRS if pair <= main]
        self._roots = {scales: _root(self._spread(*scales)) for scales in choices}

    def _spread(self, main: float, pairs: float) -> Array:
        found: Array = main**2 * self._mains + pairs**2 * self._pairs
        found[np.diag_indices_from(found)] += 1.0
        return found

    def _square(self, explained: float, left: float) -> float:
        """Return the variance of the noise; a weak prior holds before anything is seen."""
        count = _PRIOR_WEIGHT + self._seen.freedom
        return (_PRIOR_WEIGHT * _NOISE**2 + explained + left) / count

    def scales(self, values: Array, left: float) -> dict[tuple[float, float], float]:
        """Return how likely versions' and pairs' deviations are, in those of the noise."""
        count = self._seen.freedom + _PRIOR_WEIGHT
        found = {}
        for choice, root in self._roots.items():
            logs = 2 * float(np.sum(np.log(np.diag(root))))
            white = _forward(root, values)
            square = self._square(float(white @ white), left)
            found[choice] = -0.5 * (logs + count * math.log(square))
        most = max(found.values())
        likely = {pair: math.exp(each - most) for pair, each in found.items()}
        likely = {pair: each for pair, each in likely.items() if each >= _UNLIKELY}
        whole = sum(likely.values())
        return {pair: each / whole for pair, each in likely.items()}

    def posterior(
        self, values: Array, left: float, main: float, pairs: float, weight: float
    ) -> Component:
        """Return the posterior of all stacks at these scales."""
        root = self._roots[main, pairs]
        gain = _forward(root, (main**2 * self._main + pairs**2 * self._pair).T)
        white = _forward(root, values)
        square = self._square(float(white @ white), left)
        return Component(
            weight=weight,
            mean=gain.T @ white,
            covariance=square * (self._model.prior(main, pairs) - gain.T @ gain),
            noise=math.sqrt(square),
            freedom=_PRIOR_WEIGHT + self._seen.freedom,
        )

    def scatter(self, scales: Mapping[tuple[float, float], float]) -> float:
        """Return the standard deviation of an inspection, wild ones as they were."""
        main, pairs = max(scales, key=lambda pair: scales[pair])
        white = _forward(self._roots[main, pairs], self._seen.values)
        return math.sqrt(self._square(float(white @ white), self._seen.left))

    def drawn_in(self) -> tuple[Array, float]:
        """Return the contrasts, and what they leave unexplained, with wild inspections drawn in."""
        values, left = self._seen.values, self._seen.left
        if not len(values):
            return values, left
        scales = self.scales(values, left)
        main, pairs = max(scales, key=lambda pair: scales[pair])
        means = main**2 * self._main + pairs**2 * self._pair
        gain = np.linalg.solve(self._spread(main, pairs), means[self._seen.places].T)
        return self._seen.drawn_in(np.asarray(gain.T, dtype=np.float64))


def _root(square: Array) -> Array:
    return np.asarray(np.linalg.cholesky(square), dtype=np.float64)


def _forward(root: Array, values: Array) -> Array:
    from scipy.linalg.lapack import dtrtrs

    found: Array = dtrtrs(root, values, lower=1)[0] if len(root) else values
    return found


def _indicators(wanted: Sequence[set[tuple[str, str]]], stacks: Sequence[Versions]) -> Array:
    """Return 1 where a stack has all of the wanted versions, shape (stacks, wanted)."""
    sets = [set(versions) for versions in stacks]
    rows = [[float(each <= versions) for each in wanted] for versions in sets]
    return np.array(rows, dtype=float).reshape(len(stacks), len(wanted))


# Calibration of the predictions: each block is compared with those before it

LEVEL = 0.9
"""The share of inspections that a predictive interval should hold."""
_MOST = 60
"""Blocks that are looked at: of more, evenly spread ones, so that a report does not wait."""


def calibration(model: Model, measured: Sequence[Measured]) -> tuple[int, int]:
    """Hold each block against the prediction of the model that knew the blocks before it alone.

    What is predicted is the log time of each inspection against the mean of its block. The first
    block has nothing before it and is not judged, nor are blocks of a single inspection. Of more
    than sixty blocks sixty are looked at.

    Args:
        measured: all inspections that went well, in any order.

    Returns:
        How many inspections lay within their predictive interval, of how many; zero of zero where
        nothing can be judged.
    """
    ordered = sorted(measured, key=lambda each: each.block)
    blocks = [tuple(block) for _, block in groupby(ordered, key=lambda each: each.block)]
    judged = [n for n in range(1, len(blocks)) if len(blocks[n]) > 1]
    if len(judged) > _MOST:
        judged = [judged[round(n)] for n in np.linspace(0, len(judged) - 1, _MOST)]
    inside = total = 0
    for number in judged:
        before = [each for block in blocks[:number] for each in block]
        inside += _inside(model.predict(before), blocks[number])
        total += len(blocks[number])
    return inside, total


def _inside(prediction: Prediction, block: Sequence[Measured]) -> int:
    """Return how many of the block's inspections lie within their predictive intervals."""
    from scipy.special import stdtrit

    size = len(block)
    places = [each.stack for each in block]
    centring = np.eye(size) - 1.0 / size
    logs = centring @ np.array([each.log_s for each in block])
    expected = centring @ prediction.mean[places]
    spread = prediction.covariance[np.ix_(places, places)] + prediction.scatter**2 * np.eye(size)
    deviations = np.sqrt(np.diag(centring @ spread @ centring))
    reach = float(stdtrit(prediction.freedom, (1 + LEVEL) / 2))
    return int(np.sum(np.abs(logs - expected) <= reach * deviations))
