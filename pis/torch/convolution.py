"""Indicators of PyTorch's convolutions (same padding, no bias) and pooling."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

FAMILY = {
    "component": "torch",
    "unit": "FLOP",
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 8,
    },
}
INDICATORS = {
    "conv1d": {
        "summary": "Convolution over one axis",
        "parameters": {
            "length": {"type": "int", "default": 1024, "help": "length of each row"},
            "channels": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the input",
            },
            "filters": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "length of a filter, odd"},
            "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
        },
        "work": "2 * batch * filters * ((length - 1) // stride + 1) * channels * kernel",
    },
    "conv2d": {
        "summary": "Convolution of images",
        "common": {"layout": "channels_first"},
        "parameters": {
            "size": {"type": "int", "default": 56, "help": "height and width of each image"},
            "channels": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the input",
            },
            "filters": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "height and width of a filter, odd"},
            "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
        },
        "work": "2 * batch * filters * ((size - 1) // stride + 1)**2 * channels * kernel**2",
    },
    "conv3d": {
        "summary": "Convolution over three axes",
        "common": {"batch": 2, "layout": "channels_first"},
        "parameters": {
            "size": {"type": "int", "default": 16, "help": "length of each of the three axes"},
            "channels": {
                "type": "int",
                "default": 16,
                "help": "numbers at each place of the input",
            },
            "filters": {
                "type": "int",
                "default": 16,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "length of each axis of a filter, odd"},
        },
        "work": "2 * batch * filters * size**3 * channels * kernel**3",
    },
    "depthwise": {
        "summary": "Convolution of each channel by itself",
        "common": {"layout": "channels_first"},
        "parameters": {
            "size": {"type": "int", "default": 56, "help": "height and width of each image"},
            "channels": {
                "type": "int",
                "default": 128,
                "help": "channels, each with a filter of its own",
            },
            "kernel": {"type": "int", "default": 3, "help": "height and width of a filter, odd"},
        },
        # Each result takes one channel, so kernel squared terms.
        "work": "2 * batch * channels * size**2 * kernel**2",
    },
    "pooling": {
        "summary": "Pooling of images",
        "unit": "byte",
        "common": {"layout": "channels_first"},
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
        "work": "batch * channels * (size**2 + (size // window)**2) * itemsize",
    },
}


def conv1d(here, batch, length, channels, filters, kernel, stride):
    padding = framework.same_padding(kernel)

    def compute(rows, weights):
        return here.torch.nn.functional.conv1d(rows, weights, stride=stride, padding=padding)

    rows = here.numbers((batch, channels, length), 1)
    return here.operation(compute, [rows, here.numbers((filters, channels, kernel), 2)])


def conv2d(here, batch, size, channels, filters, kernel, stride):
    padding = framework.same_padding(kernel)

    def compute(images, weights):
        return here.torch.nn.functional.conv2d(images, weights, stride=stride, padding=padding)

    images = here.images((batch, channels, size, size), 1)
    return here.operation(compute, [images, here.images((filters, channels, kernel, kernel), 2)])


def conv3d(here, batch, size, channels, filters, kernel):
    padding = framework.same_padding(kernel)

    def compute(images, weights):
        return here.torch.nn.functional.conv3d(images, weights, padding=padding)

    images = here.images((batch, channels, size, size, size), 1)
    weights = here.images((filters, channels, kernel, kernel, kernel), 2)
    return here.operation(compute, [images, weights])


def depthwise(here, batch, size, channels, kernel):
    padding = framework.same_padding(kernel)

    def compute(images, weights):
        convolve = here.torch.nn.functional.conv2d
        return convolve(images, weights, padding=padding, groups=channels)

    images = here.images((batch, channels, size, size), 1)
    return here.operation(compute, [images, here.images((channels, 1, kernel, kernel), 2)])


def pooling(here, batch, kind, size, channels, window):
    if window > size:
        raise harness.Unsupported("a window of {} is larger than the image".format(window))
    functional = here.torch.nn.functional
    pool = {"max": functional.max_pool2d, "average": functional.avg_pool2d}[kind]
    images = here.images((batch, channels, size, size))
    return here.operation(lambda given: pool(given, window), [images])


if __name__ == "__main__":
    harness.main_table(globals())
