"""After how many blocks verdicts are looked at, and how much of the false alarms a look spends.

Pocock (1977), Group sequential methods in the design and analysis of clinical trials: the same
boundary at each look, chosen so that all looks together raise the alarms that were agreed on. The
probability of crossing it is computed as in Armitage, McPherson and Rowe (1969), Repeated
significance tests on accumulating data.
"""

import math
from functools import lru_cache
from typing import Any

LOOKS = (6, 10, 16, 26, 42, 60)
"""After how many blocks verdicts are looked at."""
_NODES = 201  # of the grid that the density is carried along on; eight times as many change 1e-7


@lru_cache(maxsize=64)
def level_of_a_look(alpha: float) -> float:
    """Return the level of each look's test, so that all looks together keep to ``alpha``.

    Looks share most of their data, so this is more than alpha divided by their number: 0.0125
    instead of 0.0083 at 5 %. Computed for sums of normal contrasts; t quantiles at
    this level take its place for few of them.

    Args:
        alpha: false alarms over all looks, above 0 and below 1.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(log_level: float) -> float:
        boundary = float(norm.isf(math.exp(log_level) / 2))
        return math.log(_crossed(boundary) / alpha)

    least, most = math.log(alpha / len(LOOKS)) - 0.01, math.log(alpha) + 0.01
    return math.exp(brentq(excess, least, most, xtol=1e-6))


def _crossed(boundary: float) -> float:
    """Return how often a walk without drift leaves +-boundary standard errors at any look."""
    import numpy as np
    from scipy.stats import norm

    edges = [boundary * math.sqrt(look) for look in LOOKS]
    nodes = np.linspace(-edges[0], edges[0], _NODES)
    density = norm.pdf(nodes, scale=math.sqrt(LOOKS[0]))
    left = 2 * float(norm.sf(boundary))
    for before, now, edge in zip(LOOKS, LOOKS[1:], edges[1:], strict=False):
        spread = math.sqrt(now - before)
        inside = _weights(nodes) * density
        out = norm.sf(edge - nodes, scale=spread) + norm.cdf(-edge - nodes, scale=spread)
        left += float(inside @ out)
        reached = np.linspace(-edge, edge, _NODES)
        density = norm.pdf(reached[:, None] - nodes[None, :], scale=spread) @ inside
        nodes = reached
    return left


def _weights(nodes: Any) -> Any:
    """Return the weights of Simpson's rule on evenly spaced nodes, an odd number of them."""
    import numpy as np

    weights = np.full(len(nodes), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (nodes[1] - nodes[0]) / 3
