"""Measure stacks against the baseline, block after block, until every comparison is decided."""

import math
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stackgen import interrupts
from stackgen.campaign.runner import Record, last_line, minutes_text
from stackgen.campaign.session import Session
from stackgen.errors import BuildError, IndexUnavailableError, MeasurementError, StackgenError
from stackgen.measure import (
    ALPHA,
    INTERIM_ANALYSES,
    Design,
    decided,
    exclude_disturbed,
    fewest_blocks,
    plan_block,
    rank,
)
from stackgen.measure.goals import compare_goals, goals_decided, shares
from stackgen.measure.ranking import (
    all_times,
    block_ratios,
    is_futile,
    is_open,
    weighted_mean,
)
from stackgen.measure.retry_policy import MOST_KILLS, FailureCause, cause, cause_of
from stackgen.model.evidence import Effect, Ranked
from stackgen.model.goals import SPEED_ALONE, Goals
from stackgen.model.identity import CampaignId, IndicatorId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Outcome, Role
from stackgen.model.reports.campaigns import FailedStack, GoalReport, StackSize
from stackgen.model.stacks import Program
from stackgen.storage.paths import Paths

ALL_FAILED = "every other stack failed while it was measured"
ONE_STACK = "only one stack runs here, and there is nothing to compare it with"
FIRST_ESTIMATES = 3
"""After so many blocks users see where it goes; nothing is tested, and nothing ends by it."""

