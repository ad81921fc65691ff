"""Indicators of TensorFlow's convolutions (padding SAME) and pooling."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {
    "component": "tensorflow",
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
        "summary": "Convolution of sequences",
        "parameters": {
            "length": {"type": "int", "default": 1024, "help": "places of each sequence"},
            "channels": {"type": "int", "default": 64, "help": "numbers at each place"},
            "filters": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "places that a filter spans"},
            "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
        },
        "work": "2 * batch * filters * ((length - 1) // stride + 1) * channels * kernel",
    },
    "conv2d": {
        "summary": "Convolution of images",
        "common": {"layout": "channels_last"},
        "parameters": {
            "size": {"type": "int", "default": 56, "help": "height and width of each image"},
            "channels": {"type": "int", "default": 64, "help": "numbers at each place"},
            "filters": {
                "type": "int",
                "default": 64,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "height and width of a filter"},
            "stride": {"type": "int", "default": 1, "help": "places from one result to the next"},
        },
        "work": "2 * batch * filters * ((size - 1) // stride + 1)**2 * channels * kernel**2",
    },
    "conv3d": {
        "summary": "Convolution of volumes",
        "common": {"batch": 2, "layout": "channels_last"},
        "parameters": {
            "size": {
                "type": "int",
                "default": 16,
                "help": "depth, height and width of each",
            },
            "channels": {"type": "int", "default": 16, "help": "numbers at each place"},
            "filters": {
                "type": "int",
                "default": 16,
                "help": "numbers at each place of the result",
            },
            "kernel": {"type": "int", "default": 3, "help": "depth, height and width of a filter"},
        },
        "work": "2 * batch * filters * size**3 * channels * kernel**3",
    },
    "depthwise": {
        "summary": "Depthwise convolution of images",
        "common": {"layout": "channels_last"},
        "parameters": {
            "size": {"type": "int", "default": 56, "help": "height and width of each image"},
            "channels": {"type": "int", "default": 128, "help": "numbers at each place"},
            "kernel": {"type": "int", "default": 3, "help": "height and width of a filter"},
        },
        # Each result sees one channel, one multiplication and addition per weight.
        "work": "2 * batch * channels * size**2 * kernel**2",
    },
    "pooling": {
        "summary": "Pooling of images",
        "unit": "byte",
        "common": {"layout": "channels_last"},
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
    sequences = here.numbers([batch, length, channels], 1)
    weights = here.numbers([kernel, channels, filters], 2)

    def convolve(sequences, weights):
        return here.tf.nn.conv1d(sequences, weights, stride, "SAME")

    return here.operation(convolve, [sequences, weights], multiplies=True)


def conv2d(here, batch, size, channels, filters, kernel, stride):
    images = here.images(batch, [size, size], channels, 1)
    weights = here.numbers([kernel, kernel, channels, filters], 2)
    strides, order = here.windows(stride, stride), here.data_format()

    def convolve(images, weights):
        return here.tf.nn.conv2d(images, weights, strides, "SAME", data_format=order)

    return here.operation(convolve, [images, weights], multiplies=True)


def conv3d(here, batch, size, channels, filters, kernel):
    volumes = here.images(batch, [size] * 3, channels, 1)
    weights = here.numbers([kernel] * 3 + [channels, filters], 2)
    strides, order = here.windows(1, 1, 1), here.data_format(3)

    def convolve(volumes, weights):
        return here.tf.nn.conv3d(volumes, weights, strides, "SAME", data_format=order)

    return here.operation(convolve, [volumes, weights], multiplies=True)


def depthwise(here, batch, size, channels, kernel):
    images = here.images(batch, [size, size], channels, 1)
    weights = here.numbers([kernel, kernel, channels, 1], 2)
    strides, order = here.windows(1, 1), here.data_format()

    def convolve(images, weights):
        return here.tf.nn.depthwise_conv2d(images, weights, strides, "SAME", data_format=order)

    return here.operation(convolve, [images, weights], multiplies=True)


def pooling(here, batch, kind, size, channels, window):
    if window > size:
        raise harness.Unsupported("a window of {} is larger than the image".format(window))
    pool = {"max": here.tf.nn.max_pool, "average": here.tf.nn.avg_pool}[kind]
    images, windows = here.images(batch, [size, size], channels), here.windows(window, window)

    def shrink(images):
        return pool(images, windows, windows, "VALID", data_format=here.data_format())

    return here.operation(shrink, [images])


if __name__ == "__main__":
    harness.main_table(globals())
