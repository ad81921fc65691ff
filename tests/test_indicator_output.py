"""An indicator's document is read whatever surrounds it, and rubbish is never a measurement."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import MeasurementError
from stackgen.indicators.output import parse_output
from stackgen.model.inspections import Outcome

DOCUMENT = {
    "stackgen": 1,
    "outcome": "ok",
    "reason": "",
    "values_s": [0.25, 0.5],
    "loops": 4,
    "work": 128,
    "steady": True,
    "checksum": 0.5,
    "peak_memory_bytes": 1024,
    "circumstances": {"load": "0.1"},
    "loaded": [{"name": "numpy", "version": "2.0", "compiled": True}],
    "component_version": "2.0",
}


def printed(**changes: object) -> str:
    return json.dumps({**DOCUMENT, **changes}) + "\n"


def test_a_document_becomes_an_observation() -> None:
    seen = parse_output(printed()).observation
    assert seen is not None
    assert (seen.values_s, seen.loops, seen.work) == ((0.25, 0.5), 4, 128.0)
    assert seen.circumstances == (("component_version", "2.0"), ("load", "0.1"))
    assert seen.loaded[0].compiled


@given(before=st.text(), after=st.text())
def test_chatter_around_the_document_changes_nothing(before: str, after: str) -> None:
    assert parse_output(f"{before}\n{printed()}{after}") == parse_output(printed())


def test_what_is_no_text_is_kept_as_text_that_can_be_stored() -> None:
    strange = {"name": "a", "version": "1\ud800", "compiled": True}
    seen = parse_output(printed(component_version="\udcff", loaded=[strange])).observation
    assert seen is not None
    assert dict(seen.circumstances)["component_version"] == "?"
    assert seen.loaded[0].version == "1?"


@pytest.mark.parametrize("outcome", ["unsupported", "import_failed"])
def test_what_cannot_be_measured_keeps_its_reason(outcome: str) -> None:
    reported = parse_output(printed(outcome=outcome, reason="no such dtype"))
    assert reported.outcome is Outcome(outcome)
    assert reported.observation is None
    assert reported.reason == "no such dtype"


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "4.2\n",
        printed()[:-20],
        printed(stackgen=2),
        printed(peak_memory_bytes=float("inf")),
        printed(peak_memory_bytes=1 << 63),
        printed(peak_memory_bytes=-1),
        printed(loops=1 << 63),
        printed(work=float("nan")),
        printed(work=10**400),
        '{"stackgen": 1, "outcome": ' + "[" * 100_000,
        printed(outcome="splendid"),
        printed(outcome="timeout"),
        printed(values_s=[]),
        printed(values_s=[0.0]),
        printed(values_s=[float("nan")]),
        printed(values_s=["1"]),
        printed(values_s=[True]),
        printed(values_s=None),
        printed(loops=0),
        printed(loops=1.5),
        printed(circumstances=[]),
        printed(loaded=[3]),
        printed(loaded=[{"name": "numpy"}]),
        '{"stackgen": 1}',
        '{"stackgen": 1, "outcome": "unsupported"}',
    ],
)
def test_rubbish_is_no_measurement(stdout: str) -> None:
    with pytest.raises(MeasurementError):
        parse_output(stdout)
