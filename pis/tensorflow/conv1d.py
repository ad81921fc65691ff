"""Convolve sequences with TensorFlow; as many results as places (padding SAME)."""

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
    "summary": "Convolution of sequences",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 8,
        "passes": "forward",
    },
    "parameters": {
        "length": {"type": "int", "default": 1024, "help": "places of each sequence"},
        "channels": {"type": "int", "default": 64, "help": "numbers at each place"},
        "filters": {"type": "int", "default": 64, "help": "numbers at each place of the result"},
        "kernel": {"type": "int", "default": 3, "help": "places that a filter spans"},
        "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
    },
}


def work(batch, length, channels, filters, kernel, stride):
    """Return FLOP: by the results' length, one multiplication and addition per weight."""
    results = batch * filters * framework.same_outputs(length, stride)
    return 2 * results * channels * kernel


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "length", "channels", "filters", "kernel", "stride")
    batch, length, channels, filters, kernel, stride = (parameters[name] for name in names)
    sequences = here.numbers([batch, length, channels], 1)
    weights = here.numbers([kernel, channels, filters], 2)

    def convolve(sequences, weights):
        return here.tf.nn.conv1d(sequences, weights, stride, "SAME")

    flop = work(batch, length, channels, filters, kernel, stride)
    return here.operation(convolve, [sequences, weights], flop, multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
