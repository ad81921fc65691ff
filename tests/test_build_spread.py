"""The benchmark of builds: it finds the spread that was planted, and none where there is none."""

import numpy as np
import pytest

from benchmarks.live.builds import spread


@pytest.mark.parametrize("planted", [0.0, 0.005, 0.02])
def test_the_interval_holds_the_planted_spread_in_most_repetitions(planted: float) -> None:
    dice = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        builds = dice.normal(0, planted, 10)
        days = dice.normal(0, 0.1, (12, 1))
        found = spread(days + builds + dice.normal(0, 0.01, (12, 10)))
        held += found.low <= planted <= found.high
        assert found.residual == pytest.approx(0.01, rel=0.35)
    assert 180 <= held <= 200
