"""Write the transpose of a matrix anew with PyTorch: not a view of the same numbers."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "Transpose of a matrix, written anew",
    "component": "torch",
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
        "size": {"type": "int", "default": 1024, "help": "rows and columns"},
    },
}


def elements(size):
    """Return how many numbers are read and written."""
    return 2 * size**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    size = parameters["size"]
    matrix = here.numbers((size, size))
    moved = here.bytes_of(elements(size))
    return here.operation(lambda given: given.t().contiguous(), [matrix], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
