"""Network meta-analysis: what many campaigns say together, spread between them included.

A campaign states log ratios of its candidates to its baseline, with their covariance. Generalised
least squares give each stack a log speed (up to one constant of the connected component), and each
difference of two stacks a variance, also where no campaign held both; for equal arms that is the
effective resistance of the graph of comparisons. Campaigns differ by more than their noise, and so
do bases and machines. Small knowledge bases cannot estimate by how much, so these spreads are
integrated over on a grid, restricted likelihood times prior.

Sources: Ruecker (2012), Network meta-analysis, electrical networks and graph theory; Higgins and
Whitehead (1996), Borrowing strength from external trials (prior of the spread between trials);
Satterthwaite (1946) for the degrees of freedom of a sum of estimated variances; Tukey (1960) for
campaigns that lie far out (contaminated normal). docs/adr/0029 has figures.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from stackgen.measure.posterior import Array, Places
from stackgen.model.identity import IndicatorId, MachineId

SPREADS: Array = np.array(
    [
        *(0.0, 0.0015, 0.003, 0.005, 0.0075, 0.01, 0.014, 0.02, 0.028),
        *(0.04, 0.056, 0.08, 0.11, 0.16, 0.23, 0.33, 0.5),
    ]
)
"""Standard deviations of a log ratio between campaigns that are weighed against each other."""
_COARSE = np.array([0.0, 0.004, 0.01, 0.02, 0.04, 0.08, 0.18, 0.45])
_BETWEEN_BASES = np.array([0.001, 0.01, 0.05])
_BETWEEN_MACHINES = np.array([0.002, 0.015, 0.04, 0.1, 0.22, 0.6])

SCALE, FACTOR = 0.04, 3.0
"""The spread between campaigns on one machine and base is half-Cauchy. Its scale is log-normal, a
factor of 3 around what is usual for machines, and that is a factor of 3 around 4 %."""
_STEPS = np.linspace(-4, 4, 33)  # of scales, powers of FACTOR
SCALE_OF_BASES = 0.01
SCALE_OF_MACHINES = 0.05
OUTLYING, FAR = 0.05, 0.25
"""The share of campaigns that may lie far out beforehand, and how far (standard deviation)."""
FEWEST_FOR_OUTLIERS = 8
"""With fewer contrasts beyond those that connect the stacks, no campaign is taken to lie far out:
which one would be a guess."""
PLAUSIBLE = 0.2
"""That a stack is odd in a campaign is plausible where the data are at most five times less likely
then (Bayes factor)."""
_MOST_LOG = 600.0  # of a Bayes factor
_IDLE = 0.01  # of a standard error or variance: what changes less is no cause of another answer
_ROUNDS, _SMALL = 6, 1e-4
_HALVINGS, _LIKELY = 24, 1e-7
_CHUNK = 2_000_000  # numbers of one stack of matrices at a time


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """One campaign's contrasts between numbered nodes.

    arms: of the baseline, then of the candidates. values: log(time of baseline / time of
    candidate), shape (k,). covariance: shape (k, k). freedom: degrees of freedom of its scale.
    """

    arms: tuple[int, ...]
    values: Array
    covariance: Array
    freedom: float


@dataclass(frozen=True, slots=True)
class Link:
    """A random difference between two nodes: one stack in general, and on one machine or base.

    level: 0 where they differ in the machine, 1 where they differ in the base.
    """

    a: int
    b: int
    level: int


@dataclass(frozen=True, slots=True, eq=False)
class SpreadGrid:
    """Points at which the spreads are weighed.

    campaigns: spread between campaigns, shape (t,). links: between machines and between bases,
    shape (t, 2). log_prior: log of the prior mass of each point, shape (t,).
    """

    campaigns: Array
    links: Array
    log_prior: Array


def half_cauchy(points: Array, scale: float) -> Array:
    """Return the prior mass of each point: the density times the distance between neighbours."""
    mass = np.gradient(points) / (1 + (points / scale) ** 2)
    return np.asarray(mass / mass.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """What campaigns that repeat each other on one machine say of the spread between campaigns.

    weight: campaigns for each row of an indicator: those of the same campaigns share what made one
        differ from the next, and together they say no more than one would.
    log_likelihoods: by indicator, ``NetworkFit.spread_likelihood`` of this machine's campaigns.
        Those without repeated campaigns are flat, and change nothing.
    """

    machine_id: MachineId
    weight: float
    log_likelihoods: Mapping[IndicatorId, Array]

    def without(self, indicator: IndicatorId) -> "Repeats":
        """Return what the other indicators say."""
        rest = {i: each for i, each in self.log_likelihoods.items() if i != indicator}
        return replace(self, log_likelihoods=rest)

    def likelihood(self, masses: Array) -> Array:
        """Return the likelihood of each of some priors, shape (p,) for masses (p, spreads)."""
        found = np.zeros(len(masses))
        for _, each in sorted(self.log_likelihoods.items()):
            found = found + self.weight * np.log(masses @ np.exp(each - each.max()))
        return np.asarray(np.exp(found - found.max()))


def learned_prior(own: Repeats | None = None, others: Iterable[Repeats] = ()) -> Array:
    """Return the prior mass of each of ``SPREADS``, from what other indicators' campaigns repeat.

    A machine whose campaigns repeat each other says much of itself and little of the next one: how
    well machines repeat differs by a factor of 3 beforehand.

    Args:
        own: of the machine that the prior is for.
        others: of further machines.
    """
    masses = np.array([half_cauchy(SPREADS, scale) for scale in SCALE * FACTOR**_STEPS])
    usual = np.exp(-(_STEPS**2) / 2)
    around = np.exp(-((_STEPS[:, None] - _STEPS) ** 2) / 2)
    around /= around.sum(axis=1, keepdims=True)
    for each in others:
        usual = usual * (around @ each.likelihood(masses))
        usual /= usual.sum()
    weights = usual @ around
    if own is not None:
        weights = weights * own.likelihood(masses)
    found: Array = weights @ masses / weights.sum()
    return found


def spread_grid(*, machines: bool, bases: bool, prior: Array | None = None) -> SpreadGrid:
    """Return the grid of spreads; levels at which nothing differs take one point.

    Args:
        machines: whether anything differs in the machine.
        bases: whether anything differs in the base.
        prior: mass of each of ``SPREADS``; ``learned_prior`` of nothing by default.
    """
    own = learned_prior() if prior is None else prior
    points = SPREADS
    if machines or bases:  # fewer points, each with the mass around it
        nearest = np.abs(SPREADS[:, None] - _COARSE[None, :]).argmin(axis=1)
        points = _COARSE
        own = np.bincount(nearest, own, len(_COARSE)).astype(float)
    no_spread = (np.zeros(1), np.ones(1))
    levels = (
        (_BETWEEN_MACHINES, half_cauchy(_BETWEEN_MACHINES, SCALE_OF_MACHINES))
        if machines
        else no_spread,
        (_BETWEEN_BASES, half_cauchy(_BETWEEN_BASES, SCALE_OF_BASES)) if bases else no_spread,
    )
    spreads = np.array(list(product(points, levels[0][0], levels[1][0])))
    mass = np.array([np.prod(m) for m in product(own, levels[0][1], levels[1][1])])
    return SpreadGrid(
        campaigns=spreads[:, 0],
        links=spreads[:, 1:],
        log_prior=np.log(np.maximum(mass, 1e-300)),
    )


@dataclass(frozen=True, eq=False)
class Mixture:
    """Differences between nodes: at each spread a t distribution, weighed by the spread.

    weights: shape (t,). means, errors, freedom: of each difference, shape (t, j).
    """

    weights: Array
    means: Array
    errors: Array
    freedom: Array

    @cached_property
    def mean(self) -> Array:
        """Return the expected differences, shape (j,)."""
        found: Array = self.weights @ self.means
        return found

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Return the 95 % interval of each difference."""
        return self.interval()

    def below(self, values: Array) -> Array:
        """Return the probability that each difference lies below a value, shape (j,)."""
        from scipy.special import stdtr

        found: Array = self.weights @ stdtr(self.freedom, (values - self.means) / self.errors)
        return found

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return bounds with equal probability beyond each, each of shape (j,)."""
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def quantile(self, share: float) -> Array:
        """Return what each difference lies below with this probability, shape (j,)."""
        from scipy.special import stdtrit

        each = self.means + self.errors * stdtrit(self.freedom, share)
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            less = self.below(middle) < share
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        found: Array = (low + high) / 2
        return found

    def misses(self, low: Array, high: Array, family: float = 1.0) -> float:
        """Return at most how probable it is that any difference lies outside its bounds.

        At each spread the probabilities are added (Bonferroni) up to 1. All of them have the spread
        in common, so that its tail is counted once and not once for each.

        Args:
            low: lower bounds, shape (j,).
            high: upper bounds, shape (j,).
            family: how many differences of the family each of these stands for.
        """
        from scipy.special import stdtr

        beyond = stdtr(self.freedom, (low - self.means) / self.errors)
        beyond = beyond + stdtr(self.freedom, (self.means - high) / self.errors)
        return float(self.weights @ np.minimum(1.0, family * beyond.sum(axis=1)))


def simultaneous(mixtures: Sequence[tuple[Mixture, float]], level: float = 0.95) -> float:
    """Return by how much 95 % intervals must be widened so that all hold together.

    Args:
        mixtures: independent of each other (one for each indicator), with the number of
            differences of the family that each of its own stands for.
        level: the probability that every interval of the family holds.
    """
    shapes = [(m, m.mean, *m.bounds, family) for m, family in mixtures]
    low, high = 1.0, 2.0

    def beyond(factor: float) -> float:
        return sum(
            m.misses(mean - factor * (mean - below), mean + factor * (above - mean), family)
            for m, mean, below, above, family in shapes
        )

    while beyond(high) > 1 - level and high < 1e6:
        low, high = high, 2 * high
    for _ in range(_HALVINGS // 2):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > 1 - level else (low, middle)
    return high


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """Posterior of the nodes' log speeds at each spread, in one connected component.

    weights: of the grid's points, shape (t,). means: shape (t, n). covariances: shape (t, n, n);
    both relative to node 0. loads: of each study, what a difference takes from it is
    ``loads @ covariance``; shape (t, k, n). outlying: how probably each study lies far out, shape
    (t, studies). log_likelihood: shape (t,).
    """

    studies: Sequence[Study]
    grid: SpreadGrid
    weights: Array
    means: Array
    covariances: Array
    loads: Sequence[Array]
    outlying: Array
    log_likelihood: Array = field(repr=False)

    def differences(self, of: Array) -> Mixture:
        """Return the posterior of linear combinations of log speeds.

        Args:
            of: coefficients that add up to 0, shape (j, n); log(time of a / time of b) has 1 at b
                and -1 at a.
        """
        likely = self.weights > _LIKELY
        reach = self.covariances[likely] @ of.T
        variances = np.maximum(np.einsum("jn,tnj->tj", of, reach), 1e-16)
        uncertain = np.zeros_like(variances)
        for study, load in zip(self.studies, self.loads, strict=True):
            taken = load[likely] @ reach
            share = np.sum(taken * (study.covariance @ taken), axis=1)
            uncertain += share**2 / study.freedom
        return Mixture(
            weights=self.weights[likely] / self.weights[likely].sum(),
            means=self.means[likely] @ of.T,
            errors=np.sqrt(variances),
            freedom=np.minimum(variances**2 / np.maximum(uncertain, 1e-300), 1e6),
        )

    def next_campaign(self, of: Array, variances: Array) -> Mixture:
        """Return what a further campaign would state of differences, its own spread included.

        Args:
            of: coefficients as of ``differences``, shape (j, n).
            variances: of its noise, shape (j,).
        """
        found = self.differences(of)
        campaigns = self.grid.campaigns[self.weights > _LIKELY]
        errors = np.sqrt(found.errors**2 + campaigns[:, None] ** 2 + variances)
        return replace(found, errors=errors)

    def below_if_odd(self, of: Array) -> float:
        """Return how probably a difference is below 0 if one stack is odd in one study.

        Odd is one whose speed lies far out in that study alone. Each stack of each study is taken
        to be the odd one in turn, and the highest probability counts, of those that are plausible:
        where two studies agree, neither is odd; what one alone says of a stack always may be.

        Args:
            of: coefficients as of ``differences``, shape (n,).
        """
        from scipy.special import stdtr

        found = self.differences(of[None, :])
        mean, error, freedom = found.means, found.errors, found.freedom  # shape (t, 1)
        worst = float(found.below(np.zeros(1))[0])
        reach = self.covariances[self.weights > _LIKELY] @ of
        for odd in self._odd:
            moves = (odd.pull * (reach[:, odd.arms] @ odd.design.T)[:, :, None]).sum(axis=1)
            shift, added = odd.factor * moves * odd.residual, odd.factor * moves**2
            if np.all(added < _IDLE * error**2) and np.all(np.abs(shift) < _IDLE * error):
                continue
            variances = error**2 + added
            known = np.minimum(freedom * (variances / error**2) ** 2, 1e6)
            below = odd.likelihood * stdtr(known, (shift - mean) / np.sqrt(variances))
            total = odd.likelihood.sum(axis=0)
            worst = max(worst, *(below.sum(axis=0) / total)[total >= PLAUSIBLE], 0.0)
        return worst

    @cached_property
    def _odd(self) -> "tuple[_Odd, ...]":
        likely = self.weights > _LIKELY
        weights = self.weights[likely] / self.weights[likely].sum()
        covariances, means = self.covariances[likely], self.means[likely]
        campaigns = self.grid.campaigns[likely]
        found = []
        for at, study in enumerate(self.studies):
            each = _Precision(study, campaigns, means.shape[1])
            each.outlying = self.outlying[likely, at]
            stacks = np.column_stack([np.ones(len(study.values)), np.eye(len(study.values))])
            pull = each.precision @ stacks
            # Another variance of one stack is a change of rank one (Sherman and Morrison).
            own = FAR**2 * np.sum(stacks * pull, axis=1)
            known = each.own @ covariances[:, each.arms[:, None], each.arms] @ each.own.T
            left = 1 + own - FAR**2 * np.sum(pull * (known @ pull), axis=1)
            residuals = study.values - means[:, each.arms] @ each.own.T
            residual = np.sum(pull * residuals[:, :, None], axis=1)
            factor = FAR**2 / left
            logs = (factor * residual**2 - np.log(left)) / 2
            found.append(
                _Odd(
                    arms=each.arms,
                    design=each.own,
                    pull=pull,
                    factor=factor,
                    residual=residual,
                    likelihood=weights[:, None] * np.exp(np.minimum(logs, _MOST_LOG)),
                )
            )
        return tuple(found)

    @property
    def spread_likelihood(self) -> Array:
        """Return the log likelihood of each of ``SPREADS``, over all spreads of links, (s,)."""
        whole = self.log_likelihood + self.grid.log_prior
        found = []
        for point in sorted(set(self.grid.campaigns)):
            chosen = self.grid.campaigns == point
            most = whole[chosen].max()
            prior = np.exp(self.grid.log_prior[chosen])
            found.append(most + math.log(np.exp(whole[chosen] - most).sum() / prior.sum()))
        points = np.array(sorted(set(self.grid.campaigns)))
        interpolated: Array = np.interp(SPREADS, points, found)
        return interpolated

    def shares(self, of: Array) -> Array:
        """Return which share of a difference's variance each study carries, shape (studies,)."""
        likely = self.weights > _LIKELY
        reach = self.covariances[likely] @ of
        weights, campaigns = self.weights[likely], self.grid.campaigns[likely]
        found = np.zeros(len(self.studies))
        for at, (study, load) in enumerate(zip(self.studies, self.loads, strict=True)):
            taken = np.matmul(load[likely], reach[:, :, None])[:, :, 0]
            spread = np.matmul(_spreads(study, campaigns), taken[:, :, None])[:, :, 0]
            found[at] = float(weights @ np.sum(taken * spread, axis=1))
        total = found.sum()
        return found / total if total > 0 else found


