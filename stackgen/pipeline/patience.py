"""Wait for what may pass, ever longer, and not for ever."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from stackgen.errors import StackgenError
from stackgen.pipeline.progress import Progress

FIRST_PAUSE_S = 2.0
MOST_S, SHARE = 60.0, 0.1
_LEAST_S = 0.01


def allowance_s(budget_s: float) -> float:
    """Return how long one run may pause in all: a tenth of its budget, and at most a minute.

    What comes back at all (an engine that restarts, an index behind a proxy that does) is back
    by then; what does not is for a person to look at, and the same command goes on afterwards.
    """
    return min(MOST_S, SHARE * budget_s)


@dataclass(slots=True, kw_only=True)
class Patience:
    """The pauses of one run, together.

    left_s: for how long it may still pause. The first thing that is gone uses it up, so that an
        index that is dead is not waited for again at each further stack.
    dice: spreads the pauses of several runs that lost the same thing; seeded with the campaign.
    """

    left_s: float
    dice: random.Random
    progress: Progress
    sleep: Callable[[float], None] = time.sleep
    _tries: int = 0

    def pause(self, problem: StackgenError, *, at_most_s: float) -> bool:
        """Say what is wrong and wait before another try; False where it is time to give up.

        Args:
            problem: what may pass.
            at_most_s: what is left of the budget.
        """
        wanted = FIRST_PAUSE_S * 2**self._tries * self.dice.uniform(0.5, 1.5)
        pause_s = min(wanted, self.left_s)
        if pause_s < _LEAST_S or pause_s > at_most_s:
            return False
        self._tries += 1
        self.left_s -= pause_s
        why = problem.why.splitlines()[0] if problem.why else problem.what
        self.progress.note(f"{problem.what} ({why}); trying again in {pause_s:.1f} s.")
        self.sleep(pause_s)
        return True

    def over(self) -> None:
        """Note that it works again: the next pause is a short one."""
        self._tries = 0
