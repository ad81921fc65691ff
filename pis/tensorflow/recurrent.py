"""Indicators of TensorFlow's recurrent layers: Keras's own, as it chooses to run them."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {
    "component": "tensorflow",
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
        "steps": {"type": "int", "default": 32, "help": "places of each sequence"},
        "inputs": {"type": "int", "default": 128, "help": "numbers at each place"},
        "hidden": {"type": "int", "default": 128, "help": "numbers of the layer's state"},
    },
    "setup": "recurrent",
    # The products of each gate with the inputs and with the state before.
    "work": "2 * gates * batch * steps * hidden * (inputs + hidden)",
}
INDICATORS = {
    "rnn": {
        "summary": "Recurrent layer (SimpleRNN) over sequences",
        "constants": {"layer": "SimpleRNN", "gates": 1},
    },
    "gru": {
        "summary": "Recurrent layer (GRU) over sequences",
        "constants": {"layer": "GRU", "gates": 3},
    },
    "lstm": {
        "summary": "Recurrent layer (LSTM) over sequences",
        "constants": {"layer": "LSTM", "gates": 4},
    },
}


def recurrent(here, layer, batch, steps, inputs, hidden):
    made = here.recurrent(layer, inputs, hidden)
    return here.operation(
        made,
        [here.numbers([batch, steps, inputs])],
        weights=made.trainable_variables,
        multiplies=True,
    )


if __name__ == "__main__":
    harness.main_table(globals())
