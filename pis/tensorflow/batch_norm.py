"""Normalise the channels of images over their batch with TensorFlow, as in training."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "Batch normalisation of images, with the statistics of the batch",
    "component": "tensorflow",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 32,
        "passes": "forward",
        "layout": "channels_last",
    },
    "parameters": {
        "size": {"type": "int", "default": 28, "help": "height and width of each image"},
        "channels": {"type": "int", "default": 128, "help": "numbers at each place"},
    },
}


def elements(batch, size, channels):
    """Return how many numbers are read and written: images, scale and shift of a channel."""
    return 2 * batch * size**2 * channels + 2 * channels


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, size, channels = (parameters[name] for name in ("batch", "size", "channels"))
    if batch * size == 1:
        raise harness.Unsupported("one number of each channel has no variance: give a larger batch")
    images = here.images(batch, [size, size], channels, 1)
    exact = here.tf.float32  # of scale and shift, whatever the images have
    scale = here.numbers([channels], 2, shift=1, dtype=exact)
    shift = here.numbers([channels], 3, dtype=exact)

    def normalise(images, scale, shift):
        order = here.data_format()
        return here.v1.nn.fused_batch_norm(
            images, scale, shift, epsilon=1e-5, data_format=order, is_training=True
        )[0]

    moved = here.bytes_of(elements(batch, size, channels))
    return here.operation(normalise, [images, scale, shift], moved)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
