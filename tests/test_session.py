"""What a campaign tries again, what it waits for, and what it never does twice."""

import io
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from stackgen.campaign.session import RetryPolicy, Session, allowance_s
from stackgen.errors import (
    BuildError,
    EngineError,
    IndexRefusalError,
    IndexUnavailableError,
    StackgenError,
    StorageError,
)
from stackgen.knowledge.database import Database, open_database
from stackgen.model.inspections import Inspection, InspectionPlan, Outcome
from stackgen.model.stacks import Environment, Stack
from stackgen.report.terminal import Plain
from tests import sessions
from tests.samples import call, environment

LOCAL = environment("1.26.0")
MATMUL = call()
Endings = list[Outcome]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "kb.db") as found:
        found.add_machine(sessions.MACHINE)
        found.add_stack(LOCAL.stack)
        found.add_indicator(MATMUL)
        yield found


class Counting:
    """Builds by answering, or by failing in order first."""

    def __init__(self, *errors: StackgenError) -> None:
        self.errors = list(errors)
        self.built = 0

    def __call__(self, stack: Stack, label: str) -> Environment:
        assert (stack, bool(label)) == (LOCAL.stack, True)
        if self.errors:
            raise self.errors.pop(0)
        self.built += 1
        return LOCAL


def session(
    database: Database,
    tmp_path: Path,
    *endings: Outcome,
    build: Counting | None = None,
    waits_s: float = 1e6,
    log: str = "the end",
    deadline: float = 1e9,
    clock: Callable[[], float] = lambda: 0.0,
    sleep: Callable[[float], None] = lambda _: None,
) -> Session:
    """Return a new run of one campaign, whose processes end in this order."""
    left = list(endings)

    def answer(plan: InspectionPlan) -> Inspection:
        outcome = left.pop(0)
        return sessions.ended(
            plan,
            1.0 if outcome is Outcome.OK else outcome,
            started_at=f"2026-01-01T00:00:{random.randrange(10**9)}+00:00",
            log=log,
        )

    return sessions.session(
        database,
        tmp_path,
        sessions.campaign(database),
        answer,
        build=build or Counting(),
        deadline=deadline,
        clock=clock,
        waits_s=waits_s,
        sleep=sleep,
    )


Start = Callable[..., Session]


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Start:
    """Return what starts a run: called with the endings of its processes, as ``session``."""
    return partial(session, database, tmp_path)


@pytest.mark.parametrize(
    ("outcome", "runs"),
    [
        (Outcome.OK, 1),
        (Outcome.UNSUPPORTED, 1),
        (Outcome.IMPORT_FAILED, 1),
        (Outcome.CRASHED, 1),
        (Outcome.INVALID_OUTPUT, 1),
        (Outcome.TIMEOUT, 2),
        (Outcome.OUT_OF_MEMORY, 2),
        (Outcome.BUILD_FAILED, 2),
        (Outcome.HASH_MISMATCH, 2),
    ],
)
def test_a_stacks_own_fault_is_not_tried_again_and_a_doubtful_one_once_in_a_later_run(
    database: Database, start: Start, outcome: Outcome, runs: int
) -> None:
    another_stack_ran(database, start)
    for _ in range(4):
        one = start(outcome)
        assert one.trial(LOCAL, MATMUL).outcome is outcome
        assert one.trial(LOCAL, MATMUL).outcome is outcome  # within a run, never again
    assert trials(database) == runs


def test_what_was_blamed_for_a_damaged_cache_is_tried_again_once_in_each_run(start: Start) -> None:
    log = "uv pip failed: Bad CRC (got 1, expected 2) for file: numpy/x.so"
    for _ in range(3):
        ending = Outcome.BUILD_FAILED
        run = start(ending, log=log)
        for _ in range(2):
            assert run.trial(LOCAL, MATMUL).outcome is ending
        assert run.record.added == 1


def another_stack_ran(database: Database, start: Start) -> None:
    other = environment("1.25.0")
    database.add_stack(other.stack)
    start(Outcome.OK).trial(other, MATMUL)


