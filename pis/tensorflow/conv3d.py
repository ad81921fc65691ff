"""Convolve volumes with TensorFlow; as many results as places (padding SAME)."""

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
    "summary": "Convolution of volumes",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 2,
        "passes": "forward",
        "layout": "channels_last",
    },
    "parameters": {
        "size": {"type": "int", "default": 16, "help": "depth, height and width of each volume"},
        "channels": {"type": "int", "default": 16, "help": "numbers at each place"},
        "filters": {"type": "int", "default": 16, "help": "numbers at each place of the result"},
        "kernel": {"type": "int", "default": 3, "help": "depth, height and width of a filter"},
    },
}


def work(batch, size, channels, filters, kernel):
    """Return FLOP: one multiplication and addition per weight, for each result."""
    return 2 * batch * filters * size**3 * channels * kernel**3


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "size", "channels", "filters", "kernel")
    batch, size, channels, filters, kernel = (parameters[name] for name in names)
    volumes = here.images(batch, [size] * 3, channels, 1)
    weights = here.numbers([kernel] * 3 + [channels, filters], 2)
    strides, order = here.windows(1, 1, 1), here.data_format(3)

    def convolve(volumes, weights):
        return here.tf.nn.conv3d(volumes, weights, strides, "SAME", data_format=order)

    flop = work(batch, size, channels, filters, kernel)
    return here.operation(convolve, [volumes, weights], flop, multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
