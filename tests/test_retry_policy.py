"""Which failures are tried again, and which exclude a stack, on tables."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stackgen.measure.retry_policy import (
    FailureCause,
    blamed,
    cause,
    killed_again_and_again,
    known_trial,
    nothing_runs,
)
from stackgen.model.inspections import Inspection, Outcome, Role
from tests.samples import call, environment, inspection

MATMUL = call()
STACKS = {letter: environment(letter) for letter in "abc"}
ENDINGS = {
    "ok": (Outcome.OK, ""),
    "own": (Outcome.CRASHED, "killed by SIGSEGV"),
    "killed": (Outcome.CRASHED, "killed by SIGKILL"),
    "timeout": (Outcome.TIMEOUT, "stopped after its time limit of 4 s"),
    "lost": (Outcome.ENGINE_LOST, "the process was lost"),
}


def ran(what: str, *, stack: str = "a", block: int = 0, position: int = 0) -> Inspection:
    outcome, log = ENDINGS[what]
    seen = inspection(
        STACKS[stack],
        MATMUL,
        block,
        1.0 if outcome is Outcome.OK else None,
        role=Role.CANDIDATE if block else Role.CALIBRATION,
        position=position,
        outcome=outcome,
    )
    return replace(seen, started_at=f"2026-01-01T00:00:{position:02}+00:00", log=log)


def blocks(*rows: str) -> list[Inspection]:
    """Return blocks as lines of ``stack:ending`` words."""
    return [
        ran(what, stack=stack, block=number, position=place)
        for number, row in enumerate(rows, start=1)
        for place, (stack, what) in enumerate(word.split(":") for word in row.split())
    ]


@pytest.mark.parametrize(
    ("outcome", "log", "expected"),
    [
        (Outcome.OK, "", None),
        (Outcome.ENGINE_LOST, "killed by SIGKILL", FailureCause.INFRASTRUCTURE),
        (Outcome.DOWNLOAD_FAILED, "404", FailureCause.INFRASTRUCTURE),
        (Outcome.CRASHED, "epoch 1\nkilled by SIGKILL", FailureCause.KILLED),
        (Outcome.CRASHED, "killed by SIGTERM\n", FailureCause.KILLED),
        (Outcome.OUT_OF_MEMORY, "out of memory (killed by SIGKILL)", FailureCause.KILLED),
        (Outcome.BUILD_FAILED, "uv pip failed: killed by SIGKILL", FailureCause.KILLED),
        (
            Outcome.OUT_OF_MEMORY,
            "out of memory (killed by SIGKILL at its own limit)",
            FailureCause.UNCERTAIN,
        ),
        (Outcome.OUT_OF_MEMORY, "MemoryError\nout of memory (exit code 1)", FailureCause.UNCERTAIN),
        (Outcome.TIMEOUT, "stopped after its time limit of 4 s", FailureCause.UNCERTAIN),
        (Outcome.BUILD_FAILED, "uv pip failed: no RECORD", FailureCause.UNCERTAIN),
        (Outcome.HASH_MISMATCH, "", FailureCause.UNCERTAIN),
        (Outcome.CRASHED, "killed by SIGSEGV", FailureCause.OWN),
        (Outcome.CRASHED, "worker killed by SIGKILL\nexit code 1", FailureCause.OWN),
        (Outcome.IMPORT_FAILED, "ImportError", FailureCause.OWN),
        (Outcome.UNSUPPORTED, "", FailureCause.OWN),
        (Outcome.INVALID_OUTPUT, "", FailureCause.OWN),
    ],
)
def test_the_cause_is_reported_by_what_was_recorded(
    outcome: Outcome, log: str, expected: FailureCause | None
) -> None:
    assert cause(outcome, log) is expected


@pytest.mark.parametrize(
    ("earlier", "now", "anything_ran", "repeated"),
    [
        ("", "", True, True),
        ("ok", "", True, False),
        ("own", "", True, False),
        ("own", "", False, True),
        ("", "own", False, False),
        ("timeout", "", True, True),
        ("", "timeout", True, False),
        ("timeout timeout", "", True, False),
        ("timeout timeout", "", False, True),
        ("killed killed killed killed", "", True, True),
        ("killed", "killed killed", True, True),
        ("", "killed killed killed", True, False),
        ("lost lost", "lost", True, True),
        ("own", "ok", True, False),
    ],
)
def test_a_trial_is_repeated_as_its_cause_allows(
    earlier: str, now: str, anything_ran: bool, repeated: bool
) -> None:
    past = [ran(each, position=at) for at, each in enumerate(earlier.split())]
    new = [ran(each, position=30 + at) for at, each in enumerate(now.split())]
    found = known_trial([*past, *new], current={each.id for each in new}, anything_ran=anything_ran)
    assert (found is None) == repeated


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("a:ok b:ok", "a:ok b:own"), ["b"]),
        (("a:ok b:timeout",), ["b"]),
        (("a:ok b:killed", "a:ok b:killed", "a:ok b:killed", "a:ok b:killed"), []),
        (("a:ok b:ok", "a:own b:own"), []),
        (("a:own b:own", "a:ok b:own"), ["b"]),
        (("a:lost b:ok",), []),
    ],
)
def test_a_failure_excludes_a_stack_where_others_run(
    rows: Sequence[str], expected: Sequence[str]
) -> None:
    found = [each.stack_id for each in blamed(blocks(*rows), (MATMUL,))]
    assert found == [STACKS[each].stack.id for each in expected]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("a:ok b:killed", "a:ok b:killed"), []),
        (("a:ok b:killed", "a:ok b:killed", "a:ok b:killed"), ["b"]),
        (("a:ok b:killed", "a:ok b:killed", "a:ok b:ok", "a:ok b:killed"), []),
        (("a:killed b:killed", "a:killed b:killed", "a:killed b:killed"), []),
        (("a:ok b:killed", "a:ok c:ok", "a:ok b:killed", "a:ok b:killed"), ["b"]),
    ],
)
def test_a_stack_is_left_out_where_it_alone_is_killed_three_times_in_a_row(
    rows: Sequence[str], expected: Sequence[str]
) -> None:
    found = killed_again_and_again(blocks(*rows), (MATMUL,))
    assert list(found) == [STACKS[each].stack.id for each in expected]


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (("a:ok b:own",), False),
        (("a:own b:own",), True),
        (("b:own c:own",), False),  # a further block holds the baseline, which tells
        (("b:own c:own", "a:own b:own"), True),
        (("b:own c:own", "a:ok b:own"), False),
        (("a:killed b:killed",), False),
        (("a:killed b:killed", "a:killed b:killed"), False),
        (("a:killed b:killed",) * 3, True),
        (("a:killed b:killed", "a:ok b:killed", "a:killed b:killed"), False),
        (("a:own b:lost",), False),
    ],
)
def test_a_run_ends_where_nothing_runs_any_more(rows: Sequence[str], ends: bool) -> None:
    found = nothing_runs(blocks(*rows), (MATMUL,), baseline=STACKS["a"].stack.id)
    assert (found is not None) == ends
