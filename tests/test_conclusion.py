"""What a report comes to: one winner, or a plain reason why there is none."""

from dataclasses import replace

from stackgen.measure.ranking import RankingAnswer, conclusion
from stackgen.model.evidence import Ranked
from stackgen.model.identity import StackId
from stackgen.model.reports.campaigns import ExploreReport
from stackgen.report.explore import report_text
from tests.test_render import FASTER, SEARCHED, report


def three_rows(leader: str) -> ExploreReport:
    """Return a search after which two stacks, "a" and "b", are faster than the baseline."""
    faster = next(row for row in SEARCHED.ranking if not row.is_baseline)
    rows = [replace(faster, stack_id=StackId(each), label=each, best=True) for each in "ab"]
    baseline = next(row for row in SEARCHED.ranking if row.is_baseline)
    assert SEARCHED.search is not None
    search = replace(SEARCHED.search, leader=leader)
    return replace(SEARCHED, ranking=(*rows, replace(baseline, best=False)), search=search)


def failed(row: Ranked) -> Ranked:
    return row if row.is_baseline else replace(row, failures=1, best=False)


def test_of_those_that_cannot_be_distinguished_the_one_that_was_found_wins() -> None:
    for leader in "ab":
        found = conclusion(three_rows(leader)).winner
        assert found is not None
        assert found.label == leader


def test_a_leader_that_is_beaten_does_not_win() -> None:
    found = three_rows("b")
    rows = tuple(replace(row, best=row.label == "a") for row in found.ranking)
    winner = conclusion(replace(found, ranking=rows)).winner
    assert winner is not None
    assert winner.label == "a"


def test_where_all_others_failed_nothing_was_compared() -> None:
    found = report(FASTER)
    found = replace(found, ranking=tuple(failed(row) for row in found.ranking))
    assert conclusion(found).answer is RankingAnswer.NOTHING_COMPARED
    assert "Nothing to compare" in report_text(found)
    assert "No measurable difference" not in report_text(found)


def test_where_the_baseline_failed_there_is_no_winner_whatever_its_other_blocks_show() -> None:
    found = report(FASTER)
    rows = tuple(replace(row, failures=1) if row.is_baseline else row for row in found.ranking)
    found = replace(found, ranking=rows)
    assert conclusion(found).answer is RankingAnswer.BASELINE_FAILED
    text = report_text(found)
    assert "No verdict: numpy 2.4.0, the baseline, failed" in text
    assert "numpy 2.4.0   " in text
    assert "failed in 1 of its runs" in text
    assert "Fastest" not in text


def test_that_others_may_be_as_good_as_the_fastest_is_reported() -> None:
    assert "One other is not shown to be slower or worse (*)." in report_text(three_rows("a"))
    assert "not shown to be any worse" not in report_text(report(FASTER))


def test_a_comparison_that_beats_the_leader_of_a_search_is_reported_to_count() -> None:
    overruled = "The comparison shows that another stack is faster; it overrules the search."
    found = three_rows("b")
    assert overruled not in report_text(found)
    rows = tuple(replace(row, best=row.label == "a") for row in found.ranking)
    assert overruled in report_text(replace(found, ranking=rows))


def test_a_failed_control_recommends_another_campaign() -> None:
    text = report_text(report(FASTER, failed=True))
    assert "Start again on a quieter machine: --seed 1." in text


def test_blocks_that_are_all_alike_are_not_called_too_few() -> None:
    text = report_text(report([0.25] * 6))
    assert "(no spread yet)" in text
    assert "without any spread a verdict takes more blocks" in text
