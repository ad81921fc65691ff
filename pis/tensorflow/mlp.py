"""Three dense layers in TensorFlow, for 28 x 28 pixels; 669,706 parameters."""

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
    "summary": "Network of dense layers (784-512-512-10)",
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


def scores(network, pixels):
    """Return what the network says of a batch."""
    relu = network.tf.nn.relu
    inner = relu(network.dense(pixels, 512))
    return network.dense(relu(network.dense(inner, 512)), 10)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    pixels, classes = here.numbers([batch, 784], 99), here.integers([batch], 10)
    return networks.model(here, scores, pixels, classes)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
