"""Which measured stacks stand for a user's lock, and what they were measured against."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.measure import block_times
from stackgen.values import (
    CampaignId,
    IndicatorCall,
    IndicatorId,
    Inspection,
    LockedPackage,
    Machine,
    MachineId,
    Stack,
    StackId,
)

CONTROL_COMPONENT = "python"
FRAMEWORKS = {
    "tensorflow": frozenset({"tensorflow", "tensorflow-cpu", "intel-tensorflow"}),
    "torch": frozenset({"torch"}),
    "numpy": frozenset({"numpy"}),
}
"""The distributions that may bring the component of an indicator."""

Versions = Mapping[str, frozenset[str]]


def locked_versions(packages: Iterable[LockedPackage]) -> Versions:
    """Return the versions that a lock admits: more than one of a package where markers decide."""
    found: dict[str, set[str]] = {}
    for each in packages:
        if each.group == "default":
            found.setdefault(canonicalize_name(each.name), set()).add(_normal(each.version))
    return {name: frozenset(versions) for name, versions in found.items()}


def decisive(inspection: Inspection, call: IndicatorCall) -> frozenset[str]:
    """Return the distributions that decide an inspection's timing.

    They are the framework, NumPy, and everything with compiled code that the process had loaded;
    what else is installed beside them does not matter.
    """
    seen = inspection.observation
    loaded = seen.loaded if seen else ()
    component = call.indicator.component
    always = FRAMEWORKS.get(component, frozenset({component})) | {"numpy"}
    return frozenset(
        name
        for each in loaded
        if (name := str(canonicalize_name(each.name))) in always or each.compiled
    )


def stands_for(stack: Stack, names: Collection[str], locked: Versions) -> bool:
    """Return whether a measured stack agrees with a lock on every distribution that decides."""
    versions = stack.lock.versions
    return bool(names) and all(
        _normal(versions.get(name, "")) in locked.get(name, ()) for name in names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one machine tells about a lock.

    current: the measured stacks that stand for the lock.
    """

    machine: Machine
    same_machine: bool
    stacks: Mapping[StackId, Stack]
    inspections: Sequence[Inspection]
    calls: Sequence[IndicatorCall]
    current: tuple[StackId, ...]

    def current_times(self, indicator: IndicatorId) -> Mapping[tuple[CampaignId, int], float]:
        """Return the fastest sample in each block of whatever stands for the lock, in seconds."""
        merged: dict[tuple[CampaignId, int], float] = {}
        for stack in self.current:
            for block, seconds in self.times(indicator, stack).items():
                merged.setdefault(block, seconds)
        return dict(sorted(merged.items()))

    def times(
        self, indicator: IndicatorId, stack: StackId
    ) -> Mapping[tuple[CampaignId, int], float]:
        """Return the fastest sample in each block of a stack, in seconds."""
        return block_times(self.inspections, indicator=indicator, stack=stack)


def gather(
    packages: Iterable[LockedPackage],
    *,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall],
    machine: Machine,
    machines: Iterable[Machine],
    trusted: Collection[CampaignId],
) -> tuple[Evidence, ...]:
    """Return the evidence about a lock, machine by machine: this one first, then the nearest.

    Only campaigns whose controls hold count. Machines that know nothing of the lock are left out.
    """
    locked = locked_versions(packages)
    by_id = {stack.id: stack for stack in stacks}
    known = {c.id: c for c in calls if c.indicator.component != CONTROL_COMPONENT}
    counted = [
        each
        for each in inspections
        if each.campaign_id in trusted and each.block > 0 and each.indicator_id in known
    ]
    found = []
    for place in _nearest_first(machine, machines):
        own = [each for each in counted if each.machine_id == place.id]
        current = {
            each.stack_id
            for each in own
            if each.stack_id in by_id
            and stands_for(by_id[each.stack_id], decisive(each, known[each.indicator_id]), locked)
        }
        if current:
            found.append(
                Evidence(
                    machine=place,
                    same_machine=place.id == machine.id,
                    stacks=by_id,
                    inspections=own,
                    calls=[known[i] for i in sorted({each.indicator_id for each in own})],
                    current=tuple(sorted(current)),
                )
            )
    return tuple(found)


def _nearest_first(machine: Machine, machines: Iterable[Machine]) -> list[Machine]:
    """Order machines by likeness: the same one, then those with most of the identity in common."""
    distinct: dict[MachineId, Machine] = {each.id: each for each in machines}
    own = dict(machine.identity)

    def distance(other: Machine) -> tuple[bool, bool, int, MachineId]:
        theirs = dict(other.identity)
        model = ("cpu_vendor", "cpu_family", "cpu_model")
        other_model = any(own.get(key) != theirs.get(key) for key in model)
        differing = sum(own.get(key) != theirs.get(key) for key in own.keys() | theirs.keys())
        return other.id != machine.id, other_model, differing, other.id

    return sorted(distinct.values(), key=distance)


def _normal(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        return version
