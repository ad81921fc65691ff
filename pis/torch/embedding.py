"""Look rows of a table up with PyTorch, as for the words of a text."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "Rows of a table by their numbers",
    "component": "torch",
    "unit": "byte",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 32,
    },
    "parameters": {
        "rows": {"type": "int", "default": 50000, "help": "rows of the table"},
        "width": {"type": "int", "default": 128, "help": "numbers in a row"},
        "length": {"type": "int", "default": 128, "help": "words of a text"},
    },
}


def moved(batch, length, width, size):
    """Return bytes: each row is read and written, and its number of 8 bytes is read."""
    return batch * length * (2 * width * size + 8)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, length, width = parameters["batch"], parameters["length"], parameters["width"]
    words = here.integers((batch, length), parameters["rows"])
    table = here.numbers((parameters["rows"], width), 2)
    inputs = [words, table]
    work = moved(batch, length, width, here.bytes_of(1))
    return here.operation(here.torch.nn.functional.embedding, inputs, work)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
