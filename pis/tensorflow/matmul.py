"""Multiply two square matrices with TensorFlow, on the CPU or on a GPU; 1.13 and newer."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

INDICATOR = {
    "summary": "Product of two square matrices",
    "component": "tensorflow",
    "unit": "FLOP",
    "one_shot": False,
    "timeout_s": 300,
    "parameters": {
        "size": {"type": "int", "default": 512, "help": "rows and columns of each matrix"},
        "dtype": {
            "type": "str",
            "default": "float32",
            "allowed": ["float32", "float64", "float16", "bfloat16"],
        },
        "device": {"type": "str", "default": "auto", "allowed": ["auto", "cpu", "gpu"]},
    },
}


def setup(parameters):
    tf = harness.load("tensorflow")
    build = eager if tf.executing_eagerly() else graph
    try:
        run, wait, checksum = build(tf, parameters)
        run()
    except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, TypeError) as error:
        # How TensorFlow says that it has no kernel for this type on this device.
        raise harness.Unsupported(str(error))
    return harness.Operation(run, wait=wait, work=2 * parameters["size"] ** 3, checksum=checksum)


def device(parameters, gpu):
    """Return the name of the device to use."""
    if parameters["device"] == "gpu" and not gpu:
        raise harness.Unsupported("TensorFlow sees no GPU here")
    return "/GPU:0" if gpu and parameters["device"] != "cpu" else "/CPU:0"


def matrix(tf, size, modulus, dtype):
    """Return a matrix of fixed numbers from -0.5 to 0.5."""
    numbers = tf.cast(tf.reshape(tf.range(size * size) % modulus, [size, size]), tf.float64)
    return tf.cast(numbers / modulus - 0.5, dtype)


def eager(tf, parameters):
    """TensorFlow 2: operations run as they are called."""
    tf.config.threading.set_intra_op_parallelism_threads(parameters["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    config = tf.config if hasattr(tf.config, "list_physical_devices") else tf.config.experimental
    place = device(parameters, bool(config.list_physical_devices("GPU")))
    size, dtype = parameters["size"], parameters["dtype"]
    with tf.device(place):
        # identity: what was computed elsewhere is copied to the device here.
        a = tf.identity(matrix(tf, size, 31, dtype))
        b = tf.identity(matrix(tf, size, 29, dtype))
    last = [None]

    def run():
        last[0] = tf.matmul(a, b)

    def wait():
        # Reading one number waits for the product that it is part of, and for all before it.
        return last[0][0, 0].numpy()

    def checksum():
        return float(tf.reduce_mean(tf.abs(tf.cast(last[0], tf.float64))))

    return run, wait, checksum


def graph(tf, parameters):
    """TensorFlow 1: a graph that is built once and run in a session."""
    v1 = tf.compat.v1
    size, dtype = parameters["size"], parameters["dtype"]
    config = v1.ConfigProto(
        intra_op_parallelism_threads=parameters["threads"], inter_op_parallelism_threads=1
    )
    # The session comes first: asking for devices in any other way makes a pool of all CPUs.
    session = v1.Session(config=config)
    gpu = any(found.device_type == "GPU" for found in session.list_devices())
    with v1.device(device(parameters, gpu)):
        # Variables: the product of two constants would be computed once, before the clock starts.
        a = v1.Variable(matrix(tf, size, 31, dtype))
        b = v1.Variable(matrix(tf, size, 29, dtype))
        product = tf.matmul(a, b)
        corner = product[0, 0]
        total = tf.reduce_mean(tf.abs(tf.cast(product, tf.float64)))
    session.run(v1.global_variables_initializer())
    run = session.make_callable(corner)  # fetched, so it returns when the product is there
    return run, None, lambda: float(session.run(total))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