FIRST_RANKING_S = 180.0
"""Where a ranking of all stacks would come later, the first ones are compared beforehand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Why measuring ended."""

    why: str
    interrupted: bool = False
    error: StackgenError | None = None


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Compares stacks with the baseline in blocks that hold all of them.

    design: what a block holds; what fails leaves it.
    labels: of the stacks in it.
    margin: a relative difference that is of no importance.
    weights: of the indicators, where the user gave any; 1 where none is given.
    goals: what decides besides speed, where the user gave any.
    sizes: of the stacks.
    alpha: false alarms allowed over all comparisons of speed.
    tolerance: by which two builds of one stack may differ.
    detect: it ends where each comparison is decided or excludes an effect of this size; 0: none.
    analyses: numbers of blocks after which interim analyses are made.
    planned: how many stacks will be compared with the baseline, where not all take part yet.
    most_blocks: after so many of each stack it ends, decided or not.
    reserve_s: returns what of the budget is left for what follows.
    why_alone: what ends it where there is no candidate.
    """

    session: Session
    design: Design
    labels: Mapping[StackId, str]
    margin: float
    weights: Mapping[IndicatorId, float]
    alpha: float = ALPHA * shares(SPEED_ALONE).speed
    tolerance: float = 0.0
    detect: float = 0.0
    analyses: tuple[int, ...] = INTERIM_ANALYSES
    goals: Goals = SPEED_ALONE
    sizes: Mapping[StackId, StackSize] = field(default_factory=dict)
    planned: int = 0
    most_blocks: int = INTERIM_ANALYSES[-1]
    reserve_s: Callable[[], float] = lambda: 0.0
    why_alone: str = ONE_STACK
    _reported: int = 0

    def run(self) -> Stopped:
        """Run blocks until every comparison is decided, the budget is spent, or Ctrl-C.

        A stack that failed in a block takes part in no further one. What ends it is returned,
        never raised: everything recorded until then can be reported.
        """
        if not self.design.candidates:
            return Stopped(why=self.why_alone)
        session, calls = self.session, self.design.calls
        longest = 0.0
        try:
            while True:
                why = self._decided()
                if why:
                    return Stopped(why=why)
                # One block is always run: with none, all that was built would show nothing.
                left_s = session.left_s - self.reserve_s()
                if left_s <= longest and block_costs(session.inspections)[0]:
                    return Stopped(why="the budget is spent")
                session.pause_after_idle_block(calls)
                (baseline, *others), block = session.run_block(
                    (self.design.baseline, *self.design.candidates),
                    partial(plan_block, self.design),
                )
                self.design = replace(self.design, baseline=baseline, candidates=tuple(others))
                longest = max(longest, block.seconds)
                self._report_standing(block.seconds)
        except KeyboardInterrupt:
            interrupts.refuse_second()
            return Stopped(why="you interrupted it", interrupted=True)
        except StackgenError as error:
            return Stopped(why=error.what, error=error)

    def _report_standing(self, block_s: float) -> None:
        """Report who leads, after each interim analysis and from then on beside the progress."""
        rows = [row for row in self.ranking() if row.counts]
        blocks = fewest_blocks(rows, self.design.calls)
        if not rows:
            return
        if blocks >= INTERIM_ANALYSES[0]:
            self.session.record.standing = standing(rows[0])
            if blocks > self._reported:
                self._report_analysis(rows, blocks)
            return
        wait = minutes_text((INTERIM_ANALYSES[0] - blocks) * block_s)
        test = f"first interim analysis after {INTERIM_ANALYSES[0]} blocks, in about {wait}"
        tested = [row for row in rows if row.is_baseline or any(each.low for each in row.effects)]
        if len(tested) > 1:  # they began before the others
            self.session.record.standing = f"{standing(tested[0])}; of the others {test}"
            return
        ranges = self._ranges(rows)
        self.session.record.standing = f"{_estimate(rows[0], ranges)} leads; {test}"
        if blocks >= FIRST_ESTIMATES and not self._reported:
            self._reported = blocks
            estimates = "; ".join(_estimate(row, ranges) for row in rows)
            self.session.progress.note(
                f"First estimates, after {blocks} blocks{self._excluded()} and not tested: "
                f"{estimates}. {test.capitalize()}."
            )

    def _report_analysis(self, rows: Sequence[Ranked], blocks: int) -> None:
        """Report the leader; after the first analysis, every stack with what it needs besides."""
        note = self.session.progress.note
        first, self._reported = self._reported < INTERIM_ANALYSES[0], blocks
        open_ = sum(is_open(row) for row in rows)
        state = f"{open_} of {len(rows) - 1} not decided"
        if not open_:
            whole = decided(rows, self.design.calls)
            state = "all decided" if whole else "all decided overall, but not on each indicator"
        note(f"After {blocks} blocks{self._excluded()}: {standing(rows[0])}; {state}.")
        if not first:
            return
        found = self._quantities([row.stack_id for row in rows])
        for row in rows:
            own = found.of(row.stack_id)
            effects = {
                "speed": _speed(row),
                "import": own.import_effect,
                "memory": own.memory_effect,
            }
            shown = ", ".join(f"{name} {_within(each)}" for name, each in effects.items() if each)
            note(f"  {row.label}: {'baseline' if row.is_baseline else shown}")

    def _ranges(self, rows: Sequence[Ranked]) -> Mapping[StackId, tuple[float, float]]:
        """Return the smallest and the largest ratio to the baseline that a block had."""
        seen, baseline = self.session.inspections, self.design.baseline.stack.id
        series = all_times(seen, exclude_disturbed(seen).excluded)
        found = {}
        for row in rows:
            per_call = [
                (
                    block_ratios(
                        series.get((call.id, row.stack_id, False), {}),
                        series.get((call.id, baseline, False), {}),
                    ),
                    self.weights.get(call.id, 1.0),
                )
                for call in self.design.calls
            ]
            if ratios := weighted_mean(per_call).values():
                found[row.stack_id] = (math.exp(min(ratios)), math.exp(max(ratios)))
        return found

    def _excluded(self) -> str:
        """Return how many blocks do not count because something disturbed them."""
        count = len(exclude_disturbed(self.session.inspections).excluded)
        return f" ({count} disturbed {'block' if count == 1 else 'blocks'} excluded)" * bool(count)

    def ranking(self) -> tuple[Ranked, ...]:
        """Return the ranking that the evidence allows now."""
        return rank(
            self.session.inspections,
            labels=self.labels,
            baseline=self.design.baseline.stack.id,
            calls=self.design.calls,
            margin=self.margin,
            weights=self.weights,
            total_alpha=self.alpha,
            tolerance=self.tolerance,
            planned=self.planned,
            analyses=self.analyses,
        )

    def _quantities(self, stacks: Sequence[StackId]) -> GoalReport:
        """Return what these stacks need besides time, and what follows from the goals."""
        return compare_goals(
            self.session.inspections,
            stacks=stacks,
            baseline=self.design.baseline.stack.id,
            calls=self.design.calls,
            weights=self.weights,
            goals=self.goals,
            sizes=self.sizes,
            margin=self.margin,
            planned=self.planned,
        )

    def _decided(self) -> str:
        """Leave out what failed; return why no further block is needed, "" where one is.

        Raises:
            MeasurementError: the baseline failed, or nothing runs any more.
        """
        record, calls = self.session.record, self.design.calls
        record.refuse_idle(calls, baseline=self.design.baseline.stack.id)
        ranking = self.ranking()
        # What failed leaves for good, what is killed again and again for the rest of this run.
        failed = {row.stack_id for row in ranking if row.failures} | record.killed(calls).keys()
        refuse_failed_baseline(record, self.design, failed)
        left = tuple(each for each in self.design.candidates if each.stack.id not in failed)
        self.design = replace(self.design, candidates=left)
        if not left:
            return ALL_FAILED
        stacks = {each.stack.id for each in (self.design.baseline, *left)}
        rows = tuple(row for row in ranking if row.stack_id in stacks)
        if self.goals.decides:
            found = self._quantities([row.stack_id for row in rows])
            done = goals_decided(found, baseline=self.design.baseline.stack.id)
        else:
            done = decided(rows, calls)
        if done:
            return "every comparison is decided"
        if self.detect and is_futile(self.session.inspections, rows, calls, self.detect):
            return f"no effect of {100 * self.detect:g} % is left to be found"
        if fewest_blocks(rows, calls) >= self.most_blocks:
            return f"{self.most_blocks} blocks are the most ever taken"
        return ""


def refuse_failed_baseline(record: Record, design: Design, failed: set[StackId]) -> None:
    """Explain that nothing can be compared with a stack that failed.

    Raises:
        MeasurementError: the baseline is among the failed ones.
    """
    if design.baseline.stack.id not in failed:
        return
    first = next(
        each
        for each in record.failed_in_blocks(design.calls)
        if each.stack_id == design.baseline.stack.id
    )
    if cause_of(first) is FailureCause.KILLED:
        fix = (
            "find out what ends it (too little free memory?), then run the same command again: it "
            "goes on with this stack"
        )
    else:
        fix = (
            "run the same command again: the next stack that runs takes its place, where there is "
            f"one; or begin anew with --seed {design.seed + 1}; stackgen kb failures has more"
        )
    raise MeasurementError(
        "the stack that all others are compared with failed while it was measured",
        why=f"{first.outcome.value} in block {first.block}: {last_line(first.log)}",
        fix=fix,
    )


def _estimate(row: Ranked, ranges: Mapping[StackId, tuple[float, float]]) -> str:
    """Return a stack with its speed so far and how much its blocks differ; no interval yet."""
    if row.is_baseline:
        return f"{row.label} 1.00 (baseline)"
    effect = _speed(row)
    if effect is None or row.stack_id not in ranges:
        return row.label
    low, high = ranges[row.stack_id]
    return f"{row.label} {effect.ratio:.2f} (blocks {low:.2f} to {high:.2f})"


def _speed(row: Ranked) -> Effect | None:
    return row.overall or (row.effects[0] if len(row.effects) == 1 else None)


def _within(effect: Effect) -> str:
    """Return the ratio of an effect with its interval, where there is one."""
    interval = f" ({effect.low:.2f} to {effect.high:.2f})" if effect.low > 0 else ""
    return f"{effect.ratio:.2f}{interval}"


def standing(leader: Ranked) -> str:
    """Return who leads a ranking, with the interval against the baseline."""
    effect = _speed(leader)
    if effect is None:
        return f"{leader.label} leads" + ", the baseline" * leader.is_baseline
    ratio, blank, interval = _within(effect).partition(" ")
    return f"{leader.label} leads: {ratio} times the speed of the baseline{blank}{interval}"


# Estimates of the time until the first answers, from the runs so far

_TWINS = 2  # the baseline is measured twice in each block, and so is the control


def first_answers_s(
    design: Design,
    inspections: Sequence[Inspection],
    *,
    candidates: int | None = None,
    done: int | None = None,
) -> float:
    """Return the seconds until the first answers, from the longest runs of each call in blocks.

    Before any block there are only trials: the first runs of a stack, which read hundreds of
    megabytes from a cold disk (38 s of a run that took 3.6 s afterwards). What the shortest of them
    computed is all that they say of later runs.

    Args:
        inspections: everything so far; blocks of a search answer nothing.
        candidates: how many stacks there will be beside the baseline; those of the design by
            default.
        done: how many blocks there are of these stacks; by default all that are no search's.
    """
    calls = (*design.calls, design.control)
    longest = {call.id: _one_run_s(call, inspections) for call in calls}
    stacks = (len(design.candidates) if candidates is None else candidates) + _TWINS
    block_s = sum(longest.get(call.id, 0.0) * stacks for call in design.calls)
    block_s += longest.get(design.control.id, 0.0) * _TWINS
    if done is None:
        fresh = (e for e in inspections if e.block and e.role is not Role.SEARCH)
        done = len({each.block for each in fresh})
    return block_s * max(0, INTERIM_ANALYSES[0] - done)


def is_first_apart(*, spent_s: float, left_s: float, first_s: float, all_s: float) -> bool:
    """Return whether stacks that are ready are compared before the others are built.

    So it is where a ranking of all would come later than FIRST_RANKING_S, and the budget has space
    for both.

    Args:
        first_s: until those that are ready have their first answers.
        all_s: until the others are built, and all have.
    """
    return spent_s + all_s > FIRST_RANKING_S and first_s + all_s < left_s


def block_costs(inspections: Sequence[Inspection]) -> tuple[int, float]:
    """Return how many blocks compared stacks, and the median of the seconds that they took."""
    took: dict[tuple[CampaignId, int], float] = {}
    for each in inspections:
        if each.block and each.role is not Role.SEARCH:
            key = (each.campaign_id, each.block)
            took[key] = took.get(key, 0.0) + each.duration_s
    return len(took), statistics.median(took.values()) if took else 0.0


def _one_run_s(call: IndicatorCall, inspections: Sequence[Inspection]) -> float:
    """Return the longest run but one: one alone may have been delayed."""
    own = [e for e in inspections if e.indicator_id == call.id and e.outcome is Outcome.OK]
    runs = sorted(each.duration_s for each in own if each.block)
    if runs:
        return runs[-2 if len(runs) > 2 else -1]
    return min((_computed_s(call, each) for each in own), default=0.0)


def _computed_s(call: IndicatorCall, trial: Inspection) -> float:
    """Return for how long a process computed, its start included; a program may also wait."""
    circumstances = dict(trial.observation.circumstances) if trial.observation else {}
    try:
        user_s, system_s, *_ = (float(each) for each in circumstances.get("rusage", "").split())
    except ValueError:
        return trial.duration_s
    return trial.duration_s if call.program else min(trial.duration_s, user_s + system_s)


def too_short(design: Design, inspections: Sequence[Inspection], left_s: float) -> str:
    """Return a note for a user whose budget ends before the first answers, "" otherwise."""
    needed_s = first_answers_s(design, inspections)
    if needed_s <= left_s:
        return ""
    return (
        f"The first answers need {INTERIM_ANALYSES[0]} blocks, about {_minutes(needed_s)}; "
        f"{_minutes(left_s)} of the budget are left. "
        "Give more with --budget, or measure less: fewer --stacks, a shorter run."
    )


def _minutes(seconds: float) -> str:
    """Return a rough time: in hours from an hour and a half on."""
    minutes = max(0.0, seconds) / 60
    return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{minutes:.0f} min"


# Stacks that do not run, in the words of a report

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
    failures: Sequence[FailedStack], paths: Paths, program: Program | None = None
) -> StackgenError:
    """Explain that no stack works, by what most of them ended with, running a program or not."""
    what = "none of the stacks that were tried runs"
    if not failures:
        fix = "give more time with --budget; what was built and downloaded stays"
        return BuildError(what, why="the budget was spent before one was ready", fix=fix)
    outcomes = Counter(each.outcome for each in failures)
    common = outcomes.most_common(1)[0][0]
    first = next(each for each in failures if each.outcome is common)
    why = f"{first.label}: {first.outcome.value}: {first.reason}"
    if common is Outcome.DOWNLOAD_FAILED:
        fix = "look at the network with stackgen doctor, then run the same command again"
        return IndexUnavailableError(what, why=why, fix=fix)
    if cause(common, first.log) is FailureCause.KILLED:
        fix = "find out what ends it (too little free memory?), then run the same command again"
        return MeasurementError(what, why=why, fix=fix)
    if program is not None and common in (*_OF_THE_INDICATOR, Outcome.IMPORT_FAILED):
        return MeasurementError(what, why=why, fix=_helps(program, first.reason, paths))
    if common in _OF_THE_INDICATOR:
        fix = "run the indicator by hand (stackgen pis shows its path), or choose another with --pi"
        return MeasurementError(what, why=why, fix=fix)
    fix = f"see: stackgen kb failures{paths.kb_option}; or name older versions"
    return BuildError(what, why=why, fix=fix)


def _helps(program: Program, reason: str, paths: Paths) -> str:
    """Return what a program may lack, by what it said, and how to look at it."""
    hints = [hint for words, hint in _HINTS if re.search(words, reason)]
    if below := _own_module(Path(program.project), reason):
        hints = [f"that lies in its folder {below}: add --env PYTHONPATH={below}"]
    if program.project in reason:
        hints.insert(0, "it runs in a copy: name files from the project's folder on")
    if program.network:
        hints = [hint for hint in hints if hint != _NO_NETWORK]
    by_hand = f"run it by hand in {program.project}: {shlex.join(program.command)}"
    return "; ".join((*hints, by_hand, f"see also: stackgen kb failures{paths.kb_option}"))


def _own_module(project: Path, reason: str) -> str:
    """Return the folder just below the project that has the module which was not found, or ""."""
    found = re.search(r"No module named '(\w+)", reason)
    if found is None:
        return ""
    names = (found[1], f"{found[1]}.py")
    paths = (path for name in names for path in project.glob(f"*/{name}"))
    return min((path.parent.name for path in paths), default="")


def failed_in_blocks(
    record: Record, labels: Mapping[StackId, str], calls: Sequence[IndicatorCall]
) -> tuple[FailedStack, ...]:
    """Return the stacks that failed while they were measured, each with its first failure."""
    return tuple(
        FailedStack(
            label=f"{labels[each.stack_id]} (in block {each.block})",
            outcome=each.outcome,
            reason=_reason(each),
        )
        for each in record.failed_in_blocks(calls)
        if each.stack_id in labels
    )


def _reason(failure: Inspection) -> str:
    """Return why a stack was left out of blocks, and for how long where that is not for good."""
    reason = last_line(failure.log)
    if cause_of(failure) is FailureCause.KILLED:
        return f"{reason}, {MOST_KILLS} times in a row; the same command tries it again"
    return reason
