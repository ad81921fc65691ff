"""Which of the packages that changed made a stack slower, or made it fail: a search over hybrids.

Between a good and a bad stack some packages changed. A hybrid takes the new version of some of
them; only some hybrids are valid. Hypotheses name the cause: one package, two that act only
together, two whose effects add up (in any shares, also of opposite signs), many small ones, or none
at all. Each has a marginal likelihood in closed form (Bayesian linear regression), with the size of
the effect and its shares integrated over, and a grid over the noise and over the offset that each
build has. What is measured next is the hybrid that is expected to say most about the hypotheses for
its cost (Lindley 1956, On a measure of the information provided by an experiment; MacKay 1992,
Information-based objective functions for active data selection).

Everything here is pure: a `HybridSpace` proposes, the caller measures, `Attribution` answers.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from itertools import combinations, product
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, chdtrc, log_ndtr

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
Hybrid: TypeAlias = frozenset[str]
"""The changed packages that are at their new version; all others are at the old one."""
Pair: TypeAlias = tuple[Hybrid, Hybrid]
"""A hybrid, and the reference beside it."""

POSTERIOR = 0.95
"""An answer is given from this posterior on."""
ALONE = 0.97
"""The same for a package that is said to act alone, where others could act with it."""
MISFIT_LEVEL = 0.01
"""An answer that leaves data this unlikely is withdrawn: none of the hypotheses holds."""
_PRIOR = {"none": 0.05, "many": 0.05, "single": 0.50, "together": 0.15, "both": 0.25}
"""Of each kind, spread evenly over its hypotheses."""
_SHARES = ((0.5, 0.15), (1.6, 0.25), (-0.6, 0.25))
"""What the first of two packages that add up has of the whole effect: normal with this mean and
standard deviation. Shares near 0 and 1 are left to `SINGLE`."""
_SMALLEST_PART = 0.25
"""An effect below this part of the one that was confirmed counts as none."""
MOST_FURTHER, MOST_FURTHER_KNOWN = 150, 25
"""Where more blocks than this would be needed at the present rate of information, the search ends;
the second where a package is known to be involved, and only its partners are open."""
_PROPOSALS = 10
_SUSPECTS = 8
_LIKELY = 0.1
"""Of the largest probability to take part: what is as likely as this is divided at random."""
_LABELS = 60
_GRID = 33
_EXACT = 16
"""How many pairs are compared by information itself."""
_BATCHES = (1, 3)
_TINY = 1e-12


class Kind(str, Enum):
    """How the packages of a hypothesis act."""

    NONE = "none"
    MANY = "many"
    SINGLE = "single"
    TOGETHER = "together"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Cause:
    """A hypothesis: these packages act in this way.

    kind: `TOGETHER` means that the new versions of both are needed. `BOTH` means that each has an
        effect of its own (of a failure: that each suffices). `MANY` stands for effects of more
        packages than two, `NONE` for no effect; both name no package.
    packages: of those that always change together, the first one (`Attribution.together`).
    """

    kind: Kind
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
class Answer:
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
        return not self.fits or (cause.kind is Kind.MANY and probability >= POSTERIOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
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
        """Return whether two hybrids can be compared with each other."""

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
            pairs: any hybrids, each with the one beside it.
            weights: of the hypotheses in question, by their places; their sum is 1.
            counts: numbers of blocks.

        Returns:
            For each count, shape (pairs,). Pairs that clearly say less than others have 0.
        """

    def misfit(self, place: int) -> float:
        """Return the probability of data at least as unlikely under a hypothesis, 1 if unknown."""

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:
        """Return the log effect of the bad stack under a hypothesis with its standard deviation.

        Where the effects of two packages add up, those of both follow.
        """


