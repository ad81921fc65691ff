"""Convolutional network of six layers in PyTorch for 32 x 32 pixels in colour (CIFAR-10)."""

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
    "summary": "Convolutional network of six layers (32 x 32 pixels)",
    "component": "torch",
    "unit": "FLOP",
    "latency": True,
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "batch": 8,
        "mode": "eager",
        "autocast": "off",
        "layout": "channels_first",
    },
    "parameters": {
        "step": {
            "type": "str",
            "default": "inference",
            "allowed": ["inference", "training"],
            "help": "training: forward, backward and plain gradient descent",
        },
    },
}
WIDTHS = (32, 64, 128)  # two convolutions each, then half the size


def macs():
    """Return the multiplications with additions for one image."""
    total, size, channels = 0, 32, 3
    for width in WIDTHS:
        total += size**2 * 9 * width * (channels + width)
        size, channels = size // 2, width
    return total + size**2 * channels * 128 + 128 * 10


def block(nn, channels, width):
    """Return the layers of one width."""
    layers = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return layers + [nn.MaxPool2d(2)]


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    nn = here.torch.nn
    layers, channels = [], 3
    for width in WIDTHS:
        layers += block(nn, channels, width)
        channels = width
    layers += [nn.Flatten(), nn.Linear(4 * 4 * channels, 128), nn.ReLU(), nn.Linear(128, 10)]
    batch = parameters["batch"]
    images, classes = here.images((batch, 3, 32, 32), 99), here.integers((batch,), 10)
    return here.model(nn.Sequential(*layers), images, classes, macs())


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
