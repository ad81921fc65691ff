"""What ends measuring a stack against itself, and what is kept then."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stackgen.campaign.session import Session
from stackgen.commands.noise import measure_pairs
from stackgen.knowledge.database import Database, open_database
from stackgen.measure import INTERIM_ANALYSES, Design, block_times
from stackgen.model.inspections import Inspection, InspectionPlan, Outcome
from stackgen.model.stacks import Environment, Stack
from tests import sessions
from tests.samples import call, design, environment

LOCAL, MATMUL, SORT, PURE = environment("2.4.0"), call(), call("numpy/sort"), call("python/pure")
Ends = Callable[[InspectionPlan], Outcome]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "kb.db") as found:
        found.add_machine(sessions.MACHINE)
        found.add_stack(LOCAL.stack)
        for each in (MATMUL, SORT, PURE):
            found.add_indicator(each)
        yield found


def session(database: Database, tmp_path: Path, ends: Ends, *, budget_s: float = 1e6) -> Session:
    """Return a run whose processes end as told, one a second."""
    now = [0.0]

    def answer(plan: InspectionPlan) -> Inspection:
        now[0] += 1
        outcome = ends(plan)
        return sessions.ended(
            plan,
            now[0] if outcome is Outcome.OK else outcome,
            started_at=f"2026-01-01T00:00:00.{int(now[0]):06}+00:00",
            log="MemoryError: no",
        )

    def build(stack: Stack, label: str) -> Environment:
        raise AssertionError(f"{label} of {stack.id} is there already")

    return sessions.session(
        database,
        tmp_path,
        sessions.campaign(database, kind="noise", seed=0),
        answer,
        build=build,
        deadline=budget_s,
        clock=lambda: now[0],
    )


def design_of(measuring: Session) -> Design:
    return design(LOCAL, calls=(MATMUL, SORT), campaign=measuring.record.campaign.id)


def fine(plan: InspectionPlan) -> Outcome:  # noqa: ARG001 # as executors are asked
    return Outcome.OK


def pairs(measuring: Session, what: str) -> int:
    found = call(what).id
    stack = LOCAL.stack.id
    return len(block_times(measuring.inspections, indicator=found, stack=stack, twin=True))


def test_sixty_blocks_are_enough(database: Database, tmp_path: Path) -> None:
    measuring = session(database, tmp_path, fine)
    ended = measure_pairs(measuring, design_of(measuring))
    assert "60 blocks show enough" in ended.why
    assert {pairs(measuring, each) for each in ("numpy/matmul", "python/pure")} == {
        INTERIM_ANALYSES[-1]
    }
    again = session(database, tmp_path, fine)
    assert measure_pairs(again, design_of(again)).why == ended.why
    assert again.record.added == 0


def test_one_block_is_run_however_short_the_budget(database: Database, tmp_path: Path) -> None:
    measuring = session(database, tmp_path, fine, budget_s=-5.0)
    assert measure_pairs(measuring, design_of(measuring)).why == "the budget is spent"
    assert pairs(measuring, "numpy/sort") == 1
    more = session(database, tmp_path, fine, budget_s=20.0)
    measure_pairs(more, design_of(more))
    assert pairs(more, "numpy/sort") == 4


def test_an_indicator_that_fails_leaves_and_the_others_go_on(
    database: Database, tmp_path: Path
) -> None:
    def ends(plan: InspectionPlan) -> Outcome:
        spoilt = plan.call.id == SORT.id and plan.block == 5
        return Outcome.CRASHED if spoilt else Outcome.OK

    measuring = session(database, tmp_path, ends)
    measure_pairs(measuring, design_of(measuring))
    assert pairs(measuring, "numpy/matmul") == INTERIM_ANALYSES[-1]
    last = max(each.block for each in measuring.inspections if each.indicator_id == SORT.id)
    assert last == 5


@pytest.mark.parametrize("failing", [(MATMUL, SORT), (PURE,)])
def test_where_nothing_is_left_to_compare_with_it_ends(
    database: Database, tmp_path: Path, failing: tuple[object, ...]
) -> None:
    ids = {each.id for each in (MATMUL, SORT, PURE) if each in failing}

    def ends(plan: InspectionPlan) -> Outcome:
        return Outcome.TIMEOUT if plan.call.id in ids else Outcome.OK

    measuring = session(database, tmp_path, ends)
    assert measure_pairs(measuring, design_of(measuring)).why == "what was to be measured failed"
    assert {each.block for each in measuring.inspections} == {1}


def test_what_was_measured_before_an_interruption_is_kept(
    database: Database, tmp_path: Path
) -> None:
    def ends(plan: InspectionPlan) -> Outcome:
        if (plan.block, plan.position) == (3, 4):
            raise KeyboardInterrupt
        return Outcome.OK

    measuring = session(database, tmp_path, ends)
    assert measure_pairs(measuring, design_of(measuring)).interrupted
    again = session(database, tmp_path, fine, budget_s=5.0)
    assert len(again.inspections) == 2 * 6 + 4
    measure_pairs(again, design_of(again))
    assert min(each.block for each in again.inspections[16:]) == 4


def test_an_engine_that_is_gone_ends_it_with_its_error(database: Database, tmp_path: Path) -> None:
    def ends(plan: InspectionPlan) -> Outcome:
        return Outcome.ENGINE_LOST if plan.block == 2 else Outcome.OK

    measuring = session(database, tmp_path, ends)
    ended = measure_pairs(measuring, design_of(measuring))
    assert ended.error is not None
    assert ended.error.exit_code == 5
