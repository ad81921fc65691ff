"""From the evidence graph to an answer for a lock, recommended or not."""

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.knowledge.equivalence import (
    FRAMEWORKS,
    LockedOn,
    Versions,
    decisive_of_program,
    frameworks,
    is_pure,
    target_of,
)
from stackgen.knowledge.evidence import why_unknown
from stackgen.knowledge.graph import Basis
from stackgen.knowledge.judgement import Case, Judgement, Knowledge
from stackgen.knowledge.proposals import Predicted, propose
from stackgen.knowledge.recommendation import (
    Assessment,
    Compared,
    Standing,
    measured_elsewhere,
)
from stackgen.locks import admits_python
from stackgen.measure import ALPHA, MARGIN, verdict
from stackgen.model.evidence import (
    Advice,
    Answer,
    Change,
    Effect,
    Nearest,
    Proposal,
    Provenance,
)
from stackgen.model.identity import CampaignId, StackId
from stackgen.model.inspections import Inspection
from stackgen.model.packages import LockFile
from stackgen.model.stacks import PROGRAM, BaseFacts, Machine, Stack

Admits = Callable[[LockFile, Sequence[Change], BaseFacts], str | None]
"""Returns why the rest of a lock does not admit changes on a base; None where it does."""
Exists = Callable[[Sequence[tuple[str, str]], BaseFacts], bool]
"""Returns whether (name, version) pairs can be installed together on a base."""
_NAMED = 5  # packages that a caveat names before it counts the rest
_NEAREST = _PROPOSED = 3
_MOST_TRIED = 8  # proposals that the resolver is asked about
_PINNED = tuple(sorted({"numpy", *(name for own in FRAMEWORKS.values() for name in own)}))


def advise(
    known: Knowledge,
    *,
    lockfile: LockFile,
    trusted: Collection[CampaignId],
    admits: Admits,
    inspections: Sequence[Inspection],
    exists: Exists,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    allow_downgrade: bool = False,
) -> Advice:
    """Answer from the evidence graph whether other versions are faster than those of a lock.

    A stack is recommended if it is shown to be faster on at least one indicator and slower on
    none (``stackgen.knowledge.recommendation``), never failed in a block, was never seen, on any
    machine, to compute something else than the lock's own versions, and if the user's requirements
    and the rest of the lock admit its versions. What was measured on fewer than three machines,
    all of them other than the user's, is never recommended; neither is an older version of
    anything with compiled code, unless that is allowed.

    Args:
        known: the evidence graphs.
        lockfile: that the answer is for.
        trusted: campaigns whose controls hold.
        admits: says whether the rest of the lock admits changes.
        inspections: all that are known: they tell why nothing answers.
        exists: says whether versions can be installed together.
        margin: relative difference that is of no importance.
        alpha: the share of knowledge bases of equal stacks that may hold any wrong "faster".
        allow_downgrade: recommend older versions as well.
    """
    locked = LockedOn(lockfile)
    versions_on = {each.facts: locked.versions(each.facts) for each in known.stacks.values()}
    cases = sorted(
        known.cases(versions_on),
        key=lambda case: known.order(case, is_own_python=admits_python(lockfile, case.python)),
    )
    pins = _pins({canonicalize_name(p.name): p.version for p in lockfile.packages})

    def proposals(versions: Versions, near: Stack) -> tuple[Proposal, ...]:
        found = propose(known, versions, near, _PINNED, margin=margin)
        return tuple(_proposals(known, lockfile, found, near.facts, exists, allow_downgrade))

    for case in cases:
        judgement = known.judge(case, margin=margin, alpha=alpha)
        if judgement.assessments or judgement.failing or judgement.otherwise:
            advisor = _Advisor(known, case, judgement, lockfile, margin)
            return replace(
                advisor.advice(admits, allow_downgrade=allow_downgrade),
                pins=pins,
                proposals=proposals(case.versions, known.representative(case)),
            )
    why = why_unknown(
        locked, stacks=known.stacks, inspections=inspections, nodes=known.nodes, trusted=trusted
    )
    near = _nearest_stacks(known, lockfile, locked)
    first = next(iter(near.values()), None)
    return Advice(
        answer=Answer.UNKNOWN,
        lock=None,
        changes=(),
        effects=(),
        caveats=(),
        same_machine=False,
        why=why,
        pins=pins,
        nearest=tuple(
            _known_of(known, lockfile, each, stack, margin=margin, alpha=alpha)
            if stack is first or known.is_small
            else Nearest(versions=each)
            for each, stack in near.items()
        ),
        proposals=proposals(locked.versions(first.facts), first) if first else (),
    )


