"""Write a matrix anew with TensorFlow, its columns as rows."""

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
    "summary": "Transposition of a square matrix",
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
        "size": {"type": "int", "default": 1024, "help": "rows and columns of the matrix"},
    },
}


def elements(size):
    """Return how many numbers are read and written."""
    return 2 * size**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    size = parameters["size"]
    moved = here.bytes_of(elements(size))
    return here.operation(here.tf.transpose, [here.numbers([size, size])], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
