"""Which part of a large knowledge base an answer needs, from an outline of the whole.

The outline says of everything what can be said in few bytes: which stacks make which nodes, which
of them each campaign measured, what they computed. It is derived and cached like contrasts, and
made anew when anything was added. From it, the campaigns around a lock are chosen: those that
``EvidenceGraph.fit`` takes, so that the part gives the same answer as the whole.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from stackgen.knowledge.advice import NEAREST, distance, pins_of
from stackgen.knowledge.equivalence import (
    VARIED,
    LockedOn,
    Nodes,
    Setting,
    Versions,
    base_name,
    find_node,
    frameworks,
    normal_versions,
    versions_of,
)
from stackgen.knowledge.evidence import Results
from stackgen.knowledge.graph import MOST_NODES, Extent, Surroundings
from stackgen.knowledge.judgement import SMALL, Knowledge, Whole
from stackgen.locks.reading import admits_python
from stackgen.measure import Computed
from stackgen.measure.meta_analysis import Repeats
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.stacks import BaseFacts, Stack

LARGE = 500
"""Campaigns of a knowledge base from which on only a part is loaded."""

Pairs = tuple[tuple[str, str], ...]
_Numbers = tuple[int, ...]


class _Node(msgspec.Struct, array_like=True, frozen=True):
    """A node: its names, the stacks that it merges, and others whose versions have its key."""

    key: str
    names: int
    stacks: _Numbers
    others: _Numbers


class _Graph(msgspec.Struct, array_like=True, frozen=True):
    """What is known of an indicator; all numbers are places in lists of the outline or of this.

    nodes: by key. compared: whether there is a graph. campaigns: machine, and nodes with bases.
    """

    indicator: IndicatorId
    names: tuple[tuple[str, ...], ...]
    nodes: tuple[_Node, ...]
    compared: bool
    ids: _Numbers
    campaigns: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    components: tuple[_Numbers, ...]
    machines: tuple[_Numbers, ...]
    several: bool
    error: float


class _Repeats(msgspec.Struct, array_like=True, frozen=True):
    """``Repeats`` of a machine, likelihoods by graph."""

    machine: int
    weight: float
    likelihoods: tuple[tuple[int, tuple[float, ...]], ...]


class Outline(msgspec.Struct, array_like=True, frozen=True):
    """What can be said of a whole knowledge base in few bytes.

    pins: the versions of packages that vary by themselves. on, pinned: of each stack, its place and
    its pins. compared: of each stack, on which machine which origin did so. results: machine,
    graph, stacks and what each of them computed.
    """

    facts: tuple[BaseFacts, ...]
    places: tuple[tuple[int, Pairs], ...]
    pins: tuple[Pairs, ...]
    machines: tuple[MachineId, ...]
    campaigns: tuple[CampaignId, ...]
    computed: tuple[Computed, ...]
    stacks: tuple[StackId, ...]
    on: _Numbers
    pinned: _Numbers
    measured: _Numbers
    failing: _Numbers
    baselines: _Numbers
    origins: tuple[str, ...]
    compared: tuple[tuple[tuple[int, int], ...], ...]
    results: tuple[tuple[int, int, _Numbers, _Numbers], ...]
    graphs: tuple[_Graph, ...]
    repeats: tuple[_Repeats, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What is loaded: campaigns, stacks, and what is true of the whole."""

    campaigns: Collection[CampaignId]
    stacks: Collection[StackId]
    whole: Whole


def decoded(content: bytes) -> Outline | None:
    """Return a stored outline; None where it is of another version of stackgen."""
    try:
        return msgspec.msgpack.decode(content, type=Outline)
    except (msgspec.DecodeError, TypeError, ValueError):
        return None


