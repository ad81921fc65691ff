"""Reports of what stacks need besides time: import, memory, download, disk."""

from dataclasses import dataclass

from stackgen.model.evidence import Effect
from stackgen.model.goals import SPEED_ALONE, Goals
from stackgen.model.identity import StackId


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSize:
    """Exact sizes of a stack: its wheels as files, and their members unpacked, without bytecode.

    None where the size of a file is not known.
    """

    download_bytes: int | None = None
    installed_bytes: int | None = None


UNKNOWN_SIZE = StackSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackQuantities:
    """What one stack needs besides time.

    import_s, import_peak_bytes: medians over blocks; None where no import is recorded.
    peak_bytes: the largest peak of any process that ran an indicator.
    speed_effect, import_effect, memory_effect: against the baseline, above 1 is better; None for
        the baseline itself, and where no block has both. The speed is that of all indicators.
    decision: against the baseline, of all goals by their weights; None where speed alone decides,
        where the goals have a Pareto front, and for the baseline.
    exceeded: the limits that it does not keep, in words.
    on_front: whether no other stack is shown to dominate it.
    """

    stack_id: StackId
    size: StackSize = UNKNOWN_SIZE
    import_s: float | None = None
    import_peak_bytes: float | None = None
    peak_bytes: int | None = None
    speed_effect: Effect | None = None
    import_effect: Effect | None = None
    memory_effect: Effect | None = None
    decision: Effect | None = None
    exceeded: tuple[str, ...] = ()
    on_front: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """What stacks need besides time, and what follows from the goals of the user.

    imported: what is imported, such as ``tensorflow``; "" where no import is recorded.
    memory_of: what the memory effects are of: ``import`` or ``run``.
    stacks: in the order of the ranking.
    """

    goals: Goals = SPEED_ALONE
    imported: str = ""
    memory_of: str = "import"
    stacks: tuple[StackQuantities, ...] = ()

    def of(self, stack: StackId) -> StackQuantities:
        """Return the quantities of a stack; without any where nothing is recorded of it."""
        found = (each for each in self.stacks if each.stack_id == stack)
        return next(found, StackQuantities(stack_id=stack))


NO_QUANTITIES = GoalReport()
