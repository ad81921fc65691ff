"""Which of the packages that changed is responsible? Simulated stacks with a known answer."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from stackgen.measure.attribution import (
    Cause,
    CauseKind,
    CulpritAnswer,
    CulpritSearch,
    Hybrid,
    Trial,
    outlying,
)
from stackgen.measure.likelihoods import Failures, Timings

PACKAGES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Needs:
    """Valid hybrids: some new versions need other new versions."""

    packages: tuple[str, ...] = PACKAGES
    needs: Mapping[str, str] = field(default_factory=dict)

    def find(self, include: Hybrid, exclude: Hybrid) -> Hybrid | None:
        """Return the smallest valid hybrid."""
        found = set(include)
        while more := {self.needs[each] for each in found if each in self.needs} - found:
            found |= more
        return frozenset(found) if not found & exclude else None


def timings(effect: float = 0.1) -> Timings:
    """Return what a confirmation told: a tenth slower, blocks that scatter by 2 %."""
    return Timings(effect=effect, effect_sd=effect / 3, noise_sd=0.02, freedom=15, build_sd=0.003)


def attribute(
    space: Needs, effect: Callable[[Hybrid], float], *, prior: Timings | None = None, most: int = 60
) -> tuple[CulpritAnswer, list[Trial]]:
    """Measure what is proposed until there is an answer, or no more blocks."""
    dice = random.Random(3)
    search = CulpritSearch(space, prior or timings(), build_cost=3, seed=1)
    builds: list[Trial] = []
    blocks: dict[tuple[Hybrid, Hybrid], list[float]] = {}
    offsets: dict[Hybrid, float] = {}
    for _ in range(most):
        answer = search.answer(builds)
        best = search.next_run(builds, answer)
        if best is None:
            break
        assert space.find(best.hybrid, frozenset(space.packages) - best.hybrid), "not valid"
        for each in (best.hybrid, best.reference):
            offsets.setdefault(each, dice.gauss(0, 0.003) if each else 0.0)
        here, beside = (effect(e) + offsets[e] for e in (best.hybrid, best.reference))
        blocks.setdefault((best.hybrid, best.reference), []).append(
            here - beside + dice.gauss(0, 0.02)
        )
        builds = [
            Trial(hybrid=hybrid, reference=reference, log_contrasts=tuple(seen))
            for (hybrid, reference), seen in blocks.items()
        ]
    return answer, builds


CASES: list[tuple[Callable[[Hybrid], float], Cause]] = [
    (lambda new: 0.1 * ("b" in new), Cause(CauseKind.SINGLE, ("b",))),
    (lambda new: 0.08 * ("b" in new), Cause(CauseKind.SINGLE, ("b",))),
    (lambda new: 0.1 * ("a" in new and "c" in new), Cause(CauseKind.TOGETHER, ("a", "c"))),
    (lambda new: 0.05 * ("a" in new) + 0.05 * ("d" in new), Cause(CauseKind.BOTH, ("a", "d"))),
    (lambda new: 0.15 * ("a" in new) - 0.05 * ("d" in new), Cause(CauseKind.BOTH, ("a", "d"))),
    (lambda new: 0.04 * len(new - {"b"}), Cause(CauseKind.THREE, ("a", "c", "d"))),
    (lambda new: 0.0 * len(new), Cause(CauseKind.NONE)),
]


@pytest.mark.parametrize(("effect", "cause"), CASES)
def test_the_cause_is_found(effect: Callable[[Hybrid], float], cause: Cause) -> None:
    answer, _ = attribute(Needs(), effect)
    assert answer.causes == (cause,)
    assert answer.fits


def test_of_three_with_equal_shares_it_counts_how_many_a_hybrid_has() -> None:
    cause, other = (Cause(CauseKind.THREE, each) for each in (("a", "b", "c"), ("b", "c", "d")))
    levels = timings().levels
    assert levels(cause, frozenset("b")) == levels(other, frozenset("b"))
    assert levels(cause, frozenset("ab")) != levels(other, frozenset("ab"))


def test_the_effect_is_stated_with_its_deviation() -> None:
    answer, _ = attribute(Needs(), lambda new: 0.1 * ("b" in new))
    effect, deviation = answer.effect
    assert effect == pytest.approx(0.1, abs=3 * deviation)
    assert 0 < deviation < 0.03


def test_packages_that_always_change_together_are_one() -> None:
    space = Needs(needs={"a": "b", "b": "a"})
    answer, builds = attribute(space, lambda new: 0.1 * ("a" in new))
    assert answer.causes == (Cause(CauseKind.SINGLE, ("a",)),)
    assert CulpritSearch(space, timings(), build_cost=3, seed=1).together["a"] == ("a", "b")
    assert all(("a" in each.hybrid) == ("b" in each.hybrid) for each in builds)


def test_a_package_that_is_never_new_without_another_is_named_with_it() -> None:
    space = Needs(needs={"a": "b"})
    answer, _ = attribute(space, lambda new: 0.3 * ("a" in new), prior=timings(0.3))
    named = [(each.kind, each.packages) for each in answer.causes]
    assert named == [(CauseKind.SINGLE, ("a",)), (CauseKind.TOGETHER, ("a", "b"))]
    assert answer.responsible == ("a",)


def test_a_package_is_named_before_it_is_known_whether_it_acts_alone() -> None:
    """A third of the effect of another package is too little to be told from none, or from half."""
    answer, _ = attribute(
        Needs(), lambda new: 0.039 * ("b" in new) + 0.013 * ("c" in new), prior=timings(0.05)
    )
    assert not answer.causes
    assert answer.responsible == ("b",)


def test_nothing_is_named_before_the_bad_stack_was_measured_again() -> None:
    answer, builds = attribute(Needs(), lambda new: 0.1 * ("b" in new))
    assert answer.causes
    bad = frozenset(PACKAGES)
    whole = [each for each in builds if bad in (each.hybrid, each.reference)]
    assert sum(len(each.log_contrasts) for each in whole) >= timings().confirming
    without = [each for each in builds if each not in whole]
    assert not CulpritSearch(Needs(), timings(), build_cost=3, seed=1).answer(without).causes


def test_shares_of_two_packages_are_stated() -> None:
    answer, _ = attribute(
        Needs(), lambda new: 0.15 * ("a" in new) - 0.05 * ("d" in new), prior=timings()
    )
    shares = {name: (mean, sd) for name, mean, sd in answer.parts}
    assert shares["a"][0] == pytest.approx(0.15, abs=3 * shares["a"][1])
    assert shares["d"][0] == pytest.approx(-0.05, abs=3 * shares["d"][1])


def test_effects_of_all_packages_are_blamed_on_none() -> None:
    answer, _ = attribute(Needs(), lambda new: 0.05 * len(new), prior=timings(0.2))
    assert not answer.causes


def test_nothing_measured_names_no_package() -> None:
    search = CulpritSearch(Needs(), timings(), build_cost=3, seed=0)
    assert search.answer([]).causes == ()
    assert search.answer([]).entropy_bits == pytest.approx(search.prior_entropy_bits)


def test_the_order_of_builds_does_not_matter() -> None:
    _, builds = attribute(Needs(), lambda new: 0.1 * ("b" in new))
    search = CulpritSearch(Needs(), timings(), build_cost=3, seed=0)
    one, other = search.answer(builds), search.answer(builds[::-1])
    assert one.posterior == pytest.approx(other.posterior)
    assert one.causes == other.causes


def test_a_flaky_failure_is_attributed() -> None:
    dice = random.Random(5)
    space = Needs(needs={"c": "d"})
    search = CulpritSearch(space, Failures(), build_cost=3, seed=2)
    counts: dict[Hybrid, list[int]] = {}
    for _ in range(60):
        builds = _runs(counts)
        best = search.next_run(builds, answer := search.answer(builds))
        if best is None:
            break
        hybrid = best.hybrid
        fails = "d" in hybrid and dice.random() < 0.6
        counts.setdefault(hybrid, [0, 0])[0 if fails else 1] += 1
    # That c fails as well cannot be told: it needs d.
    assert answer.causes == (Cause(CauseKind.SINGLE, ("d",)), Cause(CauseKind.BOTH, ("c", "d")))


def _runs(counts: Mapping[Hybrid, Sequence[int]]) -> list[Trial]:
    return [
        Trial(hybrid=hybrid, failures=failed, successes=succeeded)
        for hybrid, (failed, succeeded) in counts.items()
    ]


def test_the_first_bad_release_is_found() -> None:
    # Each step to the next release is a package that needs the step before.
    steps = tuple(f"2.{number}" for number in range(1, 9))
    space = Needs(packages=steps, needs=dict(zip(steps[1:], steps, strict=False)))
    search = CulpritSearch(space, timings(), build_cost=3, seed=0, kinds=(CauseKind.SINGLE,))
    builds: list[Trial] = []
    while best := search.next_run(builds, answer := search.answer(builds)):
        seen = 0.1 * (("2.6" in best.hybrid) - ("2.6" in best.reference))
        builds.append(Trial(hybrid=best.hybrid, reference=best.reference, log_contrasts=(seen,)))
    assert answer.causes == (Cause(CauseKind.SINGLE, ("2.6",)),)
    assert len(builds) <= math.log2(len(steps)) + 2


def test_many_packages_are_halved_first() -> None:
    space = Needs(packages=tuple(f"p{place}" for place in range(40)))
    search = CulpritSearch(space, timings(), build_cost=3, seed=1)
    best = search.next_run([], search.answer([]))
    assert best is not None
    assert 10 <= len(best.hybrid) <= 30


@pytest.mark.parametrize(("built", "is_late"), [(7, False), (11, True)])
def test_late_builds_are_proposed_later_at_their_own_rate(built: int, is_late: bool) -> None:
    names = tuple("01234567")
    hybrids = [frozenset(each) for each in combinations(names, 2)][:built]
    trials = [
        Trial(hybrid=each, log_contrasts=(0.05 * len(each & {"0", "7"}),)) for each in hybrids
    ]
    search = CulpritSearch(Needs(packages=names), timings(), build_cost=3, seed=1)
    known = {frozenset[str](), *hybrids}
    found = [(len({e.hybrid, e.reference} - known), e) for e in search.proposals(trials) if e.bits]
    for builds, each in found:  # by one block, or by three that say up to three times as much
        assert each.bits / (3 * builds + 1) <= 1.001 * each.bits_per_cost
        assert each.bits_per_cost <= 1.001 * 3 * each.bits / (3 * builds + 3)
    rates = [each.bits_per_cost for _, each in found]
    assert any(a < 0.98 * b for a, b in combinations(rates, 2)) == is_late
    for (builds, each), (more_builds, later) in combinations(found, 2):
        # Of as many builds, one block or three decide the order only where rates are close.
        assert each.bits_per_cost >= 0.98 * later.bits_per_cost or builds < more_builds


def test_a_search_does_not_end_just_before_its_answer() -> None:
    # What is left is spread over many hypotheses, and little of it has to be known.
    seen = {
        "1247": (-0.9,), "01257": (-0.4,), "0123457": (1.1, 0.3, -0.3), "1267": (3.2,), "6": (4.1,)
    }  # fmt: skip
    prior = Timings(effect=3.0, effect_sd=1.1, noise_sd=1.0, freedom=15, build_sd=0.25)
    search = CulpritSearch(Needs(packages=tuple("01234567")), prior, build_cost=3, seed=1)
    builds = [Trial(hybrid=frozenset(new), log_contrasts=each) for new, each in seen.items()]
    answer = search.answer(builds)
    assert answer.responsible == ("6",)
    assert 0.9 < answer.posterior < 0.975
    assert not answer.causes
    best = search.next_run(builds, answer)
    assert best is not None
    assert best.bits_per_cost * 50 < answer.entropy_bits


def test_a_block_that_is_far_off_is_an_outlier_once_the_usual_times_are_known() -> None:
    dice = random.Random(3)
    blocks = {
        number: {"good": dice.gauss(0, 0.01), stack: dice.gauss(0.7, 0.01)}
        for number, stack in enumerate(["bad"] * 6 + ["gear"])
    }
    blocks[7] = {"gear": 0.7 + math.log(1.7), "cog": 0.0}
    assert outlying(blocks) == frozenset()  # gear was run twice
    blocks[8] = {"bad": 0.71, "gear": 0.69}
    assert outlying(blocks) == {7}
    blocks |= {9: {"good": 0.0, "gear": 0.7}, 10: {"gear": 0.71, "bad": 0.69}}
    slow = {number: {x: y + 0.5 for x, y in blocks[number].items()} for number in (2, 8)}
    assert outlying(blocks | slow) == {7}  # all of a block was slow: nothing is wrong in it


def test_without_noise_nothing_is_an_outlier() -> None:
    assert outlying({}) == frozenset()
    assert outlying({n: {"good": 0.0, "bad": 1.0} for n in range(5)}) == frozenset()
