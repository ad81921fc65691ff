"""Indicators of PyTorch's operations on vectors, matrices and stacks of them."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {
    "component": "torch",
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
        "summary": "Scaled dot-product attention",
        "unit": "FLOP",
        "common": {"batch": 4},
        "parameters": {
            "heads": {"type": "int", "default": 8, "help": "how many are computed side by side"},
            "length": {"type": "int", "default": 256, "help": "words"},
            "width": {"type": "int", "default": 64, "help": "numbers per word and head"},
            "causal": {
                "type": "str",
                "default": "no",
                "allowed": ["no", "yes"],
                "help": "yes: no word sees those after it",
            },
        },
        # Of two products; half of it where each word sees those before it alone.
        "work": "4 * batch * heads * length**2 * width // (2 if causal == 'yes' else 1)",
    },
    "transpose": {
        "summary": "Transpose of a matrix, written anew",
        "unit": "byte",
        "parameters": {"size": {"type": "int", "default": 1024, "help": "rows and columns"}},
        "work": "2 * size**2 * itemsize",
    },
    "elementwise": {
        "summary": "Operation on each number by itself",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "add",
                "allowed": ["add", "multiply", "exp", "sqrt"],
                "help": "which operation; the first two take two inputs",
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
        "summary": "Reduction of the rows of a matrix",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "sum",
                "allowed": ["sum", "mean", "max"],
                "help": "what stands for a row",
            },
            "size": {"type": "int", "default": 1024, "help": "rows and columns"},
        },
        "work": "(size**2 + size) * itemsize",
    },
    "softmax": {
        "summary": "Softmax of rows",
        "unit": "byte",
        "common": {"batch": 256},
        "parameters": {"size": {"type": "int", "default": 1024, "help": "length of each row"}},
        "work": "2 * batch * size * itemsize",
    },
    "layer_norm": {
        "summary": "Layer normalisation of rows",
        "unit": "byte",
        "common": {"batch": 256},
        "parameters": {"size": {"type": "int", "default": 1024, "help": "length of each row"}},
        # Rows, scale and shift are read, rows are written.
        "work": "(2 * batch * size + 2 * size) * itemsize",
    },
    "batch_norm": {
        "summary": "Batch normalisation of images",
        "unit": "byte",
        "common": {"batch": 32, "layout": "channels_first"},
        "parameters": {
            "size": {"type": "int", "default": 28, "help": "height and width of each image"},
            "channels": {
                "type": "int",
                "default": 128,
                "help": "channels, each with statistics of its own",
            },
        },
        # The images count once, though their mean and variance are needed before anything is
        # written: a cache may hold them.
        "work": "(2 * batch * channels * size**2 + 2 * channels) * itemsize",
    },
    "embedding": {
        "summary": "Rows of a table by their numbers",
        "unit": "byte",
        "common": {"batch": 32},
        "parameters": {
            "rows": {"type": "int", "default": 50000, "help": "rows of the table"},
            "width": {"type": "int", "default": 128, "help": "numbers in a row"},
            "length": {"type": "int", "default": 128, "help": "words of a text"},
        },
        # Each row is read and written, and its number of 8 bytes is read.
        "work": "batch * length * (2 * width * itemsize + 8)",
    },
}


def matmul(here, size):
    matrices = [here.numbers((size, size), seed) for seed in (1, 2)]
    return here.operation(here.torch.matmul, matrices)


def batched_matmul(here, batch, size):
    matrices = [here.numbers((batch, size, size), seed) for seed in (1, 2)]
    return here.operation(here.torch.bmm, matrices)


def attention(here, batch, heads, length, width, causal):
    torch, causal = here.torch, causal == "yes"
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)  # PyTorch 2.0

    def whole(q, k, v):
        return fused(q, k, v, is_causal=causal)

    later = None
    if causal and not fused:
        later = torch.full((length, length), float("-inf")).triu(1).to(here.device, here.dtype)

    def by_parts(q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) / width**0.5
        return torch.matmul(torch.softmax(scores + later if causal else scores, -1), v)

    inputs = [here.numbers((batch, heads, length, width), seed, scale=4) for seed in (1, 2, 3)]
    facts = {"attention": "scaled_dot_product_attention" if fused else "by parts"}
    return here.operation(whole if fused else by_parts, inputs, facts=facts)


def transpose(here, size):
    matrix = here.numbers((size, size))
    return here.operation(lambda given: given.t().contiguous(), [matrix])


def elementwise(here, kind, size):
    torch = here.torch
    compute, count = {
        "add": (torch.add, 2),
        "multiply": (torch.mul, 2),
        "exp": (torch.exp, 1),
        "sqrt": (torch.sqrt, 1),
    }[kind]
    inputs = [here.numbers((size,), seed, shift=1) for seed in range(1, count + 1)]
    return here.operation(compute, inputs)


def activation(here, kind, size):
    functions = {
        "relu": here.torch.relu,
        "gelu": here.torch.nn.functional.gelu,
        "sigmoid": here.torch.sigmoid,
        "tanh": here.torch.tanh,
        "swish": here.torch.nn.functional.silu,
    }
    return here.operation(functions[kind], [here.numbers((size,), scale=8)])


def reduction(here, kind, size):
    torch = here.torch
    reduce = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[kind]
    matrix = here.numbers((size, size), shift=1)
    return here.operation(lambda given: reduce(given, dim=-1), [matrix])


def softmax(here, batch, size):
    inputs = [here.numbers((batch, size), scale=8)]
    return here.operation(lambda rows: here.torch.softmax(rows, -1), inputs)


def layer_norm(here, batch, size):
    def compute(rows, scale, shift):
        return here.torch.nn.functional.layer_norm(rows, (size,), scale, shift)

    rows, scale = here.numbers((batch, size)), here.numbers((size,), 2, shift=1)
    return here.operation(compute, [rows, scale, here.numbers((size,), 3)])


def batch_norm(here, batch, size, channels):
    if batch * size == 1:
        raise harness.Unsupported("one number of each channel has no variance: give a larger batch")

    def compute(images, scale, shift):
        normalise = here.torch.nn.functional.batch_norm
        return normalise(images, None, None, scale, shift, training=True)

    images = here.images((batch, channels, size, size))
    inputs = [images, here.numbers((channels,), 2, shift=1), here.numbers((channels,), 3)]
    return here.operation(compute, inputs)


def embedding(here, batch, rows, width, length):
    words, table = here.integers((batch, length), rows), here.numbers((rows, width), 2)
    return here.operation(here.torch.nn.functional.embedding, [words, table])


if __name__ == "__main__":
    harness.main_table(globals())
