"""Take the Cholesky root of a matrix with NumPy."""

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
    "summary": "Cholesky decomposition of a symmetric matrix",
    "component": "numpy",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of the matrix"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size = parameters["size"]
    a = here.numbers((size, size))
    a = a + a.T
    a.flat[:: size + 1] += size  # positive definite, whatever the other numbers are
    return here.operation(lambda: here.np.linalg.cholesky(a), work=size**3 / 3)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
