"""Softmax of rows of numbers with PyTorch."""

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
    "summary": "Softmax of rows",
    "component": "torch",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 256,
    },
    "parameters": {
        "size": {"type": "int", "default": 1024, "help": "length of each row"},
    },
}


def elements(batch, size):
    """Return how many numbers are read and written."""
    return 2 * batch * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]
    inputs = [here.numbers((batch, size), scale=8)]
    moved = here.bytes_of(elements(batch, size))
    return here.operation(lambda rows: here.torch.softmax(rows, -1), inputs, moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
