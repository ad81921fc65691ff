"""What the TensorFlow indicators share: device, modes, numbers, gradients, checksums, traces.

Three ways lead to the same result: operation by operation (eager), as a graph (``tf.function``; in
TensorFlow 1 a session that reads its inputs from variables, so that nothing is folded away), and
compiled (XLA). Both passes are the forward one and the gradients of all inputs and weights that are
not whole numbers; that, as a training step, is counted as three times the work of the forward pass.
TensorFlow casts nothing by itself: as in Keras's mixed precision, ``autocast`` casts the inputs of
what multiplies (matrices, convolutions, layers), the weights stay as they are. Nothing is random:
see ``numbers``.
"""

import atexit
import ctypes
import os
import shutil
import tempfile

import harness

SLICE = 1 << 18  # elements that are made or summed up at once: little beside what is measured
PLACES = 64  # of a result, that count more: a mean of many hardly depends on their order
# What TensorFlow says where it has no kernel for this type or order of numbers, or not here.
LACKING = (
    "No OpKernel was registered",
    "Could not find device for node",
    "Could not find valid device",
    "no supported kernel",
    "not in list of allowed values",
    "not in the list of allowed values",
    "NHWC",
    "NDHWC",
    "channels_last",
    "unsupported operations when trying to compile",
    "No unary functor registered",
    "not supported",
    "not implemented",
    "does not support",
    "meaningless when eager execution is enabled",  # tf.nn.swish of 1.13
)
PROCESSORS, KILOHERTZ, CAPABILITY = 16, 13, 75  # cuDeviceGetAttribute's numbers


def start(indicator, parameters):
    """Return TensorFlow as the parameters ask for it.

    Raises:
        harness.Unsupported: this version or this machine lacks what they ask for.
    """
    return Framework(indicator, parameters)