def trials(database: Database) -> int:
    return sum(each.stack_id == LOCAL.stack.id for each in database.inspections())


def test_where_nothing_ever_ran_each_run_of_the_command_tries_again(
    database: Database, start: Start
) -> None:
    for count in (1, 2, 3):
        one = start(Outcome.IMPORT_FAILED)
        for _ in range(2):
            assert one.trial(LOCAL, MATMUL).outcome is Outcome.IMPORT_FAILED
        assert trials(database) == count
    assert start(Outcome.OK).trial(LOCAL, MATMUL).outcome is Outcome.OK


KILLS = ["killed by SIGKILL", "said something\nkilled by SIGTERM"]


@pytest.mark.parametrize("log", KILLS)
def test_a_process_that_was_killed_is_tried_three_times_in_each_run(
    database: Database, start: Start, log: str
) -> None:
    another_stack_ran(database, start)
    for count in (3, 6, 9):
        one = start(*[Outcome.CRASHED] * 3, log=log, waits_s=0)
        for _ in range(2):
            assert one.trial(LOCAL, MATMUL).outcome is Outcome.CRASHED
        assert trials(database) == count
    ends = (Outcome.CRASHED, Outcome.OK)
    assert start(*ends, log=log).trial(LOCAL, MATMUL).outcome is Outcome.OK


def test_what_ran_once_counts_whatever_came_before(start: Start) -> None:
    assert start(Outcome.TIMEOUT).trial(LOCAL, MATMUL).observation is None
    assert start(Outcome.OK).trial(LOCAL, MATMUL).observation is not None
    assert start().trial(LOCAL, MATMUL).observation is not None


def test_a_lost_engine_is_waited_for_and_the_environment_made_again(
    database: Database, start: Start
) -> None:
    build = Counting()
    lost = (Outcome.ENGINE_LOST, Outcome.ENGINE_LOST, Outcome.OK)
    ran = start(*lost, build=build).trial(LOCAL, MATMUL)
    assert ran.outcome is Outcome.OK
    assert build.built == 2
    assert [each.outcome for each in database.inspections(outcome=Outcome.ENGINE_LOST)] == [
        Outcome.ENGINE_LOST,
        Outcome.ENGINE_LOST,
    ]


def test_an_engine_that_stays_away_is_given_up(start: Start) -> None:
    with pytest.raises(EngineError, match="an environment went away"):
        start(*[Outcome.ENGINE_LOST] * 50, waits_s=10).trial(LOCAL, MATMUL)


@pytest.mark.parametrize("lost_at", ["while it is built", "while it is tried"])
def test_an_engine_that_is_away_for_ten_seconds_costs_a_short_campaign_ten_seconds(
    start: Start, lost_at: str
) -> None:
    now = 0.0

    class Away(Counting):
        def __call__(self, stack: Stack, label: str) -> Environment:
            if now < 10:
                raise AWAY
            return super().__call__(stack, label)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    endings = (Outcome.ENGINE_LOST, Outcome.OK)
    one = start(
        *endings,
        build=Away(),
        waits_s=allowance_s(30),
        deadline=30.0,
        clock=lambda: now,
        sleep=sleep,
    )
    if lost_at == "while it is built":
        assert one.environment(LOCAL.stack, "x") == LOCAL
    else:
        assert one.trial(LOCAL, MATMUL).outcome is Outcome.OK
    assert 10 <= now < 25


GONE = IndexUnavailableError("gone", why="no answer", fix="wait")
AWAY = EngineError("away", why="no answer", fix="wait")


@pytest.mark.parametrize("error", [GONE, AWAY])
def test_what_may_pass_is_built_again(start: Start, error: StackgenError) -> None:
    build = Counting(error, error)
    assert start(build=build).environment(LOCAL.stack, "x") == LOCAL
    with pytest.raises(type(error)):
        start(build=Counting(*[error] * 50), waits_s=10).environment(LOCAL.stack, "x")


