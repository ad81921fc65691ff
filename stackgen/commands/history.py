"""History: what the knowledge base has of a package, as times against releases or nights."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from stackgen.errors import EvidenceError, UsageError
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import Database, open_database
from stackgen.measure import exclude_disturbed
from stackgen.measure.history import change_points, history_points
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.reports.history import HistoryAxis, HistoryReport
from stackgen.model.stacks import Stack
from stackgen.resolve.dependencies import parsed_version
from stackgen.storage.paths import Paths

_LISTED = 5
_Group = tuple[MachineId, IndicatorId, str]


def history(package: str, indicator: str, axis: HistoryAxis, paths: Paths) -> HistoryReport:
    """Return the times of an indicator against releases of a package, or against days.

    One machine, base and indicator are shown: this machine where anything was measured on it, and
    of what there is the combination with most blocks; by night, the newest release of each day. The
    indicator is its name, the end of it, or the path of the user's own; "" for the one with most
    blocks, of the package's own where one of them was measured on that machine: what another
    package does shows it least.

    Raises:
        EvidenceError: nothing of it was measured.
        UsageError: the name means several indicators.
    """
    name = str(canonicalize_name(package))
    with open_database(paths.knowledge, reading=True) as database:
        stacks = {each.id: each for each in database.stacks() if name in each.lock.versions}
        calls = _calls(database, indicator, name)
        seen = [
            each
            for each in database.inspections()
            if each.stack_id in stacks and each.indicator_id in calls and each.observation
        ]
        excluded = exclude_disturbed(seen).excluded
        fresh = [
            each
            for each in seen
            if each.block > 0
            and each.role is not Role.SEARCH
            and (each.campaign_id, each.block) not in excluded
        ]
        if not fresh:
            raise EvidenceError(
                f"nothing was measured of {name}" + f" by {indicator}" * bool(indicator),
                why="the knowledge base has no undisturbed comparison of a stack with it",
                fix=f"measure it: stackgen explore {name} --pi {indicator or 'NAME'}",
            )
        groups = Counter(_group(each, stacks) for each in fresh)
        own = this_machine().id
        shown = max(
            groups,
            key=lambda each: (
                each[0] == own,
                _is_of(calls[each[1]].indicator.name, name),
                groups[each],
            ),
        )
        machines = {each.id: dict(each.identity) for each in database.machines()}
        chosen = [each for each in seen if _group(each, stacks) == shown]
    machine, call, where = shown
    labels, order = _labels(chosen, stacks, name, axis)
    points = history_points(chosen, labels=labels, order=order, excluded=excluded)
    return HistoryReport(
        package=name,
        indicator=calls[call].label,
        axis=axis,
        machine=machines[machine].get("cpu_name", machine[:12]),
        elsewhere=machine != own,
        where=where,
        points=points,
        changes=change_points(points),
        left_out=_left_out(groups, calls, shown),
        knowledge_base=str(paths.knowledge),
    )


def _calls(database: Database, name: str, package: str) -> dict[IndicatorId, IndicatorCall]:
    """Return the calls of an indicator, one or several by its parameters; all for "".

    A bare name that several have means that of the package.
    """
    own_name = Path(name).stem if name.endswith(".py") else name
    found = {
        each.id: each
        for each in database.calls()
        if not name or own_name in (each.indicator.name, each.indicator.name.rpartition("/")[2])
    }
    names = sorted({each.indicator.name for each in found.values()})
    own = [each for each in names if _is_of(each, package)]
    if name and len(own) == 1:
        names = own
        found = {key: each for key, each in found.items() if each.indicator.name == own[0]}
    if name and len(names) > 1:
        raise UsageError(
            f"{name} means several indicators",
            why=f"{', '.join(names)} were measured",
            fix=f"name one of them: --pi {names[0]}",
        )
    control = "python/pure"
    return {key: each for key, each in found.items() if name or each.indicator.name != control}


def _is_of(indicator: str, package: str) -> bool:
    """Return whether an indicator is of that package, or of the one that it distributes."""
    return indicator.partition("/")[0] in package.split("-")


def _group(inspection: Inspection, stacks: dict[StackId, Stack]) -> _Group:
    stack = stacks[inspection.stack_id]
    settings = "".join(f", {name}={value}" for name, value in stack.settings)
    where = f"Python {stack.facts.python} ({stack.facts.distribution}){settings}"
    return inspection.machine_id, inspection.indicator_id, where


def _labels(
    inspections: Sequence[Inspection],
    stacks: dict[StackId, Stack],
    name: str,
    axis: HistoryAxis,
) -> tuple[dict[tuple[StackId, CampaignId], str], list[str]]:
    """Return what each stack of each campaign counts for, and the order of these labels."""
    versions = {each: stack.lock.versions[name] for each, stack in stacks.items()}
    pairs = {(each.stack_id, each.campaign_id) for each in inspections}
    if axis is HistoryAxis.RELEASE:
        found = {pair: versions[pair[0]] for pair in pairs}
        return found, sorted(set(found.values()), key=parsed_version)
    days: dict[CampaignId, str] = {}
    for each in inspections:
        days[each.campaign_id] = min(days.get(each.campaign_id, "~"), each.started_at[:10])
    newest: dict[str, str] = {}
    for stack, campaign in pairs:
        day, version = days[campaign], versions[stack]
        if day not in newest or parsed_version(version) > parsed_version(newest[day]):
            newest[day] = version
    found = {
        (stack, campaign): f"{days[campaign]} {versions[stack]}"
        for stack, campaign in pairs
        if versions[stack] == newest[days[campaign]]
    }
    return found, sorted(set(found.values()))


def _left_out(
    groups: Counter[_Group], calls: dict[IndicatorId, IndicatorCall], shown: _Group
) -> tuple[str, ...]:
    rest = [each for each, _ in groups.most_common() if each != shown]
    return tuple(
        f"{calls[call].label} on {where}{'' if machine == shown[0] else ', another machine'}"
        for machine, call, where in rest[:_LISTED]
    )
