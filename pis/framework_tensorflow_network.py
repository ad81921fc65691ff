"""Layers of which the TensorFlow models are built, from operations that all its versions have.

A model is a function that calls them in order: its first call makes the weights, the later ones use
them again. Weights are even from minus to plus sqrt(6 / inputs) (He et al. 2015).
"""

import harness

RATE, MOMENTUM, EPSILON = 0.01, 0.99, 1e-3


def model(here, forward, given, classes, macs=None, facts=None):
    """Return the operation of a model: inference, or a step of training it.

    forward: a function of a Network and a batch that returns scores.
    given, classes: a batch, and the number of the right class for each row of scores.
    macs: multiplications with additions for one sample; else those that the layers count, which
        are those of their products. One of them is two FLOP.
    """
    network, items = Network(here), int(given.shape[0])

    def scores(given):
        network.begin()
        return forward(network, given)

    here.attempt(lambda: scores(given))
    macs = macs or network.macs
    found = dict(facts or {}, parameters=network.parameters(), macs=macs)
    more = {"items": items, "facts": found, "work": 2 * macs * items}
    if not here.learns:
        return here.attempt(lambda: here.measured(scores, [given], **more))
    more["work"] *= harness.BOTH
    step, inputs = network.training(scores), [given, classes]
    return here.attempt(lambda: here.measured(step, inputs, first_counts=True, **more))


