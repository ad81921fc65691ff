"""Make a small function ready with PyTorch: as a graph (TorchScript) or compiled (inductor)."""

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
    "summary": "Time to make a small function ready: traced or compiled, and run once",
    "component": "torch",
    "unit": "",
    "one_shot": True,
    "timeout_s": 600,
    "common": {"dtype": "float32", "device": "auto", "mode": "compiled"},
    "parameters": {},
}


def setup(parameters):
    if parameters["mode"] == "eager":
        raise harness.Unsupported("mode=eager makes nothing ready: give graph or compiled")
    here = framework.start(INDICATOR, parameters)
    functional = here.torch.nn.functional
    rows, first, second = (
        here.numbers((32, 64), 1),
        here.numbers((64, 64), 2),
        here.numbers((64,), 3),
    )
    last = [None]

    def function(rows, first, second):
        inner = functional.gelu(rows @ first + second)
        return functional.softmax(inner @ first, -1) * 2

    def plain():
        last[0] = function(rows, first, second)

    def run():
        last[0] = here.prepared(function, [rows, first, second])(rows, first, second)

    here.attempt(plain)  # what the operations' own first calls cost is not compilation
    return here.measured(run, lambda: here.digest(last[0]))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
