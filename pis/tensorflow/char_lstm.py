"""Two LSTM layers in TensorFlow that tell each next character of texts."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import framework_tensorflow_network as networks
import harness

INDICATOR = {
    "summary": "Language model of characters (two LSTM layers)",
    "component": "tensorflow",
    "unit": "FLOP",
    "latency": True,
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "graph",
        "autocast": "off",
        "batch": 8,
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


CHARACTERS, WIDTH, HIDDEN, LENGTH = 64, 64, 256, 64


def scores(network, texts):
    """Return what the network says of a batch, at every place."""
    steps = network.look_up(texts, CHARACTERS, WIDTH)
    for _ in range(2):
        steps = network.recurrent("LSTM", steps, HIDDEN, 4)
    return network.dense(steps, CHARACTERS)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    shape = [parameters["batch"], LENGTH]
    texts, following = here.integers(shape, CHARACTERS), here.integers(shape, CHARACTERS, 2)
    return networks.model(here, scores, texts, following)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
