"""Normalise images with PyTorch by the mean and the variance of the batch."""

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
    "summary": "Batch normalisation of images",
    "component": "torch",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 32,
        "layout": "channels_first",
    },
    "parameters": {
        "size": {"type": "int", "default": 28, "help": "height and width of each image"},
        "channels": {
            "type": "int",
            "default": 128,
            "help": "channels, each with statistics of its own",
        },
    },
}


def elements(batch, size, channels):
    """Return how many numbers are read (images, scale and shift) and written.

    The images count once, though their mean and variance are needed before anything is written:
    a cache may hold them.
    """
    return 2 * batch * channels * size**2 + 2 * channels


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size, channels = parameters["batch"], parameters["size"], parameters["channels"]
    if batch * size == 1:
        raise harness.Unsupported("one number of each channel has no variance: give a larger batch")

    def compute(images, scale, shift):
        normalise = here.torch.nn.functional.batch_norm
        return normalise(images, None, None, scale, shift, training=True)

    images = here.images((batch, channels, size, size))
    inputs = [images, here.numbers((channels,), 2, shift=1), here.numbers((channels,), 3)]
    return here.operation(compute, inputs, here.bytes_of(elements(batch, size, channels)))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
