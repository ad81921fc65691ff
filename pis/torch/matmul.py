"""Multiply two square matrices with PyTorch, on the CPU or on a GPU."""

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
    "summary": "Product of two square matrices",
    "component": "torch",
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
    matrices = [here.numbers((size, size), seed) for seed in (1, 2)]
    return here.operation(here.torch.matmul, matrices, work=work(size))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
