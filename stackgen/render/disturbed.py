"""What disturbed the blocks of a campaign, in plain English."""

from stackgen.values import ExploreReport


def disturbed_text(report: ExploreReport) -> list[str]:
    """Return how many blocks were set aside, and whether some count that were disturbed."""
    lines = []
    if report.aside:
        lines.append(
            f"{_blocks(report.aside)} set aside and took no part: {_such_as(report.aside)}."
        )
    if report.tolerated:
        lines.append(
            "This machine is disturbed more often than not, so that "
            f"{_blocks(report.tolerated, told=False)} all the same: {_such_as(report.tolerated)}."
        )
    return [*lines, ""] if lines else []


def _blocks(reasons: tuple[str, ...], *, told: bool = True) -> str:
    one = len(reasons) == 1
    number = "1 block" if one else f"{len(reasons)} blocks"
    verb = ("was" if one else "were") if told else ("counts" if one else "count")
    return f"{number} {verb}"


def _such_as(reasons: tuple[str, ...]) -> str:
    """Return what happened in the last of them; the others are alike."""
    return ("" if len(set(reasons)) == 1 else "as when ") + reasons[-1]
