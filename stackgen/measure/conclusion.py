"""What an exploration comes to: which stack one should take, or why nobody can say."""

from dataclasses import dataclass
from enum import Enum

from stackgen.values import ExploreReport, Ranked


class Answer(str, Enum):
    """What a ranking answers.

    FASTER: a stack is shown to be faster than the reference.
    NOTHING_FASTER: none is, so that the reference stays.
    NOTHING_COMPARED: no other stack runs and computes the same, or none was measured.
    REFERENCE_FAILED: what all others are compared with failed while it was measured.
    CONTROLS_FAILED: the machine showed differences where there are none.
    TOO_EARLY: there are too few blocks for any interval.
    """

    FASTER = "faster"
    NOTHING_FASTER = "nothing faster"
    NOTHING_COMPARED = "nothing compared"
    REFERENCE_FAILED = "reference failed"
    CONTROLS_FAILED = "controls failed"
    TOO_EARLY = "too early"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """An answer, and the row of the stack to take; None where there is none to be named."""

    answer: Answer
    winner: Ranked | None = None


def compared(report: ExploreReport) -> int:
    """Return how many stacks were compared, the reference included.

    Those that a search saw to compute something else are in the ranking as well.
    """
    return sum(row.is_reference or bool(row.effects) for row in report.ranking)


def conclusion(report: ExploreReport) -> Conclusion:
    """Return which stack a report shows to be the best to take.

    It is the first of those that are not beaten and are shown to be faster than the reference, or
    the one among them that a search had found (docs/adr/0021); where there are none, the reference
    itself. What failed, or computes something else, answers nothing.
    """
    if not any(row.effects for row in report.ranking):
        return Conclusion(answer=Answer.NOTHING_COMPARED)
    reference = next((row for row in report.ranking if row.is_reference), None)
    if reference is not None and reference.failures:
        return Conclusion(answer=Answer.REFERENCE_FAILED)
    if any(control.failed for control in report.controls):
        return Conclusion(answer=Answer.CONTROLS_FAILED)
    others = [row for row in report.ranking if row.counts and not row.is_reference]
    if reference is None or not reference.counts or not others:
        return Conclusion(answer=Answer.NOTHING_COMPARED)
    if all(effect.low <= 0 for row in others for effect in row.effects):
        return Conclusion(answer=Answer.TOO_EARLY)
    found = report.search.leader if report.search else ""
    fastest = [row for row in others if row.best and row.is_faster]
    if fastest:
        winner = next((row for row in fastest if row.stack_id == found), fastest[0])
        return Conclusion(answer=Answer.FASTER, winner=winner)
    return Conclusion(answer=Answer.NOTHING_FASTER, winner=reference)
