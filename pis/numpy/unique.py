"""Find the different values among numbers with NumPy."""

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
    "summary": "Different values among numbers in no order",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 100000, "help": "how many numbers"},
        "distinct": {
            "type": "int",
            "default": 1000,
            "help": "how many different values there may be",
        },
    },
}


def setup(parameters):
    here = framework.start(parameters)
    a = here.integers(parameters["size"], below=parameters["distinct"]).astype(here.dtype)
    return here.operation(lambda: here.np.unique(a))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