def outlined(known: Knowledge) -> bytes:
    """Return the outline of all that is known."""
    stacks = sorted(known.stacks)
    at = {each: number for number, each in enumerate(stacks)}
    facts = sorted({each for each, _ in known.places}, key=base_name)
    base = {base_name(each): number for number, each in enumerate(facts)}
    places = sorted((base[base_name(one)], variables) for one, variables in known.places)
    of = [known.stacks[each] for each in stacks]
    pins = [tuple(_varied(known.nodes.versions(each)).items()) for each in stacks]
    unique = sorted({*pins})
    machines = sorted(known.machines)
    rows = {row.campaign_id for g in known.graphs.values() for row, _ in g.campaigns}
    campaigns = {each: number for number, each in enumerate(sorted(rows))}
    graphs = [
        _graph(known, indicator, at, base, machines, campaigns)
        for indicator in known.nodes.indicators
    ]
    computed: dict[Computed, int] = {}
    number = {each.indicator: place for place, each in enumerate(graphs)}
    results = []
    for machine, seen in enumerate(known.results.computed):
        by_graph: dict[int, list[tuple[int, int]]] = {}
        for (indicator, stack), one in seen.items():
            if stack in at and indicator in number:
                kind = computed.setdefault(one, len(computed))
                by_graph.setdefault(number[indicator], []).append((at[stack], kind))
        for graph, own in sorted(by_graph.items()):
            results.append(
                (machine, graph, tuple(s for s, _ in own), tuple(kind for _, kind in own))
            )
    place_of = {each: place for place, each in enumerate(places)}
    origins = sorted({origin for own in known.compared.values() for _, origin in own})
    made = Outline(
        facts=tuple(facts),
        places=tuple(places),
        pins=tuple(unique),
        machines=tuple(machines),
        campaigns=tuple(campaigns),
        computed=tuple(computed),
        stacks=tuple(stacks),
        on=tuple(place_of[base[base_name(s.facts)], s.settings] for s in of),
        pinned=tuple(map({each: number for number, each in enumerate(unique)}.__getitem__, pins)),
        measured=tuple(sorted(at[each] for each in known.measured if each in at)),
        failing=tuple(sorted(at[each] for each in known.failing if each in at)),
        baselines=tuple(sorted(at[each] for each in known.results.baselines if each in at)),
        origins=tuple(origins),
        compared=tuple(
            tuple(
                (machines.index(machine), origins.index(origin))
                for machine, origin in sorted(known.compared.get(each, ()))
            )
            for each in stacks
        ),
        results=tuple(results),
        graphs=tuple(graphs),
        repeats=tuple(
            _Repeats(
                machine=machines.index(each.machine_id),
                weight=each.weight,
                likelihoods=tuple(
                    (number[indicator], tuple(map(float, own)))
                    for indicator, own in sorted(each.log_likelihoods.items())
                ),
            )
            for each in known.repeated
        ),
    )
    return msgspec.msgpack.encode(made)


def _graph(
    known: Knowledge,
    indicator: IndicatorId,
    at: Mapping[StackId, int],
    base: Mapping[str, int],
    machines: Sequence[MachineId],
    campaigns: Mapping[CampaignId, int],
) -> _Graph:
    nodes = known.nodes
    names = nodes.names(indicator)
    others: dict[str, list[int]] = {}
    for stack in sorted(known.stacks.values(), key=lambda each: each.id):
        setting = Setting.of(stack.facts, stack.settings)
        key = nodes.find(indicator, nodes.versions(stack.id), setting)
        own = nodes.nodes(indicator).get(stack.id)
        if key is not None and (own is None or own.key != key):
            others.setdefault(key, []).append(at[stack.id])
    keys = sorted(nodes.stacks[indicator])
    number = {key: place for place, key in enumerate(keys)}
    graph = known.graphs.get(indicator)
    made = [] if graph is None else list(graph.campaigns)
    components = () if graph is None else graph.components
    on = () if graph is None else known.machines_of(indicator)
    return _Graph(
        indicator=indicator,
        names=tuple(names),
        nodes=tuple(
            _Node(
                key=key,
                names=names.index(nodes.decisive(indicator, nodes.stacks[indicator][key][0])),
                stacks=tuple(at[each] for each in nodes.stacks[indicator][key]),
                others=tuple(others.get(key, ())),
            )
            for key in keys
        ),
        compared=graph is not None,
        ids=tuple(campaigns[row.campaign_id] for row, _ in made),
        campaigns=tuple(
            (machines.index(row.machine_id), tuple((number[a.key], base[a.base]) for a in arms))
            for row, arms in made
        ),
        components=tuple(tuple(map(number.__getitem__, each)) for each in components),
        machines=tuple(tuple(sorted(map(machines.index, each))) for each in on),
        several=graph is not None and graph.several,
        error=0.0 if graph is None else known.usual_error(indicator),
    )


def _varied(versions: Versions) -> dict[str, str]:
    return {name: versions[name] for name in VARIED if name in versions}


