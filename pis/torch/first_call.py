"""The first product of matrices that PyTorch computes in a fresh process; import is not counted."""

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
    "summary": "The first product of matrices in a fresh process",
    "component": "torch",
    "unit": "",
    "one_shot": True,
    "timeout_s": 300,
    "common": {"dtype": "float32", "device": "auto"},
    "parameters": {
        "size": {"type": "int", "default": 256, "help": "rows and columns of each matrix"},
    },
}


def setup(parameters):
    # Made on the CPU: what a GPU's first use costs is part of the first call.
    made = framework.start(INDICATOR, dict(parameters, device="cpu"))
    here = framework.start(INDICATOR, parameters)
    shape = (parameters["size"], parameters["size"])
    a, b = made.numbers(shape, 1), made.numbers(shape, 2)
    last = [None]

    def run():
        # The first time that this runs is the one that counts.
        here.attempt(lambda: last.append(here.torch.matmul(a.to(here.device), b.to(here.device))))

    wait = here.torch.cuda.synchronize if here.gpu else None
    return harness.Operation(run, wait, checksum=lambda: here.digest(last[-1]), gpu=here.gpu)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