@dataclass(frozen=True, slots=True)
class _Advisor:
    """Words the answer of one case."""

    known: Knowledge
    case: Case
    judgement: Judgement
    lockfile: LockFile
    margin: float

    def advice(self, admits: Admits, *, allow_downgrade: bool) -> Advice:
        """Return the answer: the fastest candidate that may be taken, or why there is none."""
        ranked = self.judgement.assessments
        best: Assessment | None = None
        older = refused = ""
        for each in ranked:
            if each.standing is not Standing.FASTER:
                break
            changes = self.changes(each)
            reason = self._forbidden(each) or admits(self.lockfile, changes, self.case.facts)
            if reason is not None:
                refused = refused or f"{_changes_text(changes)}: {reason}"
            elif not allow_downgrade and (names := self._lowered(each, changes)):
                older = older or (
                    f"{_changes_text(changes)}: {_listed(names)} would be older; "
                    "--allow-downgrade recommends it"
                )
            else:
                best = each
                break
        shown = best or next(iter(ranked), None)
        effects, provenance = self.effects(shown) if shown else ((), ())
        elsewhere = shown is not None and self._is_elsewhere(shown)
        if elsewhere:
            answer = Answer.ELSEWHERE
        elif best is not None:
            answer = Answer.FASTER
        elif older or refused or shown is None:
            answer = Answer.OLDER if older else Answer.REFUSED
        else:
            answer = Answer.NO_DIFFERENCE
        recommended = best if answer is Answer.FASTER else None
        caveats = list(self._caveats(shown, recommended))
        if refused and best is not None:
            caveats.append(f"something faster was measured, but cannot be taken: {refused}")
        if older and best is not None:
            caveats.append(f"something faster was measured, but is older: {older}")
        return Advice(
            answer=answer,
            lock=self._stack(best).lock if recommended and best else None,
            changes=self.changes(best) if recommended and best else (),
            effects=effects,
            caveats=tuple(caveats),
            same_machine=self.case.machine.id == self.known.machine.id and not elsewhere,
            provenance=provenance,
            refused=(older or refused) if best is None else "",
            sole_origins=recommended.sole_origins if recommended else (),
        )

    def _is_elsewhere(self, shown: Assessment) -> bool:
        if self.case.machine.id != self.known.machine.id or shown.elsewhere:
            return True
        bases = [each.basis for each in shown.compared if each.basis is not None]
        return bool(bases) and all(
            measured_elsewhere(each, self.known.machine.id) for each in bases
        )

    def _stack(self, candidate: Assessment) -> Stack:
        """Return the measured stack of a candidate that changes the lock least."""
        equal = (self.known.stacks[each] for each in self.judgement.stacks[candidate.name])
        return min(equal, key=lambda stack: (len(self._changes_to(stack)), stack.id))

    def changes(self, candidate: Assessment) -> tuple[Change, ...]:
        """Return what a candidate changes of the lock."""
        return self._changes_to(self._stack(candidate))

    def _changes_to(self, stack: Stack) -> tuple[Change, ...]:
        """Return what differs between what was measured for the lock and another stack.

        Where a user's lock differs from both in the same way (pure-Python packages that do not
        matter to the timing), nothing needs to change.
        """
        current = self.known.representative(self.case).lock.versions
        wanted = stack.lock.versions
        locked = self._locked
        return tuple(
            Change(name=name, current=locked.get(name), recommended=wanted.get(name))
            for name in sorted(current.keys() | wanted.keys())
            if current.get(name) != wanted.get(name) and locked.get(name) != wanted.get(name)
        )

    @property
    def _locked(self) -> Mapping[str, str]:
        return {canonicalize_name(each.name): each.version for each in self.lockfile.packages}

    def _lowered(self, candidate: Assessment, changes: Sequence[Change]) -> list[str]:
        """Return which packages with compiled code would become older."""
        artifacts = self._stack(candidate).lock.artifacts
        compiled = {each.name for each in artifacts if not is_pure(each)} | {*_PINNED}
        return [each.name for each in changes if each.name in compiled and _is_older(each)]

    def _forbidden(self, candidate: Assessment) -> str | None:
        """Return which of the user's own requirements a candidate breaks; None if it does not."""
        versions = self._stack(candidate).lock.versions
        broken = _broken(self.lockfile, versions, self.case.facts)
        return f"{' and '.join(broken)} forbids it" if broken else None

    def effects(self, of: Assessment) -> tuple[tuple[Effect, ...], tuple[Provenance, ...]]:
        """Return a candidate's effects, and what each of them rests on."""
        standing = self.known.standing(self.case)
        compared = [(each, each.basis) for each in of.compared if each.basis is not None]
        effects = [
            _effect(each, basis, StackId(of.name), standing[each.indicator_id][0], self.margin)
            for each, basis in compared
        ]
        found = [
            self._provenance(effect, basis)
            for effect, (_, basis) in zip(effects, compared, strict=True)
        ]
        return tuple(effects), tuple(found)

    def _provenance(self, of: Effect, basis: Basis) -> Provenance:
        call = self.known.calls[of.indicator_id]
        before, after = (self.known.stacks[each].lock.versions for each in (of.b, of.a))
        path = [basis.steps[0].one, *(step.other for step in basis.steps)]
        cpus = dict.fromkeys(_cpu(self.known.machines[machine]) for machine, _ in basis.machines)
        return Provenance(
            indicator_id=call.id,
            indicator=call.label,
            compared=tuple(
                Change(name=name, current=before.get(name), recommended=after.get(name))
                for name in sorted(before.keys() | after.keys())
                if before.get(name) != after.get(name)
            ),
            machine=", ".join(cpus),
            python=self.case.python,
            first=basis.first,
            last=basis.last,
            is_figure=bool(dict(call.arguments).get("figure")),
            campaigns=tuple(campaign for campaign, _ in basis.shares),
            origins=basis.origins,
            path=() if basis.is_direct else tuple(path),
        )

    def _caveats(self, shown: Assessment | None, recommended: Assessment | None) -> Iterator[str]:
        if shown is not None:
            yield from self._doubts(shown, recommended)
        if not admits_python(self.lockfile, self.case.python):
            wanted = self.lockfile.requires_python
            yield f"measured on Python {self.case.python}; the lock asks for {wanted}"
        if self.case.variables:
            settings = " ".join(f"{name}={value}" for name, value in self.case.variables)
            yield f"measured with {settings} set; without it, the answer may be another"
        yield from self._other_pure_packages()
        yield "known vulnerabilities were not checked"
        if self.judgement.failing:
            failing = self.judgement.failing
            yield f"{failing} measured stacks failed at times and are not considered"
        if self.judgement.otherwise:
            yield (
                "not considered, because they compute something else than this lock's versions: "
                f"{self.judgement.otherwise} of the measured stacks"
            )
        if recommended is not None:
            yield from _unmeasured(self.lockfile, self._stack(recommended))

    def _doubts(self, shown: Assessment, recommended: Assessment | None) -> Iterator[str]:
        bases = [each.basis for each in shown.compared if each.basis is not None]
        own = self.known.machine.id
        if bases and not any(own in dict(each.machines) for each in bases):
            cpus = dict.fromkeys(
                _cpu(self.known.machines[m]) for each in bases for m, _ in each.machines
            )
            yield f"measured on another machine ({', '.join(cpus)}), not on this one"
        if any(not each.is_direct for each in bases):
            yield "no campaign held both of them: the comparison leads through others"
        if recommended is not None:
            for origin in recommended.sole_origins:
                if origin:
                    yield f"it rests on origin {origin} alone"
        elif shown.standing is Standing.FEW_ORIGINS:
            yield "few of many origins alone measured it to be faster"
        elif shown.standing is Standing.NOT_SHOWN and any(
            each.ratio > 1 + self.margin and len(each.basis.shares) == 1
            for each in shown.compared
            if each.basis is not None
        ):
            yield (
                "one campaign alone does not show it: how much campaigns differ is known once "
                "another one has repeated it (--seed)"
            )

    def _other_pure_packages(self) -> Iterator[str]:
        """Yield a caveat on packages without compiled code that were measured in other versions."""
        locked = self._locked
        for indicator, standing in self.known.standing(self.case).items():
            call = self.known.calls[indicator]
            if call.indicator.component != PROGRAM:
                continue
            measured = self.known.nodes.nodes(indicator)
            stack = self.known.stacks[standing[0]]
            decisive = decisive_of_program([self.known.stacks[each] for each in measured])[stack]
            other = [
                f"{name} {version} (the lock has {locked.get(name, 'none')})"
                for name, version in sorted(stack.lock.versions.items())
                if name not in decisive and locked.get(name) != version
            ]
            if other:
                yield f"{call.label} was measured with {_listed(other)}"


