"""Shrink images with TensorFlow: the greatest or the mean of each window."""

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
    "summary": "Pooling of images",
    "component": "tensorflow",
    "unit": "byte",
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
    pool = {"max": here.tf.nn.max_pool, "average": here.tf.nn.avg_pool}[parameters["kind"]]
    images, windows = here.images(batch, [size, size], channels), here.windows(window, window)

    def shrink(images):
        return pool(images, windows, windows, "VALID", data_format=here.data_format())

    moved = here.bytes_of(elements(batch, channels, size, window))
    return here.operation(shrink, [images], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
