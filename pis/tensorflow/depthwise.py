"""Convolve each channel of images by itself with TensorFlow (padding SAME)."""

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
    "summary": "Depthwise convolution of images",
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
        "layout": "channels_last",
    },
    "parameters": {
        "size": {"type": "int", "default": 56, "help": "height and width of each image"},
        "channels": {"type": "int", "default": 128, "help": "numbers at each place"},
        "kernel": {"type": "int", "default": 3, "help": "height and width of a filter"},
    },
}


def work(batch, size, channels, kernel):
    """Return FLOP: each result sees one channel, one multiplication and addition per weight."""
    return 2 * batch * channels * size**2 * kernel**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "size", "channels", "kernel")
    batch, size, channels, kernel = (parameters[name] for name in names)
    images = here.images(batch, [size, size], channels, 1)
    weights = here.numbers([kernel, kernel, channels, 1], 2)
    strides, order = here.windows(1, 1), here.data_format()

    def convolve(images, weights):
        return here.tf.nn.depthwise_conv2d(images, weights, strides, "SAME", data_format=order)

    flop = work(batch, size, channels, kernel)
    return here.operation(convolve, [images, weights], flop, multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
