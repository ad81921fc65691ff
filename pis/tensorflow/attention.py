"""Attend to every place of sequences with TensorFlow: two products and a softmax."""

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
    "summary": "Scaled dot-product attention of several heads",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 4,
        "passes": "forward",
    },
    "parameters": {
        "heads": {"type": "int", "default": 8, "help": "how many heads attend"},
        "length": {"type": "int", "default": 256, "help": "places of each sequence"},
        "width": {"type": "int", "default": 64, "help": "numbers of each head at each place"},
        "causal": {
            "type": "str",
            "default": "no",
            "allowed": ["no", "yes"],
            "help": "yes: each place sees only those before it",
        },
    },
}


def work(batch, heads, length, width, causal):
    """Return FLOP: products of all pairs of places, twice; half of them where only earlier count.

    What is computed and then masked is counted as nobody's work.
    """
    flop = 4 * batch * heads * length**2 * width
    return flop // 2 if causal else flop


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    tf, causal = here.tf, parameters["causal"] == "yes"
    batch, heads, length, width = (
        parameters[name] for name in ("batch", "heads", "length", "width")
    )
    given = [here.numbers([batch, heads, length, width], seed, scale=4) for seed in (1, 2, 3)]

    def attend(queries, keys, values):
        scores = tf.matmul(queries, keys, transpose_b=True) * (width**-0.5)
        if causal:
            seen = tf.linalg.band_part(tf.ones([length, length], scores.dtype), -1, 0)
            scores += (1 - seen) * scores.dtype.min / 2
        return tf.matmul(tf.nn.softmax(scores), values)

    flop = work(batch, heads, length, width, causal)
    return here.operation(attend, given, flop, multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
