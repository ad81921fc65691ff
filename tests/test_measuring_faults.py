"""Measuring in which things go wrong: the processes are answered for, all else is real."""

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest

from stackgen.campaign.comparison import Comparison, Stopped, is_first_apart
from stackgen.errors import MeasurementError
from stackgen.knowledge.database import Database, open_database
from stackgen.measure import INTERIM_ANALYSES, plan_block, rank
from stackgen.measure.effects import LONG_ANALYSES
from stackgen.measure.ranking import blocks_to_analysis, is_open
from stackgen.model.evidence import Effect, Ranked, Verdict
from stackgen.model.inspections import (
    Inspection,
    InspectionPlan,
    Outcome,
    Role,
)
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Environment
from tests import sessions
from tests.dying_parts import assert_nothing_twice
from tests.samples import call, design, environment

STACKS = {version: environment(version) for version in ("3", "2", "1")}
NAMES = {each.stack.id: version for version, each in STACKS.items()}
MATMUL, CONTROL = call(), call("python/pure")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

Answer = float | Outcome | str
"""Seconds, a failure of the stack's own, or the last line of a log of a process that crashed."""
Ask = Callable[[InspectionPlan], Answer]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path / "kb.db") as found:
        yield prepared(found)


def prepared(database: Database) -> Database:
    database.add_machine(sessions.MACHINE)
    for each in STACKS.values():
        database.add_stack(each.stack)
    for indicator in (MATMUL, CONTROL):
        database.add_indicator(indicator)
    return database


def steady(plan: InspectionPlan) -> float:
    """Return what a quiet machine measures: 2 is twice as fast as 3, 1 takes twice as long."""
    noise = random.Random(f"{plan.block}/{plan.position}").gauss(0, 0.01)
    return {"3": 2.0, "2": 1.0, "1": 4.0}[version(plan)] * math.exp(noise)


def version(plan: InspectionPlan) -> str:
    return NAMES[plan.environment.stack.id]


class Bench:
    """One run of a campaign; each inspection takes a second, on the clock and by the wall clock.

    wall: what the wall clock shows after so many seconds.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        ask: Ask,
        *,
        budget_s: float = 1e6,
        wall: Callable[[int], timedelta] = lambda seconds: timedelta(seconds=seconds),
    ) -> None:
        campaign = sessions.campaign(database)
        self.ask, self.wall = ask, wall
        self.seconds = database.count_inspections(campaign.id)
        self.session = sessions.session(
            database,
            folder,
            campaign,
            self.inspect,
            build=lambda stack, _: STACKS[NAMES[stack.id]],
            deadline=self.seconds + budget_s,
            clock=lambda: float(self.seconds),
        )
        self.design = design(*STACKS.values(), campaign=campaign.id, seed=1)

    def inspect(self, plan: InspectionPlan) -> Inspection:
        printed = 1.0 if plan.call == CONTROL else self.ask(plan)
        self.seconds += 1
        ending = f"Error: at {plan.block}"
        if isinstance(printed, str) and not isinstance(printed, Outcome):
            printed, ending = Outcome.CRASHED, printed
        started_at = (START + self.wall(self.seconds)).isoformat(timespec="milliseconds")
        return sessions.ended(plan, printed, started_at=started_at, log=ending)

    def measure(self) -> Stopped:
        return self.comparison().run()

    def comparison(self) -> Comparison:
        return Comparison(
            session=self.session, design=self.design, labels=NAMES, margin=0.02, weights={}
        )

    def rows(self) -> dict[str, Ranked]:
        return {row.label: row for row in self.comparison().ranking()}


Begin = Callable[..., Bench]


@pytest.fixture
def begin(database: Database, tmp_path: Path) -> Begin:
    """Return what begins a run: called with what answers its processes, and further arguments."""
    return partial(Bench, database, tmp_path)


class Noting(NullProgress):
    """Collects what is reported."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_each_interim_analysis_reports_the_leader_with_its_interval_once(begin: Begin) -> None:
    bench, seen = begin(noisy), Noting()
    bench.session.progress = seen
    bench.measure()
    first, *later = [note for note in seen.notes if note.startswith("After")]
    assert re.fullmatch(
        r"After 6 blocks: 2 leads: 2\.\d\d times the speed of the baseline "
        r"\(\d\.\d\d to \d\.\d\d\); \d of 2 not decided\.",
        first,
    )
    (estimates,) = [note for note in seen.notes if note.startswith("First estimates")]
    assert re.fullmatch(
        r"First estimates, after 3 blocks and not tested: 2 \d\.\d\d \(blocks \d\.\d\d to "
        r"\d\.\d\d\); 3 1\.00 \(baseline\); 1 0\.\d\d \(blocks 0\.\d\d to \d\.\d\d\)\. "
        r"First interim analysis after 6 blocks, in about \d+ (s|min \d+ s)\.",
        estimates,
    ), estimates
    assert seen.notes.index(estimates) < seen.notes.index(first)
    blocks = [int(note.split()[1]) for note in later]
    assert blocks == sorted(set(blocks) & set(INTERIM_ANALYSES[1:]))
    assert "2 leads" in bench.session.record.standing


