"""An executor that answers from a function."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from stackgen.model.inspections import Inspection, InspectionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeExecutor:
    """Answers each plan from a function."""

    answer: Callable[[InspectionPlan], Inspection]

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Answer each plan in order."""
        return map(self.answer, plans)
