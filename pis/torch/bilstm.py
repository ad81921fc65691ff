"""Classifier of texts in PyTorch: an LSTM in both directions, and their last states."""

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
    "summary": "Classifier of texts by an LSTM in both directions",
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
WORDS, WIDTH, HIDDEN, LENGTH, CLASSES = 20000, 128, 64, 128, 2
MACS = 2 * 4 * LENGTH * HIDDEN * (WIDTH + HIDDEN) + 2 * HIDDEN * CLASSES


def network(torch):
    """Return the network; a class, since its parts are not called one after the other."""

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(WORDS, WIDTH)
            self.lstm = torch.nn.LSTM(WIDTH, HIDDEN, bidirectional=True, batch_first=True)
            self.classes = torch.nn.Linear(2 * HIDDEN, CLASSES)

        def forward(self, texts):
            _, (last, _) = self.lstm(self.words(texts))
            return self.classes(torch.cat([last[0], last[1]], 1))

    return Classifier()


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    texts, classes = here.integers((batch, LENGTH), WORDS), here.integers((batch,), CLASSES)
    return here.model(network(here.torch), texts, classes, MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
