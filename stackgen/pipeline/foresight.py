"""How long measuring takes, as far as the first runs tell."""

from collections.abc import Sequence

from stackgen.measure import LOOKS, Design
from stackgen.values import IndicatorCall, Inspection, Outcome, Role

_TWINS = 2  # the reference is measured twice in each block, and so is the control


def first_answers_s(
    design: Design,
    inspections: Sequence[Inspection],
    *,
    challengers: int | None = None,
    done: int | None = None,
) -> float:
    """Return the seconds until the first answers, from the longest runs of each call in blocks.

    Before any block there are only trials: the first runs of a stack, which read hundreds of
    megabytes from a cold disk (38 s of a run that took 3.6 s afterwards). What the shortest of them
    computed is all that they foretell.

    Args:
        design: what a block holds.
        inspections: everything so far; blocks of a search answer nothing.
        challengers: how many stacks there will be beside the reference; those of the design by
            default.
        done: how many blocks there are of these stacks; by default all that are no search's.
    """
    calls = (*design.calls, design.control)
    longest = {call.id: _one_run_s(call, inspections) for call in calls}
    stacks = (len(design.challengers) if challengers is None else challengers) + _TWINS
    block_s = sum(longest.get(call.id, 0.0) * stacks for call in design.calls)
    block_s += longest.get(design.control.id, 0.0) * _TWINS
    if done is None:
        fresh = (e for e in inspections if e.block and e.role is not Role.SEARCH)
        done = len({each.block for each in fresh})
    return block_s * max(0, LOOKS[0] - done)


def _one_run_s(call: IndicatorCall, inspections: Sequence[Inspection]) -> float:
    """Return the longest run but one: that something held up a single one foretells nothing."""
    own = [e for e in inspections if e.indicator_id == call.id and e.outcome is Outcome.OK]
    runs = sorted(each.duration_s for each in own if each.block)
    if runs:
        return runs[-2 if len(runs) > 2 else -1]
    return min((_computed_s(call, each) for each in own), default=0.0)


def _computed_s(call: IndicatorCall, trial: Inspection) -> float:
    """Return for how long a process computed, its start included; a program may also wait."""
    told = dict(trial.observation.circumstances) if trial.observation else {}
    try:
        user_s, system_s, *_ = (float(each) for each in told.get("rusage", "").split())
    except ValueError:
        return trial.duration_s
    return trial.duration_s if call.program else min(trial.duration_s, user_s + system_s)


def too_short(design: Design, inspections: Sequence[Inspection], left_s: float) -> str:
    """Return what to tell a user whose budget ends before the first answers, "" otherwise."""
    needed_s = first_answers_s(design, inspections)
    if needed_s <= left_s:
        return ""
    return (
        f"The first answers need {LOOKS[0]} blocks, about {_minutes(needed_s)}; "
        f"{_minutes(left_s)} of the budget are left. "
        "Give more with --budget, or measure less: fewer --stacks, a shorter run."
    )


def _minutes(seconds: float) -> str:
    minutes = max(0.0, seconds) / 60
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min"
