"""EfficientNet-B0 (Tan and Le 2019) in PyTorch, built here; 5,288,548 parameters."""

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
    "summary": "EfficientNet-B0 (224 x 224 pixels)",
    "component": "torch",
    "unit": "FLOP",
    "latency": True,
    "timeout_s": 600,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "batch": 8,
        "mode": "eager",
        "autocast": "off",
        "layout": "channels_first",
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
SIZE, CLASSES = 224, 1000
GAIN = 1.2  # the scale of all norms: else, swish and gates leave nothing of the image at the end
# How much wider inside, kernel, stride, channels, how often: table 1 of the paper.
BLOCKS = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def counts():
    """Return what one image takes: multiplications with additions of all products, and "MACs".

    The MACs are 401,669,732 as they are often told: with one for each bias that is added, two for
    each number that is normalised, and one for each that is averaged.
    """
    size, channels = SIZE // 2, 32
    products, normed, averaged, biases = size**2 * channels * 27, size**2 * channels, 0, 0
    for wider, kernel, stride, outputs, times in BLOCKS:
        for number in range(times):
            inner, squeezed = channels * wider, channels // 4
            if wider > 1:
                products += size**2 * channels * inner
                normed += size**2 * inner
            size = size if number else size // stride
            products += size**2 * inner * (kernel**2 + outputs) + 2 * inner * squeezed
            normed += size**2 * (inner + outputs)
            averaged += size**2 * inner
            biases += inner + squeezed
            channels = outputs
    products += size**2 * channels * 1280 + 1280 * CLASSES
    normed, averaged = normed + size**2 * 1280, averaged + size**2 * 1280
    return products, products + biases + CLASSES + 2 * normed + averaged


def network(torch):
    """Return the network, without its dropout and stochastic depth: they are random."""
    nn = torch.nn

    def convolution(inputs, outputs, kernel=1, stride=1, groups=1, active=True):
        padding = kernel // 2
        layers = [
            nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
        ]
        nn.init.constant_(layers[1].weight, GAIN)
        return layers + [nn.SiLU()] if active else layers

    class Gate(nn.Module):
        """Squeeze and excitation: each channel, times what all of them say."""

        def __init__(self, channels, squeezed):
            super().__init__()
            self.says = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(channels, squeezed, 1),
                nn.SiLU(),
                nn.Conv2d(squeezed, channels, 1),
                nn.Sigmoid(),
            )

        def forward(self, images):
            return images * self.says(images)

    class Block(nn.Module):
        """Mobile inverted bottleneck: wider, each channel by itself, gated, narrow again."""

        def __init__(self, inputs, outputs, wider, kernel, stride):
            super().__init__()
            inner = inputs * wider
            layers = convolution(inputs, inner) if wider > 1 else []
            layers += convolution(inner, inner, kernel, stride, groups=inner)
            layers += [Gate(inner, inputs // 4)] + convolution(inner, outputs, active=False)
            self.layers = nn.Sequential(*layers)
            self.adds = stride == 1 and inputs == outputs

        def forward(self, images):
            return self.layers(images) + images if self.adds else self.layers(images)

    layers, channels = convolution(3, 32, 3, 2), 32
    for wider, kernel, stride, outputs, times in BLOCKS:
        for number in range(times):
            layers.append(Block(channels, outputs, wider, kernel, 1 if number else stride))
            channels = outputs
    layers += convolution(channels, 1280)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, CLASSES)]
    return nn.Sequential(*layers)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    batch = parameters["batch"]
    images, classes = here.images((batch, 3, SIZE, SIZE), 99), here.integers((batch,), CLASSES)
    products, macs = counts()
    return here.model(network(here.torch), images, classes, macs, {"product_macs": products})


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