def _effect(of: Compared, basis: Basis, a: StackId, b: StackId, margin: float) -> Effect:
    """Return a comparison as an effect; its interval holds although it was chosen among many.

    Whether it is slower is judged by its own interval: there, caution lies on the other side.
    """
    slower = of.high < 1
    low, high = (of.low, of.high) if slower else (of.lowest, of.highest)
    return Effect(
        a=a,
        b=b,
        indicator_id=of.indicator_id,
        ratio=of.ratio,
        low=low,
        high=high,
        blocks=basis.blocks,
        verdict=verdict(low, high, margin),
        smallest_detectable=max(1 + margin, of.ratio / low if low > 0 else math.inf),
    )


def _nearest_stacks(
    known: Knowledge, lockfile: LockFile, locked: LockedOn
) -> Mapping[tuple[tuple[str, str], ...], Stack]:
    """Return the measured stacks nearest to a lock by their pins, nearest first."""
    found: dict[tuple[tuple[str, str], ...], tuple[tuple[object, ...], Stack]] = {}
    compared = {stack for each in known.graphs for stack in known.nodes.nodes(each)}
    for stack_id in sorted(compared):
        stack = known.stacks[stack_id]
        own, theirs = locked.versions(stack.facts), known.nodes.versions(stack_id)
        if frameworks(own) != frameworks(theirs) or not _pins(own):
            continue
        rank = (_distance(own, theirs), not admits_python(lockfile, stack.facts.python.split()[-1]))
        pins = _pins(theirs)
        if pins not in found or rank < found[pins][0]:
            found[pins] = rank, stack
    nearest = sorted(found.items(), key=lambda each: (each[1][0], each[0]))[:_NEAREST]
    return {pins: stack for pins, (_, stack) in nearest}


