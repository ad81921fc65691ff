"""From the evidence graph to an answer for a lock, recommended or not."""

import math
import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from stackgen.knowledge.allowed import Admits, Allowed
from stackgen.knowledge.answers import AddedRisk, CaseAnswer, OtherBuild, SizeOf
from stackgen.knowledge.equivalence import (
    FRAMEWORKS,
    VARIED,
    LockedOn,
    Versions,
    default_versions,
    differences,
    frameworks,
    varied_in,
    versions_of,
)
from stackgen.knowledge.evidence import why_unknown
from stackgen.knowledge.judgement import Case, Judgement, Knowledge
from stackgen.knowledge.proposals import Predicted, propose
from stackgen.locks.reading import admits_python
from stackgen.measure import ALPHA, MARGIN
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import (
    CAREFUL,
    Advice,
    Answer,
    ChangePolicy,
    Nearest,
    NextComparison,
    Proposal,
)
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import Inspection
from stackgen.model.packages import LockFile
from stackgen.model.stacks import BaseFacts, Stack

Exists = Callable[[Sequence[tuple[str, str]], BaseFacts], bool]
"""Returns whether (name, version) pairs can be installed together on a base."""
NEAREST = 3  # measured stacks that are named for an unknown lock
_PROPOSED = 3
_NEAR = 40  # nodes around a measured stack that is near to an unknown lock
_MOST_TRIED = 8  # proposals that the resolver examines
_EXPLAINED = 15  # candidates whose basis is given: the answer is about one of them
_ALL = 10_000  # of them, where the type of advice may recommend any
_FASTEST_NEAR = "the fastest near this lock that was measured, if the rest of the lock admits it"


