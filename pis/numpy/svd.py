"""Decompose a matrix into singular values and vectors with NumPy."""

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
    "summary": "Singular value decomposition of a square matrix",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 192, "help": "rows and columns of the matrix"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    a = here.numbers((parameters["size"], parameters["size"]))

    def whole(found):
        # Vectors may have either sign, so what they multiply to is compared.
        left, values, right = found
        return here.np.concatenate([values[None, :], here.np.dot(left * values, right)])

    return here.operation(lambda: here.np.linalg.svd(a), result=whole)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
