"""One operation per number with PyTorch."""

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
    "summary": "Operation on each number by itself",
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
            "default": "add",
            "allowed": ["add", "multiply", "exp", "sqrt"],
            "help": "which operation; the first two take two inputs",
        },
        "size": {"type": "int", "default": 1048576, "help": "how many numbers"},
    },
}


def elements(size, inputs):
    """Return how many numbers are read and written."""
    return size * (inputs + 1)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    torch, size = here.torch, parameters["size"]
    compute, count = {
        "add": (torch.add, 2),
        "multiply": (torch.mul, 2),
        "exp": (torch.exp, 1),
        "sqrt": (torch.sqrt, 1),
    }[parameters["kind"]]
    inputs = [here.numbers((size,), seed, shift=1) for seed in range(1, count + 1)]
    return here.operation(compute, inputs, here.bytes_of(elements(size, count)))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
