"""Stacks that were never measured, predicted from the versions that they consist of.

The log speed of a stack is a sum of effects of its package versions, of pairs of them, and of its
own: the model that guides the search (``stackgen.measure.posterior``), fitted to all that the
evidence graph knows, with its uncertainty. A prediction says what is worth measuring, and nothing
is recommended on one alone.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from stackgen.knowledge.graph import Comparisons
from stackgen.measure.meta_analysis import Mixture
from stackgen.measure.posterior import Array, Model, Versions

_MAIN = (0.003, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5)
_PAIRS = (0.002, 0.01, 0.03, 0.08)
_SCALE_OF_MAIN, _SCALE_OF_PAIRS = 0.05, 0.02
"""Standard deviations of effects that are weighed, and the scales of their half-Cauchy priors."""
_MOST_POINTS = 6
_FREEDOM = 1e6


def predict(
    known: Comparisons, versions: Mapping[str, Versions], current: str, stacks: Sequence[str]
) -> Mixture:
    """Return the posterior of log(time of current / time of stack), in order of the stacks.

    Args:
        known: what was measured; those stacks of it that have versions take part.
        versions: of each stack that takes part, measured or not, sorted by package.
        current: the user's own stack, measured or not.
        stacks: to be predicted; measured ones are drawn towards the model a little.
    """
    measured = [key for key in known.stacks if key in versions]
    every = [*measured, *sorted({current, *stacks} - set(measured))]
    model = Model([versions[key] for key in every])
    places = {key: place for place, key in enumerate(every)}
    wanted = np.zeros((len(stacks), len(every)))
    wanted[:, places[current]] -= 1.0
    wanted[np.arange(len(stacks)), [places[key] for key in stacks]] += 1.0
    return _mixture(model, len(measured), wanted, *_observed(known, measured))


def _observed(known: Comparisons, measured: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return log ratios to the first measured stack at each likely spread, with covariances.

    weights: shape (t,). means: shape (t, n - 1). covariances: shape (t, n - 1, n - 1).
    """
    network = known.network
    if len(measured) < 2:
        return np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0))
    # A few spreads stand for all: as likely each, from the smallest to the largest.
    order = np.argsort(network.grid.campaigns + network.grid.links.sum(axis=1), kind="stable")
    reached = np.cumsum(network.weights[order])
    levels = (np.arange(_MOST_POINTS) + 0.5) / _MOST_POINTS
    points = order[np.minimum(np.searchsorted(reached, levels), len(order) - 1)]
    places = [known.target(key) for key in measured]
    of = np.zeros((len(places) - 1, network.means.shape[1]))
    of[:, places[0]] -= 1.0
    of[np.arange(len(places) - 1), places[1:]] += 1.0
    covariances = np.einsum("in,tnm,jm->tij", of, network.covariances[points], of)
    return np.full(len(points), 1 / len(points)), network.means[points] @ of.T, covariances


def _mixture(
    model: Model, measured: int, wanted: Array, weights: Array, means: Array, covariances: Array
) -> Mixture:
    size = max(0, measured - 1)
    rows = np.hstack([-np.ones((size, 1)), np.eye(size)]) if size else np.zeros((0, measured))
    found: list[tuple[float, Array, Array]] = []
    for main, pairs in product(_MAIN, _PAIRS):
        # What is a stack's own, beyond versions and pairs, is as large as what pairs add.
        prior = model.prior(main, pairs)
        prior = prior + pairs**2 * np.eye(len(prior))
        mass = 1 / (1 + (main / _SCALE_OF_MAIN) ** 2) / (1 + (pairs / _SCALE_OF_PAIRS) ** 2)
        mass *= main * pairs  # points are spaced by their ratio
        reach = prior[:, :measured] @ rows.T
        expected = rows @ reach[:measured]
        free = np.einsum("jn,nm,jm->j", wanted, prior, wanted)
        for weight, mean, covariance in zip(weights, means, covariances, strict=True):
            spread = expected + covariance
            gain = (
                np.linalg.solve(spread, reach.T @ wanted.T) if size else np.zeros((0, len(wanted)))
            )
            log = -np.linalg.slogdet(spread)[1] / 2 if size else 0.0
            log -= float(mean @ np.linalg.solve(spread, mean)) / 2 if size else 0.0
            taken = np.einsum("kj,kj->j", gain, reach.T @ wanted.T)
            error = np.sqrt(np.maximum(free - taken, 1e-16))
            found.append((log + float(np.log(mass * weight)), mean @ gain, error))
    logs = np.array([log for log, *_ in found])
    likely = np.exp(logs - logs.max())
    return Mixture(
        weights=likely / likely.sum(),
        means=np.array([mean for _, mean, _ in found]),
        errors=np.array([error for *_, error in found]),
        freedom=np.full((len(found), len(wanted)), _FREEDOM),
    )
