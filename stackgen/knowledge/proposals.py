"""Stacks that were never measured, and that what is known predicts to be worth measuring.

Only versions of which something is known are put together anew: those of measured stacks and of the
lock. A prediction recommends nothing (``stackgen.knowledge.prediction``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from stackgen.knowledge.equivalence import Setting, Versions, base_name, frameworks
from stackgen.knowledge.graph import Comparisons, Place
from stackgen.knowledge.judgement import Knowledge
from stackgen.knowledge.prediction import predict
from stackgen.model.identity import IndicatorId
from stackgen.model.stacks import Stack

_MOST = 200  # combinations that are predicted
_MOST_NODES = 40  # around the lock, that a prediction learns from
_LOCK = "the lock"

Pins = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Versions that no stack was measured with, and what is expected of them beside a lock.

    pins: sorted (name, version) pairs. ratio: above 1 where they are faster. low, high: 95 %.
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
            pins=pins,
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