@dataclass(frozen=True, slots=True, eq=False)
class _Odd:
    """What a fit would be if a stack of a study were odd, for each of its stacks, baseline first.

    arms: nodes of the study, and design: its contrasts of these. pull: precision times what the
    stack adds to the values, shape (t, k, a). factor: of the change of a variance, by what the
    difference takes from the study. residual: of the stack, times its precision. likelihood: of the
    data beside that of no odd stack, times the weight of the spread; each of shape (t, a).
    """

    arms: Places
    design: Array
    pull: Array
    factor: Array
    residual: Array
    likelihood: Array


def fit(
    nodes: int, studies: Sequence[Study], links: Sequence[Link], grid: SpreadGrid
) -> NetworkFit:
    """Fit log speeds of nodes that studies and links connect.

    Args:
        nodes: how many there are, numbered from 0.
        studies: at least one, which connect the nodes with the links.
        links: random differences between nodes; their levels are columns of ``grid.links``.
        grid: of spreads.
    """
    size = max(1, _CHUNK // (nodes * nodes))
    parts = [
        _fit(nodes, studies, links, grid.campaigns[at : at + size], grid.links[at : at + size])
        for at in range(0, len(grid.campaigns), size)
    ]
    means, covariances, logs = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("means", "covariances", "logs")
    )
    mass = np.exp(logs + grid.log_prior - (logs + grid.log_prior).max())
    weights = mass / mass.sum()
    return NetworkFit(
        studies=studies,
        grid=grid,
        weights=weights,
        means=means,
        covariances=covariances,
        loads=[np.concatenate([part.loads[c] for part in parts]) for c in range(len(studies))],
        outlying=np.concatenate([part.outlying for part in parts]),
        log_likelihood=logs,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The fit at some of the grid's points."""

    means: Array
    covariances: Array
    loads: Sequence[Array]
    outlying: Array
    logs: Array


def _spreads(study: Study, campaigns: Array, far: float = 0.0) -> Array:
    """Return the covariance of a study's values at each spread, shape (t, k, k)."""
    count = len(study.values)
    shape = (np.eye(count) + 1) / 2
    found: Array = study.covariance + (campaigns**2 + far**2)[:, None, None] * shape
    return found


def _design(study: Study, nodes: int) -> Array:
    found = np.zeros((len(study.values), nodes))
    rows = np.arange(len(study.values))
    found[:, study.arms[0]] -= 1.0
    np.add.at(found, (rows, np.array(study.arms[1:])), 1.0)
    return found


class _Precision:
    """A study's precision at each spread, as an ordinary campaign or as one that lies far out."""

    def __init__(self, study: Study, campaigns: Array, nodes: int) -> None:
        self.design, self.values = _design(study, nodes), study.values
        self.arms: Places = np.unique(np.array(study.arms))
        self.own = self.design[:, self.arms]  # few of the nodes
        self.usual = np.linalg.inv(_spreads(study, campaigns))
        self.far = np.linalg.inv(_spreads(study, campaigns, FAR))
        self._logs = np.linalg.slogdet(self.usual)[1] / 2, np.linalg.slogdet(self.far)[1] / 2
        self.outlying = np.zeros(len(campaigns))

    @property
    def precision(self) -> Array:
        """Return the precision that is expected, shape (t, k, k)."""
        share = self.outlying[:, None, None]
        found: Array = (1 - share) * self.usual + share * self.far
        return found

    def judge(self, means: Array, *, may_be_far: bool) -> Array:
        """Return the log likelihood; learn how probably the study is far out."""
        left = self.values - means[:, self.arms] @ self.own.T
        usual: Array
        far: Array
        squares = [np.einsum("tk,tkl,tl->t", left, each, left) for each in (self.usual, self.far)]
        usual, far = (log - square / 2 for log, square in zip(self._logs, squares, strict=True))
        if not may_be_far:
            return usual
        usual, far = usual + np.log(1 - OUTLYING), far + np.log(OUTLYING)
        both: Array = np.logaddexp(usual, far)
        self.outlying = np.exp(far - both)
        return both


def _fit(
    nodes: int, studies: Sequence[Study], links: Sequence[Link], campaigns: Array, spreads: Array
) -> _Part:
    points = len(campaigns)
    precisions = [_Precision(study, campaigns, nodes) for study in studies]
    spare = sum(len(study.values) for study in studies) - (nodes - len(links) - 1)
    may_be_far = spare >= FEWEST_FOR_OUTLIERS
    springs, strengths = _springs(nodes, links, spreads)
    means, covariances = np.zeros((points, nodes)), np.zeros((points, nodes, nodes))
    for _ in range(_ROUNDS if may_be_far else 1):
        laplacian, pulls = springs.copy(), np.zeros((points, nodes))
        for each in precisions:
            loaded = each.own.T @ each.precision
            laplacian[:, each.arms[:, None], each.arms] += loaded @ each.own
            pulls[:, each.arms] += loaded @ each.values
        # Only the last round's inverse is needed, which takes three times as long.
        means[:, 1:] = np.linalg.solve(laplacian[:, 1:, 1:], pulls[:, 1:, None])[:, :, 0]
        before = [each.outlying for each in precisions]
        judged = [each.judge(means, may_be_far=may_be_far) for each in precisions]
    covariances[:, 1:, 1:] = np.linalg.inv(laplacian[:, 1:, 1:])
    for each, share in zip(precisions, before, strict=True):
        each.outlying = share  # of what the covariances come from
    logs = sum(judged, np.zeros(points))
    logs = logs - np.linalg.slogdet(laplacian[:, 1:, 1:])[1] / 2
    for at, link in enumerate(links):
        moved = (means[:, link.a] - means[:, link.b]) ** 2
        logs = logs + np.log(strengths[:, at]) / 2 - strengths[:, at] * moved / 2
    return _Part(
        means=means,
        covariances=covariances,
        loads=[each.precision @ each.design for each in precisions],
        outlying=np.array([each.outlying for each in precisions]).T,
        logs=logs,
    )


def _springs(nodes: int, links: Sequence[Link], spreads: Array) -> tuple[Array, Array]:
    """Return the precision that links add, shape (t, n, n), and that of each, shape (t, links).

    The spread is that of a difference between two stacks, so each of them has half its variance.
    """
    laplacian = np.zeros((len(spreads), nodes, nodes))
    strengths = np.zeros((len(spreads), len(links)))
    for at, link in enumerate(links):
        strength = 2 / np.maximum(spreads[:, link.level], _SMALL) ** 2
        strengths[:, at] = strength
        for one, other in ((link.a, link.b), (link.b, link.a)):
            laplacian[:, one, one] += strength
            laplacian[:, one, other] -= strength
    return laplacian, strengths