@dataclass(frozen=True, kw_only=True)
class Advisor:
    """Answers for locks from what is known.

    known: the evidence graphs. trusted: campaigns whose controls hold.
    inspections_of: a campaign: they say why nothing answers.
    admits: says whether the rest of a lock admits changes. exists: whether versions can be
        installed together. other_build: what was measured in a build that no index offers.
    size_of: the installed size of a stack. added_risk: how many known vulnerabilities changes add.
    policy: which changes may be recommended. python: only what was measured on this minor version
        counts; "" for any.
    margin: relative difference that is of no importance.
    alpha: the share of knowledge bases of equal stacks that may hold any wrong "faster".
    most_next: how many comparisons that would decide the answer are named at most.
    """

    known: Knowledge
    trusted: Container[CampaignId]
    inspections_of: Callable[[CampaignId], Sequence[Inspection]]
    admits: Admits
    exists: Exists
    other_build: OtherBuild = lambda _: None
    size_of: SizeOf = lambda _: None
    added_risk: AddedRisk = lambda _: None
    policy: ChangePolicy = CAREFUL
    python: str = ""
    margin: float = MARGIN
    alpha: float = ALPHA
    most_next: int = 1

    def advise(self, lockfile: LockFile) -> Advice:
        """Return whether other versions are better than those of a lock.

        A stack is recommended if it is shown to be faster on at least one indicator and slower on
        none (``stackgen.knowledge.recommendation``), never failed in a block, was never seen, on
        any machine, to compute something else than the lock's own versions, and if the user's
        requirements and the rest of the lock admit its versions. What was measured on fewer than
        three machines, all of them other than the user's, is never recommended; neither is an older
        version of anything with compiled code, nor a new major version, unless that is allowed.
        """
        locked = LockedOn(lockfile)
        explained = _EXPLAINED if self.policy.kind is AdviceType.PERFORMANCE else _ALL
        for case in self._cases(lockfile, locked):
            judgement = self.known.judge(
                case, margin=self.margin, alpha=self.alpha, explained=explained
            )
            if judgement.assessments or judgement.failing or judgement.otherwise:
                answer = self._answer(lockfile, case, judgement)
                near = self.known.representative(case)
                return replace(
                    answer.advice(most_next=self.most_next),
                    pins=pins_of(default_versions(lockfile, case.facts)),
                    proposals=self._proposals(lockfile, case.versions, near),
                )
        return self._unknown(lockfile, locked)

    def update(self, old: LockFile, new: LockFile) -> Advice:
        """Return whether the update from one lock to another is faster or slower."""
        before, after = LockedOn(old), LockedOn(new)
        for case in self._cases(old, before):
            versions = after.versions(case.facts)
            current = versions_of(old, case.facts)
            pins = pins_of(current)
            changes = differences(current, versions_of(new, case.facts))
            if not self.known.decides(case, versions):
                return Advice(
                    answer=Answer.NO_DIFFERENCE,
                    changes=changes,
                    caveats=("nothing that was seen to decide a timing changes",),
                    same_machine=case.machine.id == self.known.machine.id,
                    pins=pins,
                )
            judgement = self.known.judge(
                case, margin=self.margin, alpha=self.alpha, update=versions
            )
            if judgement.assessments or judgement.failing or judgement.otherwise:
                return replace(self._answer(old, case, judgement).update(changes), pins=pins)
        unknown = self._unknown(old, before)
        why = unknown.why
        if cases := self._cases(old, before):
            why = "no chain of campaigns connects the versions of both locks"
            if not any(self._stands(case, after) for case in cases):
                why = f"{new.path}: {self._why(after)}"
        pins, changes = pins_of(versions_of(old)), differences(versions_of(old), versions_of(new))
        return replace(unknown, why=why, pins=pins, changes=changes, proposals=(), next=())

    def _cases(self, lockfile: LockFile, locked: LockedOn) -> list[Case]:
        """Return the cases that something was compared in, what says most first."""
        wanted = {
            each
            for each, _ in self.known.places
            if not self.python or each.python.split()[-1].startswith(f"{self.python}.")
        }
        return sorted(
            self.known.cases({each: locked.versions(each) for each in wanted}),
            key=lambda case: self.known.order(
                case, is_own_python=admits_python(lockfile, case.python)
            ),
        )

    def _answer(self, lockfile: LockFile, case: Case, judgement: Judgement) -> CaseAnswer:
        return CaseAnswer(
            known=self.known,
            case=case,
            judgement=judgement,
            allowed=self._allowed(lockfile, case.facts),
            margin=self.margin,
            size_of=self.size_of,
            other_build=self.other_build,
            added_risk=self.added_risk,
        )

    def _allowed(self, lockfile: LockFile, facts: BaseFacts) -> Allowed:
        return Allowed(lockfile=lockfile, facts=facts, policy=self.policy, admits=self.admits)

    def _stands(self, case: Case, locked: LockedOn) -> bool:
        """Return whether a measured stack stands for a lock where a case was measured."""
        return bool(self.known.nodes.find_all(locked.versions(case.facts), case.setting))

    def _why(self, locked: LockedOn, place: BaseFacts | None = None) -> str:
        return why_unknown(
            locked,
            stacks=self.known.stacks,
            measured=self.known.measured,
            summaries=self.known.summaries,
            inspections_of=self.inspections_of,
            nodes=self.known.nodes,
            trusted=self.trusted,
            place=place,
        )

    def _unknown(self, lockfile: LockFile, locked: LockedOn) -> Advice:
        """Return what is nearest to a lock that nothing is known of, and what to measure of it."""
        known = self.known
        why = ""
        if self.python:
            why = f"nothing that was measured on Python {self.python} compares these versions"
        near = self._nearest_stacks(lockfile, locked.versions)
        shown, without = near, frozenset[str]()
        if not near:  # it is for other Pythons, or no measured stack has its frameworks
            every = default_versions(lockfile)
            shown = self._nearest_stacks(lockfile, lambda _: every)
            if not shown and "numpy" in every:
                shown = self._nearest_stacks(lockfile, lambda _: {"numpy": every["numpy"]})
                without = frameworks(every)
        first = next(iter(near.values()), None)
        closest = first or next(iter(shown.values()), None)
        facts = closest.facts if closest is not None else None
        nearest = [
            self._known_of(lockfile, each, stack)
            if place == 0 or known.is_small
            else (Nearest(versions=each), None)
            for place, (each, stack) in enumerate(shown.items())
        ]
        proposals = self._proposals(lockfile, locked.versions(first.facts), first) if first else ()
        following: list[NextComparison] = []
        if first is not None:
            best = [better for _, better in nearest if better is not None]
            own = zip(shown.values(), nearest, strict=True)
            faster = [better for near, (_, better) in own if better not in (None, near)]
            following += self._like_the_best(lockfile, first.facts, faster)
            following += map(_worth, proposals)
            following += self._like_the_best(lockfile, first.facts, best)
        unique: dict[tuple[tuple[str, str], ...], NextComparison] = {}
        for each in following:
            unique.setdefault(each.pins, each)
        return Advice(
            answer=Answer.UNKNOWN,
            why=why or self._why(locked, facts),
            nearest=tuple(replace(one, without=tuple(sorted(without))) for one, _ in nearest),
            proposals=proposals,
            next=tuple(unique.values())[: self.most_next],
            # Of a package with several versions, what is compared with the nearest stack is shown.
            pins=pins_of(default_versions(lockfile, facts)),
        )

    def _nearest_stacks(
        self, lockfile: LockFile, versions: Callable[[BaseFacts], Versions]
    ) -> Mapping[tuple[tuple[str, str], ...], Stack]:
        """Return the stacks nearest to a lock's versions on each base, by pins, nearest first."""
        found: dict[tuple[tuple[str, str], ...], tuple[tuple[object, ...], Stack]] = {}
        compared = {
            stack
            for indicator, graph in self.known.graphs.items()
            for stack, node in self.known.nodes.nodes(indicator).items()
            if graph.component(node.key)
        }
        for stack_id in sorted(compared):
            stack = self.known.stacks[stack_id]
            own, theirs = versions(stack.facts), self.known.nodes.versions(stack_id)
            if frameworks(own) != frameworks(theirs) or not pins_of(own):
                continue
            python = stack.facts.python.split()[-1]
            rank = (distance(own, theirs), not admits_python(lockfile, python))
            pins = pins_of(theirs)
            if pins not in found or rank < found[pins][0]:
                found[pins] = rank, stack
        nearest = sorted(found.items(), key=lambda each: (each[1][0], each[0]))[:NEAREST]
        return {pins: stack for pins, (_, stack) in nearest}

    def _known_of(
        self, lockfile: LockFile, pins: tuple[tuple[str, str], ...], stack: Stack
    ) -> tuple[Nearest, Stack | None]:
        """Return what is known of a measured stack, and the fastest that was compared with it."""
        cases = self.known.cases({stack.facts: self.known.nodes.versions(stack.id)})
        for case in sorted(cases, key=lambda each: self.known.order(each, is_own_python=True)):
            judgement = self.known.judge(case, margin=self.margin, alpha=self.alpha, most=_NEAR)
            if judgement.assessments:
                best = judgement.assessments[0]
                effects, provenance = self._answer(lockfile, case, judgement).effects(best)
                near = Nearest(versions=pins, effects=effects, provenance=provenance)
                faster = all(each.ratio > 1 for each in best.compared)
                return near, self.known.stacks[judgement.stacks[best.name][0]] if faster else stack
        return Nearest(versions=pins), None

    def _like_the_best(
        self, lockfile: LockFile, facts: BaseFacts, stacks: Sequence[Stack]
    ) -> Iterator[NextComparison]:
        """Yield the best of what is known near a lock, where it may be taken.

        The rest of the lock follows where it has to (a release of TensorFlow requires its own of
        TensorBoard and Keras); whether it can is resolved before anything is measured.
        """
        allowed = self._allowed(lockfile, facts)
        locked = dict(pins_of(default_versions(lockfile, facts)))
        for stack in stacks:
            pins = pins_of(self.known.nodes.versions(stack.id))
            changes = differences(locked, dict(pins))
            is_alike = locked.keys() == dict(pins).keys()
            refused = allowed.by_policy(changes, dict(pins), VARIED)
            if changes and is_alike and refused is None and self.exists(pins, facts):
                yield NextComparison(changes=changes, pins=pins, why=_FASTEST_NEAR)

    def _proposals(
        self, lockfile: LockFile, versions: Versions, near: Stack
    ) -> tuple[Proposal, ...]:
        predicted = propose(self.known, versions, near, VARIED, margin=self.margin)
        return tuple(self._worth_measuring(lockfile, predicted, near.facts))

    def _worth_measuring(
        self, lockfile: LockFile, predicted: Sequence[Predicted], facts: BaseFacts
    ) -> Iterator[Proposal]:
        """Yield what is worth measuring: it can be installed, and the user's options admit it."""
        allowed = self._allowed(lockfile, facts)
        locked = default_versions(lockfile, facts)
        tried = proposed = 0
        for each in predicted:
            changes = differences(
                {name: locked[name] for name, _ in each.pins if name in locked}, dict(each.pins)
            )
            if allowed.by_options(changes, VARIED) or allowed.broken(dict(each.pins)):
                continue
            if tried == _MOST_TRIED or proposed == _PROPOSED:
                return
            tried += 1
            if self.exists(each.pins, facts):
                proposed += 1
                pins = " ".join(shlex.quote(f"{name}=={version}") for name, version in each.pins)
                yield Proposal(
                    changes=changes,
                    indicator=self.known.calls[each.indicator_id].label,
                    ratio=each.ratio,
                    low=each.low,
                    high=each.high,
                    command=f"stackgen explore {pins} --from {shlex.quote(lockfile.path)}",
                    pins=each.pins,
                )


