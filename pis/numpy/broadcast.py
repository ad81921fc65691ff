"""Add a row to a column with NumPy, which broadcasts both to a matrix."""

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
    "summary": "Sum of a column and a row, which is a matrix",
    "component": "numpy",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 1024, "help": "length of the row and of the column"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size = parameters["size"]
    column, row = here.numbers((size, 1), seed=1), here.numbers((1, size), seed=2)
    out = here.np.empty((size, size), dtype=here.dtype)  # so that no memory is asked for
    moved = (size * size + 2 * size) * here.dtype.itemsize
    return here.operation(lambda: here.np.add(column, row, out=out), work=moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
