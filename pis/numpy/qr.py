"""Decompose a matrix into an orthogonal and a triangular one with NumPy."""

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
    "summary": "QR decomposition of a square matrix",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 256, "help": "rows and columns of the matrix"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    a = here.numbers((parameters["size"], parameters["size"]))

    def whole(found):
        # Rows of the triangle may have either sign.
        orthogonal, triangle = found
        return here.np.concatenate([abs(triangle), here.np.dot(orthogonal, triangle)])

    return here.operation(lambda: here.np.linalg.qr(a), result=whole)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
