"""What a night calls a finding."""

from dataclasses import replace

from stackgen.pipeline.nightly import _differences
from stackgen.values import Control, Difference
from tests.test_render import FASTER, deviating, report

FAILED = Control(name="same stack twice", blocks=10, p_value=0.0, failed=True)


def test_a_release_that_is_faster_is_a_difference_unless_controls_failed() -> None:
    found = report(FASTER)
    ((_, kind),) = _differences(found)
    assert kind == "faster"
    assert _differences(replace(found, controls=(FAILED,))) == {}


def test_a_release_that_computes_something_else_is_one_however_fast_or_noisy() -> None:
    found = deviating(Difference.NUMBERS)
    (((_, kind), text),) = _differences(found).items()
    assert kind == "numerically different"
    assert text.startswith("numpy 1.26.4 computes something else than numpy 2.4.0: numerically")
    assert _differences(replace(found, controls=(FAILED,))) == _differences(found)


def test_a_reference_that_is_not_repeatable_is_no_finding_about_a_release() -> None:
    found = _differences(deviating(Difference.NOT_REPEATABLE, at=1))
    assert [kind for _, kind in found] == ["faster"]
