"""Indicators of PyTorch's recurrent layers, all steps in one call."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {
    "component": "torch",
    "unit": "FLOP",
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
    "setup": "recurrent",
    # Of products: each gate takes the input and what was kept, at each step.
    "work": "2 * gates * batch * steps * hidden * (inputs + hidden)",
}
INDICATORS = {
    "rnn": {
        "summary": "Plain recurrent layer over a sequence",
        "constants": {"layer": "RNN", "gates": 1},
    },
    "gru": {
        "summary": "Gated recurrent units over a sequence",
        "constants": {"layer": "GRU", "gates": 3},
    },
    "lstm": {
        "summary": "Long short-term memory over a sequence",
        "constants": {"layer": "LSTM", "gates": 4},
    },
}


def recurrent(here, layer, batch, steps, inputs, hidden):
    made = here.weighed(getattr(here.torch.nn, layer)(inputs, hidden))
    return here.operation(made, [here.numbers((steps, batch, inputs), 99)])


if __name__ == "__main__":
    harness.main_table(globals())
