"""Multiply two matrices with TensorFlow for the first time in a process."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "Time of the first matrix product in a process, import apart",
    "component": "tensorflow",
    "unit": "",
    "one_shot": True,
    "timeout_s": 120,
    "common": {"dtype": "float32", "device": "auto"},
    "parameters": {
        "size": {"type": "int", "default": 256, "help": "rows and columns of each matrix"},
    },
}


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    size = parameters["size"]
    arrays = [here.array([size, size], seed) for seed in (1, 2)]
    last = [None]

    def run():
        # With all that TensorFlow does before: devices, threads, copies of the numbers.
        last[0] = here.tf.matmul(*[here.tensor(values, here.dtype) for values in arrays])

    # It is run but once: a kernel that is lacking shows only then.
    return here.described(
        lambda: here.attempt(run),
        lambda: here.finish(last[0]),
        lambda: here.digest(last[0]),
        trace=None,
    )


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
