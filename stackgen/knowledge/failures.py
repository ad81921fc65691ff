"""Failure is knowledge: what all failures of one kind share, and no success has."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stackgen.values import Inspection, Outcome, Stack, StackId


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Stacks that fail in the same way.

    reason: the telling line of their logs, numbers and paths left out.
    shared: (package, version) pairs of all of them and of no stack that runs.
    """

    outcome: Outcome
    reason: str
    stacks: tuple[StackId, ...]
    shared: tuple[tuple[str, str], ...]


def explain_failures(
    stacks: Iterable[Stack], inspections: Iterable[Inspection]
) -> tuple[FailureGroup, ...]:
    """Return the groups of failing stacks, the largest first.

    A stack that ran once is no failure of its own; infrastructure faults are no failures at all.
    """
    pins = {stack.id: _pins(stack) for stack in stacks}
    seen = list(inspections)
    running = {each.stack_id for each in seen if each.outcome is Outcome.OK}
    failing: dict[tuple[Outcome, str], set[StackId]] = {}
    for each in seen:
        if each.outcome is Outcome.OK or each.outcome.is_infrastructure or each.stack_id in running:
            continue
        failing.setdefault((each.outcome, signature(each.log)), set()).add(each.stack_id)
    good = frozenset(pin for stack in running for pin in pins.get(stack, ()))
    groups = [
        FailureGroup(
            outcome=outcome,
            reason=reason,
            stacks=tuple(sorted(members)),
            shared=_shared(sorted(members), pins, good),
        )
        for (outcome, reason), members in failing.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.stacks), group.reason)))


def signature(log: str) -> str:
    """Return the line of a log that tells what went wrong, the same for the same fault."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    line = (errors or lines or ["no output"])[-1]
    return re.sub(r"0x[0-9a-f]+|(?<![\w.])/[^\s'\"]+", "...", line)[:160]


def _pins(stack: Stack) -> frozenset[tuple[str, str]]:
    return frozenset(stack.lock.versions.items())


def _shared(
    members: Sequence[StackId],
    pins: Mapping[StackId, frozenset[tuple[str, str]]],
    good: frozenset[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:
    known = [pins[stack] for stack in members if stack in pins]
    common = frozenset.intersection(*known) if known else frozenset()
    return tuple(sorted(common - good))
