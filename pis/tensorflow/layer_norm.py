"""Normalise each row of numbers with TensorFlow."""

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
    "summary": "Layer normalisation",
    "component": "tensorflow",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 256,
        "passes": "forward",
    },
    "parameters": {
        "size": {"type": "int", "default": 1024, "help": "numbers of each row"},
    },
}


def elements(batch, size):
    """Return how many numbers are read and written: the rows, scale and shift of a column."""
    return 2 * batch * size + 2 * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]
    rows = here.numbers([batch, size], 1)
    scale, shift = here.numbers([size], 2, shift=1), here.numbers([size], 3)

    def normalise(rows, scale, shift):
        # TensorFlow has no such operation of its own: it is made of mean, variance and scaling.
        mean, variance = here.v1.nn.moments(rows, [-1], keep_dims=True)
        return here.tf.nn.batch_normalization(rows, mean, variance, shift, scale, 1e-5)

    moved = here.bytes_of(elements(batch, size))
    return here.operation(normalise, [rows, scale, shift], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
