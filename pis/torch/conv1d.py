"""Convolve rows of numbers with PyTorch: same padding, no bias."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "Convolution over one axis",
    "component": "torch",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 8,
    },
    "parameters": {
        "length": {"type": "int", "default": 1024, "help": "length of each row"},
        "channels": {"type": "int", "default": 64, "help": "numbers at each place of the input"},
        "filters": {"type": "int", "default": 64, "help": "numbers at each place of the result"},
        "kernel": {"type": "int", "default": 3, "help": "length of a filter, odd"},
        "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
    },
}


def work(batch, outputs, channels, filters, kernel):
    """Return FLOP; outputs and kernel are lengths, each of one axis."""
    return 2 * batch * filters * outputs * channels * kernel


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, length, kernel = parameters["batch"], parameters["length"], parameters["kernel"]
    channels, filters = parameters["channels"], parameters["filters"]
    stride = parameters["stride"]
    padding = framework.same_padding(kernel)

    def compute(rows, weights):
        return here.torch.nn.functional.conv1d(rows, weights, stride=stride, padding=padding)

    rows = here.numbers((batch, channels, length), 1)
    weights = here.numbers((filters, channels, kernel), 2)
    outputs = framework.same_outputs(length, stride)
    return here.operation(compute, [rows, weights], work(batch, outputs, channels, filters, kernel))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
