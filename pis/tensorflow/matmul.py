"""Multiply two square matrices with TensorFlow, on the CPU or on a GPU."""

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
    "summary": "Product of two square matrices",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
    },
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
    },
}


def work(size):
    """Return FLOP: one multiplication and one addition per term of each sum."""
    return 2 * size**3


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    size = parameters["size"]
    matrices = [here.numbers([size, size], seed) for seed in (1, 2)]
    return here.operation(here.tf.matmul, matrices, work(size), multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
