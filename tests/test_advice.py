"""Advice: recommended from the evidence graph, refused, or unknown with the reason."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from stackgen.knowledge.advice import Advisor, Exists
from stackgen.knowledge.allowed import Admits
from stackgen.knowledge.answers import AddedRisk, OtherBuild
from stackgen.knowledge.equivalence import filled
from stackgen.knowledge.evidence import summaries
from stackgen.knowledge.judgement import Knowledge
from stackgen.measure import count_failures
from stackgen.measure.contrasts import campaign_contrasts
from stackgen.model.choices import AdviceType
from stackgen.model.evidence import Advice, Answer, Change, ChangePolicy, Scope, Verdict
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import (
    IndicatorCall,
    Inspection,
    LoadedDistribution,
    Observation,
    Outcome,
    Role,
)
from stackgen.model.packages import Lock, LockedPackage, LockFile
from stackgen.model.stacks import PROGRAM, BaseFacts, Environment, EnvironmentKind, Machine, Stack
from tests.samples import CAMPAIGN, FACTS, call, inspection
from tests.spaces import artifact

LOCAL = Machine(identity=(("cpu_family", "6"), ("cpu_model", "1"), ("cpu_vendor", "Intel")))
LIKE = Machine(
    identity=(("caches", "8M"), ("cpu_family", "6"), ("cpu_model", "1"), ("cpu_vendor", "Intel"))
)
OTHER = Machine(identity=(("cpu_family", "9"), ("cpu_model", "9"), ("cpu_vendor", "AMD")))
CALL = call("tensorflow/matmul")
CNN = call("torch/cnn")


def stack(**versions: str) -> Environment:
    lock = Lock(artifacts=tuple(artifact(name, v) for name, v in sorted(versions.items())))
    return Environment(
        stack=Stack(lock=lock, facts=FACTS), kind=EnvironmentKind.VIRTUALENV, location="", python=""
    )


OWN = stack(tensorflow="2.12.0", numpy="1.23.5", requests="2.0")
FAST = stack(tensorflow="2.15.0", numpy="1.26.4", requests="2.0")
SAME = stack(tensorflow="2.13.0", numpy="1.24.3", requests="2.0")


def observed(
    where: Environment,
    block: int,
    seconds: float,
    *,
    role: Role = Role.CANDIDATE,
    machine: Machine = LOCAL,
    what: IndicatorCall = CALL,
) -> Inspection:
    """Return an inspection that had all of a stack loaded, requests alone as pure Python."""
    versions = where.stack.lock.versions
    loaded = tuple(
        LoadedDistribution(name=name, version=versions[name], compiled=name != "requests")
        for name in versions
    )
    found = inspection(where, what, block, seconds, role=role)
    seen = Observation(values_s=(seconds,), loops=1, loaded=loaded)
    return replace(found, machine_id=machine.id, observation=seen)


def loading(seen: Iterable[Inspection], *names: str) -> list[Inspection]:
    """Return inspections that had the compiled code of these packages loaded, and no others."""
    loaded = tuple(LoadedDistribution(name=name, version="0", compiled=True) for name in names)
    return [
        replace(each, observation=replace(each.observation, loaded=loaded))
        for each in seen
        if each.observation is not None
    ]


CAMPAIGNS = tuple(CampaignId(f"{CAMPAIGN}{n}") for n in range(3))


def blocks(
    times: dict[Environment, float],
    *,
    count: int = 16,
    machine: Machine = LOCAL,
    what: IndicatorCall = CALL,
    campaigns: Sequence[CampaignId] = CAMPAIGNS,
    noise: float = 0.01,
    seed: int = 5,
) -> list[Inspection]:
    """Return campaigns that compare stacks with the first of them."""
    dice = random.Random(seed)
    return [
        replace(
            observed(
                where,
                block,
                seconds * (1 + dice.gauss(0, noise)),
                machine=machine,
                what=what,
                role=Role.CANDIDATE if number else Role.BASELINE,
            ),
            campaign_id=campaign,
        )
        for campaign in campaigns
        for block in range(1, count + 1)
        for number, (where, seconds) in enumerate(times.items())
    ]


def locked(**versions: str) -> LockFile:
    packages = tuple(LockedPackage(name=name, version=v) for name, v in versions.items())
    return LockFile(path="Pipfile.lock", format="pipfile", packages=packages)


LOCK = locked(tensorflow="2.12.0", numpy="1.23.5", requests="2.31", flask="3.0")


def anything(
    lockfile: LockFile,
    changes: Sequence[Change],
    facts: BaseFacts,
) -> None:
    """Admit every change."""


def everything(pins: Sequence[tuple[str, str]], facts: BaseFacts) -> bool:  # noqa: ARG001
    """Let all versions be installed together."""
    return True


def known_from(
    inspections: Sequence[Inspection],
    *,
    stacks: Sequence[Stack],
    calls: Sequence[IndicatorCall],
    machine: Machine = LOCAL,
    machines: Sequence[Machine] = (),
    trusted: frozenset[CampaignId] = frozenset(CAMPAIGNS),
    origins: Sequence[str] = (),
    trusted_origins: Sequence[str] = (),
) -> Knowledge:
    """Return what a knowledge base with these inspections knows."""
    counting = [each for each in inspections if each.campaign_id in trusted]
    failed = {each.id for each in stacks if count_failures(counting, stack=each.id, calls=calls)}
    return Knowledge(
        stacks=stacks,
        summaries=summaries(inspections, calls),
        calls=calls,
        contrasts=campaign_contrasts(counting, failed=failed, origins=origins),
        machine=machine,
        machines=machines,
        trusted=trusted,
        trusted_origins=trusted_origins,
    )


def advisor(known: Knowledge, inspections: Sequence[Inspection] = ()) -> Advisor:
    """Return an advisor by whom every change is admitted, and all versions can be installed."""
    return Advisor(
        known=known,
        trusted=frozenset(CAMPAIGNS),
        inspections_of=lambda campaign: [e for e in inspections if e.campaign_id == campaign],
        admits=anything,
        exists=everything,
    )


def advice_for(
    inspections: list[Inspection],
    lockfile: LockFile = LOCK,
    *,
    machine: Machine = LOCAL,
    machines: Sequence[Machine] = (LOCAL, LIKE, OTHER),
    trusted: frozenset[CampaignId] = frozenset(CAMPAIGNS),
    admits: Admits = anything,
    stacks: Sequence[Environment] = (),
    calls: Sequence[IndicatorCall] = (),
    origins: Sequence[str] = (),
    trusted_origins: Sequence[str] = (),
    exists: Exists = everything,
    added_risk: AddedRisk = lambda _: None,
    other_build: OtherBuild = lambda _: None,
    **policy: Any,
) -> Advice:
    known = known_from(
        inspections,
        stacks=[each.stack for each in stacks or (OWN, FAST, SAME)],
        calls=calls or [CALL],
        machine=machine,
        machines=machines,
        trusted=trusted,
        origins=origins,
        trusted_origins=trusted_origins,
    )
    return replace(
        advisor(known, inspections),
        trusted=trusted,
        admits=admits,
        exists=exists,
        added_risk=added_risk,
        other_build=other_build,
        policy=ChangePolicy(**policy),
    ).advise(lockfile)


def unknown(advice: Advice, why: str = "") -> None:
    """Claim that an advice says that nothing is known, and why."""
    assert (advice.answer, advice.lock) == (Answer.UNKNOWN, None)
    assert re.search(why, advice.why)


def test_the_faster_stack_is_recommended_with_its_effect_and_only_what_must_change() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}))
    assert found.lock == FAST.stack.lock
    assert [(c.name, c.current, c.recommended) for c in found.changes] == [
        ("tensorflow", "2.12.0", "2.15.0"),
        ("numpy", "1.23.5", "1.26.4"),
    ]
    (effect,) = found.effects
    assert effect.low < 1.25 < effect.high
    assert effect.blocks == 48
    assert found.answer is Answer.FASTER


def test_what_a_recommendation_takes_out_is_not_said_to_be_unmeasured() -> None:
    own, fast = stack(tensorflow="2.12.0", jax="0.4"), stack(tensorflow="2.15.0")
    mine = locked(tensorflow="2.12.0", jax="0.4", flask="3.0")
    found = advice_for(blocks({own: 1.0, fast: 0.8}), mine, stacks=(own, fast))
    assert ("jax", None) in [(each.name, each.recommended) for each in found.changes]
    caveat = next(each for each in found.caveats if "not part of what was measured" in each)
    assert "flask" in caveat
    assert "jax" not in caveat


def test_what_was_measured_in_another_build_is_not_recommended() -> None:
    """One version of two indexes is one stack here; a lock would take the build of its own."""
    measured = blocks({OWN: 1.0, FAST: 0.8})
    advice = advice_for(measured, other_build=lambda stacks: f"{len([*stacks])} stacks differ")
    assert (advice.answer, advice.lock) == (Answer.REFUSED, None)
    assert advice.refused == (
        "tensorflow 2.12.0 -> 2.15.0, numpy 1.23.5 -> 1.26.4: 2 stacks differ"
    )


def test_what_a_file_leaves_open_is_taken_as_an_installer_takes_it() -> None:
    """The newest NumPy that was measured: an older one would make it faster on paper alone."""
    stacks = [stack(tensorflow="2.12.0", numpy=v).stack for v in ("1.22.4", "1.23.5", "1.23.0")]
    packages = (LockedPackage(name="tensorflow", version="2.12.0"),)
    file = LockFile(path="requirements.txt", format="requirements", packages=packages)
    for order in (stacks, stacks[::-1]):
        found = {each.name: each.version for each in filled(file, order, "3.11").packages}
        assert found == {"tensorflow": "2.12.0", "numpy": "1.23.5"}


def test_where_nothing_is_faster_nothing_is_recommended() -> None:
    for seconds in (1.0, 1.3):
        found = advice_for(blocks({OWN: 1.0, FAST: seconds}))
        assert found.lock is None
        assert found.changes == ()
        assert found.effects[0].verdict is not Verdict.FASTER


def test_too_few_blocks_recommend_nothing() -> None:
    assert advice_for(blocks({OWN: 1.0, FAST: 0.5}, count=5)).lock is None


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
    unknown(advice_for(blocks({OWN: 1.0, FAST: 0.8}), lockfile))


def test_development_packages_do_not_count() -> None:
    packages = (
        LockedPackage(name="tensorflow", version="2.12.0", group="dev"),
        LockedPackage(name="numpy", version="1.23.5"),
    )
    unknown(advice_for(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, packages=packages)))


def test_stacks_from_different_blocks_are_never_compared() -> None:
    separate = blocks({OWN: 1.0}) + [
        replace(each, block=each.block + 100) for each in blocks({FAST: 0.5})
    ]
    unknown(advice_for(separate), "never beside others")


def test_campaigns_whose_controls_failed_do_not_feed_advice() -> None:
    unknown(advice_for(blocks({OWN: 1.0, FAST: 0.8}), trusted=frozenset()))


def test_the_nearest_machine_speaks_where_this_one_is_unknown_and_recommends_nothing() -> None:
    near = blocks({OWN: 1.0, FAST: 0.8}, machine=LIKE)
    far = blocks({OWN: 1.0, FAST: 1.3}, machine=OTHER)
    found = advice_for(far + near)
    assert (found.answer, found.lock, found.changes) == (Answer.ELSEWHERE, None, ())
    assert found.effects[0].verdict is Verdict.FASTER
    assert found.provenance[0].last[:10] == "2026-01-01"
    assert not found.same_machine
    assert any("another machine" in each for each in found.caveats)
    assert advice_for(near + blocks({OWN: 1.0, FAST: 1.3}), machine=LOCAL).lock is None


def test_where_other_machines_disagree_the_answer_says_so() -> None:
    near = blocks({OWN: 1.0, FAST: 0.8}, machine=LIKE)
    disagreeing = advice_for(near + blocks({OWN: 1.0, FAST: 1.3}, machine=OTHER))
    assert any("says otherwise: tensorflow/matmul 0.77" in each for each in disagreeing.caveats)
    agreeing = advice_for(near + blocks({OWN: 1.0, FAST: 0.8}, machine=OTHER))
    assert not any("otherwise" in each for each in agreeing.caveats)


def test_what_is_slower_elsewhere_is_worth_measuring_where_an_operation_may_be_faster() -> None:
    calls = [CALL, call("tensorflow/cnn")]
    mixed = [
        each
        for what, seconds in zip(calls, (0.8, 1.2), strict=True)
        for each in blocks({OWN: 1.0, FAST: seconds}, machine=OTHER, what=what)
    ]
    found = advice_for(mixed, calls=calls)
    assert (found.answer, len(found.next)) == (Answer.ELSEWHERE, 1)
    here = advice_for([replace(each, machine_id=LOCAL.id) for each in mixed], calls=calls)
    assert not here.next


def test_what_was_measured_elsewhere_names_the_option_that_admits_measuring_it() -> None:
    calls = [CALL, call("tensorflow/cnn")]
    mixed = [
        each
        for what, seconds in zip(calls, (0.8, 1.2), strict=True)
        for each in blocks({OWN: 1.0, MAJOR: seconds}, machine=OTHER, what=what)
    ]
    found = advice_for(mixed, calls=calls, stacks=(OWN, MAJOR))
    assert (found.answer, found.next) == (Answer.ELSEWHERE, ())
    assert (found.option, "a new major version" in found.refused) == ("--allow-major", True)
    allowed = advice_for(mixed, calls=calls, stacks=(OWN, MAJOR), allow_major=True)
    assert (allowed.refused, len(allowed.next)) == ("", 1)


def test_three_machines_of_one_cpu_model_do_not_stand_for_another_model() -> None:
    def on(model: str) -> list[Machine]:
        shared = (("cpu_family", "9"), ("cpu_model", model), ("cpu_vendor", "AMD"))
        return [Machine(identity=(("caches", f"{n}M"), *shared)) for n in range(4)]

    def answer(machines: Sequence[Machine]) -> Answer:
        rows = [e for each in machines for e in blocks({OWN: 1.0, FAST: 0.8}, machine=each)]
        return advice_for(rows, machines=machines).answer

    alike = on("1")
    assert answer(alike) is Answer.ELSEWHERE
    assert answer([alike[0], on("2")[1], on("3")[2], on("4")[3]]) is Answer.FASTER


def test_a_machine_as_the_users_is_elsewhere_where_nobody_trusted_measured_it() -> None:
    """Another origin, on another machine, lends its trust to nobody."""
    others = [CampaignId(f"{CAMPAIGN}{n}") for n in range(3, 6)]
    here = blocks({OWN: 1.0, FAST: 0.2}, machine=LOCAL)
    there = blocks({OWN: 1.0, FAST: 0.2}, machine=OTHER, campaigns=others)
    rows = [
        row
        for origin, seen in (("one", here), ("two", there))
        for row in campaign_contrasts(seen, origins=[origin])
    ]

    def answer(*trusted: str) -> Answer:
        known = Knowledge(
            stacks=[OWN.stack, FAST.stack],
            summaries=summaries([*here, *there], [CALL]),
            calls=[CALL],
            contrasts=rows,
            machine=LOCAL,
            machines=[LOCAL, OTHER],
            trusted=frozenset([*CAMPAIGNS, *others]),
            trusted_origins=trusted,
        )
        found = advisor(known).advise(LOCK)
        assert found.same_machine
        return found.answer

    assert answer() is Answer.ELSEWHERE
    assert answer("two") is Answer.ELSEWHERE
    assert answer("one") is Answer.FASTER


def test_few_origins_of_whom_none_is_trusted_recommend_nothing() -> None:
    """One person can have several, with as many machines as it takes."""
    models = [
        Machine(identity=(("cpu_family", "9"), ("cpu_model", str(n)), ("cpu_vendor", "AMD")))
        for n in range(3)
    ]

    def answer(origins: int, *trusted: str) -> Advice:
        parts = {
            f"o{origin}": [
                each
                for place, machine in enumerate(models)
                for each in blocks(
                    {OWN: 1.0, FAST: 0.5},
                    machine=machine,
                    campaigns=[CampaignId(f"c{origin}{place}{n}") for n in range(2)],
                    seed=origin,
                )
            ]
            for origin in range(origins)
        }
        seen = [each for own in parts.values() for each in own]
        known = Knowledge(
            stacks=[OWN.stack, FAST.stack],
            summaries=summaries(seen, [CALL]),
            calls=[CALL],
            contrasts=[r for o, own in parts.items() for r in campaign_contrasts(own, origins=[o])],
            machine=LOCAL,
            machines=[LOCAL, *models],
            trusted=frozenset(each.campaign_id for each in seen),
            trusted_origins=trusted,
        )
        return advisor(known).advise(LOCK)

    found = answer(2)
    assert found.answer is Answer.ELSEWHERE
    assert any("2 origins measured it, and you trust none" in each for each in found.caveats)
    assert answer(2, "o1").answer is Answer.FASTER
    assert answer(5).answer is Answer.FASTER


def test_a_prerelease_is_not_recommended_in_place_of_a_final_release() -> None:
    early = stack(tensorflow="2.16.0rc1", numpy="1.26.4", requests="2.0")
    measured = blocks({OWN: 1.0, early: 0.5})
    advice = advice_for(measured, stacks=(OWN, early))
    assert (advice.answer, advice.lock) == (Answer.REFUSED, None)
    assert "tensorflow 2.16.0rc1 is no final release" in advice.refused


def test_the_packages_that_are_recommended_are_those_of_a_trusted_origin() -> None:
    """Another origin's stack is equal in compiled code, and changes less besides."""
    ours, theirs = (stack(tensorflow="2.15.0", numpy="1.26.4", requests=n) for n in ("2.1", "2.0"))
    others = [CampaignId(f"{CAMPAIGN}{n}") for n in range(3, 6)]
    mine = blocks({OWN: 1.0, ours: 0.8})
    foreign = blocks({OWN: 1.0, theirs: 0.8}, campaigns=others)
    seen = loading([*mine, *foreign], "tensorflow", "numpy")
    known = Knowledge(
        stacks=[OWN.stack, ours.stack, theirs.stack],
        summaries=summaries(seen, [CALL]),
        calls=[CALL],
        contrasts=[
            *campaign_contrasts(mine),
            *campaign_contrasts(foreign, origins=["theirs"]),
        ],
        machine=LOCAL,
        machines=[LOCAL],
        trusted=frozenset([*CAMPAIGNS, *others]),
    )
    lockfile = locked(tensorflow="2.12.0", numpy="1.23.5", requests="2.31", flask="3.0")
    found = advisor(known).advise(lockfile)
    assert found.answer is Answer.FASTER
    assert found.lock == ours.stack.lock
    assert not any(each.name == "flask" and each.recommended for each in found.changes)


