"""Contract stacks of matrices with NumPy's einsum."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "Sums of products as einsum writes them",
    "component": "numpy",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {"dtype": "float64", "batch": 16},
    "parameters": {
        "kind": {
            "type": "str",
            "default": "product",
            "allowed": ["product", "rows"],
            "help": "product: of each pair of matrices; rows: of each pair of rows",
        },
        "size": {"type": "int", "default": 64, "help": "rows and columns of each matrix"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size, batch = parameters["size"], parameters["batch"]
    a, b = here.numbers((batch, size, size), seed=1), here.numbers((batch, size, size), seed=2)
    rows = parameters["kind"] == "rows"
    form = "bij,bij->bi" if rows else "bij,bjk->bik"
    work = 2 * batch * size ** (2 if rows else 3)
    return here.operation(lambda: here.np.einsum(form, a, b), work=work)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
