"""Perceptron of three layers in PyTorch: 784-512-512-10, relu; 669,706 parameters."""

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
    "summary": "Perceptron of three layers",
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
MACS = 784 * 512 + 512 * 512 + 512 * 10


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    nn = here.torch.nn
    network = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    batch = parameters["batch"]
    images, classes = here.numbers((batch, 784), 99), here.integers((batch,), 10)
    return here.model(network, images, classes, MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
