"""Multiply two square matrices with NumPy."""

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
    "summary": "Product of two square matrices",
    "component": "numpy",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {"dtype": "float32"},
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size = parameters["size"]
    a, b = here.numbers((size, size), seed=1), here.numbers((size, size), seed=2)
    return here.operation(lambda: here.np.matmul(a, b), work=2 * size**3)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
