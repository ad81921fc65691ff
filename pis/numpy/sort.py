"""Sort numbers with NumPy."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "Sorted copy of numbers in no order",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 100000, "help": "how many numbers"},
        "kind": {
            "type": "str",
            "default": "quicksort",
            "allowed": ["quicksort", "stable", "heapsort"],
            "help": "what NumPy calls the way to sort",
        },
    },
}


def setup(parameters):
    here = framework.start(parameters)
    a, kind = here.numbers(parameters["size"]), parameters["kind"]
    return here.operation(lambda: here.np.sort(a, kind=kind))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
