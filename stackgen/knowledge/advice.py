"""From evidence to a recommended lock, or to a plain "no measurable difference"."""

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.errors import EvidenceError
from stackgen.knowledge.evidence import (
    Evidence,
    Times,
    decisive_of_program,
    gather,
    target_of,
    why_unknown,
)
from stackgen.locks import admits_python
from stackgen.measure import ALPHA, MARGIN, block_contrasts, count_failures, effect
from stackgen.model.evidence import Advice, Change, Effect, Provenance, Verdict
from stackgen.model.identity import CampaignId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection
from stackgen.model.packages import LockFile
from stackgen.model.stacks import PROGRAM, BaseFacts, Machine, Stack

InTime = Mapping[tuple[str, CampaignId, int], float]
Comparisons = Mapping[StackId, tuple[Effect, ...]]
Admits = Callable[[LockFile, Sequence[Change], BaseFacts], str | None]
"""Returns why the rest of a lock does not admit changes on a base; None where it does."""
_NAMED = 5  # packages that a caveat names before it counts the rest


def advise(
    *,
    lockfile: LockFile,
    stacks: Iterable[Stack],
    inspections: Iterable[Inspection],
    calls: Iterable[IndicatorCall],
    machine: Machine,
    machines: Iterable[Machine],
    trusted: Collection[CampaignId],
    admits: Admits,
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> Advice:
    """Recommend the fastest versions for a lock.

    A stack is recommended if it is shown to be faster on at least one indicator and slower on
    none, never failed in a block, was never seen, on any machine, to compute something else than
    the lock's own versions, on the same base and with the same settings, and if the user's
    requirements and the rest of the lock admit its versions. Each of k
    comparisons (candidates times indicators) is tested at alpha / k (Bonferroni), so that the
    chance to recommend any that is not faster stays at alpha, and the interval of the chosen one
    holds although it was chosen. Whether it is slower anywhere is tested at alpha itself: there,
    caution lies on the other side.

    Raises:
        EvidenceError: nothing measured stands for this lock, or nothing was measured beside it.
    """
    stacks, inspections, calls = tuple(stacks), tuple(inspections), tuple(calls)
    known = gather(
        lockfile,
        stacks=stacks,
        inspections=inspections,
        calls=calls,
        machine=machine,
        machines=machines,
        trusted=trusted,
    )
    for evidence in known:
        compared = _compare(evidence, margin=margin, alpha=alpha)
        if compared:
            return _advice(lockfile, evidence, compared, admits)
    raise EvidenceError(
        f"nothing is known about {lockfile.path}",
        why=why_unknown(
            lockfile, stacks=stacks, inspections=inspections, calls=calls, trusted=trusted
        ),
        fix=f"run: stackgen explore --from {shlex.quote(lockfile.path)}",
    )


def _compare(evidence: Evidence, *, margin: float, alpha: float) -> Comparisons:
    """Compare every stack that shares blocks with the lock's own, on every indicator."""
    in_time = _in_time(evidence.inspections)
    contrasts = {
        (stack, call.id): block_contrasts(a_s=in_time(theirs), b_s=in_time(own))
        for call in evidence.calls
        if call.id in evidence.current and (own := evidence.current_times(call.id))
        for stack in sorted(evidence.stacks.keys() - set(evidence.current[call.id]))
        if (theirs := evidence.times(call.id, stack)).keys() & own.keys()
    }
    found: dict[StackId, list[Effect]] = {}
    for (stack, indicator), values in contrasts.items():
        compare = partial(
            effect,
            a=stack,
            b=evidence.current[indicator][0],
            indicator_id=indicator,
            contrasts=values,
            margin=margin,
        )
        strict, lenient = compare(alpha=alpha / len(contrasts)), compare(alpha=alpha)
        slower = lenient.verdict is Verdict.SLOWER
        found.setdefault(stack, []).append(lenient if slower else strict)
    return {stack: tuple(effects) for stack, effects in found.items()}


def _in_time(inspections: Sequence[Inspection]) -> Callable[[Times], InTime]:
    """Return what puts blocks into the order in which their campaigns were begun.

    After a further campaign, the same blocks come first: the interim analyses of ``effect`` would
    not hold if new blocks took the place of old ones.
    """
    begun: dict[CampaignId, str] = {}
    for each in inspections:
        known = begun.setdefault(each.campaign_id, each.started_at)
        begun[each.campaign_id] = min(known, each.started_at)
    return lambda times: {
        (begun[campaign], campaign, block): seconds for (campaign, block), seconds in times.items()
    }


def _advice(
    lockfile: LockFile, evidence: Evidence, compared: Comparisons, admits: Admits
) -> Advice:
    failing = {
        stack
        for stack in compared
        if count_failures(evidence.inspections, stack=stack, calls=evidence.calls)
    }
    otherwise = {stack for stack in compared if evidence.computes_otherwise(stack)}
    considered = compared.keys() - failing - otherwise
    faster = sorted(
        (stack for stack in considered if _is_better(compared[stack])),
        key=lambda stack: (-_score(compared[stack]), stack),
    )
    best, refused = None, ""
    for stack in faster:
        reason = _forbidden(lockfile, evidence, stack) or admits(
            lockfile, _changes(lockfile, evidence, stack), evidence.facts
        )
        if reason is None:
            best = stack
            break
        refused = refused or f"{_changes_text(_changes(lockfile, evidence, stack))}: {reason}"
    caveats = list(_caveats(lockfile, evidence))
    if refused and best is not None:
        caveats.append(f"something faster was measured, but cannot be taken: {refused}")
    if failing:
        caveats.append(f"{len(failing)} measured stacks failed at times and are not considered")
    if otherwise:
        caveats.append(
            "not considered, because they compute something else than this lock's versions: "
            f"{len(otherwise)} of the measured stacks"
        )
    if best is not None:
        caveats += _unmeasured(lockfile, evidence.stacks[best])
    likeliest = sorted(considered, key=lambda stack: (-_score(compared[stack]), stack))
    shown = best or next(iter([*faster, *likeliest]), None)
    effects = compared[shown] if shown else ()
    return Advice(
        lock=evidence.stacks[best].lock if best else None,
        changes=_changes(lockfile, evidence, best) if best else (),
        effects=effects,
        caveats=tuple(caveats),
        same_machine=evidence.same_machine,
        provenance=tuple(_provenance(evidence, each) for each in effects),
        refused=refused if best is None else "",
    )


def _provenance(evidence: Evidence, of: Effect) -> Provenance:
    call = next(each for each in evidence.calls if each.id == of.indicator_id)
    current = evidence.current_times(call.id).keys()
    blocks = current & evidence.times(call.id, of.a).keys()
    stacks = {of.a, *evidence.current[call.id]}
    begun = [
        each.started_at
        for each in evidence.inspections
        if each.indicator_id == call.id
        and each.stack_id in stacks
        and (each.campaign_id, each.block) in blocks
    ]
    before, after = (evidence.stacks[each].lock.versions for each in (of.b, of.a))
    return Provenance(
        indicator_id=call.id,
        indicator=call.label,
        compared=tuple(
            Change(name=name, current=before.get(name), recommended=after.get(name))
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ),
        machine=_cpu(evidence.machine),
        python=evidence.python,
        first=min(begun),
        last=max(begun),
        is_figure=bool(dict(call.arguments).get("figure")),
    )


def _is_better(effects: Sequence[Effect]) -> bool:
    verdicts = [each.verdict for each in effects]
    return Verdict.FASTER in verdicts and Verdict.SLOWER not in verdicts


def _score(effects: Sequence[Effect]) -> float:
    """Return the mean log of the ratios over the indicators."""
    return math.fsum(math.log(each.ratio) for each in effects) / len(effects)


def _forbidden(lockfile: LockFile, evidence: Evidence, stack: StackId) -> str | None:
    """Return which of the user's own requirements a stack breaks; None where it breaks none."""
    environment = target_of(evidence.facts).environment
    versions = evidence.stacks[stack].lock.versions
    broken = []
    for line in lockfile.requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker and not requirement.marker.evaluate(dict(environment)):
            continue
        version = versions.get(canonicalize_name(requirement.name))
        if version and not requirement.specifier.contains(version, prereleases=True):
            broken.append(f'the requirement "{line}"')
    return f"{' and '.join(broken)} forbids it" if broken else None


def _changes(lockfile: LockFile, evidence: Evidence, best: StackId) -> tuple[Change, ...]:
    """Return what differs between what was measured for the lock and what is recommended.

    Where a user's lock differs from both in the same way (pure-Python packages that do not matter
    to the timing), nothing needs to change.
    """
    current = evidence.representative.lock.versions
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


def _caveats(lockfile: LockFile, evidence: Evidence) -> Iterator[str]:
    if not evidence.same_machine:
        yield f"measured on another machine ({_cpu(evidence.machine)}), not on this one"
    if not admits_python(lockfile, evidence.python):
        yield f"measured on Python {evidence.python}; the lock asks for {lockfile.requires_python}"
    if evidence.settings:
        settings = " ".join(f"{name}={value}" for name, value in evidence.settings)
        yield f"measured with {settings} set; without it, the answer may be another"
    for call in evidence.calls:
        if call.indicator.component == PROGRAM and call.id in evidence.current:
            yield from _other_pure_packages(lockfile, evidence, call)
    yield "known vulnerabilities were not checked"


def _other_pure_packages(
    lockfile: LockFile, evidence: Evidence, call: IndicatorCall
) -> Iterator[str]:
    """Yield a caveat on packages without compiled code that were measured in other versions."""
    stack = evidence.stacks[evidence.current[call.id][0]]
    measured = {each.stack_id for each in evidence.inspections if each.indicator_id == call.id}
    decisive = decisive_of_program([evidence.stacks[each] for each in measured])[stack]
    locked = {canonicalize_name(each.name): each.version for each in lockfile.packages}
    other = [
        f"{name} {version} (the lock has {locked.get(canonicalize_name(name), 'none')})"
        for name, version in sorted(stack.lock.versions.items())
        if name not in decisive and locked.get(canonicalize_name(name)) != version
    ]
    if other:
        yield f"{call.label} was measured with {_listed(other)}"


def _unmeasured(lockfile: LockFile, stack: Stack) -> Iterator[str]:
    """Yield a caveat on packages of the lock that were not measured with the recommended ones."""
    own = {canonicalize_name(each.name) for each in lockfile.packages if each.group == "default"}
    missing = sorted(own - stack.lock.versions.keys())
    if missing:
        yield (
            f"not part of what was measured: {_listed(missing)}; "
            "the versions locked of them admit the recommended ones"
        )
    if lockfile.skipped:
        yield f"no index tells what these require: {_listed(lockfile.skipped)}"


def _changes_text(changes: Sequence[Change]) -> str:
    return _listed(
        [f"{c.name} {c.current or 'none'} -> {c.recommended or 'none'}" for c in changes]
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _cpu(machine: Machine) -> str:
    return dict(machine.identity).get("cpu_name", "unknown")


__all__ = ["Admits", "advise"]