def test_of_the_stacks_that_stand_for_a_lock_the_nearest_is_shown() -> None:
    exact = stack(tensorflow="2.12.0", numpy="1.23.5", requests="2.31", flask="3.0")
    others = [stack(tensorflow="2.12.0", numpy="1.23.5", requests=f"2.{n}") for n in range(5)]
    assert min(each.stack.id for each in others) < exact.stack.id
    seen = [
        measured
        for number, each in enumerate([*others, exact])
        for measured in blocks({each: 1.0, FAST: 0.8}, seed=number)
    ]
    assert advice_for(seen, stacks=[*others, exact, FAST]).current == exact.stack.id


def test_a_base_on_which_nothing_counts_changes_no_answer() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    first = replace(FACTS, libc="a library that sorts first")
    prepared = replace(OWN, stack=replace(OWN.stack, facts=first))
    assert repr(first) < repr(FACTS)
    found = advice_for(seen, stacks=[OWN, FAST, SAME, prepared])
    assert found.effects == advice_for(seen).effects


def test_the_users_own_requirement_is_heeded_and_named() -> None:
    requested = replace(LOCK, requirements=("tensorflow<2.14", "numpy"))
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}), requested)
    assert found.lock is None
    assert "tensorflow<2.14" in found.refused


def test_what_the_users_requirement_forbids_is_named_in_place_of_measuring() -> None:
    requested = replace(LOCK, requirements=("tensorflow<2.14", "numpy"))
    undecided = blocks({OWN: 1.0, FAST: 0.97}, campaigns=CAMPAIGNS[:1])
    found = advice_for(undecided, requested)
    assert (found.answer, found.next) == (Answer.NO_DIFFERENCE, ())
    assert "tensorflow<2.14" in found.refused
    elsewhere = advice_for(blocks({OWN: 1.0, FAST: 0.8}, machine=OTHER), requested)
    assert elsewhere.answer is Answer.ELSEWHERE
    assert "tensorflow<2.14" in elsewhere.refused
    assert not any("--measure" in each for each in elsewhere.caveats)


