"""Indicators of models in TensorFlow: inference, or a step of training."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_models as models
import framework_tensorflow_network as networks
import harness

FAMILY = {
    "component": "tensorflow",
    "unit": "FLOP",
    "latency": True,
    "common": {
        "dtype": "float32",
        "device": "auto",
        "mode": "graph",
        "autocast": "off",
        "batch": 8,
        "step": "inference",
    },
}
INDICATORS = {
    "mlp": {"summary": "Network of dense layers (784-512-512-10)"},
    "cnn": {
        "summary": "Small convolutional network (28 x 28 pixels)",
        "common": {"layout": "channels_last"},
    },
    "deep_cnn": {
        "summary": "Deep convolutional network (32 x 32 pixels)",
        "common": {"layout": "channels_last"},
    },
    "efficientnet_b0": {
        "summary": "EfficientNet-B0 (224 x 224 pixels)",
        "timeout_s": 600,
        "common": {"layout": "channels_last"},
    },
    "text_classifier": {"summary": "Classifier of texts by the mean of their words (fastText)"},
    "bilstm": {"summary": "Classifier of texts by an LSTM in both directions"},
    "char_lstm": {"summary": "Language model of characters (two LSTM layers)"},
    "transformer": {"summary": "Transformer encoder that classifies texts"},
}
GAIN = (2 * models.Transformer.layers) ** -0.5  # of what is added: else, the sums of layers grow


def mlp(here, batch):
    """669,706 parameters."""

    def scores(network, pixels):
        relu = network.tf.nn.relu
        inner = relu(network.dense(pixels, 512))
        return network.dense(relu(network.dense(inner, 512)), 10)

    pixels, classes = here.numbers([batch, 784], 99), here.integers([batch], 10)
    return networks.model(here, scores, pixels, classes)


def cnn(here, batch):
    """421,642 parameters."""

    def scores(network, images):
        relu = network.tf.nn.relu
        for filters in (32, 64):
            images = network.shrink(relu(network.convolve(images, filters, 3)))
        return network.dense(relu(network.dense(network.flatten(images), 128)), 10)

    images, classes = here.images(batch, [28, 28], 1, 99), here.integers([batch], 10)
    return networks.model(here, scores, images, classes)


def deep_cnn(here, batch):
    def scores(network, images):
        relu = network.tf.nn.relu
        for filters in (32, 64, 128):
            for _ in range(2):
                images = relu(network.normalise(network.convolve(images, filters, 3)))
            images = network.shrink(images)
        return network.dense(relu(network.dense(network.flatten(images), 128)), 10)

    images, classes = here.images(batch, [32, 32], 3, 99), here.integers([batch], 10)
    return networks.model(here, scores, images, classes)


def efficientnet_b0(here, batch):
    """5,288,548 parameters."""
    made = models.EfficientNet

    def scores(network, images):
        swish = network.tf.nn.swish
        images = swish(normed(network, images, 32, 3, 2))
        for wider, kernel, stride, outputs, times in made.blocks:
            for number in range(times):
                images = block(network, images, wider, kernel, 1 if number else stride, outputs)
        images = swish(normed(network, images, 1280))
        return network.dense(network.average(images), made.classes)

    images = here.images(batch, [made.size, made.size], 3, 99)
    classes = here.integers([batch], made.classes)
    products, macs = models.efficientnet_counts()
    return networks.model(here, scores, images, classes, macs, {"product_macs": products})


def block(network, images, wider, kernel, stride, outputs):
    """Mobile inverted bottleneck: wider, each channel by itself, gated, narrow again."""
    tf, inputs, inner = network.tf, network.channels(images), images
    if wider > 1:
        inner = tf.nn.swish(normed(network, inner, wider * inputs))
    inner = tf.nn.swish(normed(network, inner, None, kernel, stride))
    gate = network.average(inner, keep=True)
    gate = network.convolve(tf.nn.swish(network.convolve(gate, inputs // 4)), wider * inputs)
    inner = normed(network, inner * tf.sigmoid(gate), outputs)
    return inner + images if stride == 1 and inputs == outputs else inner


def normed(network, images, filters, kernel=1, stride=1):
    """Return images convolved, then normalised."""
    found = network.convolve(images, filters, kernel, stride, bias=False)
    return network.normalise(found, models.EfficientNet.gain)


def text_classifier(here, batch):
    def scores(network, texts):
        made = models.FastText
        mean = network.tf.reduce_mean(network.look_up(texts, made.words, made.width), 1)
        return network.dense(mean, made.classes)

    return of_texts(here, batch, scores, models.FastText)


def of_texts(here, batch, scores, made, macs=None):
    """Return the operation of a classifier of texts."""
    texts = here.integers([batch, made.length], made.words)
    return networks.model(here, scores, texts, here.integers([batch], made.classes), macs)


def bilstm(here, batch):
    made = models.BiLstm

    def scores(network, texts):
        words = network.look_up(texts, made.words, made.width)
        options = {"return_sequences": False}
        last = [
            network.recurrent("LSTM", words, made.hidden, 4, go_backwards=backwards, **options)
            for backwards in (False, True)
        ]
        return network.dense(network.tf.concat(last, 1), made.classes)

    return of_texts(here, batch, scores, made)


def char_lstm(here, batch):
    made = models.CharLstm

    def scores(network, texts):
        steps = network.look_up(texts, made.words, made.width)
        for _ in range(2):
            steps = network.recurrent("LSTM", steps, made.hidden, 4)
        return network.dense(steps, made.classes)

    shape = [batch, made.length]
    texts, following = here.integers(shape, made.words), here.integers(shape, made.classes, 2)
    return networks.model(here, scores, texts, following)


def transformer(here, batch):
    made = models.Transformer

    def scores(network, texts):
        rows = network.add_places(network.look_up(texts, made.words, made.width))
        for _ in range(made.layers):
            rows += network.tf.cast(attend(network, network.row_norm(rows)), rows.dtype)
            inner = bend(network, network.dense(network.row_norm(rows), made.inner))
            rows += network.tf.cast(network.dense(inner, made.width, GAIN), rows.dtype)
        return network.dense(network.tf.reduce_mean(rows, 1), made.classes, 0.1)

    return of_texts(here, batch, scores, made, made.macs)


def attend(network, rows):
    """Return what each place takes from all places of its text."""
    tf, made, batch = network.tf, models.Transformer, int(rows.shape[0])
    width = made.width // made.heads
    shape = [batch, made.length, 3, made.heads, width]
    parts = tf.reshape(network.dense(rows, 3 * made.width), shape)
    queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    likeness = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True) * width**-0.5)
    taken = tf.transpose(tf.matmul(likeness, values), [0, 2, 1, 3])
    return network.dense(tf.reshape(taken, [batch, made.length, made.width]), made.width, GAIN)


def bend(network, rows):
    """Return gelu of numbers, made of others where TensorFlow has none (before 2.4)."""
    if hasattr(network.tf.nn, "gelu"):
        return network.tf.nn.gelu(rows)
    return rows * 0.5 * (1 + network.tf.math.erf(rows * 0.5**0.5))


if __name__ == "__main__":
    harness.main_table(globals())