def _proposals(
    known: Knowledge,
    lockfile: LockFile,
    predicted: Sequence[Predicted],
    facts: BaseFacts,
    exists: Exists,
    allow_downgrade: bool,
) -> Iterator[Proposal]:
    """Yield what is worth measuring: it can be installed, and the user's requirements admit it."""
    locked = {str(canonicalize_name(each.name)): each.version for each in lockfile.packages}
    tried = proposed = 0
    for each in predicted:
        changes = [
            Change(name=name, current=locked.get(name), recommended=version)
            for name, version in each.pins
            if locked.get(name) != version
        ]
        lowered = any(_is_older(change) for change in changes)
        if (lowered and not allow_downgrade) or _broken(lockfile, dict(each.pins), facts):
            continue
        if tried == _MOST_TRIED or proposed == _PROPOSED:
            return
        tried += 1
        if exists(each.pins, facts):
            proposed += 1
            pins = " ".join(shlex.quote(f"{name}=={version}") for name, version in each.pins)
            yield Proposal(
                changes=tuple(changes),
                indicator=known.calls[each.indicator_id].label,
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                command=f"stackgen explore {pins} --from {shlex.quote(lockfile.path)}",
            )


def _known_of(
    known: Knowledge,
    lockfile: LockFile,
    pins: tuple[tuple[str, str], ...],
    stack: Stack,
    *,
    margin: float,
    alpha: float,
) -> Nearest:
    cases = known.cases({stack.facts: known.nodes.versions(stack.id)})
    for case in sorted(cases, key=lambda each: known.order(each, is_own_python=True)):
        judgement = known.judge(case, margin=margin, alpha=alpha)
        if judgement.assessments:
            advisor = _Advisor(known, case, judgement, lockfile, margin)
            effects, provenance = advisor.effects(judgement.assessments[0])
            return Nearest(versions=pins, effects=effects, provenance=provenance)
    return Nearest(versions=pins)


def _pins(versions: Versions) -> tuple[tuple[str, str], ...]:
    """Return the versions of frameworks and NumPy."""
    return tuple((name, versions[name]) for name in _PINNED if name in versions)


def _distance(one: Versions, other: Versions) -> tuple[float, ...]:
    """Return how far versions are apart: that of frameworks first, then that of NumPy."""
    names = [*sorted({*_PINNED} - {"numpy"}), "numpy"]
    apart = [_apart(one.get(name), other.get(name)) for name in names]
    return tuple(map(max, zip(*apart[:-1], strict=True))) + apart[-1]


def _apart(one: str | None, other: str | None) -> tuple[float, float, float]:
    if one == other:
        return 0.0, 0.0, 0.0
    try:
        a, b = Version(one or ""), Version(other or "")
    except InvalidVersion:
        return math.inf, math.inf, math.inf
    return abs(a.major - b.major), abs(a.minor - b.minor), abs(a.micro - b.micro)


def _broken(lockfile: LockFile, versions: Versions, facts: BaseFacts) -> list[str]:
    """Return which of the user's own requirements exclude versions."""
    environment = target_of(facts).environment
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
    return broken


def _is_older(change: Change) -> bool:
    try:
        return Version(change.recommended or "") < Version(change.current or "")
    except InvalidVersion:
        return False


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


__all__ = ["Admits", "Exists", "advise"]
