"""Indicators of what PyTorch costs before and around its operations."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {"component": "torch"}
INDICATORS = {
    "import": {
        "summary": "Time to import PyTorch in a fresh process",
        "one_shot": True,
        "timeout_s": 120,
        "setup": "loading",
    },
    "first_call": {
        "summary": "The first product of matrices in a fresh process",
        "one_shot": True,
        "common": {"dtype": "float32", "device": "auto"},
        "parameters": {
            "size": {"type": "int", "default": 256, "help": "rows and columns of each matrix"},
        },
    },
    "compile": {
        "summary": "Time to make a small function ready: traced or compiled, and run once",
        "one_shot": True,
        "timeout_s": 600,
        "common": {"dtype": "float32", "device": "auto", "mode": "compiled"},
        "setup": "compilation",
    },
    "dispatch": {
        "summary": "What a call of an operation costs",
        "common": {"dtype": "float32", "device": "auto", "mode": "eager"},
    },
}


def loading():
    return harness.Operation(lambda: harness.load("torch"))


def first_call(indicator, parameters, size):
    start = harness.framework("torch").start
    # Made on the CPU: what a GPU's first use costs is part of the first call.
    made = start(indicator, dict(parameters, device="cpu"))
    here = start(indicator, parameters)
    a, b = made.numbers((size, size), 1), made.numbers((size, size), 2)
    last = [None]

    def run():
        # The first time that this runs is the one that counts.
        here.attempt(lambda: last.append(here.torch.matmul(a.to(here.device), b.to(here.device))))

    wait = here.torch.cuda.synchronize if here.gpu else None
    return harness.Operation(run, wait, checksum=lambda: here.digest(last[-1]), gpu=here.gpu)


def compilation(indicator, parameters, mode):
    if mode == "eager":
        raise harness.Unsupported("mode=eager makes nothing ready: give graph or compiled")
    here = harness.framework("torch").start(indicator, parameters)
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


def dispatch(here):
    a, b = here.numbers((1,), 1, shift=1), here.numbers((1,), 2, shift=1)
    add = here.prepared(lambda a, b: a + b, [a, b])
    last = [None]

    def run():
        last[0] = add(a, b)

    here.attempt(run)
    return here.measured(run, lambda: here.digest(last[0]))


if __name__ == "__main__":
    harness.main_table(globals())
