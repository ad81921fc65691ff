"""Add two tensors of one number with PyTorch: what a call costs, whatever it computes."""

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
    "summary": "What a call of an operation costs",
    "component": "torch",
    "unit": "",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
    },
    "parameters": {},
}


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    a, b = here.numbers((1,), 1, shift=1), here.numbers((1,), 2, shift=1)
    add = here.prepared(lambda a, b: a + b, [a, b])
    last = [None]

    def run():
        last[0] = add(a, b)

    here.attempt(run)
    return here.measured(run, lambda: here.digest(last[0]))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