def test_stacks_that_begin_later_have_analyses_of_their_own_at_the_level_of_all(
    begin: Begin,
) -> None:
    bench, seen = begin(noisy), Noting()
    bench.session.progress, whole = seen, bench.design
    bench.design = replace(whole, candidates=whole.candidates[:1])
    first = bench.comparison()
    first.labels = {stack: label for stack, label in NAMES.items() if label != "1"}
    first.planned, first.most_blocks = 2, INTERIM_ANALYSES[0]
    first.run()
    early = effect_on("2", first.ranking())
    assert early.blocks == 6
    assert early.low < effect_on("2", bench.comparison().ranking()).low, "alone: a higher level"

    bench.design = whole
    bench.measure()
    begun = {NAMES[e.stack_id]: e.block for e in reversed(bench.session.inspections) if e.block}
    assert begun == {"3": 1, "2": 1, "1": 7}
    kept = [e for e in bench.session.inspections if e.block <= 6 or NAMES[e.stack_id] == "1"]
    baseline = whole.baseline.stack.id
    again = rank(kept, labels=NAMES, baseline=baseline, calls=[MATMUL], total_alpha=first.alpha)
    assert effect_on("2", again) == early, "what was reported early is what is found in the end"
    assert sum(note.startswith("First estimates") for note in seen.notes) == 1


def effect_on(label: str, rows: tuple[Ranked, ...]) -> Effect:
    return next(row for row in rows if row.label == label).effects[0]


def test_the_blocks_that_are_missing_are_those_of_the_stack_that_is_open(begin: Begin) -> None:
    bench = begin(noisy)
    baseline, whole = bench.design.baseline, bench.design
    bench.design = replace(whole, candidates=whole.candidates[:1])
    bench.measure()  # until 2 is decided
    missing = []
    for _ in range(8):
        rows = bench.comparison().ranking()
        seen = bench.session.inspections
        open_ = [row.stack_id for row in rows if is_open(row)]
        missing.append(blocks_to_analysis(seen, open_, baseline=baseline.stack.id, calls=[MATMUL]))
        bench.session.run_block((baseline, *whole.candidates), partial(plan_block, whole))
    assert missing == [6, 5, 4, 3, 2, 1, 4, 3]


@pytest.mark.parametrize(
    ("spent_s", "left_s", "first_s", "all_s", "apart"),
    [
        (70, 530, 90, 170, True),  # TensorFlow: all would be ranked after four minutes
        (20, 160, 20, 35, False),  # NumPy: all are ranked within the first minute
        (70, 230, 90, 170, False),  # the budget would end before all are ranked
    ],
)
def test_the_first_stacks_are_compared_apart_where_a_ranking_of_all_is_late(
    *, spent_s: float, left_s: float, first_s: float, all_s: float, apart: bool
) -> None:
    found = is_first_apart(spent_s=spent_s, left_s=left_s, first_s=first_s, all_s=all_s)
    assert found is apart


def test_a_comparison_leaves_what_is_reserved_of_the_budget(begin: Begin) -> None:
    bench = begin(noisy, budget_s=100)
    comparison = bench.comparison()
    comparison.reserve_s = lambda: 60
    assert "budget" in comparison.run().why
    assert 60 <= bench.session.left_s <= 70


def noisy(plan: InspectionPlan) -> float:
    """Return what a busy machine measures: 1 is hardly slower than 3, and 2 twice as fast."""
    noise = random.Random(f"{plan.block}/{plan.position}").gauss(0, 0.1)
    return {"3": 2.0, "2": 1.0, "1": 2.05}[version(plan)] * math.exp(noise)


def alike(plan: InspectionPlan) -> float:
    """Return what a machine measures on which no stack differs from another one."""
    return math.exp(random.Random(f"{plan.block}/{plan.position}").gauss(0, 0.02))


@pytest.mark.parametrize(
    ("detect", "blocks", "why"),
    [
        (0.0, 90, "90 blocks are the most ever taken"),
        (0.1, 10, "no effect of 10 % is left to be found"),
    ],
)
def test_a_comparison_ends_where_the_effect_to_detect_is_excluded(
    begin: Begin, detect: float, blocks: int, why: str
) -> None:
    bench = begin(alike)
    comparison = bench.comparison()
    comparison.margin, comparison.detect = 0.0, detect
    comparison.analyses, comparison.most_blocks = LONG_ANALYSES, LONG_ANALYSES[-1]
    assert comparison.run().why == why
    assert effect_on("2", comparison.ranking()).blocks <= blocks
    assert max(each.block for each in bench.session.inspections) == blocks