@pytest.mark.parametrize(
    "error",
    [
        IndexRefusalError("404", why="withdrawn", fix="another"),
        BuildError("refused", why="unsafe", fix="exclude it"),
        StorageError("full", why="no space", fix="make room"),
    ],
)
def test_what_does_not_pass_is_not(start: Start, error: StackgenError) -> None:
    build = Counting(error)
    with pytest.raises(type(error)):
        start(build=build).environment(LOCAL.stack, "x")
    assert build.built == 0


def test_what_was_waited_for_others_does_not_count_against_the_budget(start: Start) -> None:
    one = start()
    before = one.left_s
    one.budget.host.waited_s += 100
    assert one.left_s == before + 100


def test_two_processes_of_one_campaign_do_not_try_the_same_twice(
    database: Database, start: Start
) -> None:
    one, two = (start(Outcome.OK) for _ in range(2))
    assert one.trial(LOCAL, MATMUL) == two.trial(LOCAL, MATMUL)
    assert len(database.inspections()) == 1


INDEX_GONE = IndexUnavailableError("the index is gone", why="connection refused\nmore", fix="wait")
ENGINE_AWAY = EngineError("the engine is away", why="connection refused", fix="wait")


def policy(left_s: float, slept: list[float], stream: io.StringIO, seed: int = 1) -> RetryPolicy:
    return RetryPolicy(
        left_s=left_s, dice=random.Random(seed), progress=Plain(stream), sleep=slept.append
    )


def test_pauses_grow_and_end() -> None:
    slept: list[float] = []
    stream = io.StringIO()
    waiting = policy(60, slept, stream)
    while waiting.pause(INDEX_GONE, at_most_s=1e9):
        pass
    assert sum(slept) == pytest.approx(60)
    assert 6 <= len(slept) <= 12
    wanted = [2, 4, 8, *[10] * 9]
    assert all(w / 2 <= each <= w * 1.5 for w, each in zip(wanted, slept[:-1], strict=False))
    first = stream.getvalue().splitlines()[0]
    assert first == f"the index is gone (connection refused); trying again in {slept[0]:.1f} s."


def test_a_run_is_no_more_patient_with_the_second_loss_than_it_has_time_left() -> None:
    slept: list[float] = []
    waiting = policy(10, slept, io.StringIO())
    assert waiting.pause(INDEX_GONE, at_most_s=1e9)
    assert waiting.pause(INDEX_GONE, at_most_s=1e9)
    waiting.over()
    waiting.pause(INDEX_GONE, at_most_s=1e9)
    assert slept[2] <= 3
    assert sum(slept) <= 10


def test_nothing_is_waited_for_beyond_the_budget() -> None:
    slept: list[float] = []
    waiting = policy(60, slept, io.StringIO())
    assert waiting.pause(INDEX_GONE, at_most_s=0.5)
    assert not waiting.pause(INDEX_GONE, at_most_s=0)
    assert slept == [0.5]


def test_an_engine_is_waited_for_a_minute_each_time_whatever_the_budget() -> None:
    slept: list[float] = []
    waiting = policy(allowance_s(30), slept, io.StringIO())
    for times in (1, 2):
        while waiting.pause(ENGINE_AWAY, at_most_s=1e9):
            pass
        assert sum(slept) == pytest.approx(60 * times)
        waiting.engine_works()
    assert waiting.left_s == allowance_s(30)


def test_the_same_seed_waits_the_same_and_another_does_not() -> None:
    runs: list[list[float]] = [[], [], []]
    for slept, seed in zip(runs, (1, 1, 2), strict=True):
        policy(60, slept, io.StringIO(), seed).pause(INDEX_GONE, at_most_s=1e9)
    assert runs[0] == runs[1] != runs[2]


def test_a_tenth_of_the_budget_is_allowed_and_a_minute_at_most() -> None:
    assert [allowance_s(each) for each in (30, 600, 7200)] == [3, 60, 60]
