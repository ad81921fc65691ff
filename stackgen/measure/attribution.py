"""Which of the packages that changed made a stack slower, or made it fail: a search over hybrids.

Between a good and a bad stack some packages changed. A hybrid takes the new version of some of
them; only some hybrids are valid. Hypotheses name the cause: one package, two that act only
together, two whose effects add up (in any shares, also of opposite signs), three with a third each,
many small ones, or none at all; what data say of each comes from `Evidence`
(``stackgen.measure.likelihoods``). What is measured next is the hybrid that is expected to say most
about the hypotheses for its cost (Lindley 1956, On a measure of the information provided by an
experiment; MacKay 1992, Information-based objective functions for active data selection).

Everything here is pure: a `HybridSpace` proposes, the caller measures, `CulpritSearch` answers.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, product
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Hybrid: TypeAlias = frozenset[str]
"""The changed packages that are at their new version; all others are at the old one."""
StackName = TypeVar("StackName", bound=str)
Pair: TypeAlias = tuple[Hybrid, Hybrid]
"""A hybrid, and the reference beside it."""

POSTERIOR = 0.95
"""An answer is given from this posterior on."""
ALONE = 0.97
"""The same for a package that is said to act alone, where others could act with it."""
MISFIT_LEVEL = 0.01
"""An answer that leaves data this unlikely is withdrawn: none of the hypotheses holds."""
_PRIOR = {
    "none": 0.05, "many": 0.05, "single": 0.50, "together": 0.15, "both": 0.25, "three": 0.05,
}  # fmt: skip
"""Of each kind, relative to the others, spread evenly over its hypotheses."""
MOST_FURTHER, MOST_FURTHER_KNOWN = 150, 25
"""Where more blocks than this would be needed at the present rate of information, the search ends;
the second where a package is known to be involved, and only its partners are open."""
_PROPOSALS = 10
_SUSPECTS = 8
_MOST_OF_ALL = 12
"""Of more packages than this, only suspects are combined by three: there are too many triples."""
_LIKELY = 0.1
"""Of the largest probability to take part: what is as likely as this is divided at random."""
_LABELS = 60
_BATCHES = (1, 3)
_USUAL_BUILDS = 8
"""Each build after so many counts more: the next one twice, the one after it three times as much.

