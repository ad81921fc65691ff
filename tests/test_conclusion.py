"""What a report comes to: one winner, or a plain reason why there is none."""

from dataclasses import replace

from stackgen.measure.conclusion import Answer, conclusion
from stackgen.render import report_text
from stackgen.values import ExploreReport, Ranked, StackId
from tests.test_render import FASTER, SEARCHED, report


def three_rows(leader: str) -> ExploreReport:
    """Return a search after which two stacks, "a" and "b", are faster than the reference."""
    faster = next(row for row in SEARCHED.ranking if not row.is_reference)
    rows = [replace(faster, stack_id=StackId(each), label=each, best=True) for each in "ab"]
    reference = next(row for row in SEARCHED.ranking if row.is_reference)
    assert SEARCHED.search is not None
    search = replace(SEARCHED.search, leader=leader)
    return replace(SEARCHED, ranking=(*rows, replace(reference, best=False)), search=search)


def failed(row: Ranked) -> Ranked:
    return row if row.is_reference else replace(row, failures=1, best=False)


def test_of_those_that_cannot_be_told_apart_the_one_that_was_found_wins() -> None:
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
    assert conclusion(found).answer is Answer.NOTHING_COMPARED
    assert "Nothing to compare" in report_text(found)
    assert "No measurable difference" not in report_text(found)
