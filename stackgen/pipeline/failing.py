"""Stacks that do not run, in the words of a report."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackgen.errors import BuildError, IndexUnavailableError, MeasurementError, StackgenError
from stackgen.measure.retry_policy import MOST_KILLS, Cause, cause, cause_of
from stackgen.pipeline.campaign import Runner, telling_line
from stackgen.pipeline.places import Places
from stackgen.values import FailedStack, IndicatorCall, Inspection, Outcome, StackId
from stackgen.values.programs import Program

_OF_THE_INDICATOR = (
    Outcome.INVALID_OUTPUT,
    Outcome.TIMEOUT,
    Outcome.UNSUPPORTED,
    Outcome.CRASHED,
)
_NO_NETWORK = "it had no network: add --network"
_HINTS = (
    (r"ModuleNotFoundError", "name what it imports: --from requirements.txt, or as a requirement"),
    (r"FileNotFoundError", "name what it reads outside of the project: --data DIR"),
    (r"No space left", "a run may write 1 GiB, its copy of the project included: write less"),
    (r"unreachable|refused|[Nn]ame resolution|Name or service|getaddrinfo", _NO_NETWORK),
)


def nothing_runs(
    failures: Sequence[FailedStack], places: Places, program: Program | None = None
) -> StackgenError:
    """Explain that no stack works, by what most of them ended with, running a program or not."""
    what = "none of the stacks that were tried runs"
    if not failures:
        fix = "give more time with --budget; what was built and downloaded is kept"
        return BuildError(what, why="the budget was spent before one was ready", fix=fix)
    outcomes = Counter(each.outcome for each in failures)
    common = outcomes.most_common(1)[0][0]
    first = next(each for each in failures if each.outcome is common)
    why = f"{first.label}: {first.outcome.value}: {first.reason}"
    if common is Outcome.DOWNLOAD_FAILED:
        fix = "look at the network with stackgen doctor, then run the same command again"
        return IndexUnavailableError(what, why=why, fix=fix)
    if cause(common, first.log) is Cause.KILLED:
        fix = "find out what ends it (too little free memory?), then run the same command again"
        return MeasurementError(what, why=why, fix=fix)
    if program is not None and common in (*_OF_THE_INDICATOR, Outcome.IMPORT_FAILED):
        return MeasurementError(what, why=why, fix=_helps(program, first.reason, places))
    if common in _OF_THE_INDICATOR:
        fix = "run the indicator by hand (stackgen pis shows its path), or choose another with --pi"
        return MeasurementError(what, why=why, fix=fix)
    fix = f"see: stackgen kb failures{places.kb_option}; or name older versions"
    return BuildError(what, why=why, fix=fix)


def _helps(program: Program, reason: str, places: Places) -> str:
    """Return what a program may lack, by what it said, and how to look at it."""
    hints = [hint for words, hint in _HINTS if re.search(words, reason)]
    if below := _own_module(Path(program.project), reason):
        hints = [f"that lies in its folder {below}: add --env PYTHONPATH={below}"]
    if program.project in reason:
        hints.insert(0, "it runs in a copy: name files from the project's folder on")
    if program.network:
        hints = [hint for hint in hints if hint != _NO_NETWORK]
    by_hand = f"run it by hand in {program.project}: {shlex.join(program.command)}"
    return "; ".join((*hints, by_hand, f"see also: stackgen kb failures{places.kb_option}"))


def _own_module(project: Path, reason: str) -> str:
    """Return the folder just below the project that has the module which was not found, or ""."""
    found = re.search(r"No module named '(\w+)", reason)
    if found is None:
        return ""
    names = (found[1], f"{found[1]}.py")
    paths = (path for name in names for path in project.glob(f"*/{name}"))
    return min((path.parent.name for path in paths), default="")


def failed_in_blocks(
    runner: Runner, labels: Mapping[StackId, str], calls: Sequence[IndicatorCall]
) -> tuple[FailedStack, ...]:
    """Return the stacks that failed while they were measured, each with its first failure."""
    return tuple(
        FailedStack(
            label=f"{labels[each.stack_id]} (in block {each.block})",
            outcome=each.outcome,
            reason=_reason(each),
        )
        for each in runner.failed_in_blocks(calls)
        if each.stack_id in labels
    )


def _reason(failure: Inspection) -> str:
    """Return why a stack was left out of blocks, and for how long where that is not for good."""
    reason = telling_line(failure.log)
    if cause_of(failure) is Cause.KILLED:
        return f"{reason}, {MOST_KILLS} times in a row; the same command tries it again"
    return reason
