"""Indicators of models in PyTorch: inference, or a step of training."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_models as models
import harness

FAMILY = {
    "component": "torch",
    "unit": "FLOP",
    "latency": True,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "batch": 8,
        "mode": "eager",
        "autocast": "off",
        "step": "inference",
    },
}
INDICATORS = {
    "mlp": {"summary": "Perceptron of three layers"},
    "cnn": {
        "summary": "Small convolutional network (28 x 28 pixels)",
        "common": {"layout": "channels_first"},
    },
    "deep_cnn": {
        "summary": "Convolutional network of six layers (32 x 32 pixels)",
        "common": {"layout": "channels_first"},
    },
    "efficientnet_b0": {
        "summary": "EfficientNet-B0 (224 x 224 pixels)",
        "timeout_s": 600,
        "common": {"layout": "channels_first"},
    },
    "text_classifier": {"summary": "Classifier of texts by the mean of their words (fastText)"},
    "bilstm": {"summary": "Classifier of texts by an LSTM in both directions"},
    "char_lstm": {"summary": "Next character by two LSTM layers"},
    "transformer": {"summary": "Classifier of texts by four transformer layers"},
}
WIDTHS = (32, 64, 128)  # of the deep CNN: two convolutions each, then half the size


def mlp(here, batch):
    """784-512-512-10, relu; 669,706 parameters."""
    nn = here.torch.nn
    network = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    images, classes = here.numbers((batch, 784), 99), here.integers((batch,), 10)
    return here.model(network, images, classes, 784 * 512 + 512 * 512 + 512 * 10)


def cnn(here, batch):
    """421,642 parameters."""
    nn = here.torch.nn
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(7 * 7 * 64, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    macs = 28**2 * 32 * 9 + 14**2 * 64 * 9 * 32 + 7**2 * 64 * 128 + 128 * 10
    images, classes = here.images((batch, 1, 28, 28), 99), here.integers((batch,), 10)
    return here.model(network, images, classes, macs)


def deep_cnn(here, batch):
    nn, layers, macs, size, channels = here.torch.nn, [], 0, 32, 3
    for width in WIDTHS:
        for inputs in (channels, width):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            macs += size**2 * 9 * width * inputs
        layers.append(nn.MaxPool2d(2))
        size, channels = size // 2, width
    layers += [nn.Flatten(), nn.Linear(4 * 4 * channels, 128), nn.ReLU(), nn.Linear(128, 10)]
    macs += size**2 * channels * 128 + 128 * 10
    images, classes = here.images((batch, 3, 32, 32), 99), here.integers((batch,), 10)
    return here.model(nn.Sequential(*layers), images, classes, macs)


def efficientnet_b0(here, batch):
    """5,288,548 parameters."""
    made = models.EfficientNet
    images = here.images((batch, 3, made.size, made.size), 99)
    classes = here.integers((batch,), made.classes)
    products, macs = models.efficientnet_counts()
    network = efficientnet(here.torch, made)
    return here.model(network, images, classes, macs, {"product_macs": products})


def efficientnet(torch, made):
    """Return the network, without its dropout and stochastic depth: they are random."""
    nn = torch.nn

    def convolution(inputs, outputs, kernel=1, stride=1, groups=1, active=True):
        padding = kernel // 2
        layers = [
            nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
        ]
        nn.init.constant_(layers[1].weight, made.gain)
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
    for wider, kernel, stride, outputs, times in made.blocks:
        for number in range(times):
            layers.append(Block(channels, outputs, wider, kernel, 1 if number else stride))
            channels = outputs
    layers += convolution(channels, 1280)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, made.classes)]
    return nn.Sequential(*layers)


def text_classifier(here, batch):
    """2,000,202 parameters."""
    nn, made = here.torch.nn, models.FastText
    words = nn.EmbeddingBag(made.words, made.width, mode="mean")
    network = nn.Sequential(words, nn.Linear(made.width, made.classes))
    return of_texts(here, batch, network, made)


def of_texts(here, batch, network, made):
    """Return the operation of a classifier of texts."""
    texts = here.integers((batch, made.length), made.words)
    return here.model(network, texts, here.integers((batch,), made.classes), made.macs)


def bilstm(here, batch):
    torch, made = here.torch, models.BiLstm

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(made.words, made.width)
            self.lstm = torch.nn.LSTM(made.width, made.hidden, bidirectional=True, batch_first=True)
            self.classes = torch.nn.Linear(2 * made.hidden, made.classes)

        def forward(self, texts):
            _, (last, _) = self.lstm(self.words(texts))
            return self.classes(torch.cat([last[0], last[1]], 1))

    return of_texts(here, batch, Classifier(), made)


def char_lstm(here, batch):
    torch, made = here.torch, models.CharLstm

    class NextCharacter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.characters = torch.nn.Embedding(made.words, made.width)
            self.lstm = torch.nn.LSTM(made.width, made.hidden, num_layers=2, batch_first=True)
            self.next = torch.nn.Linear(made.hidden, made.classes)

        def forward(self, texts):
            steps, _ = self.lstm(self.characters(texts))
            return self.next(steps)

    shape = (batch, made.length)
    texts, following = here.integers(shape, made.words), here.integers(shape, made.classes, 2)
    return here.model(NextCharacter(), texts, following.flatten(), made.macs)


def transformer(here, batch):
    torch, nn, made = here.torch, here.torch.nn, models.Transformer

    class Classifier(nn.Module):
        """Normalised before each part, and without dropout."""

        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(made.words, made.width)
            self.places = nn.Parameter(torch.zeros(made.length, made.width))
            sizes = (made.width, made.heads, made.inner)
            options = {"batch_first": True, "norm_first": True}
            layers = [
                nn.TransformerEncoderLayer(*sizes, 0.0, "gelu", **options)
                for _ in range(made.layers)
            ]
            self.layers = nn.Sequential(*layers)
            self.classes = nn.Linear(made.width, made.classes)

        def forward(self, texts):
            return self.classes(self.layers(self.words(texts) + self.places).mean(1))

    return of_texts(here, batch, Classifier(), made)


if __name__ == "__main__":
    harness.main_table(globals())
