"""Read what an indicator printed: one JSON document, written by ``pis/harness.py``."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from stackgen.errors import MeasurementError
from stackgen.model.inspections import LoadedDistribution, Observation, Outcome

SCHEMA = 1
_START = '{"stackgen":'
_LEAST_S = 1e-9  # perf_counter counts nanoseconds, and calling any operation takes longer than one
_CLOCKS_DIFFER = 1.01  # those of the process and of the executor, as where an engine is a VM
# What the harness may say of itself; all other outcomes are seen from outside of the process.
_TOLD = {
    "ok": Outcome.OK,
    "unsupported": Outcome.UNSUPPORTED,
    "import_failed": Outcome.IMPORT_FAILED,
    "invalid_output": Outcome.INVALID_OUTPUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed document of an indicator.

    observation: present exactly when the outcome is ok.
    reason: in words or as a traceback; "" when the outcome is ok.
    """

    outcome: Outcome
    observation: Observation | None = None
    reason: str = ""


def parse_output(stdout: str) -> Parsed:
    """Read the document from an indicator's standard output, which may have other lines as well.

    Raises:
        MeasurementError: there is no document, or it is not a measurement.
    """
    line = _document_line(stdout)
    try:
        document = json.loads(line)
        if document["stackgen"] != SCHEMA:
            raise ValueError(f"schema {document['stackgen']!r} instead of {SCHEMA}")
        outcome = _TOLD[document["outcome"]]
        if outcome is not Outcome.OK:
            return Parsed(outcome=outcome, reason=str(document["reason"]))
        return Parsed(outcome=outcome, observation=_observation(document))
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise _rubbish(line, repr(error)) from error


def refuse_impossible(observation: Observation, *, lasted_s: float) -> None:
    """Refuse times that the process cannot have measured.

    Args:
        observation: what the process printed; figures of its own are no times, and pass.
        lasted_s: seconds from before the start of the process until after its end.

    Raises:
        MeasurementError: the samples take longer than the process, or no time at all.
    """
    if observation.gives_figure:
        return
    values, loops = observation.values_s, observation.loops
    fix = "run the indicator by hand: it must print seconds per operation"
    if sum(values) * loops > lasted_s * _CLOCKS_DIFFER:
        raise MeasurementError(
            f"impossible times: {len(values)} samples, of {loops} operations at up to "
            f"{max(values):.3g} s each",
            why=f"the process itself lasted {lasted_s:.3g} s",
            fix=fix,
        )
    if min(values) < _LEAST_S:
        raise MeasurementError(
            f"impossible times: {min(values):.3g} s per operation",
            why=f"no clock resolves, and no call takes, less than {_LEAST_S:g} s",
            fix=fix,
        )


def without_document(stdout: str) -> str:
    """Return what was printed besides the document, for the log."""
    lines = stdout.splitlines()
    return "\n".join(line for line in lines if not line.startswith(_START)).strip("\n")


def _document_line(stdout: str) -> str:
    """Return the last line that begins as a document; libraries may print after it at exit."""
    for line in reversed(stdout.splitlines()):
        if line.startswith(_START):
            return line
    raise _rubbish(stdout, "no line of it is the harness's JSON document")


def _rubbish(text: str, why: str) -> MeasurementError:
    return MeasurementError(
        f"cannot read the indicator's output: {text[-80:]!r}",
        why=why,
        fix="run the indicator by hand and read what it prints (stackgen pis shows its path)",
    )


def _observation(document: Mapping[str, object]) -> Observation:
    return Observation(
        values_s=tuple(_number(value) for value in _list(document["values_s"])),
        loops=_loops(document["loops"]),
        work=_number_or_none(document.get("work")),
        steady=document.get("steady") is True,
        checksum=_number_or_none(document.get("checksum")),
        peak_memory_bytes=_bytes_or_none(document.get("peak_memory_bytes")),
        circumstances=_circumstances(document),
        loaded=_loaded(document.get("loaded", [])),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected: {str(value)[:40]}")
    return value


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected: {str(value)[:40]}")
    return value


def _number(value: object) -> float:
    # A bool is an int to Python, not to us.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number was expected: {str(value)[:40]}")
    if not math.isfinite(value):
        raise ValueError(f"a finite number was expected: {value}")
    return float(value)


def _number_or_none(value: object) -> float | None:
    return None if value is None else _number(value)


def _bytes_or_none(value: object) -> int | None:
    return None if value is None else _storable(int(_number(value)))


def _loops(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"loops are a positive whole number: {value!r}")
    return _storable(value)


def _storable(value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise ValueError(f"a number of at most 63 bits was expected: {value!r}")
    return value


def _text(value: object) -> str:
    """Return a value as text that can be stored: half a character becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _circumstances(document: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    found = _mapping(document["circumstances"])
    pairs = {_text(key): _text(value) for key, value in found.items()}
    if document.get("component_version"):
        pairs["component_version"] = _text(document["component_version"])
    return tuple(sorted(pairs.items()))


def _loaded(value: object) -> tuple[LoadedDistribution, ...]:
    rows = [_mapping(row) for row in _list(value)]
    distributions = [
        LoadedDistribution(
            name=_text(row["name"]), version=_text(row["version"]), compiled=row["compiled"] is True
        )
        for row in rows
    ]
    return tuple(sorted(distributions, key=lambda found: (found.name, found.version)))
