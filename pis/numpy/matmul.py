"""Multiply two square matrices with NumPy."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Product of two square matrices",
    "component": "numpy",
    "unit": "FLOP",
    "one_shot": False,
    "timeout_s": 300,
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
        "dtype": {"type": "str", "default": "float32", "allowed": ["float32", "float64"]},
    },
}


def setup(parameters):
    np = harness.load("numpy")
    size = parameters["size"]
    numbers = np.arange(size * size).reshape(size, size)
    a = ((numbers % 31) / 31.0 - 0.5).astype(parameters["dtype"])
    b = ((numbers % 29) / 29.0 - 0.5).astype(parameters["dtype"])
    last = [None]

    def run():
        last[0] = np.matmul(a, b)

    def checksum():
        return float(np.abs(last[0].astype("float64")).mean())

    return harness.Operation(run, work=2 * size**3, checksum=checksum)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
