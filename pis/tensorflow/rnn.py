"""Run a plain recurrent layer over sequences: Keras's own, as it chooses to run it."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "Recurrent layer (SimpleRNN) over sequences",
    "component": "tensorflow",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "eager",
        "autocast": "off",
        "batch": 8,
        "passes": "forward",
    },
    "parameters": {
        "steps": {"type": "int", "default": 32, "help": "places of each sequence"},
        "inputs": {"type": "int", "default": 128, "help": "numbers at each place"},
        "hidden": {"type": "int", "default": 128, "help": "numbers of the layer's state"},
    },
}


GATES = 1


def work(batch, steps, inputs, hidden):
    """Return FLOP: the products of each gate with the inputs and with the state before."""
    return 2 * GATES * batch * steps * hidden * (inputs + hidden)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    names = ("batch", "steps", "inputs", "hidden")
    batch, steps, inputs, hidden = (parameters[name] for name in names)
    layer = here.recurrent("SimpleRNN", inputs, hidden)
    return here.operation(
        layer,
        [here.numbers([batch, steps, inputs])],
        work(batch, steps, inputs, hidden),
        weights=layer.trainable_variables,
        multiplies=True,
    )


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
