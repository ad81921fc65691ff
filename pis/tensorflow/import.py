"""Import TensorFlow in a fresh process."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Time to import TensorFlow in a fresh process",
    "component": "tensorflow",
    "unit": "",
    "one_shot": True,
    "timeout_s": 120,
    "parameters": {},
}


def setup(parameters):
    return harness.Operation(lambda: harness.load("tensorflow"))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
