"""Import NumPy in a fresh process."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Time to import NumPy in a fresh process",
    "component": "numpy",
    "unit": "",
    "one_shot": True,
    "timeout_s": 120,
    "parameters": {},
}


def setup(parameters):
    return harness.Operation(lambda: harness.load("numpy"))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
