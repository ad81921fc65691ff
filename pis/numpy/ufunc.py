"""Apply one function to every element of arrays with NumPy."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import functools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "One function of every element, into an array that is there",
    "component": "numpy",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "kind": {
            "type": "str",
            "default": "add",
            "allowed": ["add", "multiply", "divide", "maximum", "sqrt", "exp", "log", "tanh"],
            "help": "the function",
        },
        "size": {
            "type": "int",
            "default": 1048576,
            "help": "elements of each array; few show what a call costs",
        },
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size, function = parameters["size"], getattr(here.np, parameters["kind"])
    arrays = [here.numbers(size, seed, shift=0.75) for seed in range(1, function.nin + 1)]
    out = here.np.empty(size, dtype=here.dtype)  # so that no memory is asked for
    moved = (function.nin + 1) * size * here.dtype.itemsize
    # By position, and no function of ours around it: a small array takes 0.4 us in all.
    return here.operation(functools.partial(function, *(arrays + [out])), work=moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
