"""What times and failures of hybrids say of each possible cause (``stackgen.measure.attribution``).

Of times, each hypothesis has a marginal likelihood in closed form (Bayesian linear regression),
with the size of the effect and its shares integrated over, and a grid over the noise and over the
offset that each build has. Of failures it is beta-binomial.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, chdtrc, log_ndtr

from stackgen.measure.attribution import (
    Array,
    Cause,
    CauseKind,
    Fit,
    Hybrid,
    Pair,
    Trial,
    stacks_of,
)

Places: TypeAlias = NDArray[np.intp]
_SHARES = ((0.5, 0.15), (1.6, 0.25), (-0.6, 0.25))
"""What the first of two packages that add up has of the whole effect: normal with this mean and
standard deviation. Shares near 0 and 1 are left to `SINGLE`."""
_SMALLEST_PART = 0.25
"""An effect below this part of the one that was confirmed counts as none."""
_GRID = 33
_EXACT = 16
"""How many pairs are compared by information itself."""
_TINY = 1e-12


def _information(weights: Array, outcomes: Array) -> Array:
    """Return the mutual information of hypotheses and outcomes in bits, shape (pairs,)."""
    logs = np.log2(np.maximum(outcomes, _TINY))
    each = weights @ (outcomes * logs).sum(axis=2).T
    mixed = np.einsum("h,pho->po", weights, outcomes)
    whole = (mixed * np.log2(np.maximum(mixed, _TINY))).sum(axis=1)
    found: Array = np.maximum(0.0, each - whole)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Times per block: normal around the effect of a hypothesis and an offset of the build.

    effect, effect_sd: log of the bad stack's time over the good one's, by the campaign that
        confirmed it and by no other (an estimate that was selected for being large is too large),
        and the standard deviation of what other builds and days may show instead.
    noise_sd: of the log contrast of one block, by the same campaign; freedom: its degrees of
        freedom.
    build_sd: scale of the offset that each build of a stack has.
    confirming: blocks of the bad stack without which no cause is named.
    """

    effect: float
    effect_sd: float
    noise_sd: float
    freedom: int
    build_sd: float
    confirming: int = 3
    comparing: bool = True

    def fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> Fit:
        """Return what trials say of each hypothesis."""
        return _TimingsFit(self, causes, trials)

    def levels(self, cause: Cause, hybrid: Hybrid) -> tuple[bool, ...]:
        """Return which of the effects of a cause a hybrid has; of equal ones, how many."""
        present = tuple(each in hybrid for each in cause.packages)
        if cause.kind is CauseKind.TOGETHER:
            return (all(present),)
        if cause.kind is CauseKind.THREE:
            present = tuple(sorted(present))
        # Two effects that come together are one.
        return present if len(set(present)) > 1 else present[:1]


