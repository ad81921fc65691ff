"""Solve a system of linear equations with NumPy."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "Solution of as many linear equations as unknowns",
    "component": "numpy",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "equations and unknowns"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size = parameters["size"]
    a, b = here.numbers((size, size), seed=1), here.numbers(size, seed=2)
    a.flat[:: size + 1] += size**0.5  # far from singular
    return here.operation(lambda: here.np.linalg.solve(a, b), work=2 * size**3 / 3)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
