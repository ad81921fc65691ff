"""Look up the rows of a table with TensorFlow, as for the words of texts."""

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
    "summary": "Rows of a table, looked up",
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
    },
    "parameters": {
        "rows": {"type": "int", "default": 50000, "help": "rows of the table"},
        "width": {"type": "int", "default": 128, "help": "numbers of each row"},
        "length": {"type": "int", "default": 128, "help": "rows looked up for each text"},
    },
}


NUMBER_BYTES = 4  # of the number of a row


def moved(batch, length, width, itemsize):
    """Return bytes: each row is read and written, and so is its number once."""
    return batch * length * (2 * width * itemsize + NUMBER_BYTES)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "length", "rows", "width")
    batch, length, rows, width = (parameters[name] for name in names)
    table, places = here.numbers([rows, width]), here.integers([batch, length], rows)
    work = moved(batch, length, width, here.bytes_of(1))
    return here.operation(here.tf.nn.embedding_lookup, [table, places], work)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
