"""Products of matrices with TensorFlow, as many in a row as the variable PLANTED_PRODUCTS says.

21 in place of 20 are exactly 5 % more of the same work, however fast this machine is just now.
The variable is a setting of the stack, so that executors see two stacks.
"""

import os

import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "Products of two square matrices in a row",
    "component": "tensorflow",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float32", "device": "cpu", "mode": "eager", "passes": "forward"},
    "parameters": {
        "size": {"type": "int", "default": 256, "help": "rows and columns of each matrix"},
    },
}


def setup(parameters):  # type: ignore[no-untyped-def]
    """Return the operation."""
    local = framework.start(INDICATOR, parameters)  # type: ignore[no-untyped-call]
    size, count = parameters["size"], int(os.environ["PLANTED_PRODUCTS"])
    one, two = (local.numbers([size, size], seed) for seed in (1, 2))
    matmul = local.tf.matmul

    def run() -> None:
        for _ in range(count):
            result = matmul(one, two)
        result.numpy()  # all are done by then: on a CPU, one follows upon the other

    return harness.Operation(run)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    harness.main(INDICATOR, setup)  # type: ignore[no-untyped-call]
