"""What the knowledge base says of one thing, for ``stackgen kb show``, ``why`` and ``graph``."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import EvidenceError, UsageError
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import Database, open_database
from stackgen.knowledge.equivalence import Setting
from stackgen.knowledge.failures import FailureGroup, Trait, explain_failures, explain_results
from stackgen.knowledge.graph import EvidenceGraph
from stackgen.knowledge.judgement import Knowledge
from stackgen.knowledge.loading import load_knowledge, without_collection
from stackgen.measure.contrasts import CampaignContrasts
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.packages import Lock
from stackgen.model.reports.views import Cell, Table, View
from stackgen.model.stacks import Machine, Stack
from stackgen.storage.paths import Paths

if TYPE_CHECKING:
    import networkx as nx

_ID = 12  # characters of an id that are shown
_NAMED = 3  # parts of a label
_SEARCHED, _FITTED = 200, 4  # nodes with a version: examined, and compared with others
_FIRST = ("tensorflow", "torch", "jax", "numpy")  # packages that a label begins with


# One stack, campaign or machine


def show(paths: Paths, begins: str) -> View:
    """Return what is known of the stack, campaign or machine whose id begins so.

    Raises:
        UsageError: there is none, or more than one.
    """
    with open_database(paths.knowledge, reading=True) as database:
        known: list[Stack | CampaignIdentity | Machine] = [
            *database.stacks(),
            *database.campaigns(),
            *database.machines(),
        ]
        found = [each for each in known if each.id.startswith(begins)]
        if len(found) != 1:
            raise UsageError(
                f"{len(found) or 'no'} ids begin with {begins!r}",
                why=", ".join(f"{_kind(each)} {each.id[:_ID]}" for each in found)
                or "there is no such stack, campaign or machine",
                fix=f"list them: stackgen kb query stacks (campaigns, machines){paths.kb_option}",
            )
        (chosen,) = found
        if isinstance(chosen, Stack):
            return _stack_view(database, chosen)
        if isinstance(chosen, CampaignIdentity):
            return _campaign_view(database, chosen)
        return _machine_view(database, chosen)


def _kind(each: Stack | CampaignIdentity | Machine) -> str:
    if isinstance(each, Stack):
        return "stack"
    return "campaign" if isinstance(each, CampaignIdentity) else "machine"


def _stack_view(database: Database, stack: Stack) -> View:
    labels = {call.id: call.label for call in database.calls()}
    counted = Counter(
        (each.campaign_id[:_ID], labels[each.indicator_id], each.outcome.value)
        for each in database.inspections(stack=stack.id)
    )
    facts = stack.facts
    return View(
        kind="stack",
        id=stack.id,
        facts=(
            ("Python", facts.python),
            ("C library", facts.libc),
            ("distribution", facts.distribution),
            *((name, value) for name, value in stack.settings),
        ),
        tables=(
            Table(
                title="Packages",
                columns=("name", "version", "file"),
                rows=tuple((a.name, a.version, a.filename) for a in stack.lock.artifacts),
            ),
            Table(
                title="Inspections",
                columns=("campaign", "indicator", "outcome", "inspections"),
                rows=tuple((*what, count) for what, count in sorted(counted.items())),
            ),
        ),
    )


def _campaign_view(database: Database, campaign: CampaignIdentity) -> View:
    calls = {call.id: call.label for call in database.calls()}
    found = database.inspections(campaign=campaign.id)
    stacks = {each.id: each.lock for each in database.stacks()}
    names = lock_labels({each.stack_id: stacks[each.stack_id] for each in found})
    rows = [each for each in database.contrasts() if each.campaign_id == campaign.id]
    outcomes = Counter((calls[each.indicator_id], each.outcome.value) for each in found)
    return View(
        kind="campaign",
        id=campaign.id,
        facts=(
            ("kind", campaign.kind),
            ("seed", str(campaign.seed)),
            ("machine", campaign.machine_id),
            ("stackgen", campaign.stackgen_version),
            ("started", min((each.started_at for each in found), default="")),
            *((name, json.dumps(value)) for name, value in campaign.request_values.items()),
        ),
        tables=(
            Table(
                title="Speed beside the baseline in this campaign alone: another one may differ by "
                "more than its intervals (no rows where the controls failed)",
                columns=("indicator", "baseline", "stack", "speed", "low", "high", "blocks"),
                rows=tuple(_effects(rows, calls, names)),
            ),
            Table(
                title="Outcomes",
                columns=("indicator", "outcome", "inspections"),
                rows=tuple((*what, count) for what, count in sorted(outcomes.items())),
            ),
        ),
    )


def _effects(
    rows: Sequence[CampaignContrasts],
    calls: Mapping[IndicatorId, str],
    names: Mapping[StackId, str],
) -> Iterator[tuple[Cell, ...]]:
    from scipy.special import stdtrit

    for row in rows:
        for place, candidate in enumerate(row.candidates):
            middle = row.log_ratios[place]
            width = stdtrit(row.freedom, 0.975) * math.sqrt(row.covariance[place][place])
            interval = [math.exp(middle + step) for step in (0, -width, width)]
            pair = names[row.baseline], names[candidate]
            yield calls[row.indicator_id], *pair, *map(_ratio, interval), row.blocks[place]


def _ratio(value: float) -> float:
    return round(value, 4)


def _machine_view(database: Database, machine: Machine) -> View:
    counted = Counter(each.campaign_id for each in database.inspections(machine=machine.id))
    campaigns = [each for each in database.campaigns() if each.machine_id == machine.id]
    return View(
        kind="machine",
        id=machine.id,
        facts=(*machine.identity, *machine.circumstances),
        tables=(
            Table(
                title="Campaigns",
                columns=("campaign", "kind", "seed", "inspections"),
                rows=tuple(
                    (each.id[:_ID], each.kind, str(each.seed), counted[each.id])
                    for each in campaigns
                ),
            ),
        ),
    )


# One version


@without_collection()
def why(paths: Paths, pin: str) -> View:
    """Return what a version of a package does: its effects, failures it explains, conflicts.

    An effect compares two measured stacks that differ in as little as possible besides the
    package, by all campaigns together; what else decides the timing and differs is named.

    Raises:
        UsageError: it is no NAME==VERSION, or no stack has that version.
    """
    name, version = _pin(pin)
    with open_database(paths.knowledge, reading=True) as database:
        known, *_ = load_knowledge(database, this_machine())
        failing = database.inspections(failing=True)
    of = {each: stack.lock.versions.get(name, "") for each, stack in known.stacks.items()}
    versions = {*of.values()} - {""}
    if version not in versions:
        raise UsageError(
            f"no stack has {name} {version}",
            why=f"known versions are {', '.join(sorted(versions)) or 'none'}",
            fix="measure it: stackgen compare "
            f'"{name}=={version}" "{name}=={min(versions, default="VERSION")}"',
        )
    stacks = tuple(known.stacks.values())
    calls = tuple(known.calls.values())
    wrong = explain_results(stacks, known.summaries, calls)
    groups = (*explain_failures(stacks, failing), *wrong)
    trait = Trait(kind="package", name=name, value=version)
    return View(
        kind="version",
        id=f"{name}=={version}",
        facts=(("stacks", str(sum(each == version for each in of.values()))),),
        tables=(
            Table(
                title=f"Speed of {name} {version} beside other versions (above 1: it is faster)",
                columns=(
                    *("indicator", "version", "speed", "low", "high", "blocks"),
                    *("setting", "differs also"),
                ),
                rows=tuple(_version_effects(known, name, version, of)),
            ),
            Table(
                title="Failures that it explains",
                columns=("outcome", "reason", "stacks", "runs"),
                rows=tuple(
                    (each.outcome.value, each.reason, len(each.stacks), each.runs)
                    for each in groups
                    if trait in each.shared or _separates(each, name, version)
                ),
            ),
            Table(
                title="Conflicts: fails together with",
                columns=("package", "version", "outcome", "reason"),
                rows=tuple(
                    (other.name, other.value, each.outcome.value, each.reason)
                    for each in groups
                    for pair in each.pairs
                    for other in pair
                    if trait in pair and other != trait
                ),
            ),
        ),
    )


def _pin(pin: str) -> tuple[str, str]:
    try:
        found = Requirement(pin)
        ((operator, version),) = ((each.operator, each.version) for each in found.specifier)
        if operator != "==":
            raise ValueError
    except (InvalidRequirement, ValueError):
        raise UsageError(
            f"cannot read {pin!r}",
            why="a package and one version of it are expected",
            fix='as in: stackgen kb why "numpy==2.0.2"',
        ) from None
    return str(canonicalize_name(found.name)), version


def _separates(group: FailureGroup, name: str, version: str) -> bool:
    return any(each.name == name and version in each.failing for each in group.separations)


def _version_effects(
    known: Knowledge, name: str, version: str, version_of: Mapping[StackId, str]
) -> Iterator[tuple[Cell, ...]]:
    for indicator, graph in known.graphs.items():
        nodes = known.nodes.stacks[indicator]
        of = {key: version_of[members[0]] for key, members in nodes.items()}
        for component in graph.components:
            own = [key for key in component if of[key] == version]
            if not own or all(of[key] in (version, "") for key in component):
                continue
            near = {two: graph.near(two) for two in own[:_SEARCHED]}
            pairs = _most_alike(near, of, name, _compared(graph, near))
            found: dict[str, tuple[Cell, ...]] = {}
            for two in dict.fromkeys(by for _, by in pairs.values()):
                beside = {other: one for other, (one, by) in pairs.items() if by == two}
                fit = graph.fit(two, None, of=[two, *beside.values()])
                mixture = fit.log_ratios(two, [*beside.values()])  # of each beside ours
                low, high = mixture.bounds
                for at, (other, one) in enumerate(beside.items()):
                    ratios = (-float(each[at]) for each in (mixture.mean, high, low))
                    also = [part for part in _apart(one, two) if part.split(maxsplit=1)[0] != name]
                    found[other] = (
                        known.calls[indicator].label,
                        other,
                        *(_ratio(math.exp(each)) for each in ratios),
                        fit.basis(one, two).blocks,
                        _setting(known.stacks[nodes[two][0]]),
                        ", ".join(also),
                    )
            yield from (found[other] for other in sorted(found))


def _setting(stack: Stack) -> str:
    """Return what stacks must share to be compared: Python and variables."""
    setting = Setting.of(stack.facts, stack.settings)
    return ", ".join([setting.python, *(f"{name}={value}" for name, value in setting.variables)])


def _compared(graph: EvidenceGraph, keys: Collection[str]) -> Mapping[str, set[str]]:
    """Return what some nodes were measured beside."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    for _, arms in graph.campaigns:
        measured = {arm.key for arm in arms}
        for key in measured & found.keys():
            found[key] |= measured
    return found