def fails(name: str, *, block: int, outcome: Outcome = Outcome.CRASHED) -> Ask:
    def ask(plan: InspectionPlan) -> Answer:
        return outcome if version(plan) == name and plan.block >= block else steady(plan)

    return ask


def test_a_stack_that_fails_at_its_fifth_block_is_out_and_the_others_are_decided(
    begin: Begin,
) -> None:
    bench = begin(fails("2", block=5))
    stopped = bench.measure()
    assert (stopped.why, stopped.error) == ("every comparison is decided", None)
    (failed,) = bench.session.record.failed_in_blocks((MATMUL,))
    assert (NAMES[failed.stack_id], failed.block) == ("2", 5)
    rows = bench.rows()
    assert rows["2"].failures == 1
    assert not rows["2"].best
    assert not rows["2"].counts
    assert rows["1"].effects[0].verdict is Verdict.SLOWER
    later = [each for each in bench.session.inspections if each.block > 5]
    assert {NAMES[each.stack_id] for each in later} == {"3", "1"}


def test_where_all_others_fail_nothing_is_said_of_them(begin: Begin) -> None:
    def ask(plan: InspectionPlan) -> Answer:
        return steady(plan) if version(plan) == "3" else Outcome.TIMEOUT

    bench = begin(ask)
    stopped = bench.measure()
    assert stopped.why == "every other stack failed while it was measured"
    assert bench.session.record.blocks == 1
    rows = bench.rows()
    assert all(effect.low <= 0 for row in rows.values() for effect in row.effects)
    assert [name for name, row in rows.items() if row.best] == ["3"]


def test_where_all_stacks_fail_the_baseline_ends_it_with_6(begin: Begin) -> None:
    bench = begin(lambda _: Outcome.OUT_OF_MEMORY)
    stopped = bench.measure()
    assert isinstance(stopped.error, MeasurementError)
    assert stopped.error.exit_code == 6
    assert "out_of_memory in block 1" in stopped.error.why
    assert bench.session.record.blocks == 1


def test_times_without_any_spread_show_nothing_before_there_are_many_of_them(begin: Begin) -> None:
    def ask(plan: InspectionPlan) -> Answer:
        return {"3": 1.0, "2": 1.0, "1": 1.25}[version(plan)]

    bench = begin(ask, budget_s=9 * 6)
    bench.measure()
    early = bench.rows()
    assert {e.verdict for row in early.values() for e in row.effects} == {Verdict.INCONCLUSIVE}
    bench = begin(ask)
    assert bench.measure().why == "every comparison is decided"
    rows = bench.rows()
    (same,), (slower,) = rows["2"].effects, rows["1"].effects
    assert (same.ratio, same.verdict) == (1.0, Verdict.EQUIVALENT)
    assert (round(slower.ratio, 9), slower.verdict) == (0.8, Verdict.SLOWER)
    reported = [n for e in (same, slower) for n in (e.ratio, e.low, e.high)]
    assert all(map(math.isfinite, reported))


@pytest.mark.parametrize(
    "wall",
    [
        lambda seconds: timedelta(seconds=seconds, days=-400 if seconds > 12 else 0),
        lambda seconds: timedelta(seconds=seconds, days=400 if 12 < seconds < 20 else 0),
        lambda _: timedelta(),
    ],
    ids=["back for good", "forth and back", "standing still"],
)
def test_a_wall_clock_that_jumps_changes_nothing_that_is_said(
    tmp_path: Path, wall: Callable[[int], timedelta]
) -> None:
    reported = []
    for name, clock in (("straight", lambda s: timedelta(seconds=s)), ("jumping", wall)):
        with open_database(tmp_path / f"{name}.db") as database:
            prepared(database)
            Bench(database, tmp_path, fails("1", block=4), budget_s=20, wall=clock).measure()
            bench = Bench(database, tmp_path, fails("1", block=4), wall=clock)
            stopped = bench.measure()
            (failed,) = bench.session.record.failed_in_blocks((MATMUL,))
            reported.append((stopped, bench.session.record.blocks, bench.rows(), failed.block))
            assert_nothing_twice(database.inspections())
    assert reported[0] == reported[1]


