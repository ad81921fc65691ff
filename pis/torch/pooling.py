"""Shrink images with PyTorch: the greatest or the mean of each window."""

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
    "summary": "Pooling of images",
    "component": "torch",
    "unit": "byte",
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
        "kind": {
            "type": "str",
            "default": "max",
            "allowed": ["max", "average"],
            "help": "what stands for a window",
        },
        "size": {"type": "int", "default": 112, "help": "height and width of each image"},
        "channels": {"type": "int", "default": 64, "help": "numbers at each place"},
        "window": {
            "type": "int",
            "default": 2,
            "help": "height and width of a window; they do not overlap",
        },
    },
}


def elements(batch, channels, size, window):
    """Return how many numbers are read and written."""
    return batch * channels * (size**2 + (size // window) ** 2)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, channels = parameters["batch"], parameters["channels"]
    size, window = parameters["size"], parameters["window"]
    if window > size:
        raise harness.Unsupported("a window of {} is larger than the image".format(window))
    functional = here.torch.nn.functional
    pool = {"max": functional.max_pool2d, "average": functional.avg_pool2d}[parameters["kind"]]
    images = here.images((batch, channels, size, size))
    moved = here.bytes_of(elements(batch, channels, size, window))
    return here.operation(lambda given: pool(given, window), [images], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
