"""The evidence graph: what all campaigns say of one indicator, between any two stacks.

Nodes are stacks, equivalent ones merged: the caller gives each stack a key, equal where nothing
that decides a timing differs. An edge is a campaign that measured both of its ends. What an edge
says are the contrasts of ``stackgen.measure.contrasts``; how they are put together is in
``stackgen.measure.meta_analysis``. Here is which campaigns count, where an answer is for (a machine
and a base), which stacks cannot be compared, and what an answer rests on.

All log ratios are log(time of one / time of other): above 0, the other is faster. Rows are sorted
and duplicates (the same campaign, indicator, machine and baseline) count once, so that no answer
depends on their order.
"""

import heapq
import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from stackgen.errors import EvidenceError
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.measure.meta_analysis import (
    Link,
    Mixture,
    NetworkFit,
    Repeats,
    Study,
    fit,
    spread_grid,
)
from stackgen.measure.posterior import Array
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId

MOST_NODES = 150
"""Of a larger component only the part nearest to the stack in question is put together: least
squares take the cube of the nodes. What lies farther away would add little."""
CARRIES = 0.01
"""The share of a comparison's variance from which on a campaign is named as carrying it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackNode:
    """Where a stack belongs in the graph.

    key: equal for stacks that are equivalent on this indicator.
    base: which of the bases of one Python minor version it is installed on.
    """

    key: str
    base: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an answer is for: a machine, and a base as ``StackNode`` names it."""

    machine_id: MachineId
    base: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """A part of the path of evidence: two stacks, and the campaigns that measured both."""

    one: str
    other: str
    campaigns: tuple[CampaignId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a comparison of two stacks rests on.

    shares: of each campaign that carries it, largest first; they add up to 1 or little less.
    steps: from one stack to the other by the shortest way; one step where a campaign measured both.
    origins: of these campaigns; "" is this installation.
    machines: of these campaigns, each with the share that it carries.
    first, last: when the earliest and the latest of them began.
    blocks: of all of them.
    """

    shares: tuple[tuple[CampaignId, float], ...]
    steps: tuple[PathStep, ...]
    origins: tuple[str, ...]
    machines: tuple[tuple[MachineId, float], ...]
    first: str
    last: str
    blocks: int

    @property
    def is_direct(self) -> bool:
        """Return whether a campaign measured both stacks."""
        return len(self.steps) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBlock:
    """Two stacks to be measured in one more campaign at the place in question.

    variance: of the comparison now. gain: by how much it falls.
    """

    one: str
    other: str
    variance: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """How many log ratios of campaigns the other campaigns predicted, at 95 %.

    inside of total; campaigns: that could be left out, since others connect their stacks.
    half_width: of the predictions, the median; 0 where there are none.
    """

    inside: int
    total: int
    campaigns: int
    half_width: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What is true of a whole graph, for one of which only a part was loaded.

    campaigns: how many count. components: as ``EvidenceGraph.components``.
    several: whether anything was measured on more than one machine or base.
    """

    campaigns: int
    components: tuple[tuple[str, ...], ...]
    several: bool


class EvidenceGraph:
    """Comparisons of stacks on one indicator, from the campaigns that measured it."""

    def __init__(
        self,
        campaigns: Iterable[CampaignContrasts],
        nodes: Mapping[StackId, StackNode],
        extent: Extent | None = None,
    ) -> None:
        """Build the graph.

        Args:
            campaigns: of one indicator; the same one given twice has the origins of both.
            nodes: of every stack that may count; other stacks are left out of their campaigns.
            extent: of the whole graph, where campaigns are a part of it. What is put together is
                the same if the part holds all that ``Surroundings`` names.
        """
        merged: dict[tuple[str, ...], CampaignContrasts] = {}
        for each in sorted(campaigns, key=_order):
            known = merged.get(_identity(each), each)
            origins = tuple(sorted({*known.origins, *each.origins}))
            same = each.origins == origins
            merged[_identity(each)] = each if same else replace(each, origins=origins)
        if len({each.indicator_id for each in merged.values()}) > 1:
            raise ValueError("campaigns of one indicator make a graph")
        found = (_GraphCampaign.of(each, nodes) for each in merged.values())
        self._campaigns = tuple(each for each in found if each is not None)
        # Locks that are judged one after the other often have the same questions.
        self._last: tuple[object, Comparisons] | None = None
        self._extent = extent

    def __len__(self) -> int:
        """Return the number of campaigns that count."""
        return len(self._campaigns) if self._extent is None else self._extent.campaigns

    @property
    def campaigns(self) -> Iterator[tuple[CampaignContrasts, tuple[StackNode, ...]]]:
        """Yield each campaign that counts with the nodes that it measured, in order."""
        return ((each.row, each.arms) for each in self._campaigns)

    @property
    def machines(self) -> frozenset[MachineId]:
        """Return the machines that anything was measured on."""
        return frozenset(each.row.machine_id for each in self._campaigns)

    @cached_property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """Return the stacks that can be compared with each other, the largest set first."""
        if self._extent is not None:
            return self._extent.components
        found = (tuple(sorted(each)) for each in _connected_sets(c.keys for c in self._campaigns))
        return tuple(sorted(found, key=lambda each: (-len(each), each)))

    @cached_property
    def _component_of(self) -> Mapping[str, tuple[str, ...]]:
        return {key: each for each in self.components for key in each}

    def component(self, key: str) -> tuple[str, ...]:
        """Return the stacks that a stack can be compared with, itself included; none if unknown."""
        return self._component_of.get(key, ())

    @cached_property
    def several(self) -> bool:
        """Return whether anything was measured on more than one machine or base."""
        if self._extent is not None:
            return self._extent.several
        return len({(c.row.machine_id, a.base) for c in self._campaigns for a in c.arms}) > 1

    def fit(
        self,
        key: str,
        place: Place | None,
        *,
        of: Collection[str] | None = None,
        prior: Array | None = None,
        most: int = MOST_NODES,
    ) -> "Comparisons":
        """Put together what is known of a stack's component, or of the part around the stack.

        Args:
            key: a stack of the graph.
            place: what the answers are for; None for no machine and base in particular.
            of: the stacks that will be compared; all by default. Few make a large graph quick.
            prior: of the spread between campaigns, a mass for each of ``SPREADS``.
            most: stacks that take part, on each machine and base one more; what is farther from
                the stack than these has no comparison.

        Raises:
            EvidenceError: no campaign compared this stack with anything.
        """
        component = self.component(key)
        if not component:
            raise EvidenceError(
                f"no campaign compared {key} with anything",
                why=f"{len(self._component_of)} stacks were compared on this indicator, but not "
                "this one",
                fix="measure it beside another one: stackgen compare or stackgen explore",
            )
        campaigns = self._around(key, most)
        reached = {arm.key for each in campaigns for arm in each.arms}
        wanted = tuple(sorted(set(component if of is None else of) & reached | {key}))
        question = (
            wanted,
            [each.row for each in campaigns],
            place,
            prior if prior is None else [*prior],
        )
        if self._last is None or self._last[0] != question:
            self._last = question, Comparisons(campaigns, wanted, place, prior)
        return self._last[1]

    def held_out(self, prior: Array | None = None) -> HeldOut:
        """Predict each campaign from all others: intervals hold its noise and spread as well."""
        inside = total = campaigns = 0
        widths: list[float] = []
        for number, campaign in enumerate(self._campaigns):
            left = [*self._campaigns[:number], *self._campaigns[number + 1 :]]
            hub, *others = campaign.arms
            own = _connected(left, hub.key)
            known = {arm.key for each in own for arm in each.arms}
            known_at = [at for at, arm in enumerate(others) if arm.key in known - {hub.key}]
            if not known_at:
                continue
            keys = [others[at].key for at in known_at]
            place = Place(machine_id=campaign.row.machine_id, base=hub.base)
            fitted = Comparisons(own, sorted({hub.key, *keys}), place, prior)
            variances = np.diag(campaign.covariance)[known_at]
            low, high = fitted.next_campaign(hub.key, keys, variances).interval()
            values = campaign.values[known_at]
            inside += int(np.sum((low <= values) & (values <= high)))
            total, campaigns = total + len(known_at), campaigns + 1
            widths += ((high - low) / 2).tolist()
        half_width = float(np.median(widths)) if widths else 0.0
        return HeldOut(inside=inside, total=total, campaigns=campaigns, half_width=half_width)

    def near(self, key: str, most: int = MOST_NODES) -> frozenset[str]:
        """Return the stacks that ``fit`` compares a stack with, itself included."""
        return frozenset(each for c in self._around(key, most) for each in c.keys)

    def _around(self, key: str, most: int) -> list["_GraphCampaign"]:
        """Return the campaigns that connect a stack with the nearest others."""
        return [self._campaigns[number] for number in sorted(self._surroundings.of(key, most))]

    @cached_property
    def _surroundings(self) -> "Surroundings[str]":
        found = [(c.row.machine_id, [(a.key, a.base) for a in c.arms]) for c in self._campaigns]
        return Surroundings(found, several=self.several)


_Key = TypeVar("_Key", str, int)


class Surroundings(Generic[_Key]):
    """Which campaigns are nearest to a stack, by what each of them measured."""

    def __init__(
        self,
        campaigns: Sequence[tuple[object, Sequence[tuple[_Key, object]]]],
        *,
        several: bool,
    ) -> None:
        """Remember what was measured beside what.

        Args:
            campaigns: in the order of a graph: the machine, and the key and base of each stack.
            several: whether the graph has more than one machine or base.
        """
        self._measured: Sequence[tuple[object, Sequence[tuple[_Key, object]]]] = campaigns
        self._several = several
        self._keys: Sequence[frozenset[_Key]] = [
            frozenset(stack for stack, _ in arms) for _, arms in campaigns
        ]
        self._by_key: dict[_Key, list[int]] = {}
        for number, keys in enumerate(self._keys):
            for stack in keys:
                self._by_key.setdefault(stack, []).append(number)

    def of(self, key: _Key, most: int) -> Collection[int]:
        """Return the numbers of the campaigns that connect a stack with the nearest others.

        At most so many stacks take part, on each machine and base one more.
        """
        places: set[object] = set()
        taken: dict[int, None] = {}
        seen, queue = {key}, deque([key])
        while queue and len(places) < most:
            for number in self._by_key.get(queue.popleft(), ()):
                if number in taken or len(places) >= most:
                    continue
                taken[number] = None
                machine, arms = self._measured[number]
                keys = self._keys[number]
                places |= keys
                if self._several:  # each stack in general, where it was measured, and for the user
                    places |= {(stack, "") for stack in keys}
                    places |= {(stack, machine, base) for stack, base in arms}
                queue += sorted(keys - seen)
                seen |= keys
        return taken


def _identity(each: CampaignContrasts) -> tuple[str, ...]:
    return each.campaign_id, each.indicator_id, each.machine_id, each.baseline


def _order(each: CampaignContrasts) -> tuple[object, ...]:
    return *_identity(each), sum(each.blocks), each.origins, each.log_ratios


@dataclass(frozen=True, eq=False)
class _GraphCampaign:
    """A row with the nodes of its stacks, baseline first.

    keep: which stacks of the row take part. Few campaigns of a large graph are ever put together,
    so that values and covariance are computed when they are needed.
    """

    row: CampaignContrasts
    arms: tuple[StackNode, ...]
    keep: tuple[bool, ...]

    @classmethod
    def of(
        cls, row: CampaignContrasts, nodes: Mapping[StackId, StackNode]
    ) -> "_GraphCampaign | None":
        keep = tuple(stack in nodes for stack in row.stacks)
        if sum(keep) < 2:
            return None
        return cls(row, tuple(nodes[s] for s in row.stacks if s in nodes), keep)

    def only(self, wanted: Collection[str]) -> "_GraphCampaign | None":
        """Return what the campaign says of some stacks alone; None of fewer than two."""
        arms = iter(self.arms)
        keep = tuple(is_known and next(arms).key in wanted for is_known in self.keep)
        if sum(keep) < 2:
            return None
        return _GraphCampaign(self.row, tuple(arm for arm in self.arms if arm.key in wanted), keep)

    @cached_property
    def _contrasts(self) -> tuple[Array, Array]:
        return _marginal(np.array(self.row.log_ratios), np.array(self.row.covariance), self.keep)

    @property
    def values(self) -> Array:
        return self._contrasts[0]

    @property
    def covariance(self) -> Array:
        return self._contrasts[1]

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(arm.key for arm in self.arms)


def repeats_on(machine: MachineId, graphs: Mapping[IndicatorId, EvidenceGraph]) -> Repeats:
    """Return what repeated campaigns say of the spread between campaigns on a machine.

    Args:
        machine: on which all campaigns of the graphs were run.
        graphs: by indicator; of each, the largest component counts.
    """
    rows = [row for graph in graphs.values() for row, _ in graph.campaigns]
    return Repeats(
        machine_id=machine,
        weight=len({row.campaign_id for row in rows}) / max(1, len(rows)),
        log_likelihoods={
            indicator: graph.fit(graph.components[0][0], None).network.spread_likelihood
            for indicator, graph in graphs.items()
            if graph.components
        },
    )


def _marginal(values: Array, covariance: Array, keep: Sequence[bool]) -> tuple[Array, Array]:
    """Return contrasts of the remaining arms, two or more, to the first of them.

    Args:
        values: log ratios to the first arm, shape (k,).
        covariance: of these, shape (k, k).
        keep: of each arm, the first included, shape (k + 1,).
    """
    if all(keep):
        return values, covariance
    places = [place for place, is_known in enumerate(keep) if is_known]
    change = np.zeros((len(places) - 1, len(keep)))
    change[:, places[0]] = -1.0
    change[np.arange(len(places) - 1), places[1:]] = 1.0
    change = change[:, 1:]  # the first arm is the origin of the values
    return change @ values, change @ covariance @ change.T


class Comparisons:
    """What is known of stacks that can be compared with each other, for one place.

    stacks: that can be compared here.
    network: the fit. targets: the place of each stack in it, on the machine and base in question.
    """

    def __init__(
        self,
        campaigns: Sequence[_GraphCampaign],
        stacks: Sequence[str],
        place: Place | None,
        prior: Array | None,
    ) -> None:
        self.stacks = tuple(stacks)
        several = len(stacks) > 1
        self._campaigns = _informative(campaigns, set(stacks)) if several else list(campaigns)
        self._all = campaigns
        self._place, self._prior = place, prior
        machines = {each.row.machine_id for each in self._campaigns}
        bases = {arm.base for each in self._campaigns for arm in each.arms}
        if place is not None:
            machines, bases = machines | {place.machine_id}, bases | {place.base}
        self._layout = _Layout(by_machine=len(machines) > 1, by_base=len(bases) > 1)
        studies = [self._study(each) for each in self._campaigns]
        self.targets = {key: self._target(key) for key in self.stacks}
        grid = spread_grid(
            machines=self._layout.by_machine, bases=self._layout.by_base, prior=prior
        )
        self.network: NetworkFit = fit(len(self._layout), studies, self._layout.links, grid)

    def log_ratios(self, current: str, others: Sequence[str]) -> Mixture:
        """Return the posterior of log(time of current / time of other), in order of others."""
        return self.network.differences(self._coefficients(current, others))

    def without(self, origins: Collection[str], one: str, other: str) -> "Comparisons | None":
        """Return the comparison of two stacks without what these origins alone measured.

        None where what is left does not connect them. The origin "" is this installation.
        """
        left = [c for c in self._all if not set(c.row.origins or ("",)) <= set(origins)]
        own = _connected(left, one)
        if not any(other in each.keys for each in own):
            return None
        return Comparisons(own, sorted({one, other}), self._place, self._prior)

    def neighbours(self, key: str) -> frozenset[str]:
        """Return the stacks that a campaign measured beside a stack."""
        return frozenset(self._pairs[key]) if key in self._pairs else frozenset()

    def next_campaign(self, current: str, others: Sequence[str], variances: Array) -> Mixture:
        """Return what a campaign with this noise would state of log ratios, in order of others."""
        return self.network.next_campaign(self._coefficients(current, others), variances)

    def below_if_odd(self, one: str, other: str) -> float:
        """Return how probably the other is no faster if a stack is odd in a campaign, at worst."""
        (of,) = self._coefficients(one, [other])
        return self.network.below_if_odd(of)

    def basis(self, one: str, other: str) -> Basis:
        """Return what the comparison of two stacks rests on."""
        (of,) = self._coefficients(one, [other])
        found = zip(self._campaigns, self.network.shares(of), strict=True)
        carried = [(each, float(share)) for each, share in found if share >= CARRIES]
        carried.sort(key=lambda each: (-each[1], each[0].row.campaign_id))
        rows = [each.row for each, _ in carried]
        machines: dict[MachineId, float] = {}
        for each, share in carried:
            machines[each.row.machine_id] = machines.get(each.row.machine_id, 0.0) + share
        return Basis(
            shares=tuple((each.row.campaign_id, share) for each, share in carried),
            steps=self._steps(one, other),
            origins=tuple(sorted({o for row in rows for o in row.origins or ("",)})),
            machines=tuple(sorted(machines.items())),
            first=min((row.date for row in rows), default=""),
            last=max((row.date for row in rows), default=""),
            blocks=sum(max(row.blocks) for row in rows),
        )

    def direct_origins(self, one: str, other: str) -> frozenset[str]:
        """Return the origins that measured two stacks beside each other; "" is this one."""
        rows = [each.row for each in self._all if {one, other} <= each.keys]
        return frozenset(origin for row in rows for origin in row.origins or ("",))

    @cached_property
    def _pairs(self) -> "Mapping[str, Mapping[str, _Edge]]":
        """Return the pairs of stacks that campaigns measured, both ways."""
        found: dict[str, dict[str, _Edge]] = {}
        for number, each in enumerate(self._campaigns):
            noise = math.sqrt(float(np.mean(np.diag(each.covariance))))
            for a, b in combinations(sorted(each.keys), 2):
                edge = found.setdefault(a, {}).get(b, _Edge((), 2.0))
                # Fewer steps first: each of them adds a spread.
                edge = _Edge((*edge.by, number), min(edge.weight, 1.0 + min(1.0, noise)))
                found[a][b] = found.setdefault(b, {})[a] = edge
        return found

    def _steps(self, one: str, other: str) -> tuple[PathStep, ...]:
        def by(a: str, b: str) -> tuple[CampaignId, ...]:
            ids = {self._campaigns[n].row.campaign_id for n in self._pairs[a][b].by}
            return tuple(sorted(ids))

        path = self._shortest(one, other)
        return tuple(PathStep(one=a, other=b, campaigns=by(a, b)) for a, b in pairwise(path))

    def _shortest(self, one: str, other: str) -> tuple[str, ...]:
        """Return the stacks on the shortest way; of equally short ones, the first by name."""
        queue: list[tuple[float, tuple[str, ...]]] = [(0.0, (one,))]
        seen: set[str] = set()
        while True:
            length, path = heapq.heappop(queue)
            if path[-1] == other:
                return path
            if path[-1] not in seen:
                seen.add(path[-1])
                for key, edge in self._pairs[path[-1]].items():
                    if key not in seen:
                        heapq.heappush(queue, (length + edge.weight, (*path, key)))

    def next_block(
        self, current: str, best: str, pairs: Iterable[tuple[str, str]], *, error: float
    ) -> NextBlock:
        """Return which two stacks a further campaign should compare at this place.

        It is the pair that lowers the variance of best against current most. ``error`` is the
        standard error that the blocks would leave of a log ratio.
        """
        (row,) = self._coefficients(current, [best])
        weights = np.minimum(self.network.weights, 1.0)
        spreads = self.network.grid.campaigns**2
        usual = spreads <= _median(spreads, weights) * 4 + _NOTHING
        weights = weights * usual / float(weights @ usual)
        variance = float(weights @ (self.network.covariances @ row @ row))
        choices = []
        for one, other in sorted(pairs):
            (of,) = self._coefficients(one, [other])
            reach = self.network.covariances @ of
            added = reach @ of + spreads + error**2
            gain = float(weights @ ((reach @ row) ** 2 / added))
            choices.append(NextBlock(one=one, other=other, variance=variance, gain=gain))
        return max(choices, key=lambda each: each.gain)

    def _coefficients(self, current: str, others: Sequence[str]) -> Array:
        of = np.zeros((len(others), len(self._layout)))
        for row, other in enumerate(others):
            of[row, self.targets[current]] -= 1.0
            of[row, self.targets[other]] += 1.0
        return of

    def _study(self, campaign: _GraphCampaign) -> Study:
        machine = campaign.row.machine_id
        return Study(
            arms=tuple(self._layout.node(arm.key, machine, arm.base) for arm in campaign.arms),
            values=campaign.values,
            covariance=campaign.covariance,
            freedom=campaign.row.freedom,
        )

    def _target(self, key: str) -> int:
        if self._place is None:
            return self._layout.node(key, None, None)
        return self._layout.node(key, self._place.machine_id, self._place.base)


_NOTHING = 1e-12


class _Edge(NamedTuple):
    """Campaigns, by number, that measured two stacks, and how long the way between them is."""

    by: tuple[int, ...]
    weight: float


class _Layout:
    """Numbers of nodes: each stack in general, on each machine, on each base of that machine."""

    def __init__(self, *, by_machine: bool, by_base: bool) -> None:
        self.by_machine, self.by_base = by_machine, by_base
        self.links: list[Link] = []
        self._numbers: dict[tuple[str, MachineId | None, str | None], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def node(self, key: str, machine: MachineId | None, base: str | None) -> int:
        """Return the number of a node; what it hangs on is made with it."""
        what = key, machine if self.by_machine else None, base if self.by_base else None
        if what not in self._numbers:
            self._numbers[what] = len(self._numbers)
            for level, above in ((1, (key, what[1], None)), (0, (key, None, None))):
                if above != what:
                    number = self._numbers[what]
                    self.links.append(Link(number, self.node(*above), level))
                    break
        return self._numbers[what]


def _informative(campaigns: Sequence[_GraphCampaign], wanted: set[str]) -> list[_GraphCampaign]:
    """Leave out stacks that say nothing of the wanted ones, since a single campaign measured them.

    Their log speed is free, so that least squares of the others do not change.
    """
    left = list(campaigns)
    while True:
        counts: dict[str, int] = {}
        for each in left:
            for key in each.keys:
                counts[key] = counts.get(key, 0) + 1
        keep = {key for key, count in counts.items() if count > 1} | wanted
        remaining = [each.only(keep) for each in left]
        found = [each for each in remaining if each is not None]
        if len(found) == len(left) and counts.keys() <= keep:
            return found
        left = found


def _connected(campaigns: Sequence[_GraphCampaign], key: str) -> list[_GraphCampaign]:
    """Return the campaigns that connect a stack with others."""
    sets = _connected_sets(each.keys for each in campaigns)
    reached: Collection[str] = next((each for each in sets if key in each), ())
    return [each for each in campaigns if each.arms[0].key in reached]


def _connected_sets(groups: Iterable[frozenset[str]]) -> list[set[str]]:
    """Return what groups with common members make together."""
    of: dict[str, set[str]] = {}
    for group in groups:
        known = {id(found): found for key in group if (found := of.get(key)) is not None}
        # The largest grows, so that nothing is moved often.
        grown, *others = sorted(known.values(), key=len, reverse=True) or [set[str]()]
        for moved in (*others, group):
            grown |= moved
            of |= dict.fromkeys(moved, grown)
    return list({id(found): found for found in of.values()}.values())


def _median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())])
