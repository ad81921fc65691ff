"""Compute with each number by itself with TensorFlow."""

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
    "summary": "Elementwise operation",
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
            "default": "add",
            "allowed": ["add", "multiply", "exp", "sqrt"],
            "help": "which operation",
        },
        "size": {"type": "int", "default": 1048576, "help": "how many numbers"},
    },
}


def elements(kind, size):
    """Return how many numbers are read and written."""
    return (3 if kind in ("add", "multiply") else 2) * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    kind, size = parameters["kind"], parameters["size"]
    # From 0.5 to 1.5: where roots have a slope.
    given = [here.numbers([size], seed, shift=1) for seed in (1, 2)]
    moved = here.bytes_of(elements(kind, size))
    if kind in ("exp", "sqrt"):
        given = given[:1]
    return here.operation(getattr(here.tf, kind), given, moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
