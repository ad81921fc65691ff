"""Apply an activation function with PyTorch."""

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
    "summary": "Activation function",
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
    torch, size = here.torch, parameters["size"]
    functions = {
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "swish": torch.nn.functional.silu,
    }
    compute, inputs = functions[parameters["kind"]], [here.numbers((size,), scale=8)]
    return here.operation(compute, inputs, here.bytes_of(elements(size)))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