def test_a_stack_that_is_slower_is_never_recommended() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 1.2, SAME: 0.7}))
    assert found.lock == SAME.stack.lock


def test_what_was_measured_on_a_python_that_the_lock_excludes_is_not_recommended() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, requires_python="==3.9.*"))
    assert (found.answer, found.lock) == (Answer.ELSEWHERE, None)
    assert any("3.9" in each for each in found.caveats)
    same = advice_for(blocks({OWN: 1.0, FAST: 0.8}), replace(LOCK, requires_python="==3.11.*"))
    assert not any("Python" in each for each in same.caveats)


@pytest.mark.parametrize("last", [True, False])
def test_of_several_versions_in_a_lock_that_of_the_measured_python_is_the_current_one(
    last: bool,
) -> None:
    here = [replace(each, marker='python_version >= "3.9"') for each in LOCK.packages]
    old = LockedPackage(name="numpy", version="1.19.5", marker='python_version < "3.9"')
    lockfile = replace(LOCK, packages=(*here, old) if last else (old, *here))
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8}), lockfile)
    assert dict(found.pins)["numpy"] == "1.23.5"
    assert {each.name: each.current for each in found.changes}["numpy"] == "1.23.5"


def computing(where: Environment, checksum: float, seen: Iterable[Inspection]) -> list[Inspection]:
    """Return inspections of which those of one stack had another result."""
    return [
        replace(each, observation=replace(each.observation, checksum=checksum))
        if each.observation is not None and each.stack_id == where.stack.id
        else each
        for each in seen
    ]


