"""Stacks that compute something else than the reference, in plain English."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from stackgen.values import Deviation, Difference, ExploreReport, Ranked

Named = tuple[Ranked, Deviation]


def results_text(ranking: Sequence[Ranked], names: Mapping[str, str]) -> list[str]:
    """Return which stacks compute something else; nothing where all compute the same.

    ``names`` are those of indicators, by id.
    """
    rows = [(row, each) for row in ranking for each in row.deviations]
    lines = [_reference(row, each, names) for row, each in rows if row.is_reference]
    others = [(row, each) for row, each in rows if not row.is_reference]
    if others:
        lines.append(
            "Compute something else than the reference, so they are never called the fastest:"
        )
        lines += [f"  {row.label} on {_name(each, names)}: {_difference(each)}"
                  for row, each in others]  # fmt: skip
        if _agree(ranking, others):
            lines.append(
                "  All of them agree with each other: it may be the reference that computes wrong."
            )
    return [*lines, ""] if lines else []


def checked_files(report: ExploreReport) -> list[str]:
    """Return which files were found to be the same in every stack that was compared."""
    compared = {each.indicator_id for row in report.ranking for each in row.effects}
    apart = {each.indicator_id for row in report.ranking for each in row.deviations}
    lines = []
    for file in dict.fromkeys(file for _, file in report.checks):
        calls = {call for call, checked in report.checks if checked == file}
        if calls & compared and not calls & apart:
            lines.append(
                f"{file} is the same in every stack that was compared, "
                "but for rounding of its numbers."
            )
    return [*lines, ""] if lines else []


def _reference(row: Ranked, found: Deviation, names: Mapping[str, str]) -> str:
    return (
        f"{row.label}, the reference, does not compute the same twice on {_name(found, names)} "
        f"({_apart(found)}): results on it were not compared."
    )


def _name(found: Deviation, names: Mapping[str, str]) -> str:
    return names.get(found.indicator_id, found.indicator_id)


def _difference(found: Deviation) -> str:
    if found.kind is Difference.TEXT:
        return f"{found.kind.value} (what it wrote differs in more than numbers)"
    numbers = ""
    if found.checksum is not None and found.expected is not None:
        word = "beside" if found.kind is Difference.NOT_REPEATABLE else "instead of"
        numbers = f"checksum {found.checksum:.9g} {word} {found.expected:.9g}, "
    return f"{found.kind.value} ({numbers}{_apart(found)})"


def _apart(found: Deviation) -> str:
    if found.difference == float("inf"):
        return "what it wrote differs in more than numbers"
    return f"{found.difference:.2g} apart, {found.tolerance:.2g} is allowed"


def _agree(ranking: Sequence[Ranked], others: Sequence[Named]) -> bool:
    """Return whether all stacks but the reference differ from it, and not from each other."""
    numbers = sorted(
        (each.checksum, each.tolerance)
        for _, each in others
        if each.kind is Difference.NUMBERS and each.checksum is not None
    )
    challengers = [row for row in ranking if not row.is_reference and row.effects]
    one_indicator = len({each.indicator_id for _, each in others}) == 1
    return (
        one_indicator
        and 2 <= len(challengers) == len(numbers) == len(others)
        and all(b - a <= t * max(abs(a), abs(b)) for (a, t), (b, _) in pairwise(numbers))
    )