class Network:
    """Layers that are called in the same order each time.

    macs: multiplications with additions of the products, for one sample.
    """

    def __init__(self, here):
        self.here, self.tf = here, here.tf
        self.made, self.trainable, self.macs = [], [], 0
        self.begin()

    def begin(self):
        """Start with the first layer."""
        self.place, self.updates = 0, []

    def next(self, make):
        """Return what the next layer needs, made in the first call."""
        if self.place == len(self.made):
            self.made.append(make())
        self.place += 1
        return self.made[self.place - 1]

    def parameters(self):
        """Return how many numbers can be trained."""
        return sum(size_of(each.shape) for each in self.trainable)

    def weights(self, shape, scale, shift=0.0, dtype=None, trainable=True):
        """Return a variable of fixed numbers."""
        values = self.here.array(shape, len(self.made) + 7 * len(self.trainable) + 1, scale, shift)
        made = self.here.variable(values, dtype or self.here.dtype, trainable)
        if trainable:
            self.trainable.append(made)
        return made

    def dense(self, given, units, gain=1.0):
        """Return what each of so many units says of the numbers on the last axis.

        gain: by what the weights are larger than usual.
        """
        shape = [int(size) for size in given.shape]

        def make():
            self.macs += size_of(shape[1:]) * units
            scale = 2 * gain * (6.0 / shape[-1]) ** 0.5
            return self.weights([shape[-1], units], scale), self.weights([units], 0.2)

        weights, bias = [self.here.cast(self.read(each)) for each in self.next(make)]
        rows = self.tf.reshape(self.here.cast(given), [-1, shape[-1]])
        found = self.tf.nn.bias_add(self.tf.matmul(rows, weights), bias)
        return self.tf.reshape(found, shape[:-1] + [units])

    def convolve(self, images, filters, kernel=1, stride=1, bias=True):
        """Return images convolved with so many filters; with depthwise ones where it is None."""
        here, channels = self.here, self.channels(images)
        depthwise = filters is None

        def make():
            inputs = kernel**2 * (1 if depthwise else channels)
            shape = [kernel, kernel, channels, 1 if depthwise else filters]
            weights = self.weights(shape, 2 * (6.0 / inputs) ** 0.5)
            size = (self.size(images) - 1) // stride + 1
            self.macs += inputs * size**2 * (channels if depthwise else filters)
            return [weights] + ([self.weights([filters], 0.2)] if bias else [])

        held = [here.cast(self.read(each)) for each in self.next(make)]
        call = self.tf.nn.depthwise_conv2d if depthwise else self.tf.nn.conv2d
        strides, order = here.windows(stride, stride), here.data_format()
        found = call(here.cast(images), held[0], strides, "SAME", data_format=order)
        return self.tf.nn.bias_add(found, held[1], data_format=order) if bias else found

    def normalise(self, images, gain=1.0):
        """Return images with their channels normalised: by the batch in training, else as learnt.

        gain: the scale that the norm begins with.
        """
        tf, size, exact = self.tf, self.channels(images), self.tf.float32

        def make():
            scale = self.weights([size], 0.0, gain, exact)
            shift = self.weights([size], 0.2, 0.0, exact)
            mean, variance = (self.weights([size], 0.0, one, exact, False) for one in (0.0, 1.0))
            return scale, shift, mean, variance

        scale, shift, mean, variance = self.next(make)
        options = {"epsilon": EPSILON, "data_format": self.here.data_format()}
        fused, read = self.here.v1.nn.fused_batch_norm, self.read
        if not self.here.learns:
            held = [read(each) for each in (scale, shift, mean, variance)]
            return fused(images, *held, is_training=False, **options)[0]
        found, *seen = fused(images, read(scale), read(shift), is_training=True, **options)
        for known, new in zip((mean, variance), seen):
            change = (read(known) - tf.stop_gradient(new)) * (1 - MOMENTUM)
            self.updates.append(known.assign_sub(change))
        return found

    def row_norm(self, rows):
        """Return numbers normalised over their last axis (layer normalisation)."""
        size = int(rows.shape[-1])

        def make():
            return self.weights([size], 0.0, 1.0), self.weights([size], 0.2)

        scale, shift = [self.tf.cast(self.read(each), rows.dtype) for each in self.next(make)]
        mean, variance = self.here.v1.nn.moments(rows, [-1], keep_dims=True)
        return self.tf.nn.batch_normalization(rows, mean, variance, shift, scale, EPSILON)

    def shrink(self, images):
        """Return the greatest of each window of two by two."""
        windows, order = self.here.windows(2, 2), self.here.data_format()
        return self.tf.nn.max_pool(images, windows, windows, "VALID", data_format=order)

    def average(self, images, keep=False):
        """Return the mean of each channel."""
        axes = [2, 3] if self.here.channels_first else [1, 2]
        return self.tf.reduce_mean(images, axes, keepdims=keep)

    def flatten(self, images):
        """Return each image's numbers in one row."""
        shape = [int(size) for size in images.shape]
        return self.tf.reshape(images, [shape[0], size_of(shape[1:])])

    def look_up(self, places, rows, width):
        """Return rows of a table that is learnt, by their numbers."""
        table = self.next(lambda: self.weights([rows, width], 2 * (6.0 / width) ** 0.5))
        return self.tf.nn.embedding_lookup(table, places)

    def add_places(self, rows):
        """Return rows plus what is learnt of their places."""
        shape = [int(size) for size in rows.shape[1:]]
        table = self.next(lambda: self.weights(shape, 2 * (6.0 / shape[-1]) ** 0.5))
        return rows + self.tf.cast(self.read(table), rows.dtype)

    def recurrent(self, kind, given, hidden, gates, **options):
        """Return what Keras's layer of a kind makes of sequences."""
        steps, inputs = int(given.shape[1]), int(given.shape[2])

        def make():
            layer = self.here.recurrent(kind, inputs, hidden, len(self.made) + 1, **options)
            self.trainable += [self.here.plain(each) for each in layer.trainable_variables]
            self.macs += gates * steps * hidden * (inputs + hidden)
            return layer

        return self.next(make)(given)

    def read(self, variable):
        """Return what a variable holds."""
        return self.tf.convert_to_tensor(variable)

    def channels(self, images):
        """Return how many numbers an image has at each place."""
        return int(images.shape[1 if self.here.channels_first else 3])

    def size(self, images):
        """Return the height of images, which is their width as well."""
        return int(images.shape[2 if self.here.channels_first else 1])

    def training(self, scores):
        """Return a step of plain gradient descent, which returns the loss before it."""
        tf, here = self.tf, self.here
        descent = here.v1.train.GradientDescentOptimizer(RATE)

        def loss_of(given, classes):
            found = scores(given)
            found = tf.reshape(found, [-1, int(found.shape[-1])])
            found = found if found.dtype == tf.float64 else tf.cast(found, tf.float32)
            classes = tf.reshape(classes, [-1])
            lost = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=found)
            return tf.reduce_mean(lost)

        def step(given, classes):
            if here.session is None:
                with tf.GradientTape() as tape:
                    loss = loss_of(given, classes)
                gradients = tape.gradient(loss, self.trainable)
                descent.apply_gradients(list(zip(gradients, self.trainable)))
                return loss
            loss = loss_of(given, classes)
            gradients = tf.gradients(loss, self.trainable)
            applied = descent.apply_gradients(list(zip(gradients, self.trainable)))
            with tf.control_dependencies([applied] + self.updates):
                return tf.identity(loss)

        return step


def size_of(shape):
    """Return how many elements a shape has."""
    count = 1
    for size in shape:
        count *= int(size)
    return count
