"""Normalise rows of numbers with PyTorch, with a scale and a shift that are learnt."""

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
    "summary": "Layer normalisation of rows",
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
    """Return how many numbers are read (rows, scale and shift) and written."""
    return 2 * batch * size + 2 * size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]

    def compute(rows, scale, shift):
        return here.torch.nn.functional.layer_norm(rows, (size,), scale, shift)

    inputs = [
        here.numbers((batch, size)),
        here.numbers((size,), 2, shift=1),
        here.numbers((size,), 3),
    ]
    return here.operation(compute, inputs, here.bytes_of(elements(batch, size)))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
