"""Stacks that were never measured, and that what is known predicts to be worth measuring.

Only versions of which something is known are put together anew: those of measured stacks and of the
lock. The log speed of a stack is a sum of effects of its package versions, of pairs of them, and of
its own: the model that guides the search (``stackgen.measure.posterior``), fitted to all that the
evidence graph knows, with its uncertainty. Nothing is recommended on a prediction alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from stackgen.knowledge.equivalence import Setting, Versions, base_name, frameworks
from stackgen.knowledge.graph import Comparisons, Place
from stackgen.knowledge.judgement import Knowledge
from stackgen.measure.meta_analysis import Mixture
from stackgen.measure.posterior import Array, Model
from stackgen.model.identity import IndicatorId
from stackgen.model.stacks import Stack

_MOST = 200  # combinations that are predicted
_MOST_NODES = 40  # around the lock, that a prediction learns from
_LOCK = "the lock"
_MAIN = (0.003, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5)
_PAIRS = (0.002, 0.01, 0.03, 0.08)
_SCALE_OF_MAIN, _SCALE_OF_PAIRS = 0.05, 0.02
"""Standard deviations of effects that are weighed, and the scales of their half-Cauchy priors."""
_MOST_POINTS = 6
_FREEDOM = 1e6

Pins = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Versions that no stack was measured with, and what is expected of them beside a lock.

    pins: (name, version) pairs. ratio: above 1 where they are faster. low, high: 95 %.
    """

    indicator_id: IndicatorId
    pins: Pins
    ratio: float
    low: float
    high: float


def propose(
    known: Knowledge, versions: Versions, near: Stack, names: Sequence[str], *, margin: float
) -> tuple[Predicted, ...]:
    """Return combinations that are expected to be faster by more than the margin, best first.

    They are of the indicator that most campaigns measured beside a stack.

    Args:
        known: the evidence graphs.
        versions: of the lock.
        near: a measured stack that stands for the lock, or is the nearest to it.
        names: of the packages that may vary.
        margin: relative difference that is of no importance.
    """
    setting = Setting.of(near.facts, near.settings)
    found = known.nodes.find_all(known.nodes.versions(near.id), setting)
    anchors = {i: key for i, key in found.items() if _is_connected(known, i, key)}
    if not anchors:
        return ()
    indicator = max(anchors, key=lambda each: (len(known.graphs[each]), each))
    place = Place(machine_id=known.machine.id, base=base_name(near.facts))
    fit = known.graphs[indicator].fit(anchors[indicator], place, most=_MOST_NODES)
    measured = _measured(known, indicator, fit, setting, frameworks(versions), names)
    # What no measured stack holds (NumPy beside PyTorch, which runs without it) stays as it is.
    shared = {name for pins in measured.values() for name, _ in pins}
    order, kept = names, _pins(versions, [name for name in names if name not in shared])
    names = [name for name in names if name in shared]
    own = _pins(versions, names)
    every = {*measured.values(), own}
    varied = [name for name in names if len({dict(pins).get(name) for pins in every}) > 1]
    standing = known.nodes.find(indicator, versions, setting)
    current = standing if standing is not None and standing in measured else _LOCK
    new = _combinations(every, names)
    if not new or not varied:
        return ()
    of = {key: _only(pins, varied) for key, pins in measured.items()}
    of.setdefault(current, _only(own, varied))
    requested = {" ".join(map("==".join, pins)): pins for pins in new}
    of |= {name: _only(pins, varied) for name, pins in requested.items()}
    mixture = predict(fit, of, current, list(requested))
    low, high = mixture.interval()
    predicted = [
        Predicted(
            indicator_id=indicator,
            pins=tuple(sorted((*pins, *kept), key=lambda pin: order.index(pin[0]))),
            ratio=math.exp(float(mixture.mean[at])),
            low=math.exp(float(low[at])),
            high=math.exp(float(high[at])),
        )
        for at, pins in enumerate(requested.values())
    ]
    worth = [each for each in predicted if each.ratio > 1 + margin]
    return tuple(sorted(worth, key=lambda each: (-each.ratio, each.pins)))


def _is_connected(known: Knowledge, indicator: IndicatorId, key: str) -> bool:
    return indicator in known.graphs and len(known.graphs[indicator].component(key)) > 1


def _measured(
    known: Knowledge,
    indicator: IndicatorId,
    fit: Comparisons,
    setting: Setting,
    own: frozenset[str],
    names: Sequence[str],
) -> Mapping[str, Pins]:
    """Return the versions of each node that has the lock's frameworks, Python and variables."""
    found = {}
    for key in fit.stacks:
        stack = known.stacks[known.nodes.stacks[indicator][key][0]]
        versions = known.nodes.versions(stack.id)
        alike = Setting.of(stack.facts, stack.settings) == setting
        if alike and frameworks(versions) == own:
            found[key] = _pins(versions, names)
    return found


def _combinations(measured: set[Pins], names: Sequence[str]) -> list[Pins]:
    """Return new combinations of the versions of each package, in the order of the names."""
    values = []
    for name in names:
        of = {dict(pins).get(name) for pins in measured}
        values.append(sorted(((name, each) for each in of), key=lambda each: each[1] or ""))
    found = (
        tuple((name, version) for name, version in each if version is not None)
        for each in product(*values)
    )
    return list(islice((each for each in found if each not in measured), _MOST))


def _pins(versions: Versions, names: Sequence[str]) -> Pins:
    return tuple((name, versions[name]) for name in names if name in versions)


def _only(pins: Pins, names: Sequence[str]) -> Pins:
    return tuple((name, version) for name, version in pins if name in names)


def predict(
    known: Comparisons, versions: Mapping[str, Pins], current: str, stacks: Sequence[str]
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
    places = [known.targets[key] for key in measured]
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