def _most_alike(
    near: Mapping[str, Collection[str]],
    of: Mapping[str, str],
    name: str,
    compared: Mapping[str, Collection[str]],
) -> dict[str, tuple[str, str]]:
    """Return, for each other version, a node with it and one of ours that are most alike.

    Only nodes that are near each other are compared. Each of ours takes a fit, so that few of them
    are chosen, one after the other, by how much more alike the pairs become.

    Args:
        near: to each of our nodes, itself included.
        of: the version of each node; "" of those without the package.
        name: of the package.
        compared: what each of ours was measured beside: of equally alike ones, these come first.
    """
    parts = {key: frozenset(key.split(", ")) for own in near.values() for key in own}
    # What else a node is: two that differ in the package alone have it in common.
    rest = {
        key: frozenset(part for part in own if part.split(maxsplit=1)[0] != name)
        for key, own in parts.items()
    }
    unlike: dict[str, dict[str, tuple[float, str]]] = {}
    for two, others in near.items():
        best = unlike[two] = {}
        for one in others:
            if (version := of[one]) not in ("", of[two]):
                pair = len(rest[one] ^ rest[two]) + 0.5 * (one not in compared[two]), one
                best[version] = min(best.get(version, pair), pair)
    every = {version for best in unlike.values() for version in best}
    most = max(map(len, rest.values())) * 2 + 1  # more than any two differ in
    apart: dict[str, float] = dict.fromkeys(every, most)
    chosen: dict[str, tuple[str, str]] = {}
    for _ in range(_FITTED):
        gains = {
            two: sum(max(0, apart[version] - least) for version, (least, _) in best.items())
            for two, best in unlike.items()
        }
        two = max(gains, key=lambda key: gains[key])
        if not gains[two]:
            break
        for version, (least, one) in unlike[two].items():
            if least < apart[version]:
                apart[version], chosen[version] = least, (one, two)
    return chosen