class Framework:
    """TensorFlow with its threads, device, type of numbers and mode.

    tf, v1: the module, and its part that all versions have. dtype: what tensors are made with.
    version: (2, 16). gpu: whether it runs on one. learns: whether gradients are wanted.
    session: of TensorFlow 1 as a graph, else None.
    """

    def __init__(self, indicator, parameters):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
        self.tf = harness.load("tensorflow")
        self.v1 = self.tf.compat.v1
        self.version = tuple(int(part) for part in self.tf.__version__.split(".")[:2])
        self.unit, self.parameters = indicator.get("unit", ""), parameters
        self.mode = parameters.get("mode", "eager")
        self.dtype = self.tf.as_dtype(parameters.get("dtype", "float32"))
        self.learns = parameters.get("passes") == "both" or parameters.get("step") == "training"
        self.session, self.entered = None, []
        if self.version < (2, 0):
            self.start_first(parameters["threads"])
        else:
            self.start_second(parameters["threads"])
        if parameters.get("device") == "gpu" and not self.gpu:
            raise harness.Unsupported("TensorFlow sees no GPU here")
        if self.gpu:
            self.enter(self.tf.device("/GPU:0"))

    def enter(self, context):
        """Enter a context for good: to do so in every run would be a part of what is measured."""
        context.__enter__()
        self.entered.append(context)  # it would leave with its last reference

    def start_first(self, threads):
        """TensorFlow 1: eager by its own switch, or a graph in a session."""
        config = self.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1
        )
        if self.mode == "compiled":
            raise harness.Unsupported("XLA compiles functions from TensorFlow 2 on")
        if self.mode == "eager":
            try:
                self.v1.enable_eager_execution(config=config)
            except ValueError:  # once in a process; to ask before would be too early
                if not self.tf.executing_eagerly():
                    raise
            context = harness.load("tensorflow.python.eager.context")
            self.gpu = context.num_gpus() > 0 and self.parameters.get("device") != "cpu"
            return
        graph = self.tf.Graph()
        self.enter(graph.as_default())
        # The session comes first: asking for devices in any other way makes a pool of all CPUs.
        self.session = self.v1.Session(graph=graph, config=config)
        self.v1.keras.backend.set_session(self.session)
        devices = [found.device_type for found in self.session.list_devices()]
        self.gpu = "GPU" in devices and self.parameters.get("device") != "cpu"

    def start_second(self, threads):
        """TensorFlow 2: threads are set before its first operation."""
        config = self.tf.config
        if config.threading.get_intra_op_parallelism_threads() != threads:
            config.threading.set_intra_op_parallelism_threads(threads)
        if config.threading.get_inter_op_parallelism_threads() != 1:
            config.threading.set_inter_op_parallelism_threads(1)
        seen = config if hasattr(config, "list_physical_devices") else config.experimental
        gpus = seen.list_physical_devices("GPU")
        self.gpu = bool(gpus) and self.parameters.get("device") != "cpu"

    def numbers(self, shape, seed=1, scale=1.0, shift=0.0, dtype=None):
        """Return numbers from -0.5 to 0.5 (then scaled and shifted), equal on every machine."""
        numpy, count = harness.load("numpy"), product(shape)
        dtype = dtype or self.dtype
        values = numpy.empty(count, "float64" if dtype == self.tf.float64 else "float32")
        for first in range(0, count, SLICE):
            last = min(first + SLICE, count)
            values[first:last] = fractions(first, last, seed) * scale + shift
        return self.tensor(values.reshape(shape), dtype)

    def integers(self, shape, below, seed=1):
        """Return whole numbers from 0 on, below ``below``, equal on every machine."""
        values = ((fractions(0, product(shape), seed) + 0.5) * below).astype("int32")
        return self.tensor(values.reshape(shape), self.tf.int32)

    def array(self, shape, seed, scale=1.0, shift=0.0):
        """Return such numbers for weights, as an array.

        The last axis counts slowest: what one result sums up follows upon each other, and numbers
        that follow upon each other are the most like random ones.
        """
        values = fractions(0, product(shape), seed) * scale + shift
        values = values.astype("float64" if self.dtype == self.tf.float64 else "float32")
        return values.reshape(list(shape)[::-1]).transpose().copy()

    def tensor(self, values, dtype):
        """Return an array as a tensor on the device: of a variable's, within a session."""
        if self.session is not None:
            return self.tf.identity(self.variable(values, dtype, trainable=False))
        # identity: what was made elsewhere is copied to the device here.
        return self.tf.identity(self.tf.cast(self.tf.constant(values), dtype))

    def variable(self, values, dtype, trainable=True):
        """Return a variable that has the values of an array."""
        if self.session is None:
            return self.tf.Variable(self.tf.cast(self.tf.constant(values), dtype), trainable)
        # Fed, not a constant: a graph may hold no more than 2 GB.
        fed = self.v1.placeholder(values.dtype, values.shape)
        given = self.tf.cast(fed, dtype)
        made = self.v1.Variable(given, trainable=trainable, use_resource=True)
        self.session.run(made.initializer, {fed: values})
        return made

    def images(self, batch, sizes, channels, seed=1):
        """Return a batch of images in the layout that is asked for."""
        if self.channels_first:
            return self.numbers([batch, channels] + list(sizes), seed)
        return self.numbers([batch] + list(sizes) + [channels], seed)

    @property
    def channels_first(self):
        """Return whether an image's channels come before its rows."""
        return self.parameters.get("layout", "channels_last") == "channels_first"

    def data_format(self, dimensions=2):
        """Return TensorFlow's name of the layout."""
        names = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
        return names[dimensions][self.channels_first]

    def windows(self, *sizes):
        """Return sizes of a window, or its strides, for each axis of a batch of images."""
        return [1, 1] + list(sizes) if self.channels_first else [1] + list(sizes) + [1]

    @property
    def reduced(self):
        """Return the type that ``autocast`` casts to, None where it is off."""
        wanted = self.parameters.get("autocast", "off")
        return None if wanted == "off" else self.tf.as_dtype(wanted)

    def cast(self, tensor):
        """Return what is multiplied in the type that autocast asks for."""
        if self.reduced is None or not tensor.dtype.is_floating:
            return tensor
        return self.tf.cast(tensor, self.reduced)

    def bytes_of(self, elements):
        """Return the bytes that so many elements take."""
        return elements * self.dtype.size

    def operation(self, compute, inputs, weights=(), multiplies=False, **more):
        """Return the operation that computes something of tensors in the mode that is asked for.

        compute: a function of the inputs that returns one tensor.
        weights: variables that it uses beside its inputs.
        multiplies: whether autocast changes its inputs.
        """
        if self.reduced is not None and not multiplies:
            reason = "mixed precision leaves this operation as it is: give it a dtype"
            raise harness.Unsupported(reason)

        def forward(*given):
            return compute(*[self.cast(each) for each in given])

        function = forward
        if self.learns:
            shape = self.attempt(lambda: forward(*inputs)).shape
            inputs = list(inputs) + [self.numbers([int(size) for size in shape], 99)]
            function = self.with_gradients(forward, list(weights))
        return self.attempt(lambda: self.measured(function, inputs, **more))

    def with_gradients(self, forward, weights):
        """Return a function of inputs and a direction: result and gradients, all of them dense.

        The direction is not of ones: to softmax and the norms, these give no gradient.
        """
        tf = self.tf
        weights = [self.plain(each) for each in weights]

        def both(*given):
            given, direction = given[:-1], given[-1]
            wanted = [each for each in given if each.dtype.is_floating]
            if self.session is not None:
                result = forward(*given)
                gradients = tf.gradients(result, wanted + weights, tf.cast(direction, result.dtype))
            else:
                with tf.GradientTape() as tape:
                    for each in wanted:
                        tape.watch(each)
                    result = forward(*given)
                direction = tf.cast(direction, result.dtype)
                gradients = tape.gradient(result, wanted + weights, output_gradients=direction)
            return [result] + [tf.convert_to_tensor(each) for each in gradients]

        return both

    def prepared(self, function):
        """Return a function in the mode that is asked for (outside of sessions)."""
        if self.mode == "eager":
            return function
        if self.mode == "graph":
            return self.tf.function(function, autograph=False)
        name = "jit_compile" if self.version >= (2, 5) else "experimental_compile"
        return self.tf.function(function, autograph=False, **{name: True})

    def measured(self, function, inputs, first_counts=False, **more):
        """Return the harness's operation of a function of tensors, run once already.

        first_counts: the first result is the checksum (a loss), not a digest of the last ones.
        """
        if self.session is not None:
            return self.in_session(function, inputs, first_counts, **more)
        call, last = self.prepared(function), [None]

        def run():
            last[0] = call(*inputs)

        def finish():
            self.finish(flat(last[0])[-1])

        def checksum():
            return float(first) if first_counts else self.digest(last[0])

        run()
        self.require_device(flat(last[0])[0])
        first = last[0] if first_counts else None
        return self.described(run, finish, checksum, self.trace(run, finish), **more)

    def in_session(self, function, inputs, first_counts, **more):
        """Return the same for TensorFlow 1's graphs."""
        results = flat(function(*inputs))
        # One number of each result is fetched: all of it is computed, little of it is copied.
        corners = [self.tf.reshape(each, [-1])[:1] for each in results]
        run = self.session.make_callable(corners)

        def checksum():
            return float(first[0][0]) if first_counts else self.digest(self.session.run(results))

        first = run()
        # A session's run ends when its devices have ended: there is nothing more to wait for.
        return self.described(run, lambda: None, checksum, self.trace_session(corners), **more)

    def described(self, run, finish, checksum, trace, facts=None, **more):
        """Return the harness's operation, with what this device adds to it."""
        # On a CPU, operations and graphs return when they are done; what XLA compiled may not.
        wait = finish or (lambda: None)  # what gives none waits by itself
        wait = wait if self.gpu or self.mode == "compiled" else None
        if self.gpu:
            more.update(peak=self.peak(), device_memory=self.device_memory())
        return harness.Operation(
            run,
            wait=wait,
            checksum=checksum,
            trace=trace,
            facts=dict(self.facts(), **(facts or {})),
            gpu=self.gpu,
            **more,
        )

    def attempt(self, action):
        """Do something for the first time; what TensorFlow lacks is unsupported."""
        errors = (
            self.tf.errors.OpError,
            AttributeError,
            TypeError,
            ValueError,
            NotImplementedError,
        )
        try:
            return action()
        except errors as error:
            found = [line for line in str(error).split("\n") if any(w in line for w in LACKING)]
            if not found:
                raise
            raise harness.Unsupported(found[0].strip()[:500])

    def finish(self, result):
        """Wait for everything that was started."""
        testing = getattr(self.tf.test, "experimental", None)
        if hasattr(testing, "sync_devices"):
            testing.sync_devices()
        # A device works in order: to read one number of the last result waits for all before it.
        return self.tf.reshape(result, [-1])[0].numpy()

    def require_device(self, result):
        """Refuse what TensorFlow did on the CPU, quietly, since the GPU has no kernel for it."""
        if self.gpu and "GPU" not in result.device:
            raise harness.Unsupported("TensorFlow has no kernel for this on a GPU")

    def digest(self, results):
        """Return one number that depends on every element of all results, its sign and place."""
        numpy, total = harness.load("numpy"), 0.0
        for result in flat(results):
            values = numpy.asarray(result.numpy() if hasattr(result, "numpy") else result)
            values, sums = values.reshape(-1), 0.0
            for first in range(0, values.size, SLICE):
                part = values[first : first + SLICE].astype("float64")
                weights = fractions(first, first + part.size, 7) + 1
                sums += float(((0.75 * abs(part) + 0.25 * part) * weights).sum())
            places = ((fractions(0, PLACES, 11) + 0.5) * values.size).astype("int64")
            few = values[places].astype("float64")
            total += sums / values.size + float((0.75 * abs(few) + 0.25 * few).mean())
        return total

    def trace(self, run, finish):
        """Return what writes one run as TensorBoard shows it.

        Of a graph, TensorFlow lists no operations that take a few microseconds.
        """

        def write(folder):
            profiler = getattr(self.tf.profiler, "experimental", None)
            if not hasattr(profiler, "start"):
                raise harness.Unsupported("TensorFlow keeps traces from 2.2 on, 1.x in mode=graph")
            profiler.start(folder)
            run()
            finish()
            profiler.stop()

        return write

    def trace_session(self, fetched):
        """Return what writes one run as Chrome shows it."""

        def write(folder):
            timeline = harness.load("tensorflow.python.client.timeline")
            wanted = self.v1.RunOptions(trace_level=self.v1.RunOptions.FULL_TRACE)
            seen = self.v1.RunMetadata()
            self.session.run(fetched, options=wanted, run_metadata=seen)
            text = timeline.Timeline(seen.step_stats).generate_chrome_trace_format()
            with open(os.path.join(folder, "tensorflow.trace.json"), "w") as file:
                file.write(text)

        return write

    def facts(self):
        """Return what of TensorFlow's settings can change a timing."""
        if not self.gpu:
            return {"device": "cpu"}
        experimental, found = self.tf.config.experimental, {"device": "gpu"}
        if hasattr(self.tf.sysconfig, "get_build_info"):
            built = self.tf.sysconfig.get_build_info()
            found.update({key: str(built.get(key + "_version")) for key in ("cuda", "cudnn")})
        if hasattr(experimental, "tensor_float_32_execution_enabled"):
            found["tf32"] = experimental.tensor_float_32_execution_enabled()
        return found

    def device_memory(self):
        """Return what tells the most bytes that were in use on the GPU; None before 2.5."""
        config = getattr(self.tf, "config", None)
        ask = getattr(getattr(config, "experimental", None), "get_memory_info", None)
        return None if ask is None else lambda: int(ask("GPU:0")["peak"])

    def peak(self):
        """Return the most FLOP or bytes per second that this GPU can do, None where unknown."""
        count, kilohertz, family = map(gpu_attribute, (PROCESSORS, KILOHERTZ, CAPABILITY))
        if None in (count, kilohertz, family):
            return None
        numbers = harness.precision(self.parameters)
        return harness.gpu_peak(self.unit, numbers, count, kilohertz * 1e3, family)

    @staticmethod
    def plain(variable):
        """Return TensorFlow's variable of one of Keras 3's."""
        held = getattr(variable, "value", None)
        return variable if held is None or callable(held) else held

    def recurrent(self, kind, inputs, hidden, seed=1, **options):
        """Return Keras's layer of a kind (SimpleRNN, GRU, LSTM) with weights that never change.

        One layer for all versions: what 1.x took for a sigmoid, and where a GRU resets, is said.
        """
        keras = self.tf.keras
        options.update(dtype=self.dtype.name)
        options.setdefault("return_sequences", True)
        if self.reduced is not None:
            if not hasattr(getattr(keras, "mixed_precision", None), "Policy"):
                raise harness.Unsupported("Keras has mixed precision from TensorFlow 2.4 on")
            options["dtype"] = "mixed_" + self.reduced.name
        if kind == "GRU":
            options["reset_after"] = True
        if kind != "SimpleRNN":
            options["recurrent_activation"] = "sigmoid"
        layer = getattr(keras.layers, kind)(hidden, **options)
        layer.build((None, None, inputs))
        shapes = [tuple(int(size) for size in each.shape) for each in layer.weights]
        made = enumerate(shapes, 10 * seed)
        layer.set_weights([self.array(shape, each, 2 * hidden**-0.5) for each, shape in made])
        return layer


def flat(results):
    """Return the tensors of what a function returned."""
    return list(results) if isinstance(results, (tuple, list)) else [results]


def fractions(first, last, seed):
    """Return the numbers from -0.5 to 0.5 of elements ``first`` to ``last``, as float64."""
    # Of squares: multiples of one number are too even, their sums over a filter are all zero, and
    # those of one seed are nearly those of any other.
    places = harness.load("numpy").arange(first, last, dtype="int64")
    squares = (places + 1000003 * seed) ** 2 % 2**31
    return (squares * 2654435761 % 2**32) / 2.0**32 - 0.5


def product(shape):
    """Return how many elements a shape has."""
    count = 1
    for size in shape:
        count *= int(size)
    return count


def same_outputs(size, stride=1):
    """Return how many results an axis has where its edges are filled up (padding SAME)."""
    return (size - 1) // stride + 1


def gpu_attribute(number):
    """Return what NVIDIA's driver tells of the first GPU, None where it tells nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    value = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
    return None if failed else value.value


def temporary_folder():
    """Return a new folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="stackgen-tensorflow-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
