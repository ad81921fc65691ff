"""Model of the next character in PyTorch: two LSTM layers, an answer at every step."""

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
    "summary": "Next character by two LSTM layers",
    "component": "torch",
    "unit": "FLOP",
    "latency": True,
    "timeout_s": 300,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "batch": 8,
        "mode": "eager",
        "autocast": "off",
    },
    "parameters": {
        "step": {
            "type": "str",
            "default": "inference",
            "allowed": ["inference", "training"],
            "help": "training: forward, backward and plain gradient descent",
        },
    },
}
CHARACTERS, WIDTH, HIDDEN, LENGTH = 64, 64, 256, 64
MACS = LENGTH * (4 * HIDDEN * (WIDTH + HIDDEN) + 4 * HIDDEN * 2 * HIDDEN + HIDDEN * CHARACTERS)


def network(torch):
    """Return the network; a class, since its parts are not called one after the other."""

    class NextCharacter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.characters = torch.nn.Embedding(CHARACTERS, WIDTH)
            self.lstm = torch.nn.LSTM(WIDTH, HIDDEN, num_layers=2, batch_first=True)
            self.next = torch.nn.Linear(HIDDEN, CHARACTERS)

        def forward(self, texts):
            steps, _ = self.lstm(self.characters(texts))
            return self.next(steps)

    return NextCharacter()


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    shape = (parameters["batch"], LENGTH)
    texts, following = here.integers(shape, CHARACTERS), here.integers(shape, CHARACTERS, 2)
    return here.model(network(here.torch), texts, following.flatten(), MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