def computed_right(
    times: dict[Environment, float], *, machine: Machine = LOCAL
) -> list[Inspection]:
    found = blocks(times, machine=machine)
    for where in times:
        found = computing(where, 1.0, found)
    return found


def test_a_stack_that_computes_something_else_is_not_recommended_and_that_is_said() -> None:
    seen = computed_right({OWN: 1.0, FAST: 0.5, SAME: 0.8})
    assert advice_for(seen).lock == FAST.stack.lock
    found = advice_for(computing(FAST, 1.01, seen))
    assert found.lock == SAME.stack.lock
    assert any("compute something else" in caveat for caveat in found.caveats)


def test_where_only_that_was_measured_nothing_is_recommended_nor_praised() -> None:
    found = advice_for(computing(FAST, 1.01, computed_right({OWN: 1.0, FAST: 0.5})))
    assert (found.lock, found.effects) == (None, ())


def test_what_it_computed_on_another_machine_or_in_a_campaign_that_is_not_trusted_counts() -> None:
    local = computed_right({OWN: 1.0, FAST: 0.5})
    there = computing(FAST, 1.01, computed_right({OWN: 1.0, FAST: 0.5}, machine=OTHER))
    doubtful = [
        replace(each, campaign_id=CampaignId(f"doubtful {each.campaign_id}")) for each in there
    ]
    assert advice_for(local + doubtful).lock is None


def test_what_it_computed_beside_another_baseline_elsewhere_counts_too() -> None:
    local = blocks(
        {OWN: 1.0, FAST: 0.5}
    )  # by an earlier version of an indicator, without checksums
    there = computing(FAST, 1.01, computed_right({SAME: 1.0, FAST: 0.5}, machine=OTHER))
    merged = [
        replace(each, role=Role.BASELINE) if each.stack_id == SAME.stack.id else each
        for each in there
    ]
    assert advice_for(local + merged).lock is None
    assert advice_for(local).lock == FAST.stack.lock


def test_a_lock_whose_results_are_not_repeatable_excludes_no_candidate() -> None:
    seen = computed_right({OWN: 1.0, FAST: 0.5})
    assert advice_for([*computing(OWN, 2.0, seen[:2]), *seen[2:]]).lock == FAST.stack.lock


def test_a_further_campaign_that_disagrees_takes_the_recommendation_back() -> None:
    first = blocks({OWN: 1.0, FAST: 0.8})
    further = blocks({OWN: 1.0, FAST: 1.2}, campaigns=[CampaignId("further")])
    trusted = frozenset({*CAMPAIGNS, CampaignId("further")})
    assert advice_for(first, trusted=trusted).answer is Answer.FASTER
    found = advice_for([*further, *first], trusted=trusted)
    assert (found.answer, found.lock) == (Answer.UNDECIDED, None)
    (before,), (after,) = advice_for(first, trusted=trusted).effects, found.effects
    assert after.low < before.low


def test_one_campaign_alone_says_that_another_one_must_repeat_it() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8}, campaigns=CAMPAIGNS[:1]))
    assert found.answer is Answer.UNDECIDED
    assert any("one campaign alone" in each for each in found.caveats)


FIRST, SECOND, THIRD = (
    [CampaignId(f"{CAMPAIGN}{name}{n}") for n in range(4)] for name in ("a", "b", "c")
)


def test_stacks_that_never_shared_a_block_are_compared_through_others() -> None:
    seen = blocks({OWN: 1.0, SAME: 1.0}, campaigns=FIRST)
    seen += blocks({SAME: 1.0, FAST: 0.6}, campaigns=SECOND)
    found = advice_for(seen, trusted=frozenset({*FIRST, *SECOND}))
    assert (found.answer, found.lock) == (Answer.FASTER, FAST.stack.lock)
    (reported,) = found.provenance
    assert [each.split(",")[1].strip() for each in reported.path] == [
        "tensorflow 2.12.0",
        "tensorflow 2.13.0",
        "tensorflow 2.15.0",
    ]
    assert {*reported.campaigns} == {*FIRST, *SECOND}
    assert any("leads through others" in each for each in found.caveats)


