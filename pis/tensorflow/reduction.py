"""Sum up the rows of a matrix with TensorFlow, or take their mean or maximum."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "Sum, mean or maximum of each row",
    "component": "tensorflow",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
    },
    "parameters": {
        "kind": {
            "type": "str",
            "default": "sum",
            "allowed": ["sum", "mean", "max"],
            "help": "what is taken of each row",
        },
        "size": {"type": "int", "default": 1024, "help": "rows and columns of the matrix"},
    },
}


def elements(size):
    """Return how many numbers are read and written."""
    return size**2 + size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    size, kind = parameters["size"], parameters["kind"]
    reduce = getattr(here.tf, "reduce_" + kind)
    matrix = here.numbers([size, size], shift=1)
    moved = here.bytes_of(elements(size))
    return here.operation(lambda matrix: reduce(matrix, axis=-1), [matrix], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