class Attribution:
    """The search for a cause, between calls that measure.

    together: by their first, the packages that no valid hybrid separates.
    causes: the hypotheses.
    most_bits: the largest expected information of one block of any hybrid that was considered.

    Args:
        space: which hybrids are valid.
        evidence: how observations are judged.
        build_cost: of a hybrid that must be built, in blocks.
        seed: of the proposals.
        kinds: of the hypotheses; `SINGLE` alone where packages stand for successive releases.
    """

    def __init__(
        self,
        space: HybridSpace,
        evidence: Evidence,
        *,
        build_cost: float,
        seed: int,
        kinds: Iterable[Kind] = tuple(Kind),
    ) -> None:
        """Set up the hypotheses."""
        self._space, self._evidence, self._build_cost = space, evidence, build_cost
        self._dice = random.Random(seed)  # noqa: S311 (no secret)
        self._known: dict[tuple[Hybrid, Hybrid], Hybrid | None] = {}
        kinds = frozenset(kinds)
        self._has_partners = Kind.BOTH in kinds
        self.together = self._always_together()
        self.causes, self._log_prior = _hypotheses(tuple(self.together), kinds)
        self.most_bits = 0.0
        self._fitted: tuple[Sequence[Trial], Fit, Array] | None = None

    @property
    def prior_entropy_bits(self) -> float:
        """Return the entropy before anything is measured."""
        return _entropy(np.exp(self._log_prior))

    def answer(self, trials: Sequence[Trial]) -> Answer:
        """Return what is known after these observations."""
        fit, posterior = self._posterior(trials)
        order = np.argsort(-posterior)
        group = self._group(posterior)
        mass = float(posterior[group].sum())
        best = int(order[0])
        misfit = fit.misfit(best)
        names = self.causes[best].kind is not Kind.MANY
        decided = mass >= self._level(best) and misfit >= MISFIT_LEVEL and names
        decided = decided and not self._lacking(trials)
        blame = self._blame(posterior)
        total, *parts = fit.effects(best)
        packages = self.causes[best].packages
        return Answer(
            causes=tuple(self.causes[each] for each in group) if decided else (),
            posterior=mass,
            ranking=tuple((self.causes[int(i)], float(posterior[i])) for i in order[:5]),
            involved=tuple(sorted(blame.items(), key=lambda item: -item[1])),
            misfit=misfit,
            effect=total,
            parts=tuple((name, *part) for name, part in zip(packages, parts, strict=False)),
            entropy_bits=_entropy(posterior),
        )

    def next_run(self, trials: Sequence[Trial], answer: Answer) -> Proposal | None:
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
        return best if best.bits_per_cost * most >= self._missing_bits(trials, answer) else None

    def _missing_bits(self, trials: Sequence[Trial], answer: Answer) -> float:
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
        return ALONE if self.causes[place].kind is Kind.SINGLE and self._has_partners else POSTERIOR

    def _group(self, posterior: Array) -> list[int]:
        """Return the likeliest hypothesis with those that no valid hybrid tells from it."""
        order = np.argsort(-posterior)[:_LABELS]
        return self._indistinguishable([int(each) for each in order], posterior)

    def _lacking(self, trials: Sequence[Trial]) -> int:
        """Return how many observations of the bad stack are to come before a cause is named."""
        everything = frozenset(self._space.packages)
        seen = sum(
            len(each.log_contrasts) + each.failures + each.successes
            for each in trials
            if everything in (each.hybrid, each.reference)
        )
        return max(0, self._evidence.confirming - seen)

    def bound(self, answer: Answer) -> float:
        """Return how many blocks what is known now takes at least, by those considered so far."""
        gained = self.prior_entropy_bits - answer.entropy_bits
        return max(0.0, gained) / self.most_bits if self.most_bits else 0.0

    def proposals(self, trials: Sequence[Trial]) -> tuple[Proposal, ...]:
        """Return what could be measured next, best information per cost first."""
        fit, posterior = self._posterior(trials)
        order = np.argsort(-posterior)[:_LABELS]
        weights = posterior[order] / posterior[order].sum()
        shares = {int(each): float(weight) for each, weight in zip(order, weights, strict=True)}
        built = {frozenset[str](), *stacks_of(trials)}
        by_builds: dict[int, list[Pair]] = {}
        for pair in self._pairs(posterior, trials):
            by_builds.setdefault(len({*pair} - built), []).append(pair)
        found = []
        for builds, pairs in by_builds.items():
            bits = fit.information(pairs, shares, _BATCHES)
            costs = (builds * self._build_cost + count for count in _BATCHES)
            rates = np.max([each / cost for each, cost in zip(bits, costs, strict=True)], axis=0)
            found += [
                Proposal(hybrid=hybrid, reference=reference, bits=float(one), bits_per_cost=rate)
                for (hybrid, reference), one, rate in zip(
                    pairs, bits[0], rates.tolist(), strict=True
                )
            ]
        found.sort(key=lambda e: (-e.bits_per_cost, sorted(e.hybrid), sorted(e.reference)))
        return tuple(found)

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
            fit = self._evidence.fit(self.causes, trials)
            weighed = self._log_prior + fit.log_likelihoods
            posterior: Array = np.exp(weighed - weighed.max())
            self._fitted = list(trials), fit, posterior / posterior.sum()
        return self._fitted[1:]

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

    def _indistinguishable(self, order: Sequence[int], posterior: Array) -> list[int]:
        """Return the likeliest hypothesis, and those that no valid hybrid distinguishes from it."""
        first = order[0]
        # A hypothesis with a tenth of the allowed error cannot make the difference by itself.
        rest = [each for each in order[1:] if posterior[each] > (1 - POSTERIOR) / 10]
        return [first, *(each for each in rest if not self._separable(first, each))]

    def _separable(self, one: int, other: int) -> bool:
        """Return whether a valid hybrid exists for which two hypotheses predict other things."""
        a, b = self.causes[one], self.causes[other]
        if Kind.MANY in (a.kind, b.kind) or Kind.NONE in (a.kind, b.kind):
            return True
        involved = sorted({*a.packages, *b.packages})
        for pattern in product((False, True), repeat=len(involved)):
            include = frozenset(name for name, new in zip(involved, pattern, strict=True) if new)
            if self._evidence.levels(a, include) == self._evidence.levels(b, include):
                continue
            if self._find(include, frozenset(involved) - include) is not None:
                return True
        return False