def test_a_block_that_was_cut_short_is_no_block_twice_and_its_whole_pairs_count(
    begin: Begin,
) -> None:
    def cut(plan: InspectionPlan) -> Answer:
        if (plan.block, plan.position) == (3, 3):
            raise KeyboardInterrupt
        return steady(plan)

    first = begin(cut)
    assert first.measure().interrupted
    begun = [(each.block, each.position) for each in first.session.inspections]
    assert begun.count((3, 2)) == 1
    assert (3, 3) not in begun
    again = begin(steady)
    assert again.measure().why == "every comparison is decided"
    seen = again.session.inspections
    assert_nothing_twice(tuple(seen))
    assert Counter(each.block for each in seen)[3] == 3
    blocks = {each.block for each in seen}
    assert blocks == set(range(1, max(blocks) + 1))
    for name, row in again.rows().items():
        for effect in row.effects:
            stored = itertools.groupby(sorted(seen, key=lambda e: e.block), lambda e: e.block)
            whole = sum(has_pair(list(group), STACKS[name]) for _, group in stored)
            assert effect.blocks == max(
                analysis for analysis in INTERIM_ANALYSES if analysis <= whole
            )


def has_pair(block: list[Inspection], other: Environment) -> bool:
    ours = [each for each in block if each.indicator_id == MATMUL.id]
    there = {each.stack_id for each in ours if each.role is not Role.TWIN}
    return {other.stack.id, STACKS["3"].stack.id} <= there


def test_a_spent_budget_still_has_one_block_and_no_second_one(begin: Begin) -> None:
    for _ in range(2):
        bench = begin(steady, budget_s=-5)
        stopped = bench.measure()
        assert (stopped.why, bench.session.record.blocks) == ("the budget is spent", 1)
        reported = [effect for row in bench.rows().values() for effect in row.effects]
        assert {each.verdict for each in reported} == {Verdict.INCONCLUSIVE}


KILL = "killed by SIGKILL"


@pytest.mark.parametrize("name", ["3", "2"], ids=["the baseline", "another stack"])
@pytest.mark.parametrize("log", [KILL, "out of memory (killed by SIGKILL)"])
def test_a_stack_that_is_killed_now_and_then_stays(begin: Begin, name: str, log: str) -> None:
    def ask(plan: InspectionPlan) -> Answer:
        return log if version(plan) == name and plan.block in (2, 4, 5) else steady(plan)

    bench = begin(ask)
    stopped = bench.measure()
    assert (stopped.why, stopped.error) == ("every comparison is decided", None)
    rows = bench.rows()
    assert [row.failures for row in rows.values()] == [0, 0, 0]
    assert rows["2"].effects[0].verdict is Verdict.FASTER
    assert bench.session.record.failed_in_blocks((MATMUL,)) == ()


def test_a_stack_that_is_killed_repeatedly_is_left_out_of_this_run_alone(begin: Begin) -> None:
    bench = begin(lambda plan: KILL if version(plan) == "2" else steady(plan))
    stopped = bench.measure()
    assert (stopped.why, stopped.error) == ("every comparison is decided", None)
    (left_out,) = bench.session.record.failed_in_blocks((MATMUL,))
    assert (NAMES[left_out.stack_id], left_out.block) == ("2", 3)
    rows = bench.rows()
    assert (rows["2"].failures, rows["2"].effects) == (0, ())
    assert rows["1"].effects[0].verdict is Verdict.SLOWER
    again = begin(steady)
    assert again.measure().why == "every comparison is decided"
    assert again.rows()["2"].effects[0].verdict is Verdict.FASTER


def test_a_baseline_that_is_killed_repeatedly_is_tried_again_by_the_next_run(begin: Begin) -> None:
    bench = begin(lambda plan: KILL if version(plan) == "3" else steady(plan))
    stopped = bench.measure()
    assert isinstance(stopped.error, MeasurementError)
    assert "run the same command again" in stopped.error.fix
    assert "--seed" not in stopped.error.fix
    again = begin(steady)
    assert (again.measure().why, again.rows()["3"].failures) == ("every comparison is decided", 0)


@pytest.mark.parametrize(
    ("ending", "blocks"), [(KILL, 3), ("killed by SIGABRT", 1), (Outcome.TIMEOUT, 1)]
)
def test_where_nothing_runs_any_more_no_stack_is_blamed_and_the_next_run_goes_on(
    begin: Begin, ending: Answer, blocks: int
) -> None:
    first = begin(steady, budget_s=18)
    assert first.measure().why == "the budget is spent"
    begun = first.session.record.database.last_block(first.session.record.campaign.id)
    bench = begin(lambda _: ending)
    stopped = bench.measure()
    assert isinstance(stopped.error, MeasurementError)
    assert stopped.error.what == f"no stack ran numpy/matmul in block {begun + blocks}"
    again = begin(steady)
    assert again.measure().why == "every comparison is decided"
    assert [row.failures for row in again.rows().values()] == [0, 0, 0]
