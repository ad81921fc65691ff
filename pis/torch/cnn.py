"""Small convolutional network in PyTorch for 28 x 28 pixels; 421,642 parameters."""

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
    "summary": "Small convolutional network (28 x 28 pixels)",
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
MACS = 28**2 * 32 * 9 + 14**2 * 64 * 9 * 32 + 7**2 * 64 * 128 + 128 * 10


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    nn = here.torch.nn
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(7 * 7 * 64, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    batch = parameters["batch"]
    images, classes = here.images((batch, 1, 28, 28), 99), here.integers((batch,), 10)
    return here.model(network, images, classes, MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
