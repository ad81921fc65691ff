"""A product of matrices, and beside it a busy loop: an indicator with a known share of more work.

The loop is counted in iterations: a sleep would take as long as the system likes.
"""

import itertools

import harness

INDICATOR = {
    "summary": "Product of two matrices with a busy loop beside it",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "parameters": {
        "size": {"type": "int", "default": 160, "help": "rows and columns of each matrix"},
        "parts": {"type": "str", "default": "both", "allowed": ["product", "loop", "both"]},
        "iterations": {"type": "int", "default": 1000, "help": "of the loop"},
    },
}


def setup(parameters):  # type: ignore[no-untyped-def]
    """Return the operation: the product, the loop, or one after the other."""
    np = harness.load("numpy")  # type: ignore[no-untyped-call]
    size, iterations = parameters["size"], parameters["iterations"]
    a = np.arange(size * size, dtype="float64").reshape(size, size) / size**2
    matmul = np.matmul

    def product() -> None:
        matmul(a, a)

    def loop() -> None:
        for _ in itertools.repeat(None, iterations):
            pass

    def both() -> None:
        matmul(a, a)
        for _ in itertools.repeat(None, iterations):
            pass

    run = {"product": product, "loop": loop, "both": both}[parameters["parts"]]
    return harness.Operation(run)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    harness.main(INDICATOR, setup)  # type: ignore[no-untyped-call]
