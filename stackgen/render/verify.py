"""What the judges said of a lock, in plain English."""

from collections.abc import Iterator

from stackgen.values import Judgement, Ruling, Verification


def verification_text(found: Verification) -> str:
    """Return one line a judge, with what it refuses below."""
    width = max(len(each.judge) for each in found.judgements)
    lines = [f"{found.path} on {found.place}: {_counted(len(found.pins))}"]
    for each in found.judgements:
        lines += _judgement(each, width)
    lines += [f"Left out: {each}" for each in found.skipped]
    if found.unasked and any(each.ruling is Ruling.HOLDS for each in found.judgements):
        lines += [f"Superfluous packages were not looked for: {found.unasked}."]
    return "\n".join(lines)


def _judgement(each: Judgement, width: int) -> Iterator[str]:
    asked = each.ruling is not Ruling.NOT_ASKED
    why = "" if asked else f": {'; '.join(each.words)}"
    yield f"  {each.judge.ljust(width)}  {each.ruling.value}{why}"
    indent = " " * (width + 6)
    if each.missing:
        yield f"{indent}missing: {', '.join(each.missing)}"
    if each.superfluous:
        yield f"{indent}superfluous: {', '.join(each.superfluous)}"
    if asked:
        yield from (f"{indent}{line}" for line in each.words)


def _counted(packages: int) -> str:
    return f"{packages} package" if packages == 1 else f"{packages} packages"
