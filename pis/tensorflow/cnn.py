"""Small convolutional network in TensorFlow for 28 x 28 pixels; 421,642 parameters."""

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
    "summary": "Small convolutional network (28 x 28 pixels)",
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
        "layout": "channels_last",
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


def scores(network, images):
    """Return what the network says of a batch."""
    relu = network.tf.nn.relu
    for filters in (32, 64):
        images = network.shrink(relu(network.convolve(images, filters, 3)))
    return network.dense(relu(network.dense(network.flatten(images), 128)), 10)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    images, classes = here.images(batch, [28, 28], 1, 99), here.integers([batch], 10)
    return networks.model(here, scores, images, classes)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
