"""Multiply many pairs of small square matrices with TensorFlow in one call."""

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
    "summary": "Products of many pairs of square matrices",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 32,
        "passes": "forward",
    },
    "parameters": {
        "size": {"type": "int", "default": 128, "help": "rows and columns of each matrix"},
    },
}


def work(batch, size):
    """Return FLOP: one multiplication and one addition per term of each sum."""
    return 2 * batch * size**3


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]
    matrices = [here.numbers([batch, size, size], seed) for seed in (1, 2)]
    return here.operation(here.tf.matmul, matrices, work(batch, size), multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