That ranks what is measured next. Whether it is worth measuring is judged by what it really costs.
"""
_TINY = 1e-12
_FAR, _LEVEL_RUNS, _NORMAL_MEDIAN = 6.0, 3, 0.6745
"""How many robust standard deviations off a block is an outlier; from how many runs on the usual
time of a stack is known; and the median of |x| for a standard normal x."""


class CauseKind(str, Enum):
    """How the packages of a hypothesis act."""

    NONE = "none"
    MANY = "many"
    SINGLE = "single"
    TOGETHER = "together"
    BOTH = "both"
    THREE = "three"


@dataclass(frozen=True, slots=True)
class Cause:
    """A hypothesis: these packages act in this way.

    kind: `TOGETHER` means that the new versions of both are needed. `BOTH` means that each has an
        effect of its own (of a failure: that each suffices), `THREE` that each of three has a third
        of it. `MANY` stands for effects of more packages, `NONE` for no effect; both name none.
    packages: of those that always change together, the first one (`CulpritSearch.together`).
    """

    kind: CauseKind
    packages: tuple[str, ...] = ()


class HybridSpace(Protocol):
    """Which hybrids are valid."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages that changed."""

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return a valid hybrid with all of ``include`` and none of ``exclude``, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was observed of a hybrid beside another stack in the same blocks.

    reference: the hybrid beside it; by default the good stack. Each hybrid is built once.
    log_contrasts: per block, log of its time over that of the reference: above 0 it was slower;
        at least one, where times are judged.
    failures, successes: of its runs, where the question is what fails.
    """

    hybrid: Hybrid
    reference: Hybrid = frozenset()
    log_contrasts: tuple[float, ...] = ()
    failures: int = 0
    successes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CulpritAnswer:
    """What is known of the causes.

    causes: the hypotheses that the answer names, one, or several that no valid hybrid
        distinguishes; empty where that is undecided, or where none of the hypotheses fits.
    posterior: of them together. ranking: the likeliest hypotheses, with their posteriors.
    involved: of each package the probability that it takes part in the cause, the likeliest first.
    misfit: probability of data as unlikely as these, if the answer holds; 1 where nothing is left
        to judge it by.
    effect: log of the time of the bad stack over the good one by the likeliest hypothesis, with
        its standard deviation; 0 and 0 for failures.
    parts: the same of each package of the likeliest hypothesis, where their effects add up.
    entropy_bits: of the hypotheses, now.
    """

    causes: tuple[Cause, ...]
    posterior: float
    ranking: tuple[tuple[Cause, float], ...]
    involved: tuple[tuple[str, float], ...]
    misfit: float
    effect: tuple[float, float]
    parts: tuple[tuple[str, float, float], ...]
    entropy_bits: float

    @property
    def fits(self) -> bool:
        """Return whether the likeliest hypothesis agrees with what was measured."""
        return self.misfit >= MISFIT_LEVEL

    @property
    def responsible(self) -> tuple[str, ...]:
        """Return the packages that certainly take part in the cause, alone or with others."""
        if not self.fits:
            return ()
        return tuple(name for name, probability in self.involved if probability >= POSTERIOR)

    @property
    def none_fits(self) -> bool:
        """Return whether the effect is real and none of the hypotheses explains it."""
        cause, probability = self.ranking[0]
        return not self.fits or (cause.kind is CauseKind.MANY and probability >= POSTERIOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridProposal:
    """A hybrid to measure next, and the stack to measure beside it.

    bits: what one block of both is expected to say about the hypotheses.
    bits_per_cost: of the best number of blocks in a row, for their cost in blocks.
    """

    hybrid: Hybrid
    reference: Hybrid
    bits: float
    bits_per_cost: float


class Evidence(Protocol):
    """How observations bear on hypotheses; implemented by `Timings` and `Failures`."""

    @property
    def confirming(self) -> int:
        """Return how many observations of the bad stack it takes before a cause is named."""

    @property
    def comparing(self) -> bool:
        """Return whether effects have a size: hybrids can be compared, and shares distinguished."""

    def fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> "Fit":
        """Return what trials say of each hypothesis."""

    def levels(self, cause: Cause, hybrid: Hybrid) -> tuple[bool, ...]:
        """Return which of the effects of a cause a hybrid has, as far as outcomes show it."""


class Fit(Protocol):
    """What trials say of each hypothesis."""

    @property
    def log_likelihoods(self) -> Array:
        """Return the log marginal likelihood of each hypothesis, shape (hypotheses,)."""

    def information(
        self, pairs: Sequence[Pair], weights: Mapping[int, float], counts: Sequence[int]
    ) -> Sequence[Array]:
        """Return what so many blocks of a pair, taken together, say of hypotheses, in bits.

        Args:
            weights: of the hypotheses in question, by their places; their sum is 1.

        Returns:
            For each count, shape (pairs,). Pairs that clearly say less than others have 0.
        """

    def misfit(self, place: int) -> float:
        """Return the probability of data at least as unlikely under a hypothesis, 1 if unknown."""

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:
        """Return the log effect of the bad stack under a hypothesis with its standard deviation.

        Where the effects of two packages add up, those of both follow.
        """


class CulpritSearch:
    """The search for a cause, between calls that measure.

    together: by their first, the packages that no valid hybrid separates.
    causes: the hypotheses in question; of many packages, only the likeliest by three.
    most_bits: the largest expected information of one block of any hybrid that was considered.

    Args:
        build_cost: of a hybrid that must be built, in blocks, until there are `_USUAL_BUILDS`.
        kinds: of the hypotheses; `SINGLE` alone where packages stand for successive releases.
    """

    def __init__(
        self,
        space: HybridSpace,
        evidence: Evidence,
        *,
        build_cost: float,
        seed: int,
        kinds: Iterable[CauseKind] = tuple(CauseKind),
    ) -> None:
        """Set up the hypotheses."""
        self._space, self._evidence, self._build_cost = space, evidence, build_cost
        self._dice = random.Random(seed)  # noqa: S311 (no secret)
        self._known: dict[tuple[Hybrid, Hybrid], Hybrid | None] = {}
        kinds = frozenset(kinds)
        self._has_partners = CauseKind.BOTH in kinds
        self.together = self._always_together()
        if not evidence.comparing:
            kinds -= {CauseKind.THREE}
        self._sizes = _sizes(len(self.together), kinds)
        self._fixed = _hypotheses(tuple(self.together), self._sizes)
        self.causes: Sequence[Cause] = self._fixed
        self.most_bits = 0.0
        self._fitted: tuple[Sequence[Trial], Fit, Array] | None = None

    @property
    def hypotheses(self) -> int:
        """Return how many hypotheses there are."""
        return sum(self._sizes.values())

    @property
    def prior_entropy_bits(self) -> float:
        """Return the entropy before anything is measured."""
        whole = sum(_PRIOR[kind.value] for kind in self._sizes)
        shares = {kind: _PRIOR[kind.value] / whole for kind in self._sizes}
        return sum(shares[kind] * math.log2(n / shares[kind]) for kind, n in self._sizes.items())

    def answer(self, trials: Sequence[Trial]) -> CulpritAnswer:
        """Return what is known after these observations."""
        fit, posterior = self._posterior(trials)
        order = np.argsort(-posterior)
        group = self._group(posterior)
        mass = float(posterior[group].sum())
        best = int(order[0])
        misfit = fit.misfit(best)
        names = self.causes[best].kind is not CauseKind.MANY
        decided = mass >= self._level(best) and misfit >= MISFIT_LEVEL and names
        decided = decided and not self._lacking(trials)
        blame = self._blame(posterior)
        total, *parts = fit.effects(best)
        packages = self.causes[best].packages
        return CulpritAnswer(
            causes=tuple(self.causes[each] for each in group) if decided else (),
            posterior=mass,
            ranking=tuple((self.causes[int(i)], float(posterior[i])) for i in order[:5]),
            involved=tuple(sorted(blame.items(), key=lambda item: -item[1])),
            misfit=misfit,
            effect=total,
            parts=tuple((name, *part) for name, part in zip(packages, parts, strict=False)),
            entropy_bits=_entropy(posterior),
        )

    def next_run(self, trials: Sequence[Trial], answer: CulpritAnswer) -> HybridProposal | None:
        """Return what to measure next; None where that is decided, or not worth its cost."""
        if answer.causes:
            return None
        if not self.most_bits:
            self.most_bits = max((each.bits for each in self.proposals(())), default=0.0)
        found = self.proposals(trials)
        self.most_bits = max(self.most_bits, *(each.bits for each in found))
        lacking = self._lacking(trials)
        if answer.posterior >= POSTERIOR and lacking:
            bad = frozenset(self._space.packages)
            return next(each for each in found if bad in (each.hybrid, each.reference))
        best = found[0]
        most = MOST_FURTHER_KNOWN if answer.responsible else MOST_FURTHER
        most_bits = most * max(each.bits_per_cost for each in found)
        return best if most_bits >= self._missing_bits(trials, answer) else None

    def _missing_bits(self, trials: Sequence[Trial], answer: CulpritAnswer) -> float:
        """Return how far the entropy is above that of an answer, the rest being as likely as now.

        What is left to know once an answer is given takes no blocks.
        """
        _, posterior = self._posterior(trials)
        level = POSTERIOR
        if answer.posterior >= level:
            level = self._level(int(posterior.argmax()))
        if answer.posterior >= level:
            return 0.0
        likely = np.zeros(len(posterior), dtype=bool)
        likely[self._group(posterior)] = True
        decided = np.where(likely, level / answer.posterior, (1 - level) / (1 - answer.posterior))
        return max(0.0, answer.entropy_bits - _entropy(posterior * decided))

    def _level(self, place: int) -> float:
        """Return the posterior from which on a hypothesis is named.

        That a package acts alone excludes partners, of which small ones are hard to see.
        """
        return (
            ALONE
            if self.causes[place].kind is CauseKind.SINGLE and self._has_partners
            else POSTERIOR
        )

    def _group(self, posterior: Array) -> list[int]:
        """Return the likeliest hypothesis with those that no valid hybrid tells from it."""
        first, *others = (int(each) for each in np.argsort(-posterior)[:_LABELS])
        # A hypothesis with a tenth of the allowed error cannot make the difference by itself.
        rest = [each for each in others if posterior[each] > (1 - POSTERIOR) / 10]
        return [first, *(each for each in rest if not self._separable(first, each))]

    def _lacking(self, trials: Sequence[Trial]) -> int:
        """Return how many observations of the bad stack are to come before a cause is named."""
        everything = frozenset(self._space.packages)
        seen = sum(
            len(each.log_contrasts) + each.failures + each.successes
            for each in trials
            if everything in (each.hybrid, each.reference)
        )
        return max(0, self._evidence.confirming - seen)

    def bound(self, answer: CulpritAnswer) -> float:
        """Return how many blocks what is known now takes at least, by those considered so far."""
        gained = self.prior_entropy_bits - answer.entropy_bits
        return max(0.0, gained) / self.most_bits if self.most_bits else 0.0

    def proposals(self, trials: Sequence[Trial]) -> tuple[HybridProposal, ...]:
        """Return what could be measured next, best information per cost first.

        Builds count more the more there are (`_USUAL_BUILDS`).
        """
        fit, posterior = self._posterior(trials)
        order = np.argsort(-posterior)[:_LABELS]
        weights = posterior[order] / posterior[order].sum()
        shares = {int(each): float(weight) for each, weight in zip(order, weights, strict=True)}
        built = {frozenset[str](), *stacks_of(trials)}
        by_builds: dict[int, list[Pair]] = {}
        for pair in self._pairs(posterior, trials):
            by_builds.setdefault(len({*pair} - built), []).append(pair)
        found: list[tuple[float, HybridProposal]] = []
        for builds, pairs in by_builds.items():
            bits = fit.information(pairs, shares, _BATCHES)
            numbers = range(len(built), len(built) + builds)  # the good stack is not counted
            late = sum(max(1, each - _USUAL_BUILDS + 1) for each in numbers)
            ranks, rates = (
                np.max(
                    [
                        each / (self._build_cost * count + blocks)
                        for each, blocks in zip(bits, _BATCHES, strict=True)
                    ],
                    axis=0,
                )
                for count in (late, builds)
            )
            found += [
                (
                    -rank,
                    HybridProposal(
                        hybrid=hybrid, reference=reference, bits=float(one), bits_per_cost=rate
                    ),
                )
                for (hybrid, reference), one, rate, rank in zip(
                    pairs, bits[0], rates.tolist(), ranks.tolist(), strict=True
                )
            ]
        found.sort(key=lambda e: (e[0], sorted(e[1].hybrid), sorted(e[1].reference)))
        return tuple(proposal for _, proposal in found)

    def _pairs(self, posterior: Array, trials: Sequence[Trial]) -> Iterable[Pair]:
        """Return what could be measured in one block: hybrids, each with what is beside it.

        That is the good stack, or what was built already. What both have in common cancels, so
        that a small difference takes fewer blocks than two comparisons with the good stack.
        """
        good, everything = frozenset[str](), frozenset(self._space.packages)
        built = [each for each in stacks_of(trials) if each]
        candidates = list(dict.fromkeys([*filter(None, self._candidates(posterior)), *built]))
        found = dict.fromkeys((each, good) for each in candidates)
        if self._evidence.comparing:
            beside = dict.fromkeys([*built, everything])
            for pair in product(candidates, beside):
                if pair[0] != pair[1] and pair[::-1] not in found:
                    found[pair] = None
        return found

    def _posterior(self, trials: Sequence[Trial]) -> tuple[Fit, Array]:
        if self._fitted is None or self._fitted[0] != trials:
            found = self._fit(self._fixed, trials)
            if CauseKind.THREE in self._sizes and len(self.together) > _MOST_OF_ALL:
                blame = self._blame(found[1])
                suspects = sorted(blame, key=lambda each: -blame[each])[:_SUSPECTS]
                triples = (
                    Cause(CauseKind.THREE, each) for each in combinations(sorted(suspects), 3)
                )
                found = self._fit([*self._fixed, *triples], trials)
            self._fitted = list(trials), *found
        return self._fitted[1:]

    def _fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> tuple[Fit, Array]:
        """Return what trials say of hypotheses, and the posterior of these."""
        self.causes = causes
        fit = self._evidence.fit(causes, trials)
        prior = [_PRIOR[each.kind.value] / self._sizes[each.kind] for each in causes]
        weighed = np.log(prior) + fit.log_likelihoods
        posterior: Array = np.exp(weighed - weighed.max())
        return fit, posterior / posterior.sum()

    def _blame(self, posterior: Array) -> dict[str, float]:
        blame = dict.fromkeys(self.together, 0.0)
        for cause, probability in zip(self.causes, posterior, strict=True):
            for each in cause.packages:
                blame[each] += float(probability)
        return blame

    def _candidates(self, posterior: Array) -> Iterator[Hybrid]:
        """Yield valid hybrids: the bad stack, each suspect alone or absent, and random halves."""
        blame = self._blame(posterior)
        ordered = sorted(blame, key=lambda each: -blame[each])
        suspects = ordered[:_SUSPECTS]
        likely = [each for each in ordered if blame[each] >= _LIKELY * blame[ordered[0]]]
        everything = frozenset(self._space.packages)
        yield everything
        wanted: list[tuple[Hybrid, Hybrid]] = []
        for each in suspects[:4]:
            alone, others = frozenset([each]), frozenset(suspects) - {each}
            wanted += [(alone, others), (everything - {each}, alone), (others, alone)]
        for _ in range(_PROPOSALS):
            wanted.append(self._split(likely if len(likely) > _SUSPECTS else suspects))
        for include, exclude in wanted:
            found = self._find(include, exclude)
            if found is not None:
                yield found

    def _split(self, suspects: Sequence[str]) -> tuple[Hybrid, Hybrid]:
        """Return a random division of suspects that a valid hybrid satisfies, if there is one."""
        include, exclude = set[str](), set[str]()
        for each in self._dice.sample(suspects, len(suspects)):
            wanted, other = include, exclude
            if self._dice.random() < 0.5:
                wanted, other = exclude, include
            wanted.add(each)
            if self._find(frozenset(include), frozenset(exclude)) is None:
                wanted.remove(each)
                other.add(each)
        return frozenset(include), frozenset(exclude)

    def _find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        key = include, exclude
        if key not in self._known:
            self._known[key] = self._space.find(include, exclude)
        return self._known[key]

    def _always_together(self) -> dict[str, tuple[str, ...]]:
        """Return the packages by the first of those that no valid hybrid separates from it."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self._space.packages:
            new = frozenset([each])
            for first in found:
                other = frozenset([first])
                if self._find(new, other) is None and self._find(other, new) is None:
                    found[first] += (each,)
                    break
            else:
                found[each] = (each,)
        return found

    def _separable(self, one: int, other: int) -> bool:
        """Return whether a valid hybrid exists for which two hypotheses predict other things."""
        a, b = self.causes[one], self.causes[other]
        if CauseKind.MANY in (a.kind, b.kind) or CauseKind.NONE in (a.kind, b.kind):
            return True
        involved = sorted({*a.packages, *b.packages})
        for pattern in product((False, True), repeat=len(involved)):
            include = frozenset(name for name, new in zip(involved, pattern, strict=True) if new)
            if self._evidence.levels(a, include) == self._evidence.levels(b, include):
                continue
            if self._find(include, frozenset(involved) - include) is not None:
                return True
        return False


