"""Import PyTorch in a fresh process."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Time to import PyTorch in a fresh process",
    "component": "torch",
    "unit": "",
    "one_shot": True,
    "timeout_s": 120,
    "parameters": {},
}


def setup(parameters):
    return harness.Operation(lambda: harness.load("torch"))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
