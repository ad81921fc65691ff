"""A budget that is too short for any answer is told before it is spent."""

from dataclasses import replace

import pytest

from stackgen.campaign.comparison import first_answers_s, too_short
from stackgen.model.inspections import Outcome, Role
from tests.samples import call, design, environment, inspection

OWN, CONTROL = call("program"), call("python/pure")
DESIGN = design(environment("3.0"), environment("2.0"), environment("1.0"), calls=(OWN,))
RUN = replace(inspection(environment("3.0"), OWN, 0, 1.0), duration_s=300.0)
SEEN = [RUN, replace(RUN, indicator_id=CONTROL.id, duration_s=3.0)]


def test_six_blocks_of_every_stack_and_of_the_baseline_twice() -> None:
    assert first_answers_s(DESIGN, SEEN) == 6 * (4 * 300 + 2 * 3)
    done = [replace(RUN, block=block) for block in range(3, 12)]
    assert first_answers_s(DESIGN, [*SEEN, *done[:5]]) == 4 * 300 + 2 * 3
    assert first_answers_s(DESIGN, [*SEEN, *done]) == 0


def test_blocks_of_a_search_answer_nothing() -> None:
    done = [replace(RUN, block=block, role=Role.SEARCH) for block in range(1, 9)]
    assert first_answers_s(DESIGN, [*SEEN, *done]) == first_answers_s(DESIGN, SEEN)
    assert first_answers_s(DESIGN, [*SEEN, *done], candidates=0) == 6 * (2 * 300 + 2 * 3)


def test_what_failed_says_nothing_about_time() -> None:
    failed = replace(RUN, outcome=Outcome.TIMEOUT, observation=None, duration_s=9000.0)
    assert first_answers_s(DESIGN, [*SEEN, failed]) == first_answers_s(DESIGN, SEEN)


def test_one_run_that_was_held_up_foretells_nothing() -> None:
    run, held_up = (replace(RUN, block=1, duration_s=each) for each in (300.0, 9000.0))
    seen = [*SEEN, run, run, held_up]
    assert first_answers_s(DESIGN, seen, done=0) == first_answers_s(DESIGN, SEEN)
    assert first_answers_s(DESIGN, [*seen, held_up], done=0) > 6 * 4 * 9000


def test_a_first_run_that_read_its_packages_from_a_cold_disk_foretells_what_it_computed() -> None:
    assert RUN.observation is not None
    reported = replace(RUN.observation, circumstances=(("rusage", "2.9 0.6 434456 0 0"),))
    cold = replace(RUN, observation=reported, duration_s=38.7)
    assert first_answers_s(DESIGN, [cold, SEEN[1]]) == 6 * (4 * 3.5 + 2 * 3)
    warm = replace(RUN, block=1, duration_s=3.6)
    found = first_answers_s(DESIGN, [cold, SEEN[1], warm, warm], done=0)
    assert found == pytest.approx(6 * (4 * 3.6 + 2 * 3))


def test_a_short_budget_names_the_option_to_change() -> None:
    reported = too_short(DESIGN, SEEN, 1500.0)
    assert "about 2.0 h; 25 min of the budget are left" in reported
    assert "--budget" in reported
    assert too_short(DESIGN, SEEN, 8000.0) == ""
