"""Somewhere to run inspections."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from stackgen.errors import MeasurementError
from stackgen.model.inspections import Inspection, InspectionPlan


class ExecutorUnavailableError(MeasurementError):
    """Nothing can run here at all."""


class Executor(Protocol):
    """Somewhere to run inspections: a virtualenv, a container, a cluster."""

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan, as each completes.

        A stack that fails to build or crashes is knowledge: yield it with its outcome.

        Raises:
            ExecutorUnavailableError: nothing can run here at all.
        """


__all__ = ["Executor", "ExecutorUnavailableError"]
