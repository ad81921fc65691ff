"""The retry policy: which failures are tried again, and which exclude a stack from a campaign.

The cause of a failure decides, as far as what was recorded shows it (outcome and log, so that
inspections of earlier versions are judged alike):

- INFRASTRUCTURE (an index, the engine, files of an environment): no failure of the stack. The same
  run waits for it, with growing pauses.
- KILLED (SIGKILL, SIGTERM, SIGINT or SIGHUP that was not sent by a limit of stackgen's: by the
  kernel for lack of memory on the machine, or by a person): no failure of the stack. The same run
  tries again; a stack that is killed in ``MOST_KILLS`` blocks in a row in which others run (or so
  many times while it is tried) is left out for the rest of the run. Every later run begins counting
  anew.
- UNCERTAIN (a limit of ours was reached, or a build failed): a busy machine or a broken download
  may be the cause. A trial is repeated once, by a later run of the same command.
- OWN (the stack's interpreter ended so by itself): never repeated.

A failure in a block excludes a stack only if something else ran the same indicator in that block:
where nothing runs, the machine is at fault. In the same way, failures of earlier trials count only
in a campaign in which something has run. So each call of a command can go on.
"""

import re
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from stackgen.model.identity import CampaignId, IndicatorId, InspectionId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome

MOST_KILLS = 3
"""In how many blocks in a row a stack is killed before the rest of a run goes on without it."""
MOST_TRIALS = 2
"""How often a trial whose failure is uncertain is made in all."""

_KILLED = re.compile(r"(?:^|: )(?:out of memory \()?killed by SIG(?:KILL|TERM|INT|HUP)\)?$")
_UNCERTAIN = (
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.BUILD_FAILED,
    Outcome.HASH_MISMATCH,
)
_MAY_BE_KILLED = (Outcome.CRASHED, Outcome.OUT_OF_MEMORY, Outcome.BUILD_FAILED)


class FailureCause(str, Enum):
    """What a failure comes from; the module says what follows from each."""

    INFRASTRUCTURE = "infrastructure"
    KILLED = "killed"
    UNCERTAIN = "uncertain"
    OWN = "own"


AT_LIMIT = " at its own limit"
"""What follows the ending of a process that a memory limit of stackgen's killed."""


def ending(exit_code: int) -> str:
    """Say how a process ended; engines and shells add 128 to a signal, Python negates it."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {exit_code}"


def cause(outcome: Outcome, log: str) -> FailureCause | None:
    """Return the cause of a failure; None where an inspection is ok.

    Args:
        log: the end of what it printed; its last line says how the process ended.
    """
    if outcome is Outcome.OK:
        return None
    if outcome.is_infrastructure:
        return FailureCause.INFRASTRUCTURE
    last = log.rstrip().rpartition("\n")[2]
    if outcome in _MAY_BE_KILLED and _KILLED.search(last):
        return FailureCause.KILLED
    return FailureCause.UNCERTAIN if outcome in _UNCERTAIN else FailureCause.OWN


def cause_of(inspection: Inspection) -> FailureCause | None:
    """Return the cause of an inspection's failure; None where it is ok."""
    return cause(inspection.outcome, inspection.log)


def blamed(inspections: Iterable[Inspection], calls: Sequence[IndicatorCall]) -> list[Inspection]:
    """Return the failures in blocks that exclude their stack, in the order given.

    Args:
        inspections: of any campaigns.
        calls: failures of other indicators (the control) exclude no stack.
    """
    ids = {call.id for call in calls}
    seen = list(inspections)
    failed = [
        each
        for each in seen
        if each.outcome is not Outcome.OK
        and each.block > 0
        and each.indicator_id in ids
        and cause_of(each) in (FailureCause.UNCERTAIN, FailureCause.OWN)
    ]
    if not failed:
        return []
    ran = {_place(each) for each in seen if each.outcome is Outcome.OK}
    return [each for each in failed if _place(each) in ran]


