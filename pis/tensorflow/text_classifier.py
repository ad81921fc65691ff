"""Classifier of texts in TensorFlow, as fastText: the mean of their words' rows."""

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
    "summary": "Classifier of texts by the mean of their words (fastText)",
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


WORDS, WIDTH, LENGTH, CLASSES = 20000, 100, 256, 2


def scores(network, texts):
    """Return what the network says of a batch."""
    mean = network.tf.reduce_mean(network.look_up(texts, WORDS, WIDTH), 1)
    return network.dense(mean, CLASSES)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    texts, classes = here.integers([batch, LENGTH], WORDS), here.integers([batch], CLASSES)
    return networks.model(here, scores, texts, classes)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
