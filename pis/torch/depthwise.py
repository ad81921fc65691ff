"""Convolve each channel of images by itself with PyTorch: same padding, no bias."""

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
    "summary": "Convolution of each channel by itself",
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
        "channels": {
            "type": "int",
            "default": 128,
            "help": "channels, each with a filter of its own",
        },
        "kernel": {"type": "int", "default": 3, "help": "height and width of a filter, odd"},
    },
}


def work(batch, size, channels, kernel):
    """Return FLOP: each result takes one channel, so kernel squared terms."""
    return 2 * batch * channels * size**2 * kernel**2


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size = parameters["batch"], parameters["size"]
    channels, kernel = parameters["channels"], parameters["kernel"]
    padding = framework.same_padding(kernel)

    def compute(images, weights):
        convolve = here.torch.nn.functional.conv2d
        return convolve(images, weights, padding=padding, groups=channels)

    images = here.images((batch, channels, size, size), 1)
    weights = here.images((channels, 1, kernel, kernel), 2)
    return here.operation(compute, [images, weights], work(batch, size, channels, kernel))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