def _hypotheses(packages: Sequence[str], kinds: frozenset[Kind]) -> tuple[list[Cause], Array]:
    """Return all hypotheses and their log priors."""
    pairs = list(combinations(packages, 2))
    groups = {
        Kind.NONE: [Cause(Kind.NONE)],
        Kind.MANY: [Cause(Kind.MANY)] * (len(packages) > 2),
        Kind.SINGLE: [Cause(Kind.SINGLE, (each,)) for each in packages],
        Kind.TOGETHER: [Cause(Kind.TOGETHER, each) for each in pairs],
        Kind.BOTH: [Cause(Kind.BOTH, each) for each in pairs],
    }
    causes, prior = [], []
    for kind, group in groups.items():
        if kind in kinds:
            causes += group
            prior += [_PRIOR[kind.value] / len(group)] * len(group) if group else []
    log_prior: Array = np.log(np.array(prior) / sum(prior))
    return causes, log_prior


def stacks_of(trials: Iterable[Trial]) -> list[Hybrid]:
    """Return what was run, each stack once."""
    return list(dict.fromkeys(x for each in trials for x in (each.hybrid, each.reference)))


def _entropy(probabilities: Array) -> float:
    positive = probabilities[probabilities > _TINY]
    return float(-(positive * np.log2(positive)).sum())