def _place(inspection: Inspection) -> tuple[CampaignId, int, IndicatorId]:
    return inspection.campaign_id, inspection.block, inspection.indicator_id


def known_trial(
    trials: Sequence[Inspection], *, current: Collection[InspectionId], anything_ran: bool
) -> Inspection | None:
    """Return how trying a stack ended, where it is not tried again; None where it is (again).

    Args:
        trials: of one indicator on one stack, in the order of time.
        current: those of them that belong to this run of the command.
        anything_ran: whether any stack of the campaign has run the indicator.
    """
    ok = next((each for each in trials if each.outcome is Outcome.OK), None)
    if ok is not None:
        return ok
    now = [each for each in trials if each.id in current]
    counted = trials if anything_ran else now
    own = [each for each in counted if cause_of(each) is FailureCause.OWN]
    if own:
        return own[-1]
    uncertain = [each for each in counted if cause_of(each) is FailureCause.UNCERTAIN]
    if len(uncertain) >= MOST_TRIALS or any(each in now for each in uncertain):
        return uncertain[-1]
    killed = [each for each in now if cause_of(each) is FailureCause.KILLED]
    return killed[-1] if len(killed) >= MOST_KILLS else None


def killed_again_and_again(
    run: Iterable[Inspection], calls: Sequence[IndicatorCall]
) -> Mapping[StackId, Inspection]:
    """Return the stacks that the rest of a run leaves out, each with its last kill.

    Args:
        run: what one run of a command has recorded, in the order of time.
        calls: kills of other indicators leave no stack out.
    """
    in_a_row: dict[tuple[StackId, IndicatorId], int] = {}
    found: dict[StackId, Inspection] = {}
    for block in _blocks(run, calls).values():
        ran = {(each.stack_id, each.indicator_id) for each in block if each.outcome is Outcome.OK}
        others = {indicator for _, indicator in ran}
        killed = {
            (each.stack_id, each.indicator_id): each
            for each in block
            if cause_of(each) is FailureCause.KILLED and each.indicator_id in others
        }
        in_a_row |= dict.fromkeys(ran, 0)
        for arm in killed.keys() - ran:
            in_a_row[arm] = in_a_row.get(arm, 0) + 1
            if in_a_row[arm] >= MOST_KILLS:
                found[arm[0]] = killed[arm]
    return found


def nothing_runs(
    run: Iterable[Inspection], calls: Sequence[IndicatorCall], *, baseline: StackId
) -> Inspection | None:
    """Return the last failure where a run had better end, since nothing runs on this machine now.

    That is so after a block with the baseline in which no stack ran an indicator, or after
    ``MOST_KILLS`` such blocks in a row where all that happened is that processes were killed.

    Args:
        run: what one run of a command has recorded, in the order of time.
        calls: what the control did says nothing of the stacks.
        baseline: a stack that runs if any does.
    """
    inspections = list(run)
    for call in calls:
        idle = idle_blocks(inspections, call)
        for count, block in enumerate(idle, start=1):
            killed = all(cause_of(each) is FailureCause.KILLED for each in block)
            has_baseline = any(each.stack_id == baseline for each in block)
            if (not killed and has_baseline and count == 1) or count >= MOST_KILLS:
                return idle[0][-1]
    return None


def idle_blocks(run: Iterable[Inspection], call: IndicatorCall) -> list[list[Inspection]]:
    """Return the last blocks of a run in which no stack ran an indicator, the latest first."""
    found = []
    for block in reversed(_blocks(run, (call,)).values()):
        if any(cause_of(each) in (None, FailureCause.INFRASTRUCTURE) for each in block):
            break
        found.append(block)
    return found


def _blocks(
    run: Iterable[Inspection], calls: Sequence[IndicatorCall]
) -> dict[int, list[Inspection]]:
    ids = {call.id for call in calls}
    found: dict[int, list[Inspection]] = {}
    for each in run:
        if each.block > 0 and each.indicator_id in ids:
            found.setdefault(each.block, []).append(each)
    return found
