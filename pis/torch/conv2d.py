"""Convolve images with PyTorch: same padding, no bias."""

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
    "summary": "Convolution of images",
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
        "layout": "channels_first",
    },
    "parameters": {
        "size": {"type": "int", "default": 56, "help": "height and width of each image"},
        "channels": {"type": "int", "default": 64, "help": "numbers at each place of the input"},
        "filters": {"type": "int", "default": 64, "help": "numbers at each place of the result"},
        "kernel": {"type": "int", "default": 3, "help": "height and width of a filter, odd"},
        "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
    },
}


def work(batch, outputs, channels, filters, kernel):
    """Return FLOP; outputs and kernel are sizes, each of one axis."""
    return 2 * batch * filters * outputs**2 * channels * kernel**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size, kernel = parameters["batch"], parameters["size"], parameters["kernel"]
    channels, filters = parameters["channels"], parameters["filters"]
    stride = parameters["stride"]
    padding = framework.same_padding(kernel)

    def compute(images, weights):
        return here.torch.nn.functional.conv2d(images, weights, stride=stride, padding=padding)

    images = here.images((batch, channels, size, size), 1)
    weights = here.images((filters, channels, kernel, kernel), 2)
    outputs = framework.same_outputs(size, stride)
    return here.operation(
        compute, [images, weights], work(batch, outputs, channels, filters, kernel)
    )


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
