"""Executors run inspections."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from stackgen.errors import MeasurementError
from stackgen.model.inspections import Inspection, InspectionPlan


class ExecutorUnavailableError(MeasurementError):
    """No inspection can run with this executor."""


class Executor(Protocol):
    """Runs inspections: in a virtualenv, a container, or an existing interpreter."""

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield one inspection per plan, as each completes.

        A stack that fails to build or crashes yields an inspection with that outcome.

        Raises:
            ExecutorUnavailableError: no inspection can run.
        """


__all__ = ["Executor", "ExecutorUnavailableError"]
