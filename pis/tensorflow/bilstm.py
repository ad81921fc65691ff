"""Classifier of texts in TensorFlow: an LSTM in both directions, and their last states."""

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
    "summary": "Classifier of texts by an LSTM in both directions",
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


WORDS, WIDTH, HIDDEN, LENGTH, CLASSES = 20000, 128, 64, 128, 2


def scores(network, texts):
    """Return what the network says of a batch."""
    words = network.look_up(texts, WORDS, WIDTH)
    last = [
        network.recurrent("LSTM", words, HIDDEN, 4, return_sequences=False, go_backwards=backwards)
        for backwards in (False, True)
    ]
    return network.dense(network.tf.concat(last, 1), CLASSES)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    texts, classes = here.integers([batch, LENGTH], WORDS), here.integers([batch], CLASSES)
    return networks.model(here, scores, texts, classes)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