class _TimingsFit:
    """Marginal likelihoods of hypotheses about times, in closed form for each pair of scales.

    A hypothesis is one column, or one for each component of `_SHARES`. The effect of a hybrid is
    ``whole * part + difference * contrast``: the part of the whole effect that it has with equal
    shares, and half the difference of the two packages' effects; both coefficients are normal.
    A contrast is the difference of two hybrids. The rest is normal, too: an offset of each build,
    the good stack's included, and noise of blocks.
    """

    def __init__(self, prior: Timings, causes: Sequence[Cause], trials: Sequence[Trial]) -> None:
        self._prior, self._causes = prior, causes
        self._sizes = np.array([len(each.log_contrasts) for each in trials], dtype=float)
        self._y = np.array([np.mean(each.log_contrasts) for each in trials], dtype=float)
        self._left = sum(float(np.var(b.log_contrasts)) * len(b.log_contrasts) for b in trials)
        self._packages = sorted({name for cause in causes for name in cause.packages})
        self._set_columns()
        self._stacks = stacks_of(trials)
        self._signs = self._compared([(each.hybrid, each.reference) for each in trials])
        self._of_stacks = self._parts(self._stacks)
        self._design = self._signs @ self._of_stacks[0], self._signs @ self._of_stacks[1]
        self._shown = self._signs @ self._present(self._stacks)
        self._many_prior = self._many_effects()
        scales, weights = self._scales()
        weighed = weights[:, None] + self._solve(scales).log_likelihoods
        top = float(weighed.max())
        per_column = np.exp(weighed - top).sum(axis=0)
        self._column_weights = per_column / self._counts[self._cause_of]
        per_cause = np.bincount(self._cause_of, self._column_weights, len(causes))
        self.log_likelihoods: Array = top + np.log(per_cause + _TINY**2)
        # Predictions take the scales that data and prior make likely on the whole.
        share = np.exp(np.logaddexp.reduce(weighed, axis=1) - top)
        likely = (share / share.sum()) @ scales
        self._noise, self._build = likely.tolist()
        self._solution = self._solve(likely[None]).first

    def _set_columns(self) -> None:
        """Set the columns: their hypothesis, packages, and the prior of both coefficients."""
        index = {name: place for place, name in enumerate(self._packages)}
        columns = [
            (place, share, each)
            for place, each in enumerate(self._causes)
            for share in (_SHARES if each.kind is CauseKind.BOTH else ((0.5, 0.0),))
        ]
        effect = abs(self._prior.effect)
        self._cause_of = np.array([place for place, _, _ in columns])
        self._counts = np.bincount(self._cause_of, minlength=len(self._causes))
        self._first = np.array([index[c.packages[0]] if c.packages else 0 for _, _, c in columns])
        self._last = np.array([index[c.packages[-1]] if c.packages else 0 for _, _, c in columns])
        three = [
            (n, c.packages) for n, (_, _, c) in enumerate(columns) if c.kind is CauseKind.THREE
        ]
        self._three = np.array([place for place, _ in three], dtype=np.intp)
        self._of_three = np.array([[index[each] for each in names] for _, names in three])
        self._both = np.array([each.kind is CauseKind.BOTH for _, _, each in columns])
        self._silent = np.array([not each.packages for _, _, each in columns])
        self._many = np.array([each.kind is CauseKind.MANY for _, _, each in columns])
        shares = np.array([share for _, share, _ in columns])
        self._difference_mean = (shares[:, 0] - 0.5) * self._prior.effect
        self._difference_var = np.maximum((shares[:, 1] * effect) ** 2, _TINY)

    def _parts(self, hybrids: Sequence[Hybrid]) -> tuple[Array, Array]:
        """Return what multiplies the two coefficients, each of shape (hybrids, columns)."""
        present = self._present(hybrids)
        first, last = present[:, self._first], present[:, self._last]
        part = np.where(self._both, (first + last) / 2, first * last)
        part[:, self._silent] = 0.0
        if len(self._three):
            part[:, self._three] = present[:, self._of_three].mean(axis=2)
        return part, np.where(self._both, first - last, 0.0)

    def _present(self, hybrids: Sequence[Hybrid]) -> Array:
        rows = [[float(name in hybrid) for name in self._packages] for hybrid in hybrids]
        return np.array(rows).reshape(len(hybrids), len(self._packages))

    def _compared(self, pairs: Sequence[Pair]) -> Array:
        """Return what each pair takes from each known stack: 1, -1 or 0."""
        rows = [
            [float(each == hybrid) - float(each == reference) for each in self._stacks]
            for hybrid, reference in pairs
        ]
        return np.array(rows).reshape(len(pairs), len(self._stacks))

    def _scales(self) -> tuple[Array, Array]:
        """Return pairs of noise and build offset, and log weights: prior, and spread of blocks."""
        prior, freedom = self._prior, max(1, self._prior.freedom)
        within = float(self._sizes.sum()) - len(self._sizes)
        grid = np.array(list(product((0.65, 0.85, 1.1, 1.4, 1.9), (0.0, 0.6, 1.2, 2.0))))
        variance = (prior.noise_sd * grid[:, 0]) ** 2
        weights = -0.5 * freedom * (np.log(variance) + prior.noise_sd**2 / variance)
        weights -= 0.5 * (within * np.log(variance) + self._left / variance)
        weights -= 0.5 * grid[:, 1] ** 2
        return grid * [prior.noise_sd, prior.build_sd], weights

    def _solve(self, scales: Array) -> "_Solution":
        """Return the two coefficients of each column, and how well it explains the trials.

        Args:
            scales: pairs of noise and build offset, shape (scales, 2).
        """
        prior_precision = 1 / self._prior.effect_sd**2
        noise, build = scales[:, 0, None, None], scales[:, 1, None, None]
        covariance = build**2 * (self._signs @ self._signs.T) + noise**2 * np.diag(1 / self._sizes)
        precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        part, contrast = self._design
        # Relative to what the prior means predict, coefficients have mean 0.
        left = self._y[:, None] - part * self._prior.effect - contrast * self._difference_mean
        weighed, of_part = precision @ left, precision @ part
        a = (of_part * part).sum(axis=1) + prior_precision
        b = (of_part * contrast).sum(axis=1)
        c = ((precision @ contrast) * contrast).sum(axis=1) + 1 / self._difference_var
        right_a, right_c = (part * weighed).sum(axis=1), (contrast * weighed).sum(axis=1)
        determinant = a * c - b * b
        variances = np.stack([c, -b, a], axis=1) / determinant[:, None]
        whole = variances[:, 0] * right_a + variances[:, 1] * right_c
        difference = variances[:, 1] * right_a + variances[:, 2] * right_c
        logs = -0.5 * ((left * weighed).sum(axis=1) - whole * right_a - difference * right_c)
        logs -= 0.5 * np.log(determinant / prior_precision * self._difference_var)
        logs -= 0.5 * np.linalg.slogdet(covariance)[1][:, None]
        mean = self._prior.effect + whole
        # The prior of an effect ends where it is as good as none.
        smallest = self._prior.effect * _SMALLEST_PART
        sign = math.copysign(1.0, self._prior.effect)
        within = log_ndtr(sign * (mean - smallest) / np.sqrt(variances[:, 0]))
        before = log_ndtr(sign * (self._prior.effect - smallest) / self._prior.effect_sd)
        logs += np.where(self._silent, 0.0, within - before)
        centre, kernel = self._many_prior
        rest = self._y - centre
        many_precision = np.asarray(np.linalg.inv(covariance + kernel), dtype=np.float64)
        misfit = np.linalg.slogdet(covariance + kernel)[1] + rest @ (many_precision @ rest).T
        logs[:, self._many] = -0.5 * misfit[:, None]
        return _Solution(
            log_likelihoods=logs,
            whole=mean,
            difference=self._difference_mean + difference,
            variances=variances,
            precision=precision,
            many_precision=many_precision,
        )

    def _many_effects(self) -> tuple[Array, Array]:
        """Return mean and covariance of the contrasts where many packages have effects."""
        own = self._signs * [float(bool(each)) for each in self._stacks]
        shared = self._shown @ self._shown.T / max(1, len(self._packages))
        centre: Array = self._prior.effect * self._shown.sum(axis=1) / max(1, len(self._packages))
        return centre, self._prior.effect**2 * (shared + own @ own.T / 9)

    def information(
        self, pairs: Sequence[Pair], weights: Mapping[int, float], counts: Sequence[int]
    ) -> Sequence[Array]:
        """Return what so many blocks of a pair say of hypotheses, in bits.

        By the spread of what hypotheses predict, and exactly for the pairs where that is largest.
        """
        columns, rows, shares = self._likely_columns(list(weights))
        prior = np.array(list(weights.values()))
        means, certain = (each[:, columns] for each in self._predict(pairs))
        by_column = prior[rows] * shares / np.bincount(rows, shares)[rows]
        between = (means**2) @ by_column - (means @ by_column) ** 2
        single = self._noise**2 + certain @ by_column
        exact = np.argsort(-between / single, kind="stable")[:_EXACT]
        first = np.flatnonzero(np.diff(rows, prepend=-1))  # columns of a cause are neighbours
        means, certain = means[exact], certain[exact]
        found = []
        for blocks in counts:
            deviation = np.sqrt(np.maximum(certain + self._noise**2 / blocks, _TINY))
            low, high = (means - 4 * deviation).min(axis=1), (means + 4 * deviation).max(axis=1)
            grid = np.linspace(low, high, _GRID, axis=1)
            scaled = (grid[:, None, :] - means[:, :, None]) / deviation[:, :, None]
            scaled = np.exp(-0.5 * scaled**2) * (shares / deviation)[:, :, None]
            density = np.add.reduceat(scaled, first, axis=1) + _TINY**2
            bits = np.zeros(len(pairs))
            outcomes = density / density.sum(axis=2, keepdims=True)
            bits[exact] = _information(prior[rows[first]], outcomes)
            found.append(bits)
        return found

    def _likely_columns(self, places: Sequence[int]) -> tuple[Places, Places, Array]:
        """Return columns of hypotheses, the places of these in ``places``, and their weights.

        What is very unlikely beside another column of its hypothesis moves no mixture.
        """
        order = np.full(len(self._causes), -1)
        order[list(places)] = np.arange(len(places))
        best = np.zeros(len(self._causes))
        np.maximum.at(best, self._cause_of, self._column_weights)
        share = self._column_weights / np.maximum(best[self._cause_of], _TINY**2)
        columns = np.flatnonzero((order[self._cause_of] >= 0) & (share > 1e-3))
        return columns, order[self._cause_of[columns]], share[columns]

    def _predict(self, pairs: Sequence[Pair]) -> tuple[Array, Array]:
        """Return mean and variance of contrasts without the noise of blocks, (pairs, columns)."""
        solved, offset = self._solution, self._build**2
        # What builds share with what was measured.
        signs = self._compared(pairs)
        common = offset * signs @ self._signs.T
        carried = common @ solved.precision
        hybrids, references = ([each[side] for each in pairs] for side in range(2))
        here, beside = self._parts(hybrids), self._parts(references)
        slope = here[0] - beside[0] - carried @ self._design[0]
        other = here[1] - beside[1] - carried @ self._design[1]
        means = slope * solved.whole + other * solved.difference + (carried @ self._y)[:, None]
        a, b, c = solved.variances
        variances = slope**2 * a + 2 * slope * other * b + other**2 * c
        variances += 2 * offset - (common * carried).sum(axis=1)[:, None]
        if self._many.any():
            effect, size = self._prior.effect, max(1, len(self._packages))
            present = self._present(hybrids) - self._present(references)
            own = self._signs * [float(bool(each)) for each in self._stacks]
            cross = effect**2 * (present @ self._shown.T / size + signs @ own.T / 9) + common
            weights = cross @ solved.many_precision
            parts = (present**2).sum(axis=1) / size
            parts += [(bool(one) + bool(other)) / 9 for one, other in pairs]
            centre = effect * present.sum(axis=1) / size
            mean = centre + weights @ (self._y - self._many_prior[0])
            spread = effect**2 * parts + 2 * offset - (cross * weights).sum(axis=1)
            means[:, self._many] = mean[:, None]
            variances[:, self._many] = spread[:, None]
        return means, variances

    def misfit(self, place: int) -> float:
        """Return the probability of residuals at least as large under a hypothesis."""
        column = self._best_column(place)
        part, contrast = (each[:, column] for each in self._design)
        freedom = len(self._y) - int(part.any()) - int(contrast.any())
        if self._causes[place].kind is CauseKind.MANY or freedom < 1:
            return 1.0
        solved = self._solution
        residual = self._y - solved.whole[column] * part - solved.difference[column] * contrast
        return float(chdtrc(freedom, residual @ solved.precision @ residual))

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:
        """Return the log effect of the bad stack under a hypothesis, and of its two packages."""
        column = self._best_column(place)
        if self._silent[column]:
            return ((0.0, 0.0),)
        whole, difference = self._solution.whole[column], self._solution.difference[column]
        a, b, c = self._solution.variances[:, column]
        total = float(whole), math.sqrt(a)
        if not self._both[column]:
            return (total,)
        return (
            total,
            (float(whole / 2 + difference), math.sqrt(max(0.0, a / 4 + b + c))),
            (float(whole / 2 - difference), math.sqrt(max(0.0, a / 4 - b + c))),
        )

    def _best_column(self, place: int) -> int:
        columns = np.flatnonzero(self._cause_of == place)
        return int(columns[self._column_weights[columns].argmax()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solution:
    """Coefficients in each column, each of shape (scales, columns).

    variances: of the whole effect, covariance of both, variance of the difference; shape
        (scales, 3, columns).
    precision: of the mean contrasts of trials, shape (scales, trials, trials); many_precision: the
        same where many packages have effects.
    """

    log_likelihoods: Array
    whole: Array
    difference: Array
    variances: Array
    precision: Array
    many_precision: Array

    @property
    def first(self) -> "_Solution":
        """Return it without the axis of scales."""
        return _Solution(**{each.name: getattr(self, each.name)[0] for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Runs that fail or succeed: one probability with the cause at work, one without.

    with_cause, without_cause: their beta priors, as failures and successes seen before.
    confirming: runs of the bad stack without which no cause is named.
    """

    with_cause: tuple[float, float] = (2.0, 0.5)
    without_cause: tuple[float, float] = (0.2, 8.0)
    confirming: int = 1
    comparing: bool = False

    def fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> Fit:
        """Return what trials say of each hypothesis."""
        return _FailuresFit(self, causes, trials)

    def levels(self, cause: Cause, hybrid: Hybrid) -> tuple[bool, ...]:
        """Return whether a cause makes a hybrid fail."""
        return (bool(_fails(cause, hybrid)),)


class _FailuresFit:
    """Beta-binomial marginal likelihoods of hypotheses about failures."""

    def __init__(self, prior: Failures, causes: Sequence[Cause], trials: Sequence[Trial]) -> None:
        self._prior, self._causes = prior, causes
        self._runs = {each.hybrid: (each.failures, each.successes) for each in trials}
        at_work = np.array([[_fails(c, each.hybrid) for c in causes] for each in trials])
        at_work = at_work.reshape(len(trials), len(causes))
        counts = np.array([(each.failures, each.successes) for each in trials], dtype=float)
        counts = counts.reshape(len(trials), 2)
        self._with = at_work.T @ counts + prior.with_cause
        self._without = (1 - at_work).T @ counts + prior.without_cause
        logs = _log_beta(self._with) - _log_beta(np.array([prior.with_cause]))
        logs += _log_beta(self._without) - _log_beta(np.array([prior.without_cause]))
        for place, each in enumerate(causes):
            if each.kind is CauseKind.MANY:  # each hybrid fails with a probability of its own
                own = _log_beta(counts + 0.5) - _log_beta(np.array([[0.5, 0.5]]))
                logs[place] = own.sum()
        self.log_likelihoods: Array = logs

    def information(
        self, pairs: Sequence[Pair], weights: Mapping[int, float], counts: Sequence[int]
    ) -> Sequence[Array]:
        """Return what one run says of hypotheses in bits, whatever the counts."""
        seen = np.empty((len(pairs), len(weights), 2))
        for one, (hybrid, _) in enumerate(pairs):
            for row, place in enumerate(weights):
                cause = self._causes[place]
                if cause.kind is CauseKind.MANY:
                    seen[one, row] = np.array(self._runs.get(hybrid, (0, 0))) + 0.5
                else:
                    seen[one, row] = (self._with if _fails(cause, hybrid) else self._without)[place]
        outcomes = seen / seen.sum(axis=2, keepdims=True)
        return [_information(np.array(list(weights.values())), outcomes)] * len(counts)

    def misfit(self, place: int) -> float:  # noqa: ARG002
        """Return 1: a probability fits any outcomes; `CauseKind.MANY` is for what does not fit."""
        return 1.0

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:  # noqa: ARG002
        """Return no effect: failures have none."""
        return ((0.0, 0.0),)


def _fails(cause: Cause, hybrid: Hybrid) -> float:
    """Return 1 where a cause is at work in a hybrid, else 0."""
    present = [each in hybrid for each in cause.packages]
    if not present:
        return 0.0
    return float(any(present) if cause.kind is CauseKind.BOTH else all(present))


def _log_beta(counts: Array) -> Array:
    found: Array = betaln(counts[..., 0], counts[..., 1])
    return found
