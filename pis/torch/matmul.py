"""Multiply two square matrices with PyTorch, on the CPU or on a GPU."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Product of two square matrices",
    "component": "torch",
    "unit": "FLOP",
    "one_shot": False,
    "timeout_s": 300,
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
        "dtype": {
            "type": "str",
            "default": "float32",
            "allowed": ["float32", "float64", "float16", "bfloat16"],
        },
        "device": {"type": "str", "default": "auto", "allowed": ["auto", "cpu", "gpu"]},
    },
}


def setup(parameters):
    torch = harness.load("torch")
    torch.set_num_threads(parameters["threads"])
    torch.set_grad_enabled(False)
    gpu = torch.cuda.is_available() and parameters["device"] != "cpu"
    if parameters["device"] == "gpu" and not gpu:
        raise harness.Unsupported("PyTorch sees no GPU here")
    size = parameters["size"]
    dtype = getattr(torch, parameters["dtype"])
    numbers = torch.arange(size * size, device="cuda" if gpu else "cpu").reshape(size, size)
    a = ((numbers % 31).double() / 31 - 0.5).to(dtype)
    b = ((numbers % 29).double() / 29 - 0.5).to(dtype)
    last = [None]

    def run():
        last[0] = torch.matmul(a, b)

    def checksum():
        return last[0].double().abs().mean().item()

    try:
        run()
    except RuntimeError as error:
        if "not implemented for" in str(error):
            raise harness.Unsupported(str(error))
        raise
    wait = torch.cuda.synchronize if gpu else None
    return harness.Operation(run, wait=wait, work=2 * size**3, checksum=checksum)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
