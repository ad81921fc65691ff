"""Sum, mean or greatest of the rows of a matrix with PyTorch."""

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
    "summary": "Reduction of the rows of a matrix",
    "component": "torch",
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
            "default": "sum",
            "allowed": ["sum", "mean", "max"],
            "help": "what stands for a row",
        },
        "size": {"type": "int", "default": 1024, "help": "rows and columns"},
    },
}


def elements(size):
    """Return how many numbers are read and written."""
    return size**2 + size


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    torch, size = here.torch, parameters["size"]
    reduce = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[parameters["kind"]]
    matrix = here.numbers((size, size), shift=1)
    moved = here.bytes_of(elements(size))
    return here.operation(lambda given: reduce(given, dim=-1), [matrix], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
