"""Plain recurrent layer of PyTorch (RNN), all steps in one call."""

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
    "summary": "Plain recurrent layer over a sequence",
    "component": "torch",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "passes": "forward",
        "batch": 8,
    },
    "parameters": {
        "steps": {"type": "int", "default": 32, "help": "length of the sequence"},
        "inputs": {"type": "int", "default": 128, "help": "numbers at each step of the input"},
        "hidden": {
            "type": "int",
            "default": 128,
            "help": "numbers that are kept from step to step",
        },
    },
}


def work(batch, steps, inputs, hidden):
    """Return FLOP of the products: one product of the input and of what was kept, at each step."""
    return 2 * 1 * batch * steps * hidden * (inputs + hidden)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch, steps = parameters["batch"], parameters["steps"]
    inputs, hidden = parameters["inputs"], parameters["hidden"]
    layer = here.weighed(here.torch.nn.RNN(inputs, hidden))
    sequences = here.numbers((steps, batch, inputs), 99)
    return here.operation(layer, [sequences], work(batch, steps, inputs, hidden))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