def _information(weights: Array, outcomes: Array) -> Array:
    """Return the mutual information of hypotheses and outcomes in bits, shape (pairs,)."""
    logs = np.log2(np.maximum(outcomes, _TINY))
    each = weights @ (outcomes * logs).sum(axis=2).T
    mixed = np.einsum("h,pho->po", weights, outcomes)
    whole = (mixed * np.log2(np.maximum(mixed, _TINY))).sum(axis=1)
    found: Array = np.maximum(0.0, each - whole)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Times per block: normal around the effect of a hypothesis and an offset of the build.

    effect, effect_sd: log of the bad stack's time over the good one's, by the campaign that
        confirmed it and by no other (an estimate that was selected for being large is too large),
        and the standard deviation of what other builds and days may show instead.
    noise_sd: of the log contrast of one block, by the same campaign; freedom: its degrees of
        freedom.
    build_sd: scale of the offset that each build of a stack has.
    confirming: blocks of the bad stack without which no cause is named.
    """

    effect: float
    effect_sd: float
    noise_sd: float
    freedom: int
    build_sd: float
    confirming: int = 3
    comparing: bool = True

    def fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> "Fit":
        """Return what trials say of each hypothesis."""
        return _TimingsFit(self, causes, trials)

    def levels(self, cause: Cause, hybrid: Hybrid) -> tuple[bool, ...]:
        """Return which of the effects of a cause a hybrid has."""
        present = tuple(each in hybrid for each in cause.packages)
        if cause.kind is Kind.TOGETHER:
            return (all(present),)
        # Two effects that come together are one.
        return present if len(set(present)) > 1 else present[:1]


class _TimingsFit:
    """Marginal likelihoods of hypotheses about times, in closed form for each pair of scales.

    A hypothesis is one column, or one for each component of `_SHARES`. The effect of a hybrid is
    ``whole * part + difference * contrast``: the part of the whole effect that it has with equal
    shares, and half the difference of the two packages' effects; both coefficients are normal.
    A contrast is the difference of two hybrids. The rest is normal, too: an offset of each build,
    the good stack's included, and noise of blocks.
    """

    def __init__(self, prior: Timings, causes: Sequence[Cause], trials: Sequence[Trial]) -> None:
        self._prior, self._causes = prior, causes
        self._sizes = np.array([len(each.log_contrasts) for each in trials], dtype=float)
        self._y = np.array([np.mean(each.log_contrasts) for each in trials], dtype=float)
        self._left = sum(float(np.var(b.log_contrasts)) * len(b.log_contrasts) for b in trials)
        self._packages = sorted({name for cause in causes for name in cause.packages})
        self._set_columns()
        self._stacks = stacks_of(trials)
        self._signs = self._compared([(each.hybrid, each.reference) for each in trials])
        self._of_stacks = self._parts(self._stacks)
        self._design = self._signs @ self._of_stacks[0], self._signs @ self._of_stacks[1]
        self._shown = self._signs @ self._present(self._stacks)
        self._many_prior = self._many_effects()
        scales, weights = self._scales()
        weighed = weights[:, None] + self._solve(scales).log_likelihoods
        top = float(weighed.max())
        per_column = np.exp(weighed - top).sum(axis=0)
        self._column_weights = per_column / self._counts[self._cause_of]
        per_cause = np.bincount(self._cause_of, self._column_weights, len(causes))
        self.log_likelihoods: Array = top + np.log(per_cause + _TINY**2)
        # Predictions take the scales that data and prior make likely on the whole.
        share = np.exp(np.logaddexp.reduce(weighed, axis=1) - top)
        likely = (share / share.sum()) @ scales
        self._noise, self._build = likely.tolist()
        self._solution = self._solve(likely[None]).first

    def _set_columns(self) -> None:
        """Set the columns: their hypothesis, packages, and the prior of both coefficients."""
        index = {name: place for place, name in enumerate(self._packages)}
        columns = [
            (place, share, each)
            for place, each in enumerate(self._causes)
            for share in (_SHARES if each.kind is Kind.BOTH else ((0.5, 0.0),))
        ]
        effect = abs(self._prior.effect)
        self._cause_of = np.array([place for place, _, _ in columns])
        self._counts = np.bincount(self._cause_of, minlength=len(self._causes))
        self._first = np.array([index[c.packages[0]] if c.packages else 0 for _, _, c in columns])
        self._last = np.array([index[c.packages[-1]] if c.packages else 0 for _, _, c in columns])
        self._both = np.array([each.kind is Kind.BOTH for _, _, each in columns])
        self._silent = np.array([not each.packages for _, _, each in columns])
        self._many = np.array([each.kind is Kind.MANY for _, _, each in columns])
        shares = np.array([share for _, share, _ in columns])
        self._difference_mean = (shares[:, 0] - 0.5) * self._prior.effect
        self._difference_var = np.maximum((shares[:, 1] * effect) ** 2, _TINY)

    def _parts(self, hybrids: Sequence[Hybrid]) -> tuple[Array, Array]:
        """Return what multiplies the two coefficients, each of shape (hybrids, columns)."""
        present = self._present(hybrids)
        first, last = present[:, self._first], present[:, self._last]
        part = np.where(self._both, (first + last) / 2, first * last)
        part[:, self._silent] = 0.0
        return part, np.where(self._both, first - last, 0.0)

    def _present(self, hybrids: Sequence[Hybrid]) -> Array:
        rows = [[float(name in hybrid) for name in self._packages] for hybrid in hybrids]
        return np.array(rows).reshape(len(hybrids), len(self._packages))

    def _compared(self, pairs: Sequence[Pair]) -> Array:
        """Return what each pair takes from each known stack: 1, -1 or 0."""
        rows = [
            [float(each == hybrid) - float(each == reference) for each in self._stacks]
            for hybrid, reference in pairs
        ]
        return np.array(rows).reshape(len(pairs), len(self._stacks))

    def _scales(self) -> tuple[Array, Array]:
        """Return pairs of noise and build offset, and log weights: prior, and spread of blocks."""
        prior, freedom = self._prior, max(1, self._prior.freedom)
        within = float(self._sizes.sum()) - len(self._sizes)
        grid = np.array(list(product((0.65, 0.85, 1.1, 1.4, 1.9), (0.0, 0.6, 1.2, 2.0))))
        variance = (prior.noise_sd * grid[:, 0]) ** 2
        weights = -0.5 * freedom * (np.log(variance) + prior.noise_sd**2 / variance)
        weights -= 0.5 * (within * np.log(variance) + self._left / variance)
        weights -= 0.5 * grid[:, 1] ** 2
        return grid * [prior.noise_sd, prior.build_sd], weights

    def _solve(self, scales: Array) -> "_Solution":
        """Return the two coefficients of each column, and how well it explains the trials.

        Args:
            scales: pairs of noise and build offset, shape (scales, 2).
        """
        prior_precision = 1 / self._prior.effect_sd**2
        noise, build = scales[:, 0, None, None], scales[:, 1, None, None]
        covariance = build**2 * (self._signs @ self._signs.T) + noise**2 * np.diag(1 / self._sizes)
        precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        part, contrast = self._design
        # Relative to what the prior means predict, coefficients have mean 0.
        left = self._y[:, None] - part * self._prior.effect - contrast * self._difference_mean
        weighed, of_part = precision @ left, precision @ part
        a = (of_part * part).sum(axis=1) + prior_precision
        b = (of_part * contrast).sum(axis=1)
        c = ((precision @ contrast) * contrast).sum(axis=1) + 1 / self._difference_var
        right_a, right_c = (part * weighed).sum(axis=1), (contrast * weighed).sum(axis=1)
        determinant = a * c - b * b
        variances = np.stack([c, -b, a], axis=1) / determinant[:, None]
        whole = variances[:, 0] * right_a + variances[:, 1] * right_c
        difference = variances[:, 1] * right_a + variances[:, 2] * right_c
        logs = -0.5 * ((left * weighed).sum(axis=1) - whole * right_a - difference * right_c)
        logs -= 0.5 * np.log(determinant / prior_precision * self._difference_var)
        logs -= 0.5 * np.linalg.slogdet(covariance)[1][:, None]
        mean = self._prior.effect + whole
        # The prior of an effect ends where it is as good as none.
        smallest = self._prior.effect * _SMALLEST_PART
        sign = math.copysign(1.0, self._prior.effect)
        within = log_ndtr(sign * (mean - smallest) / np.sqrt(variances[:, 0]))
        before = log_ndtr(sign * (self._prior.effect - smallest) / self._prior.effect_sd)
        logs += np.where(self._silent, 0.0, within - before)
        centre, kernel = self._many_prior
        rest = self._y - centre
        many_precision = np.asarray(np.linalg.inv(covariance + kernel), dtype=np.float64)
        misfit = np.linalg.slogdet(covariance + kernel)[1] + rest @ (many_precision @ rest).T
        logs[:, self._many] = -0.5 * misfit[:, None]
        return _Solution(
            log_likelihoods=logs,
            whole=mean,
            difference=self._difference_mean + difference,
            variances=variances,
            precision=precision,
            many_precision=many_precision,
        )

    def _many_effects(self) -> tuple[Array, Array]:
        """Return mean and covariance of the contrasts where many packages have effects."""
        own = self._signs * [float(bool(each)) for each in self._stacks]
        shared = self._shown @ self._shown.T / max(1, len(self._packages))
        centre: Array = self._prior.effect * self._shown.sum(axis=1) / max(1, len(self._packages))
        return centre, self._prior.effect**2 * (shared + own @ own.T / 9)

    def information(
        self, pairs: Sequence[Pair], weights: Mapping[int, float], counts: Sequence[int]
    ) -> Sequence[Array]:
        """Return what so many blocks of a pair say of hypotheses, in bits.

        By the spread of what hypotheses predict, and exactly for the pairs where that is largest.
        """
        columns, rows, shares = self._likely_columns(list(weights))
        prior = np.array(list(weights.values()))
        means, certain = (each[:, columns] for each in self._predict(pairs))
        by_column = prior[rows] * shares / np.bincount(rows, shares)[rows]
        between = (means**2) @ by_column - (means @ by_column) ** 2
        single = self._noise**2 + certain @ by_column
        exact = np.argsort(-between / single, kind="stable")[:_EXACT]
        first = np.flatnonzero(np.diff(rows, prepend=-1))  # columns of a cause are neighbours
        means, certain = means[exact], certain[exact]
        found = []
        for blocks in counts:
            deviation = np.sqrt(np.maximum(certain + self._noise**2 / blocks, _TINY))
            low, high = (means - 4 * deviation).min(axis=1), (means + 4 * deviation).max(axis=1)
            grid = np.linspace(low, high, _GRID, axis=1)
            scaled = (grid[:, None, :] - means[:, :, None]) / deviation[:, :, None]
            scaled = np.exp(-0.5 * scaled**2) * (shares / deviation)[:, :, None]
            density = np.add.reduceat(scaled, first, axis=1) + _TINY**2
            bits = np.zeros(len(pairs))
            outcomes = density / density.sum(axis=2, keepdims=True)
            bits[exact] = _information(prior[rows[first]], outcomes)
            found.append(bits)
        return found

    def _likely_columns(self, places: Sequence[int]) -> tuple[Places, Places, Array]:
        """Return columns of hypotheses, the places of these in ``places``, and their weights.

        What is very unlikely beside another column of its hypothesis moves no mixture.
        """
        order = np.full(len(self._causes), -1)
        order[list(places)] = np.arange(len(places))
        best = np.zeros(len(self._causes))
        np.maximum.at(best, self._cause_of, self._column_weights)
        share = self._column_weights / np.maximum(best[self._cause_of], _TINY**2)
        columns = np.flatnonzero((order[self._cause_of] >= 0) & (share > 1e-3))
        return columns, order[self._cause_of[columns]], share[columns]

    def _predict(self, pairs: Sequence[Pair]) -> tuple[Array, Array]:
        """Return mean and variance of contrasts without the noise of blocks, (pairs, columns)."""
        solved, offset = self._solution, self._build**2
        # What builds share with what was measured.
        signs = self._compared(pairs)
        common = offset * signs @ self._signs.T
        carried = common @ solved.precision
        hybrids, references = ([each[side] for each in pairs] for side in range(2))
        here, beside = self._parts(hybrids), self._parts(references)
        slope = here[0] - beside[0] - carried @ self._design[0]
        other = here[1] - beside[1] - carried @ self._design[1]
        means = slope * solved.whole + other * solved.difference + (carried @ self._y)[:, None]
        a, b, c = solved.variances
        variances = slope**2 * a + 2 * slope * other * b + other**2 * c
        variances += 2 * offset - (common * carried).sum(axis=1)[:, None]
        if self._many.any():
            effect, size = self._prior.effect, max(1, len(self._packages))
            present = self._present(hybrids) - self._present(references)
            own = self._signs * [float(bool(each)) for each in self._stacks]
            cross = effect**2 * (present @ self._shown.T / size + signs @ own.T / 9) + common
            weights = cross @ solved.many_precision
            parts = (present**2).sum(axis=1) / size
            parts += [(bool(one) + bool(other)) / 9 for one, other in pairs]
            centre = effect * present.sum(axis=1) / size
            mean = centre + weights @ (self._y - self._many_prior[0])
            spread = effect**2 * parts + 2 * offset - (cross * weights).sum(axis=1)
            means[:, self._many] = mean[:, None]
            variances[:, self._many] = spread[:, None]
        return means, variances

    def misfit(self, place: int) -> float:
        """Return the probability of residuals at least as large under a hypothesis."""
        column = self._best_column(place)
        part, contrast = (each[:, column] for each in self._design)
        freedom = len(self._y) - int(part.any()) - int(contrast.any())
        if self._causes[place].kind is Kind.MANY or freedom < 1:
            return 1.0
        solved = self._solution
        residual = self._y - solved.whole[column] * part - solved.difference[column] * contrast
        return float(chdtrc(freedom, residual @ solved.precision @ residual))

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:
        """Return the log effect of the bad stack under a hypothesis, and of its two packages."""
        column = self._best_column(place)
        if self._silent[column]:
            return ((0.0, 0.0),)
        whole, difference = self._solution.whole[column], self._solution.difference[column]
        a, b, c = self._solution.variances[:, column]
        total = float(whole), math.sqrt(a)
        if not self._both[column]:
            return (total,)
        return (
            total,
            (float(whole / 2 + difference), math.sqrt(max(0.0, a / 4 + b + c))),
            (float(whole / 2 - difference), math.sqrt(max(0.0, a / 4 - b + c))),
        )

    def _best_column(self, place: int) -> int:
        columns = np.flatnonzero(self._cause_of == place)
        return int(columns[self._column_weights[columns].argmax()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solution:
    """Coefficients in each column, each of shape (scales, columns).

    variances: of the whole effect, covariance of both, variance of the difference; shape
        (scales, 3, columns).
    precision: of the mean contrasts of trials, shape (scales, trials, trials); many_precision: the
        same where many packages have effects.
    """

    log_likelihoods: Array
    whole: Array
    difference: Array
    variances: Array
    precision: Array
    many_precision: Array

    @property
    def first(self) -> "_Solution":
        """Return it without the axis of scales."""
        return _Solution(**{each.name: getattr(self, each.name)[0] for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Runs that fail or succeed: one probability with the cause at work, one without.

    with_cause, without_cause: their beta priors, as failures and successes seen before.
    confirming: runs of the bad stack without which no cause is named.
    """

    with_cause: tuple[float, float] = (2.0, 0.5)
    without_cause: tuple[float, float] = (0.2, 8.0)
    confirming: int = 1
    comparing: bool = False

    def fit(self, causes: Sequence[Cause], trials: Sequence[Trial]) -> "Fit":
        """Return what trials say of each hypothesis."""
        return _FailuresFit(self, causes, trials)

    def levels(self, cause: Cause, hybrid: Hybrid) -> tuple[bool, ...]:
        """Return whether a cause makes a hybrid fail."""
        return (bool(_fails(cause, hybrid)),)