def test_an_older_version_is_recommended_only_where_that_is_allowed() -> None:
    mine = locked(tensorflow="2.15.0", numpy="1.26.4")
    seen = blocks({FAST: 1.0, OWN: 0.7, SAME: 1.0})
    found = advice_for(seen, mine)
    assert (found.answer, found.lock) == (Answer.OLDER, None)
    assert "--allow-downgrade" in found.refused
    allowed = advice_for(seen, mine, allow_downgrade=True)
    assert (allowed.answer, allowed.lock) == (Answer.FASTER, OWN.stack.lock)


def test_a_recommendation_that_one_trusted_origin_carries_names_it() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8})
    found = advice_for(seen, origins=["theirs"], trusted_origins=["theirs"])
    assert (found.answer, found.sole_origins) == (Answer.FASTER, ("theirs",))
    assert any("origin theirs alone" in each for each in found.caveats)


def test_what_one_origin_that_is_not_trusted_carries_alone_is_not_recommended() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8}), origins=["theirs"], trusted_origins=["other"])
    assert (found.answer, found.lock) == (Answer.ELSEWHERE, None)
    assert any("--trust theirs" in each for each in found.caveats)


def test_trust_is_proposed_only_where_it_would_change_the_answer() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8})
    found = advice_for(seen, machine=OTHER, origins=["theirs"], trusted_origins=["other"])
    assert any("origin theirs alone" in each for each in found.caveats)
    assert not any("--trust" in each for each in found.caveats)


def test_a_recommendation_that_one_campaign_carries_says_so() -> None:
    """Others show that campaigns repeat each other, but did not measure the recommended stack."""
    others = blocks({OWN: 1.0, SAME: 1.0}, campaigns=CAMPAIGNS[1:])
    found = advice_for([*blocks({OWN: 1.0, FAST: 0.5}, campaigns=CAMPAIGNS[:1]), *others])
    assert found.answer is Answer.FASTER
    assert any("one campaign carries 100% of it" in each for each in found.caveats)
    repeated = advice_for(blocks({OWN: 1.0, FAST: 0.8}))
    assert not any("one campaign carries" in each for each in repeated.caveats)
    moderate = advice_for([*blocks({OWN: 1.0, FAST: 0.8}, campaigns=CAMPAIGNS[:1]), *others])
    assert (moderate.answer, moderate.lock) == (Answer.UNDECIDED, None)
    assert any("one campaign alone shows it to be faster" in each for each in moderate.caveats)
    assert any("one campaign alone shows it" in each.why for each in moderate.next)


def test_of_thirty_equal_stacks_none_is_recommended() -> None:
    equal = [stack(tensorflow=f"2.{n}.0", numpy="1.26.4") for n in range(13, 43)]
    found = advice_for(
        blocks({OWN: 1.0, **dict.fromkeys(equal, 1.0)}, count=12), stacks=(OWN, *equal)
    )
    assert (found.answer, found.lock) == (Answer.NO_DIFFERENCE, None)


def test_another_distribution_of_a_framework_is_nearer_than_another_release() -> None:
    stacks = tuple(stack(**{"tensorflow-cpu": v, "numpy": "1.26.4"}) for v in ("2.14.1", "2.15.1"))
    seen = blocks(dict(zip(stacks, (1.0, 0.9), strict=True)))
    found = advice_for(seen, locked(tensorflow="2.15.1", numpy="1.26.4"), stacks=stacks)
    unknown(found, "no measured stack holds tensorflow 2.15.1, numpy 1.26.4")
    assert dict(found.nearest[0].versions)["tensorflow-cpu"] == "2.15.1"


def test_a_lock_whose_packages_are_for_another_python_is_unknown_for_that_reason() -> None:
    package = LockedPackage(name="tensorflow", version="2.12", marker="python_version == '3.12'")
    mine = LockFile(path="p", format="pylock", packages=(package,))
    stacks = tuple(stack(tensorflow=v, numpy="1.23.5") for v in ("2.12.0", "2.15.0"))
    seen = blocks(dict(zip(stacks, (1.0, 0.8), strict=True)))
    plain = replace(mine, packages=(replace(package, name="flask"),))
    found = advice_for(seen, mine, stacks=stacks)
    unknown(found, "its packages are for other Pythons than what")
    assert dict(found.nearest[0].versions)["tensorflow"] == "2.12.0"
    assert (found.next, found.proposals) == ((), ())
    unknown(advice_for(seen, plain, stacks=stacks), "framework|holds nothing")


def test_why_nothing_answers_names_the_compiled_packages_that_differ() -> None:
    own, fast = (stack(tensorflow=v, numpy="1.23.5", h5py="3.9") for v in ("2.12.0", "2.15.0"))
    seen = loading(blocks({own: 1.0, fast: 0.8}), "tensorflow", "numpy", "h5py")
    mine = locked(tensorflow="2.12.0", numpy="1.23.5", h5py="3.8")
    unknown(advice_for(seen, mine, stacks=(own, fast)), "packages that they load: h5py$")


def test_a_lock_that_was_never_measured_but_is_equivalent_has_an_answer() -> None:
    """What no indicator loads does not matter, on any base with this Python minor version."""
    seen = blocks({OWN: 1.0, FAST: 0.8})
    found = advice_for(seen, locked(tensorflow="2.12", numpy="1.23.5", requests="1", other="7"))
    assert (found.answer, found.lock) == (Answer.FASTER, FAST.stack.lock)


def test_an_unknown_lock_gets_its_pins_and_the_nearest_measured_versions() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    found = advice_for(seen, locked(tensorflow="2.14.0", numpy="1.26.4", flask="3.0"))
    unknown(found)
    assert found.pins == (("tensorflow", "2.14.0"), ("numpy", "1.26.4"))
    nearest = [dict(each.versions)["tensorflow"] for each in found.nearest]
    assert nearest == ["2.15.0", "2.13.0", "2.12.0"]
    assert found.nearest[2].effects[0].ratio == pytest.approx(1.25, abs=0.02)


@pytest.mark.parametrize("last", [True, False])
def test_of_several_versions_in_an_unknown_lock_that_of_the_nearest_python_is_shown(
    last: bool,
) -> None:
    own = locked(tensorflow="2.14.0", numpy="1.26.4")
    here = [replace(each, marker='python_version >= "3.9"') for each in own.packages]
    old = LockedPackage(name="numpy", version="1.19.5", marker='python_version < "3.9"')
    lockfile = replace(own, packages=(*here, old) if last else (old, *here))
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}), lockfile)
    unknown(found, "no measured stack holds tensorflow 2.14.0, numpy 1.26.4")
    assert dict(found.pins)["numpy"] == "1.26.4"


