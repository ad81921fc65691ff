"""Classifier of texts in TensorFlow: four transformer layers, normalised before each part."""

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
    "summary": "Transformer encoder that classifies texts",
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


WORDS, WIDTH, HEADS, INNER, LAYERS, LENGTH, CLASSES = 8000, 256, 4, 1024, 4, 128, 2
GAIN = (2 * LAYERS) ** -0.5  # of what is added: else, the sums of all layers grow


def attend(network, rows):
    """Return what each place takes from all places of its text."""
    tf, batch = network.tf, int(rows.shape[0])
    parts = tf.reshape(network.dense(rows, 3 * WIDTH), [batch, LENGTH, 3, HEADS, WIDTH // HEADS])
    queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    likeness = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True) * (WIDTH // HEADS) ** -0.5)
    taken = tf.transpose(tf.matmul(likeness, values), [0, 2, 1, 3])
    return network.dense(tf.reshape(taken, [batch, LENGTH, WIDTH]), WIDTH, GAIN)


def bend(network, rows):
    """Return gelu of numbers, made of others where TensorFlow has none (before 2.4)."""
    if hasattr(network.tf.nn, "gelu"):
        return network.tf.nn.gelu(rows)
    return rows * 0.5 * (1 + network.tf.math.erf(rows * 0.5**0.5))


def scores(network, texts):
    """Return what the network says of a batch."""
    rows = network.add_places(network.look_up(texts, WORDS, WIDTH))
    for _ in range(LAYERS):
        rows += network.tf.cast(attend(network, network.row_norm(rows)), rows.dtype)
        inner = bend(network, network.dense(network.row_norm(rows), INNER))
        rows += network.tf.cast(network.dense(inner, WIDTH, GAIN), rows.dtype)
    return network.dense(network.tf.reduce_mean(rows, 1), CLASSES, 0.1)


def macs():
    """Return multiplications with additions for one text: dense layers, products of attention."""
    layer = LENGTH * 4 * WIDTH**2 + 2 * LENGTH**2 * WIDTH + 2 * LENGTH * WIDTH * INNER
    return LAYERS * layer + WIDTH * CLASSES


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    texts, classes = here.integers([batch, LENGTH], WORDS), here.integers([batch], CLASSES)
    return networks.model(here, scores, texts, classes, macs())


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
