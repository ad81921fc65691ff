"""Sizes of the models that several frameworks' indicators build alike, and what those count."""


class BiLstm:
    """Classifier of texts: an LSTM in both directions."""

    words, width, hidden, length, classes = 20000, 128, 64, 128, 2
    macs = 2 * 4 * length * hidden * (width + hidden) + 2 * hidden * classes


class CharLstm:
    """Next character of texts: two LSTM layers, an answer at every step."""

    words, width, hidden, length, classes = 64, 64, 256, 64, 64
    macs = length * (4 * hidden * (width + hidden) + 4 * hidden * 2 * hidden + hidden * classes)


class FastText:
    """Classifier of texts: the mean of their words' rows. The mean's additions are no products."""

    words, width, length, classes = 20000, 100, 256, 2
    macs = width * classes


class Transformer:
    """Classifier of texts: layers of an encoder, each normalised before its parts."""

    words, width, heads, inner, layers, length, classes = 8000, 256, 4, 1024, 4, 128, 2
    # A layer: queries, keys, values and their result; two products of attention; inner layers.
    layer_macs = length * 4 * width**2 + 2 * length**2 * width + length * 2 * width * inner
    macs = layers * layer_macs + width * classes


class EfficientNet:
    """EfficientNet-B0 (Tan and Le 2019), without dropout and the like, which are random.

    gain: the scale of all norms; else, swish and gates leave nothing of the image at the end.
    blocks: how much wider inside, kernel, stride, channels, how often: table 1 of the paper.
    """

    size, classes, gain = 224, 1000, 1.2
    blocks = (
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )


def efficientnet_counts():
    """Return what one image takes: multiplications with additions of all products, and "MACs".

    The MACs are 401,669,732 as they are usually given: with one for each bias that is added, two
    for each number that is normalised, and one for each that is averaged.
    """
    size, channels = EfficientNet.size // 2, 32
    products, normed, averaged = size**2 * channels * 27, size**2 * channels, 0
    biases = EfficientNet.classes
    for wider, kernel, stride, outputs, times in EfficientNet.blocks:
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
    products += size**2 * channels * 1280 + 1280 * EfficientNet.classes
    normed, averaged = normed + size**2 * 1280, averaged + size**2 * 1280
    return products, products + biases + 2 * normed + averaged