def test_of_a_newer_major_version_the_oldest_release_is_nearest() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    found = advice_for(seen, locked(tensorflow="1.15.0", numpy="1.23.5"))
    assert dict(found.nearest[0].versions)["tensorflow"] == "2.12.0"


def test_what_other_groups_of_a_lock_hold_is_not_shown_as_its_own() -> None:
    own = locked(jax="0.4.2", numpy="1.26.4")
    dev = LockedPackage(name="tensorflow", version="2.14.0", group="dev")
    found = advice_for(
        blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0}), replace(own, packages=(*own.packages, dev))
    )
    unknown(found, re.escape("no measured stack has its framework (jax)"))
    assert dict(found.pins) == {"jax": "0.4.2", "numpy": "1.26.4"}
    assert not any("tensorflow" in dict(each.versions) for each in found.nearest)


def test_of_an_unknown_lock_the_fastest_near_it_is_measured_with_what_its_release_needs() -> None:
    """A release of TensorFlow requires its own of other packages, which follow it."""
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    mine = locked(tensorflow="2.12.1", numpy="1.23.5", tensorboard="2.12.0")

    def frozen(*_: object) -> str:
        return "tensorboard 2.12.0"

    (following,) = advice_for(seen, mine, admits=frozen).next
    assert dict(following.pins) == {"tensorflow": "2.15.0", "numpy": "1.26.4"}
    bounded = replace(mine, requirements=("tensorflow<2.13",))
    renamed = locked(**{"tensorflow-cpu": "2.12.1", "numpy": "1.23.5"})
    for found in (
        advice_for(seen, mine, exists=lambda *_: False),
        advice_for(seen, mine, keep=("tensorflow",)),
        advice_for(seen, bounded),
        advice_for(seen, renamed),
    ):
        unknown(found)
        assert not any("fastest near" in each.why for each in found.next)


NEWER_NUMPY = stack(tensorflow="2.12.0", numpy="1.26.4", requests="2.0")
NEWER_FRAMEWORK = stack(tensorflow="2.15.0", numpy="1.23.5", requests="2.0")


def test_versions_that_were_never_measured_together_are_proposed_and_not_recommended() -> None:
    stacks = (OWN, NEWER_NUMPY, NEWER_FRAMEWORK)
    seen = blocks({OWN: 1.0, NEWER_NUMPY: 0.9, NEWER_FRAMEWORK: 0.7})
    found = advice_for(seen, stacks=stacks)
    assert found.lock == NEWER_FRAMEWORK.stack.lock
    (proposal,) = found.proposals
    assert [(c.name, c.recommended) for c in proposal.changes] == [
        ("tensorflow", "2.15.0"),
        ("numpy", "1.26.4"),
    ]
    assert proposal.low < 1 / 0.63 < proposal.high
    assert proposal.ratio > 1.3
    wanted = "stackgen explore tensorflow==2.15.0 numpy==1.26.4 --from Pipfile.lock"
    assert proposal.command == wanted
    assert advice_for(seen, stacks=stacks, exists=lambda *_: False).proposals == ()
    excluded = replace(LOCK, requirements=("numpy<1.26",))
    assert advice_for(seen, excluded, stacks=stacks).proposals == ()


SORT = call("numpy/sort")
PLAIN_OWN, PLAIN_FAST = stack(numpy="1.23.5"), stack(numpy="1.26.4")


def test_numpy_stays_where_what_was_measured_runs_without_it() -> None:
    own, better = stack(torch="2.5.1"), stack(torch="2.8.0")
    seen = loading(
        blocks({own: 1.0, better: 0.9}, what=CNN, campaigns=CAMPAIGNS[:1], noise=0.03), "torch"
    )
    mine = locked(torch="2.5.1", numpy="1.26.4")
    found = advice_for(seen, mine, stacks=(own, better), calls=(CNN,))
    (following,) = found.next
    assert following.pins == (("numpy", "1.26.4"), ("torch", "2.8.0"))
    assert found.proposals == ()  # torch 2.8.0 was measured: NumPy beside it is no news


def test_what_was_measured_without_the_framework_says_nothing_about_a_lock_with_it() -> None:
    seen = blocks({PLAIN_OWN: 1.0, PLAIN_FAST: 0.5}, what=SORT)
    unknown(
        advice_for(seen, stacks=(PLAIN_OWN, PLAIN_FAST), calls=(SORT,)),
        "frameworks of all that was measured: NumPy alone",
    )
    found = advice_for(seen, locked(numpy="1.23.5"), stacks=(PLAIN_OWN, PLAIN_FAST), calls=(SORT,))
    assert found.lock == PLAIN_FAST.stack.lock


def test_a_lock_whose_framework_was_never_measured_gets_what_numpy_does_by_itself() -> None:
    seen = blocks({PLAIN_OWN: 1.0, PLAIN_FAST: 0.5}, what=SORT)
    mine = locked(torch="2.6.0", numpy="1.24.0")
    found = advice_for(seen, mine, stacks=(PLAIN_OWN, PLAIN_FAST), calls=(SORT,))
    unknown(found, "no measured stack has its framework")
    assert found.nearest[0].versions == (("numpy", "1.23.5"),)
    assert found.nearest[0].without == ("torch",)
    assert (found.next, found.proposals) == ((), ())


def test_what_was_measured_beside_another_version_of_the_framework_says_nothing_either() -> None:
    own, fast = (stack(tensorflow="2.11.0", numpy=v) for v in ("1.23.5", "1.26.4"))
    seen = loading(blocks({own: 1.0, fast: 0.5}, what=SORT), "numpy")
    unknown(advice_for(seen, stacks=(own, fast), calls=(SORT,)), "no measured stack holds")
    mine = locked(tensorflow="2.11.0", numpy="1.23.5")
    assert advice_for(seen, mine, stacks=(own, fast), calls=(SORT,)).lock == fast.stack.lock


def test_a_stack_that_brings_a_framework_is_not_recommended_to_a_lock_without() -> None:
    seen = blocks({PLAIN_OWN: 1.0, OWN: 1.0, FAST: 0.5}, what=SORT)
    unknown(advice_for(seen, locked(numpy="1.23.5"), stacks=(PLAIN_OWN, OWN, FAST), calls=(SORT,)))


