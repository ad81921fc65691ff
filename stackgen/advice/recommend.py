"""From evidence to a recommended lock, or to a plain "no measurable difference"."""

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.advice.evidence import Evidence, gather
from stackgen.errors import EvidenceError
from stackgen.measure import ALPHA, MARGIN, block_contrasts, effect
from stackgen.values import (
    Advice,
    CampaignId,
    Change,
    Effect,
    IndicatorCall,
    Inspection,
    LockFile,
    Machine,
    Stack,
    StackId,
    Verdict,
)

Judged = Mapping[StackId, tuple[Effect, ...]]


def advise(
    *,
    lockfile: LockFile,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall],
    machine: Machine,
    machines: Iterable[Machine],
    trusted: Collection[CampaignId],
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> Advice:
    """Recommend the fastest versions for a lock.

    A stack is recommended if it is shown to be faster on at least one indicator and slower on
    none. Each of k challengers is judged at alpha / k (Bonferroni), so that the chance to
    recommend any that is not faster stays at alpha, and the interval of the chosen one holds
    although it was chosen.

    Raises:
        EvidenceError: nothing measured stands for this lock, or nothing was measured beside it.
    """
    known = gather(
        lockfile.packages,
        stacks=stacks,
        inspections=inspections,
        calls=calls,
        machine=machine,
        machines=machines,
        trusted=trusted,
    )
    for evidence in known:
        judged = _judge(evidence, margin=margin, alpha=alpha)
        if judged:
            return _advice(lockfile, evidence, judged)
    raise _nothing_known(lockfile, measured=bool(known))


def _judge(evidence: Evidence, *, margin: float, alpha: float) -> Judged:
    """Compare every stack that shares blocks with the lock's own, on every indicator."""
    others = {each.stack_id for each in evidence.inspections} - set(evidence.current)
    contrasts = {
        (stack, call.id): block_contrasts(a_s=theirs, b_s=own)
        for call in evidence.calls
        if (own := evidence.current_times(call.id))
        for stack in sorted(others)
        if (theirs := evidence.times(call.id, stack)).keys() & own.keys()
    }
    compared = {stack for stack, _ in contrasts}
    found: dict[StackId, list[Effect]] = {}
    for (stack, indicator), values in contrasts.items():
        found.setdefault(stack, []).append(
            effect(
                a=stack,
                b=evidence.current[0],
                indicator_id=indicator,
                contrasts=values,
                margin=margin,
                alpha=alpha / len(compared),
            )
        )
    return {stack: tuple(effects) for stack, effects in found.items()}


def _advice(lockfile: LockFile, evidence: Evidence, judged: Judged) -> Advice:
    faster = [stack for stack, effects in judged.items() if _is_better(effects)]
    allowed = [stack for stack in faster if not _forbidden(lockfile, evidence.stacks[stack])]
    caveats = [*_caveats(lockfile, evidence)]
    best = max(allowed, key=lambda stack: _score(judged[stack]), default=None)
    for stack in sorted(set(faster) - set(allowed), key=lambda stack: -_score(judged[stack]))[:1]:
        if best is None or _score(judged[stack]) > _score(judged[best]):
            lines = " and ".join(_forbidden(lockfile, evidence.stacks[stack]))
            caveats.append(f"something faster was measured, but {lines} forbids it")
    if best is None:
        closest = max(judged, key=lambda stack: _score(judged[stack]))
        return Advice(
            lock=None,
            changes=(),
            effects=judged[closest],
            caveats=tuple(caveats),
            same_machine=evidence.same_machine,
        )
    return Advice(
        lock=evidence.stacks[best].lock,
        changes=_changes(lockfile, evidence, best),
        effects=judged[best],
        caveats=tuple(caveats),
        same_machine=evidence.same_machine,
    )


def _is_better(effects: Sequence[Effect]) -> bool:
    verdicts = [each.verdict for each in effects]
    return Verdict.FASTER in verdicts and Verdict.SLOWER not in verdicts


def _score(effects: Sequence[Effect]) -> float:
    """Return the mean log of the ratios over the indicators."""
    return math.fsum(math.log(each.ratio) for each in effects) / len(effects)


def _forbidden(lockfile: LockFile, stack: Stack) -> tuple[str, ...]:
    """Return the user's own requirements that a stack would break."""
    broken = []
    for line in lockfile.requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        version = stack.lock.versions.get(canonicalize_name(requirement.name))
        if version and not requirement.specifier.contains(version, prereleases=True):
            broken.append(f'the requirement "{line}"')
    return tuple(broken)


def _changes(lockfile: LockFile, evidence: Evidence, best: StackId) -> tuple[Change, ...]:
    """Return what differs between what was measured for the lock and what is recommended.

    Where a user's lock differs from both in the same way (pure-Python packages that do not matter
    to the timing), nothing needs to change.
    """
    current = evidence.stacks[evidence.current[0]].lock.versions
    wanted = evidence.stacks[best].lock.versions
    locked = {canonicalize_name(each.name): each.version for each in lockfile.packages}
    return tuple(
        Change(
            name=name,
            current=locked.get(canonicalize_name(name)),
            recommended=wanted.get(name),
        )
        for name in sorted(current.keys() | wanted.keys())
        if current.get(name) != wanted.get(name)
        and locked.get(canonicalize_name(name)) != wanted.get(name)
    )


def _caveats(lockfile: LockFile, evidence: Evidence) -> Iterable[str]:
    if not evidence.same_machine:
        name = dict(evidence.machine.identity).get("cpu_name", "unknown")
        yield f"measured on another machine ({name}), not on this one"
    python = evidence.stacks[evidence.current[0]].facts.python.split()[-1]
    if not _admits(lockfile.requires_python, python):
        yield f"measured on Python {python}; the lock asks for {lockfile.requires_python}"
    yield "known vulnerabilities were not checked"


def _admits(requires_python: str, python: str) -> bool:
    """Return whether the lock's Python is the measured one, patch levels aside."""
    minor = ".".join(python.split(".")[:2])
    try:
        specifier = SpecifierSet(requires_python)
    except InvalidSpecifier:
        return True
    return specifier.contains(python, prereleases=True) or specifier.contains(minor)


def _nothing_known(lockfile: LockFile, *, measured: bool) -> EvidenceError:
    command = f"stackgen explore --from {shlex.quote(lockfile.path)}"
    if measured:
        why = "these versions were measured, but never beside others in the same blocks"
    else:
        why = "no measured stack has the same framework, NumPy and compiled packages"
    return EvidenceError(f"nothing is known about {lockfile.path}", why=why, fix=f"run: {command}")