class _FailuresFit:
    """Beta-binomial marginal likelihoods of hypotheses about failures."""

    def __init__(self, prior: Failures, causes: Sequence[Cause], trials: Sequence[Trial]) -> None:
        self._prior, self._causes = prior, causes
        self._runs = {each.hybrid: (each.failures, each.successes) for each in trials}
        at_work = np.array([[_fails(c, each.hybrid) for c in causes] for each in trials])
        at_work = at_work.reshape(len(trials), len(causes))
        counts = np.array([(each.failures, each.successes) for each in trials], dtype=float)
        counts = counts.reshape(len(trials), 2)
        self._with = at_work.T @ counts + prior.with_cause
        self._without = (1 - at_work).T @ counts + prior.without_cause
        logs = _log_beta(self._with) - _log_beta(np.array([prior.with_cause]))
        logs += _log_beta(self._without) - _log_beta(np.array([prior.without_cause]))
        for place, each in enumerate(causes):
            if each.kind is Kind.MANY:  # each hybrid fails with a probability of its own
                own = _log_beta(counts + 0.5) - _log_beta(np.array([[0.5, 0.5]]))
                logs[place] = own.sum()
        self.log_likelihoods: Array = logs

    def information(
        self, pairs: Sequence[Pair], weights: Mapping[int, float], counts: Sequence[int]
    ) -> Sequence[Array]:
        """Return what one run says of hypotheses in bits, whatever the counts."""
        seen = np.empty((len(pairs), len(weights), 2))
        for one, (hybrid, _) in enumerate(pairs):
            for row, place in enumerate(weights):
                cause = self._causes[place]
                if cause.kind is Kind.MANY:
                    seen[one, row] = np.array(self._runs.get(hybrid, (0, 0))) + 0.5
                else:
                    seen[one, row] = (self._with if _fails(cause, hybrid) else self._without)[place]
        outcomes = seen / seen.sum(axis=2, keepdims=True)
        return [_information(np.array(list(weights.values())), outcomes)] * len(counts)

    def misfit(self, place: int) -> float:  # noqa: ARG002
        """Return 1: a probability fits any outcomes; `Kind.MANY` stands for what does not fit."""
        return 1.0

    def effects(self, place: int) -> tuple[tuple[float, float], ...]:  # noqa: ARG002
        """Return no effect: failures have none."""
        return ((0.0, 0.0),)


def _fails(cause: Cause, hybrid: Hybrid) -> float:
    """Return 1 where a cause is at work in a hybrid, else 0."""
    present = [each in hybrid for each in cause.packages]
    if not present:
        return 0.0
    return float(any(present) if cause.kind is Kind.BOTH else all(present))


def _log_beta(counts: Array) -> Array:
    found: Array = betaln(counts[..., 0], counts[..., 1])
    return found