def test_what_the_rest_of_the_lock_does_not_admit_is_not_recommended_with_the_reason() -> None:
    def pinned(
        lockfile: LockFile,  # noqa: ARG001
        changes: Sequence[Change],
        facts: BaseFacts,  # noqa: ARG001
    ) -> str | None:
        newer = any((c.name, c.recommended) == ("tensorflow", "2.15.0") for c in changes)
        return "flask requires tensorflow<2.14" if newer else None

    found = advice_for(blocks({OWN: 1.0, FAST: 0.5, SAME: 0.8}), admits=pinned)
    assert found.lock == SAME.stack.lock
    assert any("flask requires tensorflow<2.14" in each for each in found.caveats)

    found = advice_for(blocks({OWN: 1.0, FAST: 0.5}), admits=pinned)
    assert (found.lock, found.changes) == (None, ())
    reported = "tensorflow 2.12.0 -> 2.15.0, numpy 1.23.5 -> 1.26.4: flask requires tensorflow<2.14"
    assert found.refused == reported
    assert found.effects[0].verdict is Verdict.FASTER


def in_search(seen: list[Inspection]) -> list[Inspection]:
    return [replace(each, role=Role.SEARCH) for each in seen]


def failing(seen: list[Inspection]) -> list[Inspection]:
    return [
        replace(each, outcome=Outcome.CRASHED, observation=None)
        if each.stack_id == FAST.stack.id
        else each
        for each in seen
    ]


SHARED = blocks({OWN: 1.0, FAST: 0.5}, count=14, campaigns=[CAMPAIGN])


@pytest.mark.parametrize(
    ("seen", "trusted", "why"),
    [
        (in_search(SHARED), {CAMPAIGN}, "a search ran them"),
        (SHARED, set(), "the controls of these campaigns failed"),
        (failing(SHARED), {CAMPAIGN}, "a run failed there"),
        (
            blocks(
                {OWN: 1.0, stack(tensorflow="2.12.0", numpy="1.23.5"): 1.0},
                count=14,
                campaigns=[CAMPAIGN],
            ),
            {CAMPAIGN},
            "the others have the same framework",
        ),
    ],
)
def test_versions_that_shared_blocks_are_never_said_not_to_have(
    seen: list[Inspection], trusted: set[CampaignId], why: str
) -> None:
    stacks = (OWN, FAST, stack(tensorflow="2.12.0", numpy="1.23.5"))
    unknown(
        advice_for(seen, trusted=frozenset(trusted), stacks=stacks), f"shared 14 blocks .*{why}"
    )


PROGRAM_CALL = IndicatorCall(
    indicator=replace(call(PROGRAM).indicator, component=PROGRAM),
    arguments=(("command", "python train.py"), ("project", "0")),
)


def program_stack(**versions: str) -> Environment:
    """Return a stack whose NumPy and TensorFlow have compiled code, the rest none."""
    lock = Lock(
        artifacts=tuple(
            artifact(name, v, "cp311-cp311-linux" if name in ("numpy", "tensorflow") else ANY)
            for name, v in sorted(versions.items())
        )
    )
    return Environment(
        stack=Stack(lock=lock, facts=FACTS), kind=EnvironmentKind.VIRTUALENV, location="", python=""
    )


ANY = "py3-none-any"


def test_a_campaign_of_the_users_program_counts_and_the_program_is_named() -> None:
    own = program_stack(tensorflow="2.12.0", numpy="1.23.5", flask="2.9", tidy="1.0")
    fast = program_stack(tensorflow="2.15.0", numpy="1.26.4", flask="2.9", tidy="2.0")
    seen = loading(blocks({own: 1.0, fast: 0.8}, what=PROGRAM_CALL))

    def of(**versions: str) -> Advice:
        stacks = (own, fast)
        return advice_for(seen, locked(**versions), stacks=stacks, calls=(PROGRAM_CALL,))

    lock = {"tensorflow": "2.12.0", "numpy": "1.23.5", "flask": "3.0", "tidy": "1.0"}
    found = of(**lock)
    assert found.lock == fast.stack.lock
    assert [each.indicator for each in found.provenance] == ["python train.py"]
    assert any("python train.py was measured with flask 2.9" in each for each in found.caveats)
    others = ({"numpy": "1.23.4"}, {"tidy": "1.1"}, {"torch": "2.0.0"}, {"rich": "13.0"})
    for other in others:
        unknown(of(**(lock | other)))


def test_an_effect_reports_what_was_compared_where_and_when() -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8})
    later = [
        replace(each, started_at="2026-01-03T00:00:00+00:00")
        for each in seen
        if each.campaign_id == CAMPAIGNS[-1]
    ]
    machine = Machine(identity=(*LOCAL.identity, ("cpu_name", "Xeon")))
    found = advice_for(
        [replace(each, machine_id=machine.id) for each in (*seen[: -len(later)], *later)],
        machine=machine,
    )
    (reported,) = found.provenance
    assert reported.indicator == "tensorflow/matmul"
    assert [(c.name, c.current, c.recommended) for c in reported.compared] == [
        ("tensorflow", "2.12.0", "2.15.0"),
        ("numpy", "1.23.5", "1.26.4"),
    ]
    assert (reported.first[:10], reported.last[:10]) == ("2026-01-01", "2026-01-03")
    assert (reported.machine, reported.python) == ("Xeon", "3.11.2")


MAJOR = stack(tensorflow="2.12.0", numpy="2.0.2", requests="2.0")
BOTH = ("numpy", "tensorflow")


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        ({}, Answer.FASTER),
        ({"only": BOTH}, Answer.FASTER),
        ({"only": ("numpy",)}, Answer.REFUSED),
        ({"keep": ("tensorflow",)}, Answer.REFUSED),
        ({"kind": AdviceType.STABLE}, Answer.FASTER),
    ],
)
def test_the_users_options_limit_what_is_recommended(
    policy: dict[str, Any], answer: Answer
) -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.8}), **policy)
    assert found.answer is answer
    assert (found.lock is None) == (answer is Answer.REFUSED)


@pytest.mark.parametrize(
    ("requirements", "policy", "answer"),
    [
        ((), {}, Answer.MAJOR),
        (("numpy",), {}, Answer.MAJOR),
        (("numpy>=1.20",), {}, Answer.FASTER),
        ((), {"allow_major": True}, Answer.FASTER),
    ],
)
def test_a_new_major_version_is_recommended_where_the_user_ranges_over_it(
    requirements: tuple[str, ...], policy: dict[str, Any], answer: Answer
) -> None:
    lock = replace(LOCK, requirements=requirements)
    found = advice_for(blocks({OWN: 1.0, MAJOR: 0.8}), lock, stacks=(OWN, MAJOR), **policy)
    assert found.answer is answer


@pytest.mark.parametrize("machine", [LOCAL, OTHER])
@pytest.mark.parametrize("requirement", ["numpy<2", ""])
def test_an_option_that_would_not_help_is_not_named(machine: Machine, requirement: str) -> None:
    lock = replace(LOCK, requirements=(requirement,) if requirement else ())
    found = advice_for(
        blocks({OWN: 1.0, MAJOR: 0.8}, machine=machine),
        lock,
        stacks=(OWN, MAJOR),
        admits=lambda *_: "scipy does not admit it",
    )
    assert found.answer is (Answer.REFUSED if machine is LOCAL else Answer.ELSEWHERE)
    assert (requirement or "scipy does not admit it") in found.refused
    assert (found.option, "--allow-major" in found.refused) == ("", False)


