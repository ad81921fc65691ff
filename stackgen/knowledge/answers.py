"""From the candidates of a case to an answer: what is recommended, or why nothing is."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.indicators.families import FEWEST_FAMILIES, families_of, family_of
from stackgen.knowledge.allowed import Allowed, Refusal, listed, listed_changes
from stackgen.knowledge.equivalence import (
    VARIED,
    differences,
    is_pure,
    varied_in,
    versions_of,
)
from stackgen.knowledge.graph import Basis
from stackgen.knowledge.judgement import Case, Judgement, Knowledge, cpu_model
from stackgen.knowledge.recommendation import (
    FEWEST_MACHINES,
    FEWEST_ORIGINS,
    OWN_SHARE,
    Assessment,
    Standing,
)
from stackgen.locks.reading import admits_python
from stackgen.measure import WORTH_DECIDING, verdict
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import (
    Advice,
    Alternative,
    Answer,
    Change,
    Effect,
    NextComparison,
    Provenance,
    Scope,
    Verdict,
)
from stackgen.model.identity import IndicatorId, StackId
from stackgen.model.packages import LockFile
from stackgen.model.stacks import PROGRAM, Machine, Stack

SizeOf = Callable[[Stack], int | None]
"""Returns the installed size of a stack in bytes; None where it is not known."""
AddedRisk = Callable[[Sequence[Change]], int | None]
"""Returns how many known vulnerabilities changes add; None where that was not checked."""
OtherBuild = Callable[[Iterable[Stack]], str | None]
"""Returns what of stacks was measured in a build that no index offers; None for nothing."""
_ALTERNATIVES = 4
_ALONE = 0.8  # the share of a comparison from which on a campaign carries it alone
_MOST_OF_IT = 0.5  # the share of a comparison that makes it one of a machine
_AGAINST = {Answer.OLDER: "older", Answer.MAJOR: "new major version"}
_NEXT_TRIED = 6  # candidates that the resolver is consulted about


@dataclass(frozen=True, kw_only=True)
class CaseAnswer:
    """Words the answer of one case."""

    known: Knowledge
    case: Case
    judgement: Judgement
    allowed: Allowed
    margin: float
    size_of: SizeOf
    other_build: OtherBuild
    added_risk: AddedRisk

    @property
    def _lockfile(self) -> LockFile:
        return self.allowed.lockfile

    def advice(self, *, most_next: int = 1) -> Advice:
        """Return the answer: the best candidate that may be taken, or why there is none.

        At most ``most_next`` comparisons that would decide it are named.
        """
        best: Assessment | None = None
        refusals: list[Refusal] = []
        for each in self._wanted():
            found = self._refusal(each) or self._of_other_build(each)
            if found is None:
                best = each
                break
            refusals.append(found)
        shown = best or self._first()
        elsewhere = shown is not None and self._is_elsewhere(shown)
        answer = self._answer(best, shown, refusals, elsewhere=elsewhere)
        recommended = best if answer in (Answer.FASTER, Answer.NOT_SLOWER) else None
        ranked = () if recommended else self.judgement.assessments
        undecided = [each for each in ranked if self._may_be_faster(each)]
        chosen, forbidden = self._admitted(undecided, most_next)
        possible = None
        if answer is Answer.NO_DIFFERENCE and self._by_speed:
            possible = self._possible(undecided)
            if possible is not None and possible > 1 + WORTH_DECIDING:
                answer = Answer.UNDECIDED
        caveats = list(self._caveats(shown, recommended, may_measure=not forbidden))
        if refusals and best is not None:
            caveats.append(
                f"something {'faster' if self._by_speed else 'else'} was measured, but is not "
                f"recommended: {refusals[0].why}"
            )
        against = next((each for each in refusals if each.answer is answer), None)
        against = against or next(iter(refusals), forbidden) if best is None else None
        if against is not None and against.option:
            against = self._option_that_helps(against, refusals)
            if answer in (Answer.OLDER, Answer.MAJOR) and not against.option:
                answer = Answer.REFUSED
        return replace(
            self.described(shown),
            answer=answer,
            lock=self._stack(recommended).lock if recommended else None,
            changes=self.changes(recommended) if recommended else (),
            caveats=tuple(caveats),
            refused=against.why if against else "",
            option=against.option if against else "",
            sole_origins=recommended.sole_origins if recommended else (),
            next=tuple(self._next(each, undecided[:3]) for each in chosen),
            possible=possible,
        )

    def _first(self) -> Assessment | None:
        """Return what the answer is about where nothing is recommended.

        That is what is faster; else the best of what could be taken, as far as options and
        requirements tell: an older release of the same speed is of no use to anybody.
        """
        ranked = self.judgement.assessments
        first = next(iter(ranked), None)
        if first is None or first.standing is Standing.FASTER:
            return first
        explained = (each for each in ranked if all(of.basis for of in each.compared))
        return next((each for each in explained if not self._against(each)), first)

    def _against(self, candidate: Assessment) -> str:
        """Return what options and requirements have against a candidate; "" where nothing."""
        refusal = self._refusal(candidate, by_resolver=False)
        return _AGAINST.get(refusal.answer, "excluded") if refusal is not None else ""

    def _option_that_helps(self, against: Refusal, refusals: Sequence[Refusal]) -> Refusal:
        """Return a refusal whose option admits the changes; where none does, what else is against.

        With the option, the user's requirements or the rest of the lock may still refuse them.
        """
        others = [each for each in refusals if each.option == against.option and each != against]
        found = []
        for each in [against, *others][:_NEXT_TRIED]:
            despite = self.allowed.despite_option(each)
            if despite is None:
                return each
            found.append(despite)
        return found[0]

    def update(self, changes: Sequence[Change]) -> Advice:
        """Return whether the only candidate, a lock with these changes, is faster or slower."""
        shown = next(iter(self.judgement.assessments), None)
        if shown is None:
            answer = Answer.REFUSED
        elif self._is_elsewhere(shown):
            answer = Answer.ELSEWHERE
        elif shown.standing is Standing.FASTER:
            answer = Answer.FASTER
        elif shown.standing is Standing.SLOWER:
            answer = Answer.SLOWER
        else:
            same = all(
                verdict(each.lowest, each.highest, self.margin) is Verdict.EQUIVALENT
                for each in shown.compared
            )
            answer = Answer.NO_DIFFERENCE if same else Answer.UNDECIDED
        return replace(
            self.described(shown),
            answer=answer,
            changes=tuple(changes),
            caveats=tuple(self._caveats(shown, None, may_measure=True)),
        )

    def described(self, shown: Assessment | None) -> Advice:
        """Return what is known of a candidate, without an answer yet."""
        effects, provenance = self.effects(shown) if shown else ((), ())
        families = families_of(found.indicator.partition(" ")[0] for found in provenance)
        overall = self._overall(shown) if shown and len(effects) > 1 else None
        whole = (
            len(families) >= FEWEST_FAMILIES
            and overall is not None
            and overall.verdict is not Verdict.INCONCLUSIVE
        )
        scope = Scope.OVERALL if whole else Scope.OPERATIONS
        bases = [each.basis for each in shown.compared if each.basis] if shown else []
        own = self.known.machine.id
        return Advice(
            answer=Answer.UNKNOWN,
            effects=effects,
            same_machine=self.case.machine.id == own
            and (not bases or any(dict(e.machines).get(own, 0) >= OWN_SHARE for e in bases)),
            provenance=provenance,
            scope=Scope.PROGRAM if self._of_program else scope if effects else Scope.NOTHING,
            families=families,
            overall=overall,
            current=self.known.most_like(self.case).id,
            alternatives=tuple(self._alternatives(shown)) if shown else (),
        )

    def _admitted(
        self, candidates: Iterable[Assessment], most: int
    ) -> tuple[list[Assessment], Refusal | None]:
        """Return the first candidates that may be recommended; where there are none, a refusal.

        The refusal is that of the first one; None where there are no candidates at all.
        """
        found: list[Assessment] = []
        forbidden: Refusal | None = None
        tried = 0
        for each in candidates:
            if len(found) == most or tried == _NEXT_TRIED:
                break
            refusal = self._refusal(each, by_resolver=False)
            if refusal is None:
                tried += 1
                refusal = self._refusal(each)
            if refusal is None:
                found.append(each)
            forbidden = forbidden or refusal
        return found, None if found else forbidden

    def _possible(self, undecided: Sequence[Assessment]) -> float | None:
        """Return how fast anything that may be recommended may be at most, as a ratio.

        None where all of it is slower.

        Args:
            undecided: what may be faster by more than the margin.
        """
        best, _ = self._admitted(sorted(undecided, key=_highest, reverse=True), 1)
        others = (each for each in self.judgement.assessments if each not in undecided)
        rest = [each for each in others if each.standing is not Standing.SLOWER]
        return max(map(_highest, best or rest), default=None)

    def _next(self, each: Assessment, others: Sequence[Assessment]) -> NextComparison:
        changes = self.changes(each)
        names = [StackId(other.name) for other in others]
        block = self.known.next_comparison(self.case, StackId(each.name), names)
        # What was measured may lack what its operations never load, as PyTorch's do with NumPy.
        pins = {name: self._locked[name] for name in varied_in(self._locked)}
        pins |= {c.name: c.recommended for c in changes if c.recommended is not None}
        highest = max(each.compared, key=lambda of: of.highest)
        states = {
            Standing.NOT_SHOWN: "not decided",
            Standing.ONE_CAMPAIGN: "one campaign alone shows it",
        }
        known = states.get(each.standing, "measured elsewhere")
        return NextComparison(
            changes=changes,
            pins=tuple(sorted(pins.items())),
            why=f"{highest.ratio:.2f} times as fast ({highest.lowest:.3f} to {highest.highest:.3f})"
            f" on {self.known.calls[highest.indicator_id].indicator.name}: {known}",
            error=math.sqrt(block.variance) if block else None,
            expected_error=math.sqrt(max(0.0, block.variance - block.gain)) if block else None,
        )

    def _may_be_faster(self, each: Assessment) -> bool:
        if each.standing is Standing.FASTER:
            return self._is_elsewhere(each)
        if each.standing is Standing.SLOWER and not self._is_elsewhere(each):
            return False
        return _highest(each) > 1 + self.margin

    @property
    def _by_speed(self) -> bool:
        return self.allowed.policy.kind is AdviceType.PERFORMANCE

    def _wanted(self) -> list[Assessment]:
        """Return what the type of advice may recommend, best first."""
        ranked = self.judgement.assessments
        if self._by_speed:
            return [each for each in ranked if each.standing is Standing.FASTER]
        least = 1 / (1 + self.margin)
        safe = [
            each
            for each in ranked
            if each.standing in (Standing.FASTER, Standing.NOT_SHOWN, Standing.ONE_CAMPAIGN)
            and all(of.lowest >= least for of in each.compared)
        ]
        if self.allowed.policy.kind is AdviceType.SIZE:
            own = self.size_of(self.known.most_like(self.case))
            sized = [(size, each) for each in safe if (size := self.size_of(self._stack(each)))]
            smaller = [each for each in sized if own is not None and each[0] < own]
            return [each for _, each in sorted(smaller, key=lambda pair: pair[0])]
        if self.allowed.policy.kind is AdviceType.SECURITY:
            risks = [(self.added_risk(self.changes(each)), each) for each in safe]
            fewer = [(risk, each) for risk, each in risks if risk is not None and risk < 0]
            return [each for _, each in sorted(fewer, key=lambda pair: pair[0])]
        current = self._age(self.known.most_like(self.case))
        newer = [(self._age(self._stack(each)), each) for each in safe]
        found = [pair for pair in newer if pair[0] > current]
        return [each for _, each in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def _age(self, stack: Stack) -> list[Version]:
        """Return the versions of the framework, then of NumPy: later ones are newer."""
        versions = self.known.nodes.versions(stack.id)
        names = [*(name for name in VARIED if name != "numpy"), "numpy"]
        found = []
        for name in names:
            try:
                found.append(Version(versions.get(name, "0")))
            except ValueError:  # also a number of too many digits
                found.append(Version("0"))
        return found

    def _answer(
        self,
        best: Assessment | None,
        shown: Assessment | None,
        refusals: Sequence[Refusal],
        *,
        elsewhere: bool,
    ) -> Answer:
        if elsewhere:
            return Answer.ELSEWHERE
        if best is not None:
            faster = best.standing is Standing.FASTER
            return Answer.FASTER if faster else Answer.NOT_SLOWER
        if not refusals:
            return Answer.REFUSED if shown is None else Answer.NO_DIFFERENCE
        answers = [each.answer for each in refusals]
        return next((a for a in (Answer.OLDER, Answer.MAJOR) if a in answers), Answer.REFUSED)

    def _refusal(self, candidate: Assessment, *, by_resolver: bool = True) -> Refusal | None:
        stack = self._stack(candidate)
        compiled = {each.name for each in stack.lock.artifacts if not is_pure(each)} | {*VARIED}
        changed = self.changes(candidate), stack.lock.versions, compiled
        if not by_resolver:
            return self.allowed.by_policy(*changed)
        if candidate.name not in self._resolved:
            self._resolved[candidate.name] = self.allowed.refusal(*changed)
        return self._resolved[candidate.name]

    def _of_other_build(self, candidate: Assessment) -> Refusal | None:
        """Return what is against a candidate whose times are those of another build.

        Stacks are equivalent by versions, whatever builds these came in. Measuring is no remedy of
        what is known already, so that this is against a recommendation alone.
        """
        own = {stack for each in self.known.standing(self.case).values() for stack in each}
        every = (*self.judgement.stacks[candidate.name], *sorted(own))
        why = self.other_build([self.known.stacks[each] for each in every])
        text = listed_changes(self.changes(candidate))
        return Refusal(answer=Answer.REFUSED, why=f"{text}: {why}") if why else None

    @cached_property
    def _resolved(self) -> dict[str, Refusal | None]:
        """Return the refusals of candidates that were looked up already: resolving takes time."""
        return {}

    def _untrusted(self, shown: Assessment) -> Iterator[str]:
        """Yield the origins that carry it alone, and that the user does not trust.

        What is not shown to be faster is carried by an origin alone where no other measured it.
        """
        every = {o for each in shown.compared if each.basis for o in each.basis.origins}
        for origin in shown.sole_origins or (every if len(every) == 1 else ()):
            if origin and origin not in self.known.trusted_origins:
                yield origin

    @property
    def _depends_on_variables(self) -> bool:
        """Return whether several values of variables were measured: the user's are not known."""
        values = {each for facts, each in self.known.places if facts == self.case.facts}
        return bool(self.case.variables) and len(values) > 1 and not self._of_program

    def _few_untrusted(self, shown: Assessment) -> tuple[str, ...]:
        """Return the origins that carry it, where they are few, several, and none is trusted.

        One person can have several origins. From five on, a fifth of them may be wrong.
        """
        found = sorted({o for each in shown.compared if each.basis for o in each.basis.origins})
        trusted = any(not each or each in self.known.trusted_origins for each in found)
        return () if trusted or not 1 < len(found) < FEWEST_ORIGINS else tuple(found)

    def _is_elsewhere(self, shown: Assessment) -> bool:
        if self.case.machine.id != self.known.machine.id or shown.elsewhere:
            return True
        if not admits_python(self._lockfile, self.case.python):
            return True
        if self._depends_on_variables:
            return True
        if any(self._untrusted(shown)) or self._few_untrusted(shown):
            return True
        bases = [each.basis for each in shown.compared if each.basis is not None]
        faster = [e.basis for e in shown.compared if e.basis is not None and e.lowest > 1]
        if not bases or any(self._own_share(each) >= OWN_SHARE for each in faster or bases):
            return False
        # Machines of one CPU model agree more than others would: they do not stand for others.
        models = {cpu_model(self.known.machines[m]) for each in bases for m, _ in each.machines}
        few = len(models) < FEWEST_MACHINES and cpu_model(self.known.machine) not in models
        return few or all(len(each.machines) < FEWEST_MACHINES for each in bases)

    def _own_share(self, basis: Basis) -> float:
        """Return how much of a comparison this machine carries, by origins that the user trusts.

        A machine is known by what it is made of: another user's may be the same one.
        """
        own = self.known.own_campaigns
        return sum(share for campaign, share in basis.shares if campaign in own)

    def _stack(self, candidate: Assessment) -> Stack:
        """Return the measured stack of a candidate that changes the lock least.

        Its packages without compiled code are recommended with it, so that one from an origin that
        the user trusts comes first.
        """
        equal = self.judgement.stacks[candidate.name]
        own = [each for each in equal if each in self.known.trusted_stacks]
        stacks = (self.known.stacks[each] for each in own or equal)
        return min(stacks, key=lambda stack: (len(self._changes_to(stack)), stack.id))

    def changes(self, candidate: Assessment) -> tuple[Change, ...]:
        """Return what a candidate changes of the lock."""
        return self._changes_to(self._stack(candidate))

    def _changes_to(self, stack: Stack) -> tuple[Change, ...]:
        """Return what differs between what was measured for the lock and another stack.

        Where a user's lock differs from both in the same way (pure-Python packages that do not
        matter to the timing), nothing needs to change. Frameworks and NumPy come first.
        """
        current = self.known.most_like(self.case).lock.versions
        return tuple(
            replace(each, current=self._locked.get(each.name))
            for each in differences(current, stack.lock.versions)
            if self._locked.get(each.name) != each.recommended
        )

    @cached_property
    def _locked(self) -> Mapping[str, str]:
        return versions_of(self._lockfile, self.case.facts)

    @property
    def _of_program(self) -> bool:
        calls = (self.known.calls[each] for each in self.case.current)
        return any(each.indicator.component == PROGRAM for each in calls)

    # What is known of a candidate

    def effects(self, of: Assessment) -> tuple[tuple[Effect, ...], tuple[Provenance, ...]]:
        """Return a candidate's effects, and what each of them rests on."""
        standing = self.known.standing(self.case)
        compared = [(each, each.basis) for each in of.compared if each.basis is not None]
        effects = []
        for each, basis in compared:
            # Whether it is slower is judged by its own interval: there, caution lies on the other
            # side. Else it is the one that holds although it was chosen among many.
            low, high = (each.low, each.high) if each.high < 1 else (each.lowest, each.highest)
            b = standing[each.indicator_id][0]
            effects.append(
                self._effect(of, b, each.indicator_id, (each.ratio, low, high), basis.blocks)
            )
        found = [
            self._provenance(of, effect, basis)
            for effect, (_, basis) in zip(effects, compared, strict=True)
        ]
        return tuple(effects), tuple(found)

    def _effect(
        self,
        of: Assessment,
        b: StackId,
        indicator: IndicatorId,
        interval: tuple[float, float, float],
        blocks: int,
    ) -> Effect:
        """Return a candidate beside a stack, by a ratio with its interval (ratio, low, high)."""
        ratio, low, high = interval
        return Effect(
            a=StackId(of.name),
            b=b,
            indicator_id=indicator,
            ratio=ratio,
            low=low,
            high=high,
            blocks=blocks,
            verdict=verdict(low, high, self.margin),
            smallest_detectable=max(1 + self.margin, ratio / low if low > 0 else math.inf),
        )

    def _provenance(self, candidate: Assessment, of: Effect, basis: Basis) -> Provenance:
        call = self.known.calls[of.indicator_id]
        before = self.known.stacks[of.b].lock.versions
        after = self._stack(candidate).lock.versions
        path = [basis.steps[0].one, *(step.other for step in basis.steps)]
        cpus = dict.fromkeys(self._cpu(self.known.machines[m]) for m, _ in basis.machines)
        return Provenance(
            indicator_id=call.id,
            indicator=call.label,
            compared=differences(before, after),
            machine=", ".join(cpus),
            python=self.case.python,
            first=basis.first,
            last=basis.last,
            is_figure=bool(dict(call.arguments).get("figure")),
            campaigns=tuple(campaign for campaign, _ in basis.shares),
            origins=basis.origins,
            path=() if basis.is_direct else tuple(path),
            machines=len(basis.machines),
            family=family_of(call.indicator.name),
            shares=tuple(share for _, share in basis.shares),
        )

    def _overall(self, of: Assessment) -> Effect:
        """Return the geometric mean over all indicators.

        Its interval is that of the means of all bounds: they hold together, so it holds, too.
        """
        low = _mean([each.lowest for each in of.compared])
        high = _mean([each.highest for each in of.compared])
        blocks = (each.basis.blocks for each in of.compared if each.basis is not None)
        ratio = _mean([each.ratio for each in of.compared])
        own = self.known.most_like(self.case).id
        return self._effect(of, own, IndicatorId(""), (ratio, low, high), sum(blocks))

    def _alternatives(self, shown: Assessment) -> Iterator[Alternative]:
        """Yield what the answer is about, and then others that are not slower, best first.

        Those that may be taken come before the others.
        """
        ranked = self.judgement.assessments
        others = [e for e in ranked if e is not shown and e.standing is not Standing.SLOWER]
        allowed = list(islice((e for e in others if not self._against(e)), _ALTERNATIVES))
        ordered = (*allowed, *(each for each in others if each not in allowed))
        for each in (shown, *ordered[: _ALTERNATIVES - 1]):
            whole = self._overall(each)
            yield Alternative(
                stack_id=self._stack(each).id,
                changes=self.changes(each),
                ratio=whole.ratio,
                low=whole.low,
                high=whole.high,
                is_faster=each.standing is Standing.FASTER,
                against=self._against(each),
            )

    # What the user has to know besides

    def _caveats(
        self, shown: Assessment | None, recommended: Assessment | None, *, may_measure: bool
    ) -> Iterator[str]:
        if shown is not None:
            yield from self._doubts(shown, recommended, may_measure=may_measure)
        if not admits_python(self._lockfile, self.case.python):
            wanted = self._lockfile.requires_python
            yield (
                f"measured on Python {self.case.python}, but the lock requires {wanted}: another "
                "Python may give another answer"
            )
        if self.case.variables:
            settings = " ".join(f"{name}={value}" for name, value in self.case.variables)
            yield f"measured with {settings} set; without it, the answer may be another"
        yield from self._other_pure_packages()
        if self.judgement.failing:
            failing = self.judgement.failing
            yield f"{failing} measured stacks failed at times and are not considered"
        if self.judgement.otherwise:
            yield (
                "not considered, because they compute something else than this lock's versions: "
                f"{self.judgement.otherwise} of the measured stacks"
            )
        if recommended is not None:
            removed = {e.name for e in self.changes(recommended) if e.recommended is None}
            yield from _unmeasured(self._lockfile, self._stack(recommended), removed)

    def _doubts(
        self, shown: Assessment, recommended: Assessment | None, *, may_measure: bool
    ) -> Iterator[str]:
        bases = [each.basis for each in shown.compared if each.basis is not None]
        own = self.known.machine.id
        if bases and not any(own in dict(each.machines) for each in bases):
            cpus = dict.fromkeys(
                self._cpu(self.known.machines[m]) for each in bases for m, _ in each.machines
            )
            yield f"measured on another machine ({', '.join(cpus)}), not on this one"
        if self.case.machine.id != own:
            yield from self._disagreements(shown)
        if any(not each.is_direct for each in bases):
            yield "no campaign measured both of them: the comparison leads through others"
        yield from self._distrust(shown, may_measure=may_measure)
        if recommended is not None:
            for origin in recommended.sole_origins:
                if origin:
                    yield f"it rests on origin {origin} alone"
            faster = [e.basis for e in recommended.compared if e.basis and e.lowest > 1]
            largest = [max((share for _, share in each.shares), default=0.0) for each in faster]
            if largest and min(largest) >= _ALONE:
                yield (
                    f"one campaign carries {min(largest):.0%} of it: another one that compares the "
                    "same versions would show whether it was an odd one"
                )
        elif shown.standing is Standing.FEW_ORIGINS:
            yield "few of many origins alone measured it to be faster"
        elif shown.standing is Standing.ONE_CAMPAIGN:
            yield (
                "one campaign alone shows it to be faster, in which a stack may have been odd: "
                "another one that compares the same versions decides (--measure, or --seed of "
                "explore)"
            )
        elif shown.standing is Standing.NOT_SHOWN and any(
            each.ratio > 1 + self.margin and len(each.basis.shares) == 1
            for each in shown.compared
            if each.basis is not None
        ):
            yield (
                "one campaign alone does not show it: how much campaigns differ is known once "
                "another one has repeated it (--measure, or --seed of explore)"
            )

    def _distrust(self, shown: Assessment, *, may_measure: bool) -> Iterator[str]:
        """Yield which origins the user had to trust."""
        own_kind = self.case.machine.id == self.known.machine.id and not shown.elsewhere
        remedies = ["measure it here (--measure)"] * may_measure
        for origin in self._untrusted(shown):
            trust = f"run: stackgen kb origins --trust {origin[:12]}"
            either = ", or ".join([*remedies, *([trust] if own_kind else [])])
            text = f"origin {origin[:12]} alone measured it, and you do not trust it"
            yield f"{text}: {either}" if either else text
        if few := self._few_untrusted(shown):
            either = ", or ".join([*remedies, f"run: stackgen kb origins --trust {few[0][:12]}"])
            yield f"{len(few)} origins measured it, and you trust none of them: {either}"

    def _disagreements(self, shown: Assessment) -> Iterator[str]:
        """Yield where further machines measured something else of a candidate."""
        here = {each.indicator_id: each for each in shown.compared}
        candidate = StackId(shown.name)
        for machine, found in self.known.on_other_machines(
            self.case, candidate, margin=self.margin
        ):
            differing = [
                f"{self.known.calls[each.indicator_id].indicator.name} {each.ratio:.2f} "
                f"({each.low:.3f} to {each.high:.3f})"
                for each in found.compared
                if each.basis is not None
                and dict(each.basis.machines).get(machine.id, 0.0) >= _MOST_OF_IT
                and (other := here.get(each.indicator_id))
                and (each.low > other.high or each.high < other.low)
            ]
            if differing:
                yield f"another machine ({self._cpu(machine)}) says otherwise: {listed(differing)}"

    def _cpu(self, machine: Machine) -> str:
        """Return the name of a CPU, with family and model where machines share a vague name."""
        name = dict(machine.identity).get("cpu_name", "unknown")
        same = [m for m in self.known.machines.values() if dict(m.identity).get("cpu_name") == name]
        if len({cpu_model(each) for each in same}) < 2:
            return name
        return "{name}, family {1}, model {2}".format(*cpu_model(machine), name=name)

    def _other_pure_packages(self) -> Iterator[str]:
        """Yield a caveat on packages without compiled code that were measured in other versions."""
        locked = self._locked
        for indicator, standing in self.known.standing(self.case).items():
            call = self.known.calls[indicator]
            if call.indicator.component != PROGRAM:
                continue
            stack = self.known.stacks[standing[0]]
            decisive = self.known.nodes.decisive(indicator, stack.id)
            other = [
                f"{name} {version} (the lock has {locked.get(name, 'none')})"
                for name, version in sorted(stack.lock.versions.items())
                if name not in decisive and locked.get(name) != version
            ]
            if other:
                yield f"{call.label} was measured with {listed(other)}"


def _highest(found: Assessment) -> float:
    """Return how fast a candidate may be at most on any indicator."""
    return max(each.highest for each in found.compared)


def _mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean; 0 where one of them is 0."""
    if min(ratios) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _unmeasured(lockfile: LockFile, stack: Stack, removed: Collection[str]) -> Iterator[str]:
    """Yield a caveat on packages of the lock that were not measured with the recommended ones."""
    own = {canonicalize_name(each.name) for each in lockfile.packages if each.group == "default"}
    missing = sorted(own - stack.lock.versions.keys() - {*removed})
    if missing:
        yield (
            f"not part of what was measured: {listed(missing)}; "
            "the versions locked of them admit the recommended ones"
        )
    if lockfile.skipped:
        yield f"no index tells what these require: {listed(lockfile.skipped)}"


def _cpu(machine: Machine) -> str:
    return dict(machine.identity).get("cpu_name", "unknown")
