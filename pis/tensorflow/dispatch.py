"""Add two numbers with TensorFlow: what a call costs beside the work."""

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
    "summary": "What one call costs: a sum of two one-element tensors",
    "component": "tensorflow",
    "unit": "",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
    },
    "parameters": {},
}


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    return here.operation(here.tf.add, [here.numbers([1], seed, shift=1) for seed in (1, 2)])


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
