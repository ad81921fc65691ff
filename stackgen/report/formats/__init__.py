"""Results in the formats of other tools, field for field.

Each module says what they leave open. What stackgen does not record is null, never a guess.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from stackgen.errors import MeasurementError
from stackgen.model.reports.local import LocalReport
from stackgen.report.formats import perfzero, pyperf, pytorch_benchmark, thoth

_WRITERS: Mapping[str, Callable[[LocalReport], str]] = {
    "perfzero": lambda report: _documents(perfzero.summaries(report)),
    "pyperf": lambda report: json.dumps(pyperf.suite(report), sort_keys=True, indent=1),
    "pytorch-benchmark": pytorch_benchmark.document,
    "thoth": lambda report: _documents(thoth.inspection_results(report)),
}


def refuse_unfit(name: str, parameters: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse, before anything is measured, what a format cannot hold.

    Args:
        name: of the format.
        parameters: names with the values of each.

    Raises:
        UsageError: it cannot hold results of all these.
    """
    if name == "pytorch-benchmark":
        given = dict(parameters)
        varied = [each for each, values in parameters if len(set(values)) > 1]
        pytorch_benchmark.refuse(varied, given.get("step", ()))


def formatted(report: LocalReport, name: str) -> str:
    """Return a report as another tool would write it.

    PerfZero and Thoth write a document for each run: several of them become a list.

    Raises:
        MeasurementError: nothing was measured, or no time, and the format cannot say so.
    """
    if any(each.figures and each.figures.figure for each in report.results):
        raise MeasurementError(
            f"{report.indicator.name} cannot be written as {name}",
            why="it gives a figure of its own, and that format holds times",
            fix="use --json",
        )
    return _WRITERS[name](report)


def _documents(found: list[dict[str, object]]) -> str:
    return json.dumps(found[0] if len(found) == 1 else found, indent=2)
