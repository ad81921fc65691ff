"""Indicators of what TensorFlow costs before and around its operations."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {"component": "tensorflow"}
INDICATORS = {
    "import": {
        "summary": "Time to import TensorFlow in a fresh process",
        "one_shot": True,
        "timeout_s": 120,
        "setup": "loading",
    },
    "first_call": {
        "summary": "Time of the first matrix product in a process, import apart",
        "one_shot": True,
        "timeout_s": 120,
        "common": {"dtype": "float32", "device": "auto"},
        "parameters": {
            "size": {"type": "int", "default": 256, "help": "rows and columns of each matrix"},
        },
    },
    "compile": {
        "summary": "Time to make a small function ready: traced or compiled, and run once",
        "one_shot": True,
        "timeout_s": 600,
        "common": {"dtype": "float32", "device": "auto", "mode": "graph"},
        "setup": "compilation",
    },
    "dispatch": {
        "summary": "What one call costs: a sum of two one-element tensors",
        "common": {
            "dtype": "float32",
            "device": "auto",
            "mode": "eager",
            "autocast": "off",
            "passes": "forward",
        },
    },
}


def loading():
    return harness.Operation(lambda: harness.load("tensorflow"))


def first_call(here, size):
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


def compilation(indicator, parameters, mode):
    if mode == "eager":
        raise harness.Unsupported("mode=eager makes nothing ready: give graph or compiled")
    here = harness.framework("tensorflow").start(indicator, parameters)
    tf, last = here.tf, [None]
    given = [here.numbers([32, 64], 1), here.numbers([64, 64], 2), here.numbers([64], 3)]

    def function(rows, first, second):
        inner = tf.tanh(tf.matmul(rows, first) + second)
        return tf.nn.softmax(tf.matmul(inner, first)) * 2

    def run():
        if here.session is not None:
            last[0] = here.session.run(function(*given))
        else:
            last[0] = here.prepared(lambda *given: function(*given))(*given)

    def finish():
        if here.session is None:
            here.finish(last[0])

    def plain():
        last[0] = function(*given)
        if here.session is not None:
            here.session.run(last[0])

    here.attempt(plain)  # what the operations' own first calls cost is not compilation
    return here.described(
        lambda: here.attempt(run), finish, lambda: here.digest(last[0]), trace=None
    )


def dispatch(here):
    return here.operation(here.tf.add, [here.numbers([1], seed, shift=1) for seed in (1, 2)])


if __name__ == "__main__":
    harness.main_table(globals())
