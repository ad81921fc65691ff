"""What people are told of one call: by hand, and against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.measure.figures import figures, quantile
from stackgen.model.inspections import Observation

times = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40)


def seen(*values: float, **more: object) -> Observation:
    return Observation(values_s=values, loops=1, **more)  # type: ignore[arg-type]


@given(times, st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9)


def test_one_process_by_hand() -> None:
    reported = (("device_memory_bytes", "77"), ("items", "8"), ("macs", "5"), ("parameters", "3"))
    found = figures([seen(4.0, 1.0, 2.0, work=10.0, peak_memory_bytes=9, circumstances=reported)])
    assert found is not None
    assert (found.best_s, found.median_s) == (1.0, 2.0)
    assert found.mean_s == pytest.approx(7 / 3)
    assert found.std_s == pytest.approx(1.5275252)  # square root of 7/3
    assert [found.p90_s, found.p99_s] == pytest.approx([3.6, 3.96])
    assert (found.rate, found.items_per_s, found.spread) == (5.0, 4.0, None)
    assert (found.peak_memory_bytes, found.device_memory_bytes) == (9, 77)
    assert found.facts == (("macs", "5"), ("parameters", "3"))


def test_a_slow_process_among_several_moves_the_spread_and_not_the_times() -> None:
    calm, slow = seen(1.0, 1.0, 1.0), seen(*[9.0] * 100)
    found = figures([calm, calm, slow])
    assert found is not None
    assert (found.median_s, found.best_s, found.p99_s) == (1.0, 1.0, 1.0)
    assert found.spread == 8.0


def test_processes_of_one_sample_each_are_the_samples() -> None:
    found = figures([seen(3.0), seen(1.0), seen(2.0)])
    assert found is not None
    assert (found.best_s, found.median_s, found.mean_s, found.std_s) == (1.0, 2.0, 2.0, 1.0)
    assert found.p90_s == pytest.approx(2.8)
    assert found.spread == 1.0


def test_one_process_that_was_not_steady_marks_all() -> None:
    found = figures([seen(1.0), seen(1.0, steady=False)])
    assert found is not None
    assert not found.steady


def test_nothing_is_done_per_second_of_what_is_no_time() -> None:
    found = figures([seen(0.5, work=10.0, circumstances=(("figure", "higher"), ("items", "8")))])
    assert found is not None
    assert (found.figure, found.rate, found.items_per_s) == ("higher", None, None)


def test_nothing_seen_is_nothing_reported() -> None:
    assert figures([]) is None
