"""What a night calls a finding."""

from dataclasses import replace

from stackgen.pipeline.nightly import _differences
from stackgen.values import Control, Difference, ExploreReport, IndicatorId
from tests.test_render import FASTER, deviating, report

FAILED = Control(name="same stack twice", blocks=10, p_value=0.0, failed=True)


def test_a_release_that_is_faster_is_a_difference_unless_controls_failed() -> None:
    found = report(FASTER)
    ((_, _, kind),) = _differences(found)
    assert kind == "faster"
    assert _differences(replace(found, controls=(FAILED,))) == {}


def test_a_release_that_computes_something_else_is_one_however_fast_or_noisy() -> None:
    found = deviating(Difference.NUMBERS)
    (((_, _, kind), text),) = _differences(found).items()
    assert kind == "numerically different"
    told = "numpy 1.26.4 computes something else than numpy 2.4.0 on numpy/matmul size=512: numer"
    assert text.startswith(told)
    assert _differences(replace(found, controls=(FAILED,))) == _differences(found)


def test_a_reference_that_is_not_repeatable_is_no_finding_about_a_release() -> None:
    found = _differences(deviating(Difference.NOT_REPEATABLE, at=1))
    assert [kind for _, _, kind in found] == ["faster"]


def on(found: ExploreReport, indicator: str) -> ExploreReport:
    """Return the same report, of another indicator."""
    other = IndicatorId(indicator)
    rows = tuple(
        replace(row, effects=tuple(replace(each, indicator_id=other) for each in row.effects))
        for row in found.ranking
    )
    return replace(found, ranking=rows, indicators=((other, indicator),))


def test_what_one_indicator_shows_is_not_confirmed_by_another() -> None:
    first, second = (_differences(on(report(FASTER), each)) for each in ("sort", "fft"))
    assert not first.keys() & second.keys()
    assert [" on sort: 1." in text for text in first.values()] == [True]
