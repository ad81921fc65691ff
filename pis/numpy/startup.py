"""Indicators of what NumPy costs before it computes anything."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATORS = {
    "import": {
        "summary": "Time to import NumPy in a fresh process",
        "component": "numpy",
        "one_shot": True,
        "timeout_s": 120,
        "setup": "loading",
    },
}


def loading():
    return harness.Operation(lambda: harness.load("numpy"))


if __name__ == "__main__":
    harness.main_table(globals())
