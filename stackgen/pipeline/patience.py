"""Wait for what may pass, ever longer, and not for ever: the one backoff of indexes and engines."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stackgen.errors import EngineError, StackgenError
from stackgen.pipeline.progress import Progress

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 10.0
MOST_S, SHARE = 60.0, 0.1
ENGINE_S = 60.0
"""How long an engine may be away each time: without it nothing at all can go on."""
_LEAST_S = 0.01


def allowance_s(budget_s: float) -> float:
    """Return how long one run may wait for indexes in all: a tenth of its budget, a minute at most.

    What comes back at all (an index behind a proxy that restarts) is back by then, and meanwhile
    the stacks that are ready wait; the same command goes on afterwards.
    """
    return min(MOST_S, SHARE * budget_s)


@dataclass(slots=True, kw_only=True)
class Patience:
    """The pauses of one run: 2, 4, 8, 10, 10, ... seconds, each spread by a seeded half.

    left_s: for how long it may still pause for anything but an engine. The first thing that is gone
        uses it up, so that a dead index is not waited for again at each further stack.
    engine_s: for how long it waits each time that an engine goes away.
    dice: spreads the pauses of several runs that lost the same thing; seeded with the campaign.
    """

    left_s: float
    dice: random.Random
    progress: Progress
    sleep: Callable[[float], None] = time.sleep
    engine_s: float = ENGINE_S
    _tries: int = 0
    _engine_left_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._engine_left_s = self.engine_s

    def pause(self, problem: StackgenError, *, at_most_s: float) -> bool:
        """Say what is wrong and wait before another try; False where it is time to give up.

        Args:
            problem: what may pass.
            at_most_s: what is left of the budget.
        """
        is_engine = isinstance(problem, EngineError)
        wanted = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._tries)
        allowed = self._engine_left_s if is_engine else self.left_s
        pause_s = min(wanted * self.dice.uniform(0.5, 1.5), allowed, at_most_s)
        if pause_s < _LEAST_S:
            return False
        self._tries += 1
        if is_engine:
            self._engine_left_s -= pause_s
        else:
            self.left_s -= pause_s
        why = problem.why.splitlines()[0] if problem.why else problem.what
        self.progress.note(f"{problem.what} ({why}); trying again in {pause_s:.1f} s.")
        self.sleep(pause_s)
        return True

    def over(self) -> None:
        """Note that it works again: the next pause is a short one."""
        self._tries = 0

    def engine_works(self) -> None:
        """Note that a process ran: an engine that goes away again is waited for as long."""
        self._tries = 0
        self._engine_left_s = self.engine_s
