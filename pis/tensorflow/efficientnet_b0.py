"""EfficientNet-B0 (Tan and Le 2019) in TensorFlow, built here; 5,288,548 parameters."""

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
    "summary": "EfficientNet-B0 (224 x 224 pixels)",
    "component": "tensorflow",
    "unit": "FLOP",
    "latency": True,
    "timeout_s": 600,
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


SIZE, CLASSES = 224, 1000
GAIN = 1.2  # the scale of all norms: else, swish and gates leave nothing of the image at the end
# How much wider inside, kernel, stride, channels, how often: table 1 of the paper.
BLOCKS = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def counts():
    """Return what one image takes: multiplications with additions of all products, and "MACs".

    The MACs are 401,669,732 as they are often told: with one for each bias that is added, two for
    each number that is normalised, and one for each that is averaged.
    """
    size, channels = SIZE // 2, 32
    products, normed, averaged, biases = size**2 * channels * 27, size**2 * channels, 0, CLASSES
    for wider, kernel, stride, outputs, times in BLOCKS:
        for number in range(times):
            inner, squeezed = channels * wider, channels // 4
            if wider > 1:
                products += size**2 * channels * inner
                normed += size**2 * inner
            size = size if number else size // stride
            products += size**2 * inner * (kernel**2 + outputs) + 2 * inner * squeezed
            normed += size**2 * (inner + outputs)
            averaged += size**2 * inner
            biases += inner + squeezed
            channels = outputs
    products += size**2 * channels * 1280 + 1280 * CLASSES
    normed, averaged = normed + size**2 * 1280, averaged + size**2 * 1280
    return products, products + biases + 2 * normed + averaged


def block(network, images, wider, kernel, stride, outputs):
    """Mobile inverted bottleneck: wider, each channel by itself, gated, narrow again."""
    tf, inputs, inner = network.tf, network.channels(images), images
    if wider > 1:
        inner = tf.nn.swish(normed(network, inner, wider * inputs))
    inner = tf.nn.swish(normed(network, inner, None, kernel, stride))
    gate = network.average(inner, keep=True)
    gate = network.convolve(tf.nn.swish(network.convolve(gate, inputs // 4)), wider * inputs)
    inner = normed(network, inner * tf.sigmoid(gate), outputs)
    return inner + images if stride == 1 and inputs == outputs else inner


def normed(network, images, filters, kernel=1, stride=1):
    """Return images convolved, then normalised."""
    return network.normalise(network.convolve(images, filters, kernel, stride, bias=False), GAIN)


def scores(network, images):
    """Return what the network says of a batch; without dropout and the like, which are random."""
    swish = network.tf.nn.swish
    images = swish(normed(network, images, 32, 3, 2))
    for wider, kernel, stride, outputs, times in BLOCKS:
        for number in range(times):
            images = block(network, images, wider, kernel, 1 if number else stride, outputs)
    images = swish(normed(network, images, 1280))
    return network.dense(network.average(images), CLASSES)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    images, classes = here.images(batch, [SIZE, SIZE], 3, 99), here.integers([batch], CLASSES)
    products, macs = counts()
    return networks.model(here, scores, images, classes, macs, {"product_macs": products})


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
