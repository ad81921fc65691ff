"""Do many small things with small arrays, as code around NumPy does."""

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
    "summary": "Ten calls on small arrays: what each costs besides computing",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 10, "help": "elements of each array"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    np = here.np
    a, b = here.numbers(parameters["size"], seed=1), here.numbers(parameters["size"], seed=2)
    numbers = a.tolist()

    def compute():
        return (
            a + b,
            a * 2.0,
            np.sqrt(np.abs(a)),
            np.array(numbers, dtype=here.dtype),
            np.concatenate((a, b)),
            np.where(a > b, a, b),
            np.zeros(a.shape, dtype=here.dtype)[1:],
            a.sum(),
            np.dot(a, b),
            b.max(),
        )

    def whole(found):
        return np.concatenate([np.reshape(each, -1).astype("float64") for each in found])

    return here.operation(compute, result=whole)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
