"""Indicators of TensorFlow's operations on vectors, matrices and stacks of them."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {
    "component": "tensorflow",
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
    },
}
INDICATORS = {
    "matmul": {
        "summary": "Product of two square matrices",
        "unit": "FLOP",
        "parameters": {
            "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
        },
        "work": "2 * size**3",
    },
    "batched_matmul": {
        "summary": "Products of many pairs of square matrices",
        "unit": "FLOP",
        "common": {"batch": 32},
        "parameters": {
            "size": {"type": "int", "default": 128, "help": "rows and columns of each matrix"},
        },
        "work": "2 * batch * size**3",
    },
    "attention": {
        "summary": "Scaled dot-product attention of several heads",
        "unit": "FLOP",
        "common": {"batch": 4},
        "parameters": {
            "heads": {"type": "int", "default": 8, "help": "how many heads attend"},
            "length": {"type": "int", "default": 256, "help": "places of each sequence"},
            "width": {"type": "int", "default": 64, "help": "numbers of each head at each place"},
            "causal": {
                "type": "str",
                "default": "no",
                "allowed": ["no", "yes"],
                "help": "yes: each place sees only those before it",
            },
        },
        # Products of all pairs of places, twice. What is computed and then masked counts for none.
        "work": "4 * batch * heads * length**2 * width // (2 if causal == 'yes' else 1)",
    },
    "transpose": {
        "summary": "Transposition of a square matrix",
        "unit": "byte",
        "parameters": {
            "size": {"type": "int", "default": 1024, "help": "rows and columns of the matrix"},
        },
        "work": "2 * size**2 * itemsize",
    },
    "elementwise": {
        "summary": "Elementwise operation",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "add",
                "allowed": ["add", "multiply", "exp", "sqrt"],
                "help": "which operation",
            },
            "size": {"type": "int", "default": 1048576, "help": "how many numbers"},
        },
        "work": "(3 if kind in ('add', 'multiply') else 2) * size * itemsize",
    },
    "activation": {
        "summary": "Activation function",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "relu",
                "allowed": ["relu", "gelu", "sigmoid", "tanh", "swish"],
                "help": "which function",
            },
            "size": {"type": "int", "default": 1048576, "help": "how many numbers"},
        },
        "work": "2 * size * itemsize",
    },
    "reduction": {
        "summary": "Sum, mean or maximum of each row",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "sum",
                "allowed": ["sum", "mean", "max"],
                "help": "what is taken of each row",
            },
            "size": {"type": "int", "default": 1024, "help": "rows and columns of the matrix"},
        },
        "work": "(size**2 + size) * itemsize",
    },
    "softmax": {
        "summary": "Softmax of each row",
        "unit": "byte",
        "common": {"batch": 256},
        "parameters": {"size": {"type": "int", "default": 1024, "help": "numbers of each row"}},
        "work": "2 * batch * size * itemsize",
    },
    "layer_norm": {
        "summary": "Layer normalisation",
        "unit": "byte",
        "common": {"batch": 256},
        "parameters": {"size": {"type": "int", "default": 1024, "help": "numbers of each row"}},
        # The rows twice, scale and shift of a column once.
        "work": "(2 * batch * size + 2 * size) * itemsize",
    },
    "batch_norm": {
        "summary": "Batch normalisation of images, with the statistics of the batch",
        "unit": "byte",
        "common": {"batch": 32, "layout": "channels_last"},
        "parameters": {
            "size": {"type": "int", "default": 28, "help": "height and width of each image"},
            "channels": {"type": "int", "default": 128, "help": "numbers at each place"},
        },
        "work": "(2 * batch * size**2 * channels + 2 * channels) * itemsize",
    },
    "embedding": {
        "summary": "Rows of a table, looked up",
        "unit": "byte",
        "common": {"batch": 32},
        "parameters": {
            "rows": {"type": "int", "default": 50000, "help": "rows of the table"},
            "width": {"type": "int", "default": 128, "help": "numbers of each row"},
            "length": {"type": "int", "default": 128, "help": "rows looked up for each text"},
        },
        # Each row is read and written, and so is its number of 4 bytes once.
        "work": "batch * length * (2 * width * itemsize + 4)",
    },
}


def matmul(here, size):
    matrices = [here.numbers([size, size], seed) for seed in (1, 2)]
    return here.operation(here.tf.matmul, matrices, multiplies=True)


def batched_matmul(here, batch, size):
    matrices = [here.numbers([batch, size, size], seed) for seed in (1, 2)]
    return here.operation(here.tf.matmul, matrices, multiplies=True)


def attention(here, batch, heads, length, width, causal):
    tf, causal = here.tf, causal == "yes"
    given = [here.numbers([batch, heads, length, width], seed, scale=4) for seed in (1, 2, 3)]

    def attend(queries, keys, values):
        scores = tf.matmul(queries, keys, transpose_b=True) * (width**-0.5)
        if causal:
            seen = tf.linalg.band_part(tf.ones([length, length], scores.dtype), -1, 0)
            scores += (1 - seen) * scores.dtype.min / 2
        return tf.matmul(tf.nn.softmax(scores), values)

    return here.operation(attend, given, multiplies=True)


def transpose(here, size):
    return here.operation(here.tf.transpose, [here.numbers([size, size])])


def elementwise(here, kind, size):
    # From 0.5 to 1.5: where roots have a slope.
    given = [here.numbers([size], seed, shift=1) for seed in (1, 2)]
    if kind in ("exp", "sqrt"):
        given = given[:1]
    return here.operation(getattr(here.tf, kind), given)


def activation(here, kind, size):
    activate = getattr(here.tf.nn, kind, None)
    if activate is None:
        raise harness.Unsupported("TensorFlow has tf.nn.gelu from 2.4 on")
    # From -4 to 4: where these functions bend, and beyond.
    return here.operation(activate, [here.numbers([size], scale=8)])


def reduction(here, kind, size):
    reduce = getattr(here.tf, "reduce_" + kind)
    matrix = here.numbers([size, size], shift=1)
    return here.operation(lambda matrix: reduce(matrix, axis=-1), [matrix])


def softmax(here, batch, size):
    return here.operation(here.tf.nn.softmax, [here.numbers([batch, size], scale=8)])


def layer_norm(here, batch, size):
    rows = here.numbers([batch, size], 1)
    scale, shift = here.numbers([size], 2, shift=1), here.numbers([size], 3)

    def normalise(rows, scale, shift):
        # TensorFlow has no such operation of its own: it is made of mean, variance and scaling.
        mean, variance = here.v1.nn.moments(rows, [-1], keep_dims=True)
        return here.tf.nn.batch_normalization(rows, mean, variance, shift, scale, 1e-5)

    return here.operation(normalise, [rows, scale, shift])


def batch_norm(here, batch, size, channels):
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

    return here.operation(normalise, [images, scale, shift])


def embedding(here, batch, rows, width, length):
    table, places = here.numbers([rows, width]), here.integers([batch, length], rows)
    return here.operation(here.tf.nn.embedding_lookup, [table, places])


if __name__ == "__main__":
    harness.main_table(globals())