def _sizes(packages: int, kinds: frozenset[CauseKind]) -> dict[CauseKind, int]:
    """Return how many hypotheses there are of each kind, of those kinds that have any."""
    found = {
        CauseKind.NONE: 1,
        CauseKind.MANY: int(packages > 2),
        CauseKind.SINGLE: packages,
        CauseKind.TOGETHER: math.comb(packages, 2),
        CauseKind.BOTH: math.comb(packages, 2),
        CauseKind.THREE: math.comb(packages, 3),
    }
    return {kind: count for kind, count in found.items() if kind in kinds and count}


def _hypotheses(packages: Sequence[str], kinds: Iterable[CauseKind]) -> list[Cause]:
    """Return the hypotheses of these kinds; triples only where there are few."""
    sizes = {
        CauseKind.NONE: 0,
        CauseKind.MANY: 0,
        CauseKind.SINGLE: 1,
        CauseKind.TOGETHER: 2,
        CauseKind.BOTH: 2,
    }
    if len(packages) <= _MOST_OF_ALL:
        sizes[CauseKind.THREE] = 3
    known = [kind for kind in kinds if kind in sizes]
    return [Cause(kind, each) for kind in known for each in combinations(packages, sizes[kind])]


def stacks_of(trials: Iterable[Trial]) -> list[Hybrid]:
    """Return what was run, each stack once."""
    return list(dict.fromkeys(x for each in trials for x in (each.hybrid, each.reference)))