def _apart(one: str, other: str) -> list[str]:
    """Return the parts of the second node that the first one does not have."""
    return [part for part in other.split(", ") if part not in one.split(", ")]


# The evidence graph


def graph(paths: Paths, indicator: str) -> "nx.MultiGraph[str]":
    """Return the evidence graph: stacks, and an edge for each campaign and candidate.

    Nodes and edges have plain attributes. ``speed`` of a node is relative to the baseline of most
    campaigns of its component, from all of them together; of an edge, that of its target beside
    its source.

    Args:
        indicator: the beginning of a label such as ``numpy/matmul size=512``; "" takes all.

    Raises:
        EvidenceError: no campaign compared anything on such an indicator.
    """
    import networkx as nx  # a third of a second, which the other views do without

    with open_database(paths.knowledge, reading=True) as database:
        known, contrasts, _ = load_knowledge(database, this_machine())
    made: nx.MultiGraph[str] = nx.MultiGraph()
    for call in sorted(known.calls.values(), key=lambda each: each.label):
        if call.id in known.graphs and call.label.startswith(indicator):
            _add_indicator(made, known, call.id, contrasts)
    if not made:
        raise EvidenceError(
            f"no campaign compared anything on {indicator or 'any indicator'}",
            why="a campaign counts once it has six blocks and its controls hold",
            fix=f"see what was measured: stackgen kb query compared{paths.kb_option}",
        )
    return made