class Chooser:
    """Chooses what the answers for some locks need."""

    def __init__(
        self,
        known: Outline,
        *,
        stack_of: Callable[[StackId], Stack],
        programs: Collection[IndicatorId],
    ) -> None:
        """Prepare.

        Args:
            known: the outline.
            stack_of: reads a stack.
            programs: the indicators that are users' own programs.
        """
        self._known, self._stack_of, self._programs = known, stack_of, programs
        self._numbers = [
            {node.key: number for number, node in enumerate(graph.nodes)} for graph in known.graphs
        ]
        self._compared = [{n for own in graph.components for n in own} for graph in known.graphs]
        self._surroundings: dict[int, Surroundings[int]] = {}
        self._nodes: list[set[int]] = [set() for _ in known.graphs]
        self._done: set[tuple[int, int]] = set()
        self._campaigns: set[int] = set()
        self._stacks: set[int] = set()

    def part(self, locks: Sequence[LockedOn]) -> Part | None:
        """Return what is loaded; None where that takes everything.

        Args:
            locks: to be answered, or one and what it is updated to.
        """
        known = self._known
        places: set[int] = set()  # where anything was compared with the first lock
        for lock in locks:
            found = self._find({n: lock.versions(each) for n, each in enumerate(known.facts)})
            compared = {place: self._only_compared(each) for place, each in found.items()}
            where = {place for place, each in found.items() if each}
            answering = {place for place, each in compared.items() if each}
            if where and not (where & places if places else answering):
                return None  # all campaigns of these versions say why they compare nothing
            places = places or answering
            self._follow(compared.values())
            self._add_nearest(lock)
        for graph, nodes in zip(known.graphs, self._nodes, strict=True):
            for node in nodes:
                self._stacks.update(graph.nodes[node].stacks, graph.nodes[node].others)
        return Part(
            campaigns=[known.campaigns[each] for each in sorted(self._campaigns)],
            stacks=[known.stacks[each] for each in sorted(self._stacks)],
            whole=self._whole(),
        )

    def _find(self, versions_on: Mapping[int, Versions]) -> dict[int, dict[int, int]]:
        """Return the node of each graph that versions have, by place.

        Args:
            versions_on: by the number of the base.
        """
        found: dict[int, dict[int, int]] = {}
        for place, (base, variables) in enumerate(self._known.places):
            if base not in versions_on:
                continue
            setting = Setting.of(self._known.facts[base], variables)
            nodes = found[place] = {}
            for at, graph in enumerate(self._known.graphs):
                key = find_node(graph.names, self._numbers[at], versions_on[base], setting)
                if key is not None:
                    nodes[at] = self._numbers[at][key]
        return found

    def _only_compared(self, nodes: Mapping[int, int]) -> dict[int, int]:
        return {at: node for at, node in nodes.items() if node in self._compared[at]}

    def _follow(self, cases: Iterable[Mapping[int, int]]) -> None:
        """Add what is around the nodes of some cases, and around what stands for each of them."""
        for nodes in cases:
            own = [at for at in nodes if self._known.graphs[at].indicator in self._programs]
            for group in (own, [at for at in nodes if at not in own]):
                standing = [
                    s for at in group for s in self._known.graphs[at].nodes[nodes[at]].stacks
                ]
                if standing:
                    first = min(standing, key=lambda each: (-standing.count(each), each))
                    for at, node in {**self._nodes_of(first), **nodes}.items():
                        self._add(at, node)
            for at, node in nodes.items():
                self._add(at, node)

    def _nodes_of(self, stack: int) -> dict[int, int]:
        """Return the node that the versions of a stack have, by graph."""
        found: dict[int, int] = {}
        for at, graph in enumerate(self._known.graphs):
            own = [n for n, node in enumerate(graph.nodes) if stack in node.others]
            own += [n for n, node in enumerate(graph.nodes) if not own and stack in node.stacks]
            if own:
                found[at] = own[0]
        return found

    def _add(self, at: int, node: int) -> None:
        """Add a node, and the campaigns that connect it with the nearest others."""
        graph = self._known.graphs[at]
        if (at, node) in self._done:
            return
        self._done.add((at, node))
        self._nodes[at].add(node)
        if at not in self._surroundings:
            self._surroundings[at] = Surroundings(graph.campaigns, several=graph.several)
        for number in self._surroundings[at].of(node, MOST_NODES):
            self._campaigns.add(graph.ids[number])
            self._nodes[at].update(key for key, _ in graph.campaigns[number][1])

    def _add_nearest(self, lock: LockedOn) -> None:
        """Add what is said where nothing answers."""
        known = self._known
        own = [_varied(lock.versions(each)) for each in known.facts]
        kinds = [frameworks(dict(each)) for each in known.pins]
        in_nodes = {s for graph in known.graphs for node in graph.nodes for s in node.stacks}
        examples: dict[object, int] = {}
        for stack in known.measured:
            base, pins = known.places[known.on[stack]][0], known.pinned[stack]
            examples.setdefault((base, kinds[pins], stack in in_nodes), stack)
            if dict(known.pins[pins]) == own[base]:
                self._stacks.add(stack)
        self._stacks.update(examples.values())
        every = _varied(versions_of(lock.lockfile))
        alone = {name: version for name, version in every.items() if name == "numpy"}
        # As ``Advisor`` falls back: to what is for other Pythons, or of other frameworks.
        cases = (own, [every] * len(own), [alone] * len(own))
        nearest = next(filter(None, (self._nearest(lock, each, kinds) for each in cases)), [])
        self._stacks.update(nearest)
        small = max((len(c) for g in known.graphs for c in g.components), default=0) <= SMALL
        for stack in nearest if small else nearest[:1]:
            versions = normal_versions(self._stack_of(known.stacks[stack]))
            found = self._find({known.places[known.on[stack]][0]: versions})
            self._follow(map(self._only_compared, found.values()))

    def _nearest(
        self, lock: LockedOn, own: Sequence[Versions], kinds: Sequence[frozenset[str]]
    ) -> list[int]:
        """Return the compared stacks nearest to versions by base, as ``Advisor`` ranks them."""
        known = self._known
        compared = {
            stack
            for at, graph in enumerate(known.graphs)
            for node in self._compared[at]
            for stack in graph.nodes[node].stacks
        }
        first: dict[tuple[int, int], int] = {}
        for stack in sorted(compared):
            first.setdefault((known.places[known.on[stack]][0], known.pinned[stack]), stack)
        ranked: dict[Pairs, tuple[tuple[object, ...], int]] = {}
        for (base, pins), stack in sorted(first.items(), key=lambda each: each[1]):
            theirs = dict(known.pins[pins])
            if frameworks(own[base]) != kinds[pins] or not pins_of(own[base]):
                continue
            python = known.facts[base].python.split()[-1]
            rank = (distance(own[base], theirs), not admits_python(lock.lockfile, python))
            named = pins_of(theirs)
            if named not in ranked or rank < ranked[named][0]:
                ranked[named] = rank, stack
        nearest = sorted(ranked.items(), key=lambda each: (each[1][0], each[0]))[:NEAREST]
        return [stack for _, (_, stack) in nearest]

    def _whole(self) -> Whole:
        known = self._known
        ids = known.stacks
        graphs = [graph for graph in known.graphs if graph.compared]
        by_indicator: dict[IndicatorId, Nodes] = {}
        for graph in known.graphs:
            by_indicator[graph.indicator] = Nodes(
                names=graph.names,
                keys=frozenset(node.key for node in graph.nodes),
                decisive={
                    ids[stack]: graph.names[node.names]
                    for node in graph.nodes
                    for stack in node.stacks
                    if stack in self._stacks
                },
            )
        return Whole(
            places=[(known.facts[base], variables) for base, variables in known.places],
            nodes=by_indicator,
            extents={
                graph.indicator: Extent(
                    campaigns=len(graph.campaigns),
                    components=tuple(
                        tuple(graph.nodes[node].key for node in own) for own in graph.components
                    ),
                    several=graph.several,
                )
                for graph in graphs
            },
            machines={
                graph.indicator: [
                    frozenset(known.machines[each] for each in own) for own in graph.machines
                ]
                for graph in graphs
            },
            errors={graph.indicator: graph.error for graph in graphs},
            repeated=tuple(
                Repeats(
                    machine_id=known.machines[each.machine],
                    weight=each.weight,
                    log_likelihoods={
                        known.graphs[graph].indicator: np.array(own)
                        for graph, own in each.likelihoods
                    },
                )
                for each in known.repeats
            ),
            failing=frozenset(ids[each] for each in known.failing),
            measured=frozenset(ids[each] for each in known.measured),
            compared={
                ids[stack]: frozenset(
                    (known.machines[machine], known.origins[origin])
                    for machine, origin in known.compared[stack]
                )
                for stack in self._stacks
                if known.compared[stack]
            },
            results=self._results(),
        )

    def _results(self) -> Results:
        known = self._known
        machines: dict[int, dict[tuple[IndicatorId, StackId], Computed]] = {}
        indicators: dict[StackId, list[IndicatorId]] = {}
        for machine, at, stacks, kinds in known.results:
            indicator = known.graphs[at].indicator
            seen = machines.setdefault(machine, {})
            for stack, kind in zip(stacks, kinds, strict=True):
                seen[indicator, known.stacks[stack]] = known.computed[kind]
                if stack in self._stacks:
                    indicators.setdefault(known.stacks[stack], []).append(indicator)
        return Results(
            computed=tuple(machines.values()),
            baselines=frozenset(known.stacks[each] for each in known.baselines),
            indicators={stack: sorted({*found}) for stack, found in indicators.items()},
        )
