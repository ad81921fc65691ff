"""The explanation of failures, from made-up observations."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.knowledge.evidence import summaries
from stackgen.knowledge.failures import (
    Separation,
    Trait,
    explain_failures,
    explain_results,
    signature,
)
from stackgen.model.evidence import Difference
from stackgen.model.identity import CampaignId, IndicatorId, MachineId
from stackgen.model.inspections import Inspection, Observation, Outcome, Role
from stackgen.model.packages import Lock
from stackgen.model.stacks import Environment, Stack
from tests.samples import FACTS, call, environment, inspection
from tests.spaces import artifact

GOOD, BAD, WORSE = environment("1.26.0"), environment("2.0.0"), environment("2.1.0")
MATMUL = call()


def failure(where: Environment, log: str, outcome: Outcome = Outcome.IMPORT_FAILED) -> Inspection:
    made = inspection(where, MATMUL, 0, None, outcome=outcome)
    return replace(made, log=log)


def test_failures_alike_are_one_group_that_names_what_only_they_share() -> None:
    stacks = [each.stack for each in (GOOD, BAD, WORSE)]
    seen = [
        inspection(GOOD, MATMUL, 1, 1.0),
        failure(BAD, "Traceback\nImportError: numpy 2 in /one/place"),
        failure(WORSE, "Traceback\nImportError: numpy 2 in /another/place"),
    ]
    (group,) = explain_failures(stacks, seen)
    assert (len(group.stacks), group.runs, group.running) == (2, 2, 1)
    assert group.reason == "ImportError: numpy 2 in ..."
    assert group.shared == ()
    assert group.separations == (
        Separation(name="numpy", failing=("2.0.0", "2.1.0"), running=("1.26.0",)),
    )
    (alone,) = explain_failures(stacks, seen[:2])
    assert alone.shared == (Trait(kind="package", name="numpy", value="2.0.0"),)
    assert alone.log == "Traceback\nImportError: numpy 2 in /one/place"


def test_a_lost_engine_is_no_failure_and_a_stack_that_also_ran_fails_now_and_then() -> None:
    seen = [
        inspection(GOOD, MATMUL, 1, 1.0),
        failure(GOOD, "killed", Outcome.CRASHED),
        failure(BAD, "gone", Outcome.ENGINE_LOST),
        failure(BAD, "gone", Outcome.DOWNLOAD_FAILED),
    ]
    (group,) = explain_failures([GOOD.stack, BAD.stack], seen)
    assert (group.sometimes, group.outcome, group.shared) == (True, Outcome.CRASHED, ())


def test_versions_that_separate_only_beside_another_are_named_with_it() -> None:
    def stack(pandas: str, numpy: str) -> Environment:
        lock = Lock(artifacts=(artifact("numpy", numpy), artifact("pandas", pandas)))
        return replace(GOOD, stack=replace(GOOD.stack, lock=lock))

    bad = [stack("2.0.3", numpy) for numpy in ("2.0.2", "2.1.3")]
    good = [stack("2.2.3", "2.0.2"), stack("2.2.3", "2.1.3"), stack("2.0.3", "1.26.4")]
    seen = [inspection(each, MATMUL, 1, 1.0) for each in good]
    seen += [failure(each, "ValueError: numpy.dtype size changed") for each in bad]
    (group,) = explain_failures([each.stack for each in (*good, *bad)], seen)
    assert (group.shared, group.pairs) == ((), ())
    assert group.separations == (
        Separation(
            name="numpy",
            failing=("2.0.2", "2.1.3"),
            running=("1.26.4",),
            given=Trait(kind="package", name="pandas", value="2.0.3"),
        ),
    )


def test_two_that_run_apart_and_not_together_are_named_together() -> None:
    both = settings(BAD, FLAG="1")
    seen = [
        inspection(settings(GOOD, FLAG="1"), MATMUL, 1, 1.0),
        inspection(BAD, MATMUL, 1, 1.0),
        failure(both, "Error: both"),
    ]
    (group,) = explain_failures([BAD.stack, both.stack, settings(GOOD, FLAG="1").stack], seen)
    flag = Trait(kind="setting", name="FLAG", value="1")
    assert group.shared == ()
    assert group.pairs == ((Trait(kind="package", name="numpy", value="2.0.0"), flag),)


@pytest.mark.parametrize(
    ("log", "is_damage"),
    [
        ("uv pip failed: Failed to extract archive: x.whl\nBad CRC (got 1, expected 2)", True),
        ("uv pip failed: hint: unable to locate the end of central directory record", True),
        ("the wheel numpy-2.0.0-x.whl was refused: Bad CRC-32 for file 'numpy/x.so'", True),
        ("the wheel numpy-2.0.0-x.whl was refused: File is not a zip file", True),
        ("the wheel x.whl is not safe to unpack: not a readable zip file: Bad CRC-32", False),
        ("numpy 2 cannot be built from its sources: error: unexpected end of file", False),
        ("uv pip failed: the package requires another Python", False),
    ],
)
def test_a_damaged_cache_is_no_reason_to_leave_a_version_out(log: str, is_damage: bool) -> None:
    failed = replace(failure(BAD, log), outcome=Outcome.BUILD_FAILED)
    groups = explain_failures([BAD.stack, GOOD.stack], [failed, inspection(GOOD, MATMUL, 1, 1.0)])
    assert len(groups) == (0 if is_damage else 1)


def settings(where: Environment, **values: str) -> Environment:
    return replace(where, stack=replace(where.stack, settings=tuple(sorted(values.items()))))


VERSIONS = st.sampled_from(["1", "2", "3"])
STACKS = st.builds(
    lambda a, b, flag, python: Stack(
        lock=Lock(artifacts=(artifact("a", a), artifact("b", b))),
        facts=replace(FACTS, python=python),
        settings=(("FLAG", flag),) if flag else (),
    ),
    VERSIONS,
    VERSIONS,
    st.sampled_from(["", "0", "1"]),
    st.sampled_from(["CPython 3.9.2", "CPython 3.11.2"]),
)
ENDINGS = st.sampled_from(
    [
        (Outcome.OK, ""),
        (Outcome.IMPORT_FAILED, "ImportError: x"),
        (Outcome.CRASHED, "killed by SIGSEGV"),
        (Outcome.ENGINE_LOST, "gone"),
    ]
)
RUNS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from("MN"), st.sampled_from("IJ"), ENDINGS), max_size=14
)


def plain(stack: Stack) -> dict[tuple[str, str], str]:
    facts = stack.facts
    return {
        **{("package", name): v for name, v in stack.lock.versions.items()},
        **{("setting", name): v for name, v in stack.settings},
        ("base", "Python"): facts.python,
        ("base", "Python build"): facts.python_build,
        ("base", "libc"): facts.libc,
        ("base", "distribution"): facts.distribution,
    }


@given(stacks=st.lists(STACKS, min_size=5, max_size=5, unique_by=lambda s: s.id), runs=RUNS)
def test_causes_are_what_a_search_through_everything_finds(
    stacks: list[Stack], runs: list[tuple[int, str, str, tuple[Outcome, str]]]
) -> None:
    blank = inspection(GOOD, MATMUL, 0, None, outcome=Outcome.CRASHED)
    seen = [
        replace(
            blank,
            stack_id=stacks[number].id,
            machine_id=MachineId(machine),
            indicator_id=IndicatorId(indicator),
            position=place,
            outcome=outcome,
            log=log,
            observation=Observation(values_s=(1.0,), loops=1) if outcome is Outcome.OK else None,
        )
        for place, (number, machine, indicator, (outcome, log)) in enumerate(runs)
    ]
    groups = explain_failures(stacks, seen)
    reported = {(g.machine_id, g.outcome, g.sometimes): g for g in groups}
    assert len(reported) == len(groups)
    ok = {(m, i, n) for n, m, i, (outcome, _) in runs if outcome is Outcome.OK}
    wanted: dict[tuple[str, Outcome, bool], list[tuple[str, int]]] = {}
    for number, machine, indicator, (outcome, _) in runs:
        if outcome in (Outcome.IMPORT_FAILED, Outcome.CRASHED):
            kind = (machine, outcome, (machine, indicator, number) in ok)
            wanted.setdefault(kind, []).append((indicator, number))
    assert reported.keys() == wanted.keys()
    for (machine, outcome, sometimes), failed in wanted.items():
        group = reported[MachineId(machine), outcome, sometimes]
        bad = {number for _, number in failed}
        good = {n for m, i, n in ok if m == machine and i in {i for i, _ in failed}} - bad
        assert group.stacks == tuple(sorted(stacks[number].id for number in bad))
        assert (group.runs, group.running) == (len(failed), len(good))
        bads, goods = ([plain(stacks[number]) for number in each] for each in (bad, good))
        common = [pair for pair in bads[0].items() if all(pair in b.items() for b in bads)]
        alone = {pair for pair in common if not any(pair in g.items() for g in goods)}
        together = {
            frozenset({one, two})
            for one in common
            for two in common
            if one != two and not any(one in g.items() and two in g.items() for g in goods)
        }
        found = {((each.kind, each.name), each.value) for each in group.shared}
        pairs = {frozenset(((e.kind, e.name), e.value) for e in pair) for pair in group.pairs}
        assert found == (set() if sometimes else alone)
        assert pairs == (together if goods and not alone and not sometimes else set())
        if goods and not sometimes:
            shared = None if alone or any(separations(bads, goods, None)) else common
            given = [None, *(shared or ())]
            assert [
                (e.given and ((e.given.kind, e.given.name), e.given.value), e.name)
                for e in group.separations
            ] == [
                (trait, name)
                for trait in ([None] if shared is None else sorted(given[1:]))
                for name in separations(bads, goods, trait)
            ]


Plain = dict[tuple[str, str], str]


def separations(
    bads: list[Plain], goods: list[Plain], given: tuple[tuple[str, str], str] | None
) -> list[str]:
    """Return the packages with several versions on the failing side, none of them on the other."""
    beside = [each for each in goods if given is None or given in each.items()]
    operands = {
        name: ({x["package", name] for x in bads}, {x["package", name] for x in beside})
        for name in ("a", "b")
    }
    return [
        name
        for name, (mine, other) in operands.items()
        if len(mine) > 1 and other and not mine & other
    ]


def test_the_signature_is_the_error_itself() -> None:
    assert signature("noise\nValueError: x at 0xdeadbeef\nmore noise") == "ValueError: x at ..."
    assert signature("") == "no output"


def computed(where: Environment, checksum: float, block: int = 1) -> Inspection:
    role = Role.BASELINE if where is GOOD else Role.CANDIDATE
    made = inspection(where, MATMUL, block, 1.0, role=role)
    return replace(
        made, observation=Observation(values_s=(1.0,), loops=1, checksum=checksum), log="warning"
    )


def test_stacks_that_compute_something_else_are_reported_with_what_they_share() -> None:
    stacks = [each.stack for each in (GOOD, BAD, WORSE)]
    seen = [computed(GOOD, 1.0), computed(BAD, 1.1), computed(BAD, 1.1, 2), computed(WORSE, 1.0)]
    (group,) = explain_results(stacks, summaries(seen, [MATMUL]), [MATMUL])
    assert (group.outcome, group.reason) == (Difference.NUMBERS, "numpy/matmul")
    assert (group.stacks, group.runs, group.running) == ((BAD.stack.id,), 2, 2)
    assert group.shared == (Trait(kind="package", name="numpy", value="2.0.0"),)
    assert group.log == ""
    agreeing = summaries([seen[0], seen[-1]], [MATMUL])
    assert explain_results(stacks, agreeing, [MATMUL]) == ()


def test_results_are_compared_within_a_campaign_on_one_machine() -> None:
    elsewhere = replace(computed(BAD, 1.1), machine_id=MachineId("another"))
    before = replace(computed(WORSE, 1.1), campaign_id=CampaignId("earlier"))
    seen = [computed(GOOD, 1.0), elsewhere, before]
    stacks = [each.stack for each in (GOOD, BAD, WORSE)]
    assert explain_results(stacks, summaries(seen, [MATMUL]), [MATMUL]) == ()
