"""Classifier of texts in PyTorch by the mean of the words (fastText); 2,000,202 parameters."""

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
    "summary": "Classifier of texts by the mean of their words (fastText)",
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
WORDS, WIDTH, LENGTH, CLASSES = 20000, 100, 256, 2
MACS = WIDTH * CLASSES  # the mean's additions are none


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    nn = here.torch.nn
    network = nn.Sequential(nn.EmbeddingBag(WORDS, WIDTH, mode="mean"), nn.Linear(WIDTH, CLASSES))
    batch = parameters["batch"]
    texts, classes = here.integers((batch, LENGTH), WORDS), here.integers((batch,), CLASSES)
    return here.model(network, texts, classes, MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