def _add_indicator(
    made: "nx.MultiGraph[str]",
    known: Knowledge,
    indicator: IndicatorId,
    contrasts: Sequence[CampaignContrasts],
) -> None:
    own, label = known.graphs[indicator], known.calls[indicator].label
    names = _labels([key for each in own.components for key in each])
    nodes = known.nodes.nodes(indicator)
    baselines = [each.baseline for each in contrasts if each.indicator_id == indicator]
    campaigns = Counter(nodes[each].key for each in baselines if each in nodes)
    for component in own.components:
        # What most campaigns compared with: the reference of the others.
        hub = max(component, key=lambda key: (campaigns[key], key))
        fitted = own.fit(hub, None)
        others = [key for key in fitted.stacks if key != hub]
        mixture = fitted.log_ratios(hub, others)
        low, high = mixture.bounds
        speeds = {hub: (1.0, 1.0, 1.0)} | {
            key: (math.exp(float(middle)), math.exp(float(least)), math.exp(float(most)))
            for key, middle, least, most in zip(others, mixture.mean, low, high, strict=True)
        }
        for key, (speed, least, most) in speeds.items():
            made.add_node(
                f"{label}: {key}",
                indicator=label,
                label=names[key],
                stacks=" ".join(known.nodes.stacks[indicator][key]),
                speed=_ratio(speed),
                low=_ratio(least),
                high=_ratio(most),
            )
    for row in contrasts:
        if row.indicator_id != indicator:
            continue
        for place, candidate in enumerate(row.candidates):
            if row.baseline not in nodes or candidate not in nodes:
                continue
            ends = [f"{label}: {nodes[each].key}" for each in (row.baseline, candidate)]
            if ends[0] != ends[1] and all(each in made for each in ends):
                made.add_edge(
                    *ends,
                    campaign=row.campaign_id,
                    machine=row.machine_id,
                    date=row.date,
                    blocks=row.blocks[place],
                    speed=_ratio(math.exp(row.log_ratios[place])),
                )


def lock_labels(locks: Mapping[StackId, Lock]) -> Mapping[StackId, str]:
    """Return a short name of each stack: the versions in which they differ."""
    texts = {
        stack: ", ".join(f"{name} {version}" for name, version in sorted(lock.versions.items()))
        for stack, lock in locks.items()
    }
    names = _labels(sorted(texts.values()))
    return {stack: names[text] for stack, text in texts.items()}


def _labels(keys: Sequence[str]) -> Mapping[str, str]:
    parts = {key: key.split(", ") for key in keys}
    common = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()

    def order(part: str) -> tuple[int, str]:
        name = part.split(maxsplit=1)[0]
        return next(
            (n for n, each in enumerate(_FIRST) if name.startswith(each)), len(_FIRST)
        ), part

    labels = {}
    for key, own in parts.items():
        named = sorted((each for each in own if each not in common), key=order) or sorted(
            own, key=order
        )
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        labels[key] = ", ".join(named[:_NAMED]) + more
    twice = {label for label, count in Counter(labels.values()).items() if count > 1}
    return {
        key: f"{label} ({number})" if label in twice else label
        for number, (key, label) in enumerate(labels.items(), start=1)
    }
