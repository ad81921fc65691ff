"""Reduce the rows of a matrix to one number each with NumPy."""

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
    "summary": "Sum, mean or largest number of each row",
    "component": "numpy",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "kind": {
            "type": "str",
            "default": "sum",
            "allowed": ["sum", "mean", "max"],
            "help": "what is found of each row",
        },
        "size": {"type": "int", "default": 1024, "help": "rows and columns"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size, reduce = parameters["size"], getattr(here.np, parameters["kind"])
    a = here.numbers((size, size), shift=0.75)
    moved = (size * size + size) * here.dtype.itemsize
    return here.operation(lambda: reduce(a, axis=-1), work=moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
