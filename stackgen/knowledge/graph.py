"""The knowledge graph: stacks, releases, machines, indicators and outcomes, and what binds them.

A view: it is rebuilt from the observations whenever it is wanted, and never stored.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stackgen.model.evidence import Effect
from stackgen.model.inspections import IndicatorCall, Inspection
from stackgen.model.stacks import Stack

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.MultiDiGraph[str]


def build_graph(
    *,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall] = (),
    effects: Iterable[Effect] = (),
) -> "Graph":
    """Return the graph; nodes are named ``kind:id`` and carry ``kind`` and ``label``.

    Edges, by key: stack ``pins`` release, release ``of`` package, stack ``ran`` indicator (with
    outcome, machine and fastest seconds), stack ``failed`` outcome, and stack ``faster`` stack
    (with ratio, interval, blocks and verdict).
    """
    import networkx as nx

    graph: Graph = nx.MultiDiGraph()
    for stack in stacks:
        _add_stack(graph, stack)
    for call in calls:
        graph.add_node(f"indicator:{call.id}", kind="indicator", label=call.label)
    for inspection in inspections:
        _add_inspection(graph, inspection)
    for effect in effects:
        graph.add_edge(
            f"stack:{effect.a}",
            f"stack:{effect.b}",
            key=f"faster:{effect.indicator_id}",
            ratio=effect.ratio,
            low=effect.low,
            high=effect.high,
            blocks=effect.blocks,
            verdict=effect.verdict.value,
        )
    return graph


def _add_stack(graph: "Graph", stack: Stack) -> None:
    node = f"stack:{stack.id}"
    graph.add_node(node, kind="stack", label=stack.id[:12])
    for artifact in stack.lock.artifacts:
        release = f"release:{artifact.name}=={artifact.version}"
        graph.add_node(release, kind="release", label=f"{artifact.name} {artifact.version}")
        graph.add_node(f"package:{artifact.name}", kind="package", label=artifact.name)
        graph.add_edge(node, release, key="pins")
        graph.add_edge(release, f"package:{artifact.name}", key="of")


def _add_inspection(graph: "Graph", inspection: Inspection) -> None:
    stack = f"stack:{inspection.stack_id}"
    machine = f"machine:{inspection.machine_id}"
    graph.add_node(machine, kind="machine", label=inspection.machine_id[:12])
    seen = inspection.observation
    if seen is None:
        outcome = f"outcome:{inspection.outcome.value}"
        graph.add_node(outcome, kind="outcome", label=inspection.outcome.value)
        graph.add_edge(stack, outcome, key=f"failed:{inspection.id}")
        return
    graph.add_edge(
        stack,
        f"indicator:{inspection.indicator_id}",
        key=f"ran:{inspection.id}",
        machine=inspection.machine_id,
        best_s=seen.best_s,
    )
