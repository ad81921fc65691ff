"""Convolve images with TensorFlow; as many results as places (padding SAME)."""

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
    "summary": "Convolution of images",
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
        "channels": {"type": "int", "default": 64, "help": "numbers at each place"},
        "filters": {"type": "int", "default": 64, "help": "numbers at each place of the result"},
        "kernel": {"type": "int", "default": 3, "help": "height and width of a filter"},
        "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
    },
}


def work(batch, size, channels, filters, kernel, stride):
    """Return FLOP: by the results' size, one multiplication and addition per weight."""
    results = batch * filters * framework.same_outputs(size, stride) ** 2
    return 2 * results * channels * kernel**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "size", "channels", "filters", "kernel", "stride")
    batch, size, channels, filters, kernel, stride = (parameters[name] for name in names)
    images = here.images(batch, [size, size], channels, 1)
    weights = here.numbers([kernel, kernel, channels, filters], 2)
    strides, order = here.windows(stride, stride), here.data_format()

    def convolve(images, weights):
        return here.tf.nn.conv2d(images, weights, strides, "SAME", data_format=order)

    flop = work(batch, size, channels, filters, kernel, stride)
    return here.operation(convolve, [images, weights], flop, multiplies=True)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
