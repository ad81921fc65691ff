"""Bars say what the numbers beside them say."""

import math

from hypothesis import given
from hypothesis import strategies as st

from stackgen.report.tables import WIDTH, scale

RATIOS = st.floats(0.2, 5.0)


def test_a_bar_reaches_from_low_to_high_around_the_ratio() -> None:
    found = scale([(0.5, 1.0, 2.0)])
    assert found is not None
    assert found.bar(0.5, 1.0, 2.0) == "----------o---------"
    assert found.bar(0.5, 0.5, 0.5) == "o         |         "
    assert found.heading() == "0.50            2.00"


def test_the_baseline_is_marked_where_no_bar_hides_it() -> None:
    found = scale([(1.2, 1.4, 2.0)])
    assert found is not None
    assert found.bar(1.2, 1.4, 2.0).startswith("|")
    assert found.mark() == "o" + " " * (WIDTH - 1)


def test_what_reaches_further_than_the_scale_is_cut_with_an_arrow() -> None:
    found = scale([(0.01, 1.1, 90.0)])
    assert found is not None
    drawn = found.bar(0.01, 1.1, 90.0)
    assert (drawn[0], drawn[-1]) == ("<", ">")


def test_without_an_interval_there_is_no_scale_and_no_bar() -> None:
    assert scale([(0.0, 1.0, math.inf)]) is None
    found = scale([(0.9, 1.0, 1.1)])
    assert found is not None
    assert found.bar(0.0, 1.0, math.inf) == ""


@given(st.lists(st.tuples(RATIOS, RATIOS, RATIOS).map(sorted), min_size=1))
def test_every_bar_is_as_wide_as_the_heading_and_shows_its_ratio_once(
    rows: list[list[float]],
) -> None:
    found = scale(rows)
    assert found is not None
    assert len(found.heading()) == WIDTH
    for low, ratio, high in rows:
        drawn = found.bar(low, ratio, high)
        assert len(drawn) == WIDTH
        assert drawn.count("o") == 1


@given(st.lists(RATIOS, min_size=2))
def test_larger_ratios_lie_further_to_the_right(ratios: list[float]) -> None:
    found = scale([(each, each, each) for each in ratios])
    assert found is not None
    places = [found.bar(each, each, each).index("o") for each in sorted(ratios)]
    assert places == sorted(places)
