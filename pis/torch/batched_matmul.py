"""Multiply many small matrices with PyTorch, in one call."""

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
    "summary": "Products of many pairs of square matrices",
    "component": "torch",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 32,
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
    matrices = [here.numbers((batch, size, size), seed) for seed in (1, 2)]
    return here.operation(here.torch.bmm, matrices, work=work(batch, size))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
