"""Apply an activation function to numbers with TensorFlow."""

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
    "summary": "Activation function",
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
            "default": "relu",
            "allowed": ["relu", "gelu", "sigmoid", "tanh", "swish"],
            "help": "which function",
        },
        "size": {"type": "int", "default": 1048576, "help": "how many numbers"},
    },
}


def elements(size):
    """Return how many numbers are read and written."""
    return 2 * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    activate = getattr(here.tf.nn, parameters["kind"], None)
    if activate is None:
        raise harness.Unsupported("TensorFlow has tf.nn.gelu from 2.4 on")
    # From -4 to 4: where these functions bend, and beyond.
    given = here.numbers([parameters["size"]], scale=8)
    return here.operation(activate, [given], here.bytes_of(elements(parameters["size"])))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
