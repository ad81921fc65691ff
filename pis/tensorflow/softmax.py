"""Turn rows of numbers into probabilities with TensorFlow."""

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
    "summary": "Softmax of each row",
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
    """Return how many numbers are read and written."""
    return 2 * batch * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]
    moved = here.bytes_of(elements(batch, size))
    return here.operation(here.tf.nn.softmax, [here.numbers([batch, size], scale=8)], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
