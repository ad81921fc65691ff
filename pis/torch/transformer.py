"""Classifier of texts in PyTorch: four layers of a transformer encoder, and their mean."""

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
    "summary": "Classifier of texts by four transformer layers",
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
WORDS, WIDTH, HEADS, INNER, LAYERS, LENGTH, CLASSES = 8000, 256, 4, 1024, 4, 128, 2
# A layer: queries, keys, values and their result; two products of attention; the inner layers.
LAYER_MACS = LENGTH * 4 * WIDTH**2 + 2 * LENGTH**2 * WIDTH + LENGTH * 2 * WIDTH * INNER
MACS = LAYERS * LAYER_MACS + WIDTH * CLASSES


def network(torch):
    """Return the network; normalised before each part, and without dropout."""
    nn = torch.nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
            layers = [
                nn.TransformerEncoderLayer(
                    WIDTH, HEADS, INNER, 0.0, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(LAYERS)
            ]
            self.layers = nn.Sequential(*layers)
            self.classes = nn.Linear(WIDTH, CLASSES)

        def forward(self, texts):
            return self.classes(self.layers(self.words(texts) + self.places).mean(1))

    return Classifier()


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    texts, classes = here.integers((batch, LENGTH), WORDS), here.integers((batch,), CLASSES)
    return here.model(network(here.torch), texts, classes, MACS)


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