def _entropy(probabilities: Array) -> float:
    positive = probabilities[probabilities > _TINY]
    return float(-(positive * np.log2(positive)).sum())


def outlying(blocks: Mapping[int, Mapping[StackName, float]]) -> frozenset[int]:
    """Return the blocks in which two stacks differ otherwise than they do by their other runs.

    Normal noise has none as far off; one such block (a process whose core was shared, say) misleads
    a search for a hundred others. What all runs of a block share, a slow moment of the machine,
    cancels. Of a stack with fewer than three runs, the usual time is not known.

    Args:
        blocks: log(seconds) of each stack that was run in a block, by the block's number.
    """
    runs: dict[StackName, list[float]] = {}
    for times in blocks.values():
        for stack, log_s in times.items():
            runs.setdefault(stack, []).append(log_s)
    usual = {stack: np.median(x) for stack, x in runs.items() if len(x) >= _LEVEL_RUNS}
    off = {
        number: max(beside) - min(beside)
        for number, times in blocks.items()
        if len(beside := [float(x - usual.get(stack, x)) for stack, x in times.items()]) > 1
    }
    known = [each for each in off.values() if each]
    if not known:
        return frozenset()
    scale = float(np.median(known)) / _NORMAL_MEDIAN
    return frozenset(number for number, each in off.items() if each > _FAR * scale)
