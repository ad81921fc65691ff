"""Pick elements of an array with NumPy, by their places or by a mask."""

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
    "summary": "Fancy indexing: elements by their places, or by a mask",
    "component": "numpy",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "kind": {
            "type": "str",
            "default": "index",
            "allowed": ["index", "mask"],
            "help": "index: as many places in no order; mask: half of the elements",
        },
        "size": {"type": "int", "default": 262144, "help": "elements of the array"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size = parameters["size"]
    a, places = here.numbers(size), here.integers(size, below=size, seed=2)
    if parameters["kind"] == "mask":
        places = places < size // 2
    found = int(places.sum()) if places.dtype == bool else size
    moved = places.nbytes + 2 * found * here.dtype.itemsize
    return here.operation(lambda: a[places], work=moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
