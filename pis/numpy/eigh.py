"""Find eigenvalues and eigenvectors of a symmetric matrix with NumPy."""

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
    "summary": "Eigenvalues and eigenvectors of a symmetric matrix",
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
    a = a + a.T

    def whole(found):
        # Vectors may have either sign, so what they multiply to is compared.
        values, vectors = found
        return here.np.concatenate([values[None, :], here.np.dot(vectors * values, vectors.T)])

    return here.operation(lambda: here.np.linalg.eigh(a), result=whole)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