def _worth(each: Proposal) -> NextComparison:
    return NextComparison(
        changes=each.changes,
        pins=each.pins,
        why=f"expected on {each.indicator}: {each.ratio:.2f} times as fast "
        f"({each.low:.3g} to {each.high:.3g})",
    )


def pins_of(versions: Versions) -> tuple[tuple[str, str], ...]:
    """Return the versions of frameworks and NumPy."""
    return tuple((name, versions[name]) for name in varied_in(versions))


def distance(one: Versions, other: Versions) -> tuple[float, ...]:
    """Return how far versions are apart: that of frameworks first, then that of NumPy."""
    apart = [_apart(_release(each, one), _release(each, other)) for each in frameworks(one)]
    # Another distribution of a framework is nearer than another release of the same one.
    unequal = sum(one.get(name) != other.get(name) for name in VARIED)
    return (
        *map(max, zip((0.0, 0.0, 0.0), *apart, strict=True)),
        *_apart(one.get("numpy"), other.get("numpy")),
        unequal,
    )


def _release(framework: str, versions: Versions) -> str | None:
    """Return the version of a framework, whichever of its distributions holds it."""
    return next((versions[n] for n in sorted(FRAMEWORKS[framework]) if n in versions), None)


def _apart(one: str | None, other: str | None) -> tuple[float, float, float]:
    if one == other:
        return 0.0, 0.0, 0.0
    try:
        a, b = Version(one or ""), Version(other or "")
    except ValueError:  # also a number of too many digits
        return math.inf, math.inf, math.inf
    if a.major != b.major:  # the oldest of newer ones is nearest, and the newest of older ones
        return abs(a.major - b.major), b.minor if b.major > a.major else 1 / (1 + b.minor), b.micro
    return 0.0, abs(a.minor - b.minor), abs(a.micro - b.micro)
