"""What the evidence graphs say of versions: cases in which they were measured, and candidates."""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from stackgen.knowledge.equivalence import (
    Equivalence,
    Nodes,
    Setting,
    Versions,
    base_name,
    frameworks,
)
from stackgen.knowledge.evidence import CONTROL_COMPONENT, Results, StackSummary
from stackgen.knowledge.graph import (
    MOST_NODES,
    EvidenceGraph,
    Extent,
    NextBlock,
    Place,
    repeats_on,
)
from stackgen.knowledge.recommendation import FEWEST_MACHINES, Assessment, assess
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.measure.meta_analysis import Repeats
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall
from stackgen.model.stacks import PROGRAM, BaseFacts, Machine, Stack

SMALL = 40  # stacks of a component
_Members = dict[tuple[tuple[IndicatorId, str], ...], list[StackId]]
"""Measured stacks by what they are: the keys of their nodes, by indicator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Versions on a base with variables, and the nodes that stand for them, by indicator.

    machine: that the answer is for: the user's own where it was measured on that or on three
        others, otherwise the nearest one that it was measured on.
    """

    facts: BaseFacts
    variables: tuple[tuple[str, str], ...]
    versions: Versions
    current: Mapping[IndicatorId, str]
    machine: Machine

    @property
    def setting(self) -> Setting:
        """Return what candidates must have in common with it."""
        return Setting.of(self.facts, self.variables)

    @property
    def place(self) -> Place:
        """Return the machine and base that the answer is for."""
        return Place(machine_id=self.machine.id, base=base_name(self.facts))

    @property
    def python(self) -> str:
        """Return the full version of the Python that was measured."""
        return self.facts.python.split()[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Candidates beside the versions of a case.

    assessments: by name, what is shown to be faster first.
    stacks: the measured stacks that each name stands for, sorted.
    failing, otherwise: how many stacks are not considered, since they failed in blocks, or since
        they compute something else.
    """

    assessments: tuple[Assessment, ...]
    stacks: Mapping[str, tuple[StackId, ...]]
    failing: int
    otherwise: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What is true of all that a knowledge base knows, where only a part of it was loaded.

    places: bases with variables. nodes, extents: of the graphs, by indicator.
    machines: on which each component was measured, in order of the components.
    errors: the usual standard error of a campaign. repeated: as ``Knowledge.repeated``.
    failing, measured, compared, results: as the attributes of ``Knowledge``.
    """

    places: Collection[tuple[BaseFacts, tuple[tuple[str, str], ...]]]
    nodes: Mapping[IndicatorId, Nodes]
    extents: Mapping[IndicatorId, Extent]
    machines: Mapping[IndicatorId, Sequence[frozenset[MachineId]]]
    errors: Mapping[IndicatorId, float]
    repeated: Sequence[Repeats]
    failing: frozenset[StackId]
    measured: frozenset[StackId]
    compared: Mapping[StackId, frozenset[tuple[MachineId, str]]]
    results: Results


class Knowledge:
    """The evidence graphs of a knowledge base, with the stacks that they are about."""

    def __init__(
        self,
        *,
        stacks: Iterable[Stack],
        summaries: Iterable[StackSummary],
        calls: Iterable[IndicatorCall],
        contrasts: Iterable[CampaignContrasts],
        machine: Machine,
        machines: Iterable[Machine],
        trusted: Container[CampaignId],
        trusted_origins: Container[str] = (),
        whole: Whole | None = None,
    ) -> None:
        """Build a graph per indicator.

        Args:
            stacks: all that are known.
            summaries: of all campaigns: what was loaded and computed counts from each.
            calls: the indicators; controls are left out.
            contrasts: of trusted campaigns. Those of machines without a description are left out.
            machine: the user's own.
            machines: all that are known.
            trusted: campaigns whose controls hold.
            trusted_origins: those other than this installation that may carry a recommendation
                alone.
            whole: what is true of everything, where stacks, summaries and contrasts are a part
                (``stackgen.knowledge.outline``).
        """
        self._whole = whole
        self.trusted_origins = trusted_origins
        self.stacks = {each.id: each for each in stacks}
        self.calls = {c.id: c for c in calls if c.indicator.component != CONTROL_COMPONENT}
        self.machine = machine
        self.machines = {each.id: each for each in (*machines, machine)}
        self.summaries = [each for each in summaries if each.indicator_id in self.calls]
        loaded: dict[IndicatorId, dict[StackId, set[str]]] = {}
        for each in self.summaries if whole is None else ():
            if each.stack_id in self.stacks:
                names = loaded.setdefault(each.indicator_id, {}).setdefault(each.stack_id, set())
                names.update(each.loaded)
        known = None if whole is None else whole.nodes
        self.nodes = Equivalence(self.stacks, loaded, self.calls, known)
        self._rows: dict[IndicatorId, list[CampaignContrasts]] = {}
        for row in contrasts:
            if row.indicator_id in self.calls and row.machine_id in self.machines:
                self._rows.setdefault(row.indicator_id, []).append(row)
        extents = {} if whole is None else whole.extents
        self.graphs = {
            indicator: EvidenceGraph(
                self._rows.get(indicator, ()), self.nodes.nodes(indicator), extents.get(indicator)
            )
            for indicator in sorted(self._rows if whole is None else extents)
        }
        self._trusted = trusted

    @cached_property
    def own_campaigns(self) -> frozenset[CampaignId]:
        """Return the campaigns that were run on this machine by an origin that the user trusts."""
        rows = (row for own in self._rows.values() for row in own)
        return frozenset(
            row.campaign_id
            for row in rows
            if row.machine_id == self.machine.id and self._is_trusted(row)
        )

    @cached_property
    def compared(self) -> Mapping[StackId, frozenset[tuple[MachineId, str]]]:
        """Return on which machine which origins compared each stack; "" is this installation."""
        if self._whole is not None:
            return self._whole.compared
        found: dict[StackId, set[tuple[MachineId, str]]] = {}
        for row in (row for own in self._rows.values() for row in own):
            pairs = {(row.machine_id, origin) for origin in row.origins or ("",)}
            for stack in row.stacks:
                found.setdefault(stack, set()).update(pairs)
        return {stack: frozenset(own) for stack, own in found.items()}

    @cached_property
    def trusted_stacks(self) -> Mapping[StackId, frozenset[MachineId]]:
        """Return the stacks that origins that the user trusts compared, and on which machines."""
        found = {
            stack: frozenset(machine for machine, origin in own if self._trusts(origin))
            for stack, own in self.compared.items()
        }
        return {stack: machines for stack, machines in found.items() if machines}

    def _trusts(self, origin: str) -> bool:
        return not origin or origin in self.trusted_origins

    def _is_trusted(self, row: CampaignContrasts) -> bool:
        return any(map(self._trusts, row.origins or ("",)))

    @cached_property
    def failing(self) -> frozenset[StackId]:
        """Return the stacks that failed in blocks."""
        if self._whole is not None:
            return self._whole.failing
        failed = (each for each in self.summaries if each.failed)
        return frozenset(each.stack_id for each in failed if each.campaign_id in self._trusted)

    @cached_property
    def measured(self) -> frozenset[StackId]:
        """Return the stacks that are in any block."""
        if self._whole is not None:
            return self._whole.measured
        return frozenset(each.stack_id for each in self.summaries if each.blocks)

    @cached_property
    def results(self) -> Results:
        """Return what stacks computed."""
        return Results.of(self.summaries) if self._whole is None else self._whole.results

    @cached_property
    def places(self) -> Collection[tuple[BaseFacts, tuple[tuple[str, str], ...]]]:
        """Return the bases, with variables, that stacks are for."""
        if self._whole is not None:
            return self._whole.places
        return {(each.facts, each.settings) for each in self.stacks.values()}

    @property
    def is_small(self) -> bool:
        """Return whether putting campaigns together takes no time worth mentioning."""
        largest = (len(each.components[0]) for each in self.graphs.values() if each.components)
        return max(largest, default=0) <= SMALL

    @cached_property
    def repeated(self) -> Sequence[Repeats]:
        """Return what repeated campaigns say of the spread between campaigns, by machine."""
        if self._whole is not None:
            return self._whole.repeated
        if len(self.graphs) < 2:
            return ()
        on: dict[MachineId, dict[IndicatorId, list[CampaignContrasts]]] = {}
        for indicator, rows in sorted(self._rows.items()):
            for row in rows:
                on.setdefault(row.machine_id, {}).setdefault(indicator, []).append(row)
        found = (self._repeats(machine, own) for machine, own in sorted(on.items()))
        return tuple(each for each in found if each.log_likelihoods)

    def _repeats(
        self, machine: MachineId, rows: Mapping[IndicatorId, Sequence[CampaignContrasts]]
    ) -> Repeats:
        graphs = {i: EvidenceGraph(own, self.nodes.nodes(i)) for i, own in rows.items()}
        return repeats_on(machine, {i: g for i, g in graphs.items() if len(g) > 1})

    def cases(self, versions_on: Mapping[BaseFacts, Versions]) -> Iterator[Case]:
        """Yield the cases in which anything was compared with the versions of each base."""
        for facts, variables in sorted(self.places, key=lambda each: (each[1], repr(each[0]))):
            if facts not in versions_on:
                continue
            found = self.nodes.find_all(versions_on[facts], Setting.of(facts, variables))
            current = {
                indicator: key
                for indicator, key in found.items()
                if indicator in self.graphs and self.graphs[indicator].component(key)
            }
            programs = {
                indicator: key
                for indicator, key in current.items()
                if self._is_program(indicator)
                # A lock of other packages is another project's, which runs another program.
                and any(
                    self.nodes.versions(stack).keys() == versions_on[facts].keys()
                    for stack in self.nodes.stacks[indicator][key]
                )
            }
            general = {i: k for i, k in current.items() if not self._is_program(i)}
            # What was measured of the user's own program comes first, and decides alone.
            for own in (programs, general):
                if own:
                    yield Case(
                        facts=facts,
                        variables=variables,
                        versions=versions_on[facts],
                        current=own,
                        machine=self._machine_for(own),
                    )

    def _is_program(self, indicator: IndicatorId) -> bool:
        return self.calls[indicator].indicator.component == PROGRAM

    def order(self, case: Case, *, is_own_python: bool) -> tuple[object, ...]:
        """Return what puts the case that says most about the user's own first."""
        programs = any(map(self._is_program, case.current))
        distance = machine_distance(self.machine, case.machine)
        standing = {stack for each in self.standing(case).values() for stack in each}
        here = {each for each in standing if self.stacks[each].facts == case.facts}
        own = any(self.machine.id in self.trusted_stacks.get(each, ()) for each in here)
        is_compared = not here.isdisjoint(self.compared)
        campaigns = sum(len(self.graphs[each]) for each in case.current)
        nearness = not programs, distance, bool(case.variables), not is_own_python
        # A base that was prepared, and on which nothing counts, says less than any other.
        said = not own, not is_compared, -campaigns
        return *nearness, *said, case.variables, repr(case.facts)

    def _machine_for(self, current: Mapping[IndicatorId, str]) -> Machine:
        measured = self._measured_on(current)
        if self.machine.id in measured or len(measured) >= FEWEST_MACHINES or not measured:
            return self.machine
        known = (self.machines[each] for each in measured)
        return min(known, key=lambda each: machine_distance(self.machine, each))

    def _measured_on(self, keys: Mapping[IndicatorId, str]) -> set[MachineId]:
        """Return the machines of all campaigns that nodes, by indicator, are connected with."""
        found: set[MachineId] = set()
        for indicator, key in keys.items():
            graph = self.graphs[indicator]
            found |= self.machines_of(indicator)[graph.components.index(graph.component(key))]
        return found

    def machines_of(self, indicator: IndicatorId) -> Sequence[frozenset[MachineId]]:
        """Return on which machines each component of a graph was measured."""
        if self._whole is not None:
            return self._whole.machines[indicator]
        graph, nodes = self.graphs[indicator], self.nodes.nodes(indicator)
        at = {key: number for number, own in enumerate(graph.components) for key in own}
        found: list[set[MachineId]] = [set() for _ in graph.components]
        for row in self._rows[indicator]:
            if row.baseline in nodes and nodes[row.baseline].key in at:
                found[at[nodes[row.baseline].key]].add(row.machine_id)
        return [frozenset(each) for each in found]

    def on_other_machines(
        self, case: Case, candidate: StackId, *, margin: float
    ) -> Iterator[tuple[Machine, Assessment]]:
        """Yield what further machines measured of a candidate of a case, the nearest first."""
        keys = {
            indicator: self.nodes.nodes(indicator)[candidate].key
            for indicator in case.current
            if candidate in self.nodes.nodes(indicator)
        }
        measured = self._measured_on({indicator: case.current[indicator] for indicator in keys})
        others = [self.machines[each] for each in measured - {case.machine.id}]
        for machine in sorted(others, key=lambda each: machine_distance(self.machine, each)):
            yield from (
                (machine, each)
                for each in assess(
                    self.graphs,
                    current=case.current,
                    candidates={candidate: keys},
                    place=Place(machine_id=machine.id, base=base_name(case.facts)),
                    repeated=self.repeated,
                    margin=margin,
                )
            )

    def usual_error(self, indicator: IndicatorId) -> float:
        """Return the usual standard error of a campaign's log ratio."""
        if self._whole is not None:
            return self._whole.errors[indicator]
        return statistics.median(math.sqrt(r.covariance[0][0]) for r in self._rows[indicator])

    def standing(self, case: Case) -> Mapping[IndicatorId, Sequence[StackId]]:
        """Return the measured stacks that stand for the versions of a case, the nearest first."""
        return {
            indicator: sorted(self.nodes.stacks[indicator][key], key=partial(self._unlike, case))
            for indicator, key in case.current.items()
        }

    def representative(self, case: Case) -> Stack:
        """Return the measured stack that stands for the versions on most indicators."""
        standing = [stack for own in self.standing(case).values() for stack in own]
        return self.stacks[min(standing, key=lambda stack: (-standing.count(stack), stack))]

    def most_like(self, case: Case) -> Stack:
        """Return the one of them whose packages and base are most like those of the case."""
        count = Counter(stack for own in self.standing(case).values() for stack in own)
        most = max(count.values())
        nearest = (stack for stack, times in count.items() if times == most)
        return self.stacks[min(nearest, key=partial(self._unlike, case))]

    def _unlike(self, case: Case, stack: StackId) -> tuple[int, bool, StackId]:
        """Return how little a stack is like a case."""
        own = self.nodes.versions(stack)
        other = sum(own.get(e) != case.versions.get(e) for e in own.keys() | case.versions.keys())
        return other, self.stacks[stack].facts != case.facts, stack

    def judge(
        self,
        case: Case,
        *,
        margin: float,
        alpha: float,
        explained: int = 3,
        update: Versions | None = None,
        most: int = MOST_NODES,
    ) -> Judgement:
        """Compare all stacks with the same frameworks, Python and variables with those of a case.

        Measured stacks that are equivalent on all indicators are one candidate.

        Args:
            case: the versions that others are compared with.
            margin: relative difference that is of no importance.
            alpha: the share of knowledge bases of equal stacks that may hold any wrong "faster".
            explained: of how many candidates that are not faster the basis is given.
            update: compare these versions alone, whatever framework they have.
            most: nodes of a graph that take part (``EvidenceGraph.fit``).
        """
        standing = self.standing(case)
        members, failing = self._members(case, most) if update is None else self._of(case, update)
        otherwise = 0
        candidates: dict[str, Mapping[IndicatorId, str]] = {}
        stacks: dict[str, tuple[StackId, ...]] = {}
        for what, equal in sorted(members.items()):
            differing = sum(self.results.differ(each, standing) for each in equal)
            if differing:
                otherwise += differing
                continue
            candidates[min(equal)] = dict(what)
            stacks[min(equal)] = tuple(sorted(equal))
        assessments = assess(
            self.graphs,
            current=case.current,
            candidates=candidates,
            place=case.place,
            repeated=self.repeated,
            margin=margin,
            alpha=alpha,
            explained=explained,
            most=most,
        )
        return Judgement(
            assessments=assessments, stacks=stacks, failing=failing, otherwise=otherwise
        )

    def _members(self, case: Case, most: int) -> tuple[_Members, int]:
        """Return the stacks that are compared with a case, and how many failed in blocks."""
        own = frameworks(case.versions)
        reached = {i: self.graphs[i].near(key, most) for i, key in case.current.items()}
        members: _Members = {}
        failing = 0
        for stack in sorted(self._by_setting.get(case.setting, ())):
            versions = self.nodes.versions(stack)
            keys = {
                indicator: key
                for indicator in case.current
                if (key := self.nodes.find(indicator, versions, case.setting))
                and key in reached[indicator]
            }
            if frameworks(versions) != own or not (keys.items() - case.current.items()):
                continue
            if stack in self.failing:
                failing += 1
                continue
            members.setdefault(tuple(sorted(keys.items())), []).append(stack)
        return members, failing

    def _of(self, case: Case, update: Versions) -> tuple[_Members, int]:
        """Return the stacks that stand for versions that a lock is updated to, as one candidate."""
        found = self.nodes.find_all(update, case.setting)
        keys = {
            indicator: found[indicator]
            for indicator, key in case.current.items()
            if found.get(indicator, key) != key
            and found[indicator] in self.graphs[indicator].component(key)
        }
        standing = {stack for i, key in keys.items() for stack in self.nodes.stacks[i][key]}
        working = sorted(standing - self.failing)
        members = {tuple(sorted(keys.items())): working} if working else {}
        return members, len(standing) - len(working)

    def decides(self, case: Case, update: Versions) -> bool:
        """Return whether versions differ from those of a case in anything that decides a timing."""
        found = self.nodes.find_all(update, case.setting)
        return any(found.get(indicator) != key for indicator, key in case.current.items())

    def next_comparison(
        self, case: Case, candidate: StackId, others: Collection[StackId]
    ) -> NextBlock | None:
        """Return which pair lowers the variance of a candidate beside a case most; None if none.

        It is of the indicator that says least of them; ``others`` are further stacks that could be
        measured.
        """
        found: list[NextBlock] = []
        for indicator, current in sorted(case.current.items()):
            nodes, graph = self.nodes.nodes(indicator), self.graphs[indicator]
            keys = {nodes[each].key for each in (candidate, *others) if each in nodes} - {current}
            if candidate not in nodes or nodes[candidate].key not in graph.component(current):
                continue
            best = nodes[candidate].key
            fit = graph.fit(current, case.place, of=keys)
            known = set(fit.stacks)
            if best == current or best not in known:
                continue
            pairs = {(current, key) for key in keys & known}
            pairs |= {(key, best) for key in keys & known if key != best}
            error = self.usual_error(indicator)
            found.append(fit.next_block(current, best, pairs, error=error))
        return max(found, key=lambda each: each.variance, default=None)

    @cached_property
    def _by_setting(self) -> Mapping[Setting, list[StackId]]:
        found: dict[Setting, list[StackId]] = {}
        for stack_id, each in self.stacks.items():
            found.setdefault(Setting.of(each.facts, each.settings), []).append(stack_id)
        return found


def machine_distance(machine: Machine, other: Machine) -> tuple[bool, bool, int, MachineId]:
    """Return how unlike a machine is: another one, of another CPU, in how much of its identity."""
    own, theirs = dict(machine.identity), dict(other.identity)
    differing = sum(own.get(key) != theirs.get(key) for key in own.keys() | theirs.keys())
    return other.id != machine.id, cpu_model(machine) != cpu_model(other), differing, other.id


def cpu_model(machine: Machine) -> tuple[str, ...]:
    """Return vendor, family and model of a machine's CPU; "" where one is not known."""
    known = dict(machine.identity)
    return tuple(known.get(key, "") for key in ("cpu_vendor", "cpu_family", "cpu_model"))