def test_a_recommendation_as_a_whole_takes_three_families() -> None:
    for names, scope in (
        (("matmul",), Scope.OPERATIONS),
        (("matmul", "batched_matmul", "conv2d"), Scope.OPERATIONS),
        (("matmul", "conv2d", "mlp", "import"), Scope.OVERALL),
        (("matmul", "conv2d", "import"), Scope.OPERATIONS),
    ):
        calls = [call(f"tensorflow/{name}") for name in names]
        seen = [each for what in calls for each in blocks({OWN: 1.0, FAST: 0.8}, what=what)]
        found = advice_for(seen, calls=calls)
        assert (found.answer, found.scope) == (Answer.FASTER, scope)
        if found.overall is not None:
            lows = [each.low for each in found.effects]
            assert min(lows) <= found.overall.low <= max(lows) < found.overall.ratio


def test_no_difference_is_said_only_where_five_percent_are_excluded() -> None:
    narrow = advice_for(blocks({OWN: 1.0, FAST: 1.0, SAME: 1.3}))
    assert narrow.answer is Answer.NO_DIFFERENCE
    assert narrow.possible == narrow.effects[0].high < 1.05
    wide = advice_for(blocks({OWN: 1.0, FAST: 1.0, SAME: 1.3}, campaigns=CAMPAIGNS[:1]))
    assert wide.answer is Answer.UNDECIDED
    assert wide.possible == wide.effects[0].high > 1.05
    slower = advice_for(blocks({OWN: 1.0, FAST: 1.3, SAME: 1.3}))
    assert (slower.answer, slower.possible) == (Answer.NO_DIFFERENCE, None)
    assert advice_for(blocks({OWN: 1.0, FAST: 0.8})).possible is None


def test_what_may_not_be_recommended_leaves_nothing_undecided() -> None:
    one_campaign = blocks({FAST: 1.0, OWN: 1.0, MAJOR: 1.0}, campaigns=CAMPAIGNS[:1])
    lock = locked(**FAST.stack.lock.versions)
    stacks = (OWN, FAST, MAJOR)
    found = advice_for(one_campaign, lock, stacks=stacks)
    assert (found.answer, found.possible, found.next) == (Answer.NO_DIFFERENCE, None, ())
    allowed = advice_for(one_campaign, lock, stacks=stacks, allow_downgrade=True)
    assert allowed.answer is Answer.UNDECIDED


def test_candidates_that_options_refuse_do_not_hide_one_that_may_be_measured() -> None:
    older = [stack(tensorflow=f"2.{n}.0", numpy="1.20.0") for n in range(1, 9)]
    seen = blocks(
        {OWN: 1.0, **dict.fromkeys(older, 0.98), FAST: 0.99}, campaigns=CAMPAIGNS[:1], noise=0.001
    )
    found = advice_for(seen, stacks=(OWN, FAST, *older))
    assert found.answer is Answer.UNDECIDED
    (following,) = found.next
    assert dict(following.pins)["tensorflow"] == "2.15.0"


def test_the_answer_is_about_what_may_be_taken_unless_something_else_is_faster() -> None:
    lock = locked(tensorflow="2.13.0", numpy="1.24.3")
    major = stack(tensorflow="2.13.0", numpy="2.0.2", requests="2.0")
    stacks = (OWN, SAME, FAST, major)
    seen = blocks({SAME: 1.0, OWN: 0.99, major: 0.995, FAST: 1.0}, noise=0.001)
    found = advice_for(seen, lock, stacks=stacks)
    assert found.answer is Answer.NO_DIFFERENCE
    assert [(each.stack_id, each.against) for each in found.alternatives] == [
        (FAST.stack.id, ""),
        (OWN.stack.id, "older"),
        (major.stack.id, "new major version"),
    ]
    assert {each.a for each in found.effects} == {FAST.stack.id}
    faster = advice_for(blocks({SAME: 1.0, OWN: 0.8, FAST: 1.0}), lock, stacks=stacks)
    assert faster.answer is Answer.OLDER
    assert (faster.alternatives[0].stack_id, faster.alternatives[0].against) == (
        OWN.stack.id,
        "older",
    )


def test_what_is_not_decided_is_named_with_what_a_campaign_would_bring() -> None:
    found = advice_for(blocks({OWN: 1.0, FAST: 0.97, SAME: 1.3}, campaigns=CAMPAIGNS[:1]))
    assert found.answer is Answer.UNDECIDED
    (following,) = found.next
    assert dict(following.pins) == {"numpy": "1.26.4", "tensorflow": "2.15.0"}
    assert following.error is not None
    assert following.expected_error is not None
    assert 0 < following.expected_error < following.error
    assert advice_for(blocks({OWN: 1.0, FAST: 0.8})).next == ()


@pytest.mark.parametrize(
    ("old", "new", "answer", "why"),
    [
        (OWN, FAST, Answer.FASTER, ""),
        (FAST, OWN, Answer.SLOWER, ""),
        (OWN, OWN, Answer.NO_DIFFERENCE, ""),
        (SAME, MAJOR, Answer.UNKNOWN, "Pipfile.lock: no measured stack holds tensorflow"),
    ],
)
def test_an_update_is_judged(old: Environment, new: Environment, answer: Answer, why: str) -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    known = known_from(seen, stacks=[OWN.stack, FAST.stack, SAME.stack], calls=[CALL])
    locks = [locked(**each.stack.lock.versions) for each in (old, new)]
    found = advisor(known, seen).update(*locks)
    assert found.answer is answer
    assert found.why.startswith(why)
    assert found.lock is None


@pytest.mark.parametrize(("old", "new"), [(FAST, OWN), (OWN, FAST), (OWN, SAME)])
def test_an_update_that_one_untrusted_origin_judged_was_measured_elsewhere(
    old: Environment, new: Environment
) -> None:
    seen = blocks({OWN: 1.0, FAST: 0.8, SAME: 1.0})
    stacks = [OWN.stack, FAST.stack, SAME.stack]

    def answer(*trusted: str) -> Answer:
        known = known_from(
            seen, stacks=stacks, calls=[CALL], origins=["theirs"], trusted_origins=trusted
        )
        locks = [locked(**each.stack.lock.versions) for each in (old, new)]
        return advisor(known, seen).update(*locks).answer

    assert answer() is Answer.ELSEWHERE
    assert answer("theirs") is not Answer.ELSEWHERE
