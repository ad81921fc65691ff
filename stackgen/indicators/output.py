"""Read what an indicator printed: one JSON document, written by ``pis/harness.py``."""

import json
import sys
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from stackgen.errors import MeasurementError
from stackgen.model.inspections import LoadedDistribution, Observation, Outcome

SCHEMA = 1
_START = '{"stackgen":'
_LEAST_S = 1e-9  # perf_counter counts nanoseconds, and calling any operation takes longer than one
_CLOCKS_DIFFER = 1.01  # those of the process and of the executor, as where an engine is a VM

_Finite: TypeAlias = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class _Header(msgspec.Struct, frozen=True):
    """The part of the document that every outcome has; other keys are ignored."""

    stackgen: int
    # What the harness may report of itself; other outcomes are seen from outside of the process.
    outcome: Literal["ok", "unsupported", "import_failed", "invalid_output"]
    reason: str | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement, as the harness prints it (docs/indicators.md)."""

    values_s: tuple[_Finite, ...]
    loops: int
    circumstances: dict[str, Any]
    work: _Finite | None = None
    steady: bool = False
    checksum: _Finite | None = None
    peak_memory_bytes: _Finite | None = None
    loaded: tuple[LoadedDistribution, ...] = ()
    component_version: Any = None


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
        header = msgspec.convert(document, _Header)
        if header.stackgen != SCHEMA:
            raise ValueError(f"schema {header.stackgen} instead of {SCHEMA}")
        outcome = Outcome(header.outcome)
        if outcome is not Outcome.OK:
            if header.reason is None:
                raise ValueError(f"the outcome {header.outcome} comes without a reason")
            return Parsed(outcome=outcome, reason=header.reason)
        return Parsed(outcome=outcome, observation=_observation(document))
    except (ValueError, OverflowError, RecursionError) as error:
        raise _rubbish(line, str(error)) from error


def refuse_impossible(observation: Observation, *, lasted_s: float) -> None:
    """Refuse times that the process cannot have measured.

    Figures of its own are no times, and pass.

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


def _observation(document: object) -> Observation:
    seen = msgspec.convert(document, _Document)
    around = {_text(name): _text(value) for name, value in seen.circumstances.items()}
    if seen.component_version:
        around["component_version"] = _text(seen.component_version)
    loaded = [
        replace(each, name=_text(each.name), version=_text(each.version)) for each in seen.loaded
    ]
    return Observation(
        values_s=seen.values_s,
        loops=_storable(seen.loops),
        work=seen.work,
        steady=seen.steady,
        checksum=seen.checksum,
        peak_memory_bytes=None
        if seen.peak_memory_bytes is None
        else _storable(int(seen.peak_memory_bytes)),
        circumstances=tuple(sorted(around.items())),
        loaded=tuple(sorted(loaded, key=lambda found: (found.name, found.version))),
    )


def _storable(value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise ValueError(f"a number of at most 63 bits was expected: {value!r}")
    return value


def _text(value: object) -> str:
    """Return a value as text that can be stored: half a character becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode("utf-8")
