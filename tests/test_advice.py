"""Advice: recommended from evidence of the same blocks, or refused."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from stackgen.advice import advise
from stackgen.errors import EvidenceError
from stackgen.values import (
    Advice,
    CampaignId,
    Environment,
    Inspection,
    Kind,
    LoadedDistribution,
    Lock,
    LockedPackage,
    LockFile,
    Machine,
    Observation,
    Role,
    Stack,
    Verdict,
)
from tests.samples import CAMPAIGN, FACTS, call, inspection
from tests.spaces import artifact

HERE = Machine(identity=(("cpu_family", "6"), ("cpu_model", "1"), ("cpu_vendor", "Intel")))
LIKE = Machine(
    identity=(("caches", "8M"), ("cpu_family", "6"), ("cpu_model", "1"), ("cpu_vendor", "Intel"))
)
OTHER = Machine(identity=(("cpu_family", "9"), ("cpu_model", "9"), ("cpu_vendor", "AMD")))
CALL = call("tensorflow/matmul")


def stack(**versions: str) -> Environment:
    lock = Lock(artifacts=tuple(artifact(name, v) for name, v in sorted(versions.items())))
    return Environment(
        stack=Stack(lock=lock, facts=FACTS), kind=Kind.VIRTUALENV, location="", python=""
    )


OWN = stack(tensorflow="2.12.0", numpy="1.23.5", requests="2.0")
FAST = stack(tensorflow="2.15.0", numpy="1.26.4", requests="2.0")
SAME = stack(tensorflow="2.13.0", numpy="1.24.3", requests="2.0")


def observed(
    where: Environment,
    block: int,
    seconds: float,
    *,
    role: Role = Role.CHALLENGER,
    machine: Machine = HERE,
) -> Inspection:
    """Return an inspection that had TensorFlow and NumPy loaded, and requests as pure Python."""
    versions = where.stack.lock.versions
    loaded = tuple(
        LoadedDistribution(name=name, version=versions[name], compiled=name != "requests")
        for name in versions
    )
    found = inspection(where, CALL, block, seconds, role=role)
    seen = Observation(values_s=(seconds,), loops=1, loaded=loaded)
    return replace(found, machine_id=machine.id, observation=seen)


def blocks(
    times: dict[Environment, float], *, count: int = 16, machine: Machine = HERE
) -> list[Inspection]:
    dice = random.Random(5)
    return [
        observed(where, block, seconds * (1 + dice.gauss(0, 0.01)), machine=machine)
        for block in range(1, count + 1)
        for where, seconds in times.items()
    ]


def locked(**versions: str) -> LockFile:
    packages = tuple(LockedPackage(name=name, version=v) for name, v in versions.items())
    return LockFile(path="Pipfile.lock", format="pipfile", packages=packages)


LOCK = locked(tensorflow="2.12.0", numpy="1.23.5", requests="2.31", flask="3.0")


def ask(
    inspections: list[Inspection],
    lockfile: LockFile = LOCK,
    *,
    machine: Machine = HERE,
    trusted: frozenset[CampaignId] = frozenset({CAMPAIGN}),
) -> Advice:
    return advise(
        lockfile=lockfile,
        stacks=[each.stack for each in (OWN, FAST, SAME)],
        inspections=inspections,
        calls=[CALL],
        machine=machine,
        machines=[HERE, LIKE, OTHER],
        trusted=trusted,
    )


def test_the_faster_stack_is_recommended_with_its_effect_and_only_what_must_change() -> None:
    found = ask(blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}))
    assert found.lock == FAST.stack.lock
    assert [(c.name, c.current, c.recommended) for c in found.changes] == [
        ("numpy", "1.23.5", "1.26.4"),
        ("tensorflow", "2.12.0", "2.15.0"),
    ]
    (effect,) = found.effects
    assert effect.low < 1.25 < effect.high
    assert effect.blocks == 16


def test_where_nothing_is_faster_nothing_is_recommended() -> None:
    for seconds in (1.0, 1.3):
        found = ask(blocks({OWN: 1.0, FAST: seconds}))
        assert found.lock is None
        assert found.changes == ()
        assert found.effects[0].verdict is not Verdict.FASTER


def test_too_few_blocks_recommend_nothing() -> None:
    assert ask(blocks({OWN: 1.0, FAST: 0.5}, count=5)).lock is None


@pytest.mark.parametrize(
    "lockfile",
    [
        locked(tensorflow="2.12.0", numpy="1.23.4"),  # another NumPy
        locked(tensorflow="2.11.0", numpy="1.23.5"),  # another framework
        locked(numpy="1.23.5"),  # no framework
        locked(),
    ],
)
def test_a_lock_that_differs_in_compiled_code_is_unknown(lockfile: LockFile) -> None:
    with pytest.raises(EvidenceError, match="--from Pipfile"):
        ask(blocks({OWN: 1.0, FAST: 0.8}), lockfile)


def test_development_packages_do_not_count() -> None:
    packages = (
        LockedPackage(name="tensorflow", version="2.12.0", group="dev"),
        LockedPackage(name="numpy", version="1.23.5"),
    )
    with pytest.raises(EvidenceError):
        ask(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, packages=packages))


def test_stacks_from_different_blocks_are_never_compared() -> None:
    apart = blocks({OWN: 1.0}) + [
        replace(each, block=each.block + 100) for each in blocks({FAST: 0.5})
    ]
    with pytest.raises(EvidenceError, match="never beside others"):
        ask(apart)


def test_campaigns_whose_controls_failed_do_not_feed_advice() -> None:
    with pytest.raises(EvidenceError):
        ask(blocks({OWN: 1.0, FAST: 0.8}), trusted=frozenset())


def test_the_nearest_machine_speaks_where_this_one_is_unknown() -> None:
    near = blocks({OWN: 1.0, FAST: 0.8}, machine=LIKE)
    far = blocks({OWN: 1.0, FAST: 1.3}, machine=OTHER)
    found = ask(far + near)
    assert found.lock == FAST.stack.lock
    assert not found.same_machine
    assert any("another machine" in each for each in found.caveats)
    assert ask(near + blocks({OWN: 1.0, FAST: 1.3}), machine=HERE).lock is None


def test_the_users_own_requirement_is_heeded_and_named() -> None:
    asked = replace(LOCK, requirements=("tensorflow<2.14", "numpy"))
    found = ask(blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}), asked)
    assert found.lock is None
    assert any("tensorflow<2.14" in each for each in found.caveats)


def test_a_stack_that_is_slower_is_never_recommended() -> None:
    found = ask(blocks({OWN: 1.0, FAST: 1.2, SAME: 0.7}))
    assert found.lock == SAME.stack.lock


def test_another_python_is_a_caveat() -> None:
    found = ask(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, requires_python="==3.9.*"))
    assert any("3.9" in each for each in found.caveats)
    same = ask(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, requires_python="==3.11.*"))
    assert not any("Python" in each for each in same.caveats)


def computing(where: Environment, checksum: float, seen: Iterable[Inspection]) -> list[Inspection]:
    """Return inspections of which those of one stack had another result."""
    return [
        replace(each, observation=replace(each.observation, checksum=checksum))
        if each.observation is not None and each.stack_id == where.stack.id
        else each
        for each in seen
    ]


def computed_right(times: dict[Environment, float], *, machine: Machine = HERE) -> list[Inspection]:
    found = blocks(times, machine=machine)
    for where in times:
        found = computing(where, 1.0, found)
    return found


def test_a_stack_that_computes_something_else_is_not_recommended_and_that_is_said() -> None:
    seen = computed_right({OWN: 1.0, FAST: 0.5, SAME: 0.8})
    assert ask(seen).lock == FAST.stack.lock
    found = ask(computing(FAST, 1.01, seen))
    assert found.lock == SAME.stack.lock
    assert any("compute something else" in caveat for caveat in found.caveats)


def test_where_only_that_was_measured_nothing_is_recommended_nor_praised() -> None:
    found = ask(computing(FAST, 1.01, computed_right({OWN: 1.0, FAST: 0.5})))
    assert (found.lock, found.effects) == (None, ())


def test_what_it_computed_on_another_machine_or_in_a_campaign_that_is_not_trusted_counts() -> None:
    here = computed_right({OWN: 1.0, FAST: 0.5})
    there = computing(FAST, 1.01, computed_right({OWN: 1.0, FAST: 0.5}, machine=OTHER))
    doubtful = [replace(each, campaign_id=CampaignId("doubtful")) for each in there]
    assert ask(here + doubtful).lock is None


def test_what_it_computed_beside_another_reference_elsewhere_counts_too() -> None:
    here = blocks({OWN: 1.0, FAST: 0.5})  # by an earlier version of an indicator, without checksums
    there = computing(FAST, 1.01, computed_right({SAME: 1.0, FAST: 0.5}, machine=OTHER))
    merged = [
        replace(each, role=Role.REFERENCE) if each.stack_id == SAME.stack.id else each
        for each in there
    ]
    assert ask(here + merged).lock is None
    assert ask(here).lock == FAST.stack.lock


def test_a_lock_that_computes_something_else_each_time_judges_nobody() -> None:
    seen = computed_right({OWN: 1.0, FAST: 0.5})
    assert ask([*computing(OWN, 2.0, seen[:2]), *seen[2:]]).lock == FAST.stack.lock


def test_a_further_campaign_takes_no_place_of_blocks_that_were_judged_before() -> None:
    first = [
        replace(each, campaign_id=CampaignId("z"))
        for each in blocks({OWN: 1.0, FAST: 0.8}, count=60)
    ]
    further = [
        replace(each, campaign_id=CampaignId("a"), started_at="2026-02-01T00:00:00+00:00")
        for each in blocks({OWN: 1.0, FAST: 1.2}, count=60)
    ]
    trusted = frozenset({CampaignId("a"), CampaignId("z")})
    assert ask([*first, *further], trusted=trusted).effects == ask(first, trusted=trusted).effects
