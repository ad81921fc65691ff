"""Indicators of how TensorFlow moves data: from files, to a GPU, between processes."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import atexit
import json
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

FAMILY = {"component": "tensorflow"}
INDICATORS = {
    "copy": {
        "summary": "Copy of numbers to a GPU or from it",
        "unit": "byte",
        "common": {"dtype": "float32", "device": "auto"},
        "parameters": {
            "size": {"type": "int", "default": 16, "help": "MiB to copy"},
            "direction": {
                "type": "str",
                "default": "to_device",
                "allowed": ["to_device", "to_host"],
                "help": "to_device: to the GPU; to_host: from it",
            },
        },
        "work": "size * 2**20",
    },
    "input": {
        "summary": "One batch of images from tf.data, read from files and decoded",
        "common": {"batch": 32},
        "parameters": {
            "cached": {
                "type": "str",
                "default": "no",
                "allowed": ["no", "yes"],
                "help": "yes: decoded records are kept in memory",
            },
            "prefetch": {
                "type": "str",
                "default": "0",
                "allowed": ["0", "1", "2", "4", "8"],
                "help": "batches that are ready before they are asked for",
            },
            "workers": {
                "type": "str",
                "default": "0",
                "allowed": ["0", "1", "2", "4", "8"],
                "help": "threads that read and decode side by side; 0: the one that asks",
            },
        },
        "setup": "reading",
    },
    "all_reduce": {
        "summary": "Sum of the numbers of two processes (collectives, on the CPU, loopback)",
        "unit": "byte",
        "common": {"dtype": "float32"},
        "parameters": {
            "size": {
                "type": "int",
                "default": 1048576,
                "help": "how many numbers each process has",
            },
        },
        # What one process sends and receives: its half of each sum, and the other one.
        "work": "2 * size * itemsize",
    },
}
FILES, RECORDS, PIXELS = 4, 1024, 32 * 32 * 3  # 12.6 MB in all
RECORD = PIXELS + 1  # the first byte is the label


def copy(here, size, direction):
    if not here.gpu:
        raise harness.Unsupported("TensorFlow sees no GPU here to copy to or from")
    tf, last = here.tf, [None]
    places = ["/CPU:0", "/GPU:0"]
    origin, goal = places if direction == "to_device" else places[::-1]
    with tf.device(origin):
        numbers = here.numbers([size * 2**20 // here.bytes_of(1)])

    def run():
        with tf.device(goal):
            last[0] = tf.identity(numbers)

    run()
    if goal[1:4] not in last[0].device or origin[1:4] not in numbers.device:
        raise ValueError("nothing was copied: {} to {}".format(numbers.device, last[0].device))
    return here.described(
        run,
        lambda: here.finish(last[0]),
        lambda: here.digest(last[0]),
        trace=None,
    )


def write(folder):
    """Write all files, and return their paths."""
    paths = [os.path.join(folder, "records-{}".format(number)) for number in range(FILES)]
    for number, path in enumerate(paths, 1):
        numbers = framework.fractions(0, RECORDS * RECORD, number) + 0.5
        with open(path, "wb") as file:
            file.write((numbers * 256).astype("uint8").tobytes())
    return paths


def batches(tf, paths, batch, cached, prefetch, workers):
    """Return batches without end, file after file taking turns, always in the same order."""

    def decode(record):
        values = tf.io.decode_raw(record, tf.uint8)
        pixels = tf.reshape(tf.cast(values[1:], tf.float32) / 255, [32, 32, 3])
        return pixels, tf.cast(values[0], tf.int32)

    def records(path):
        return tf.data.FixedLengthRecordDataset(path, RECORD)

    beside = {"num_parallel_calls": workers} if workers else {}
    found = tf.data.Dataset.from_tensor_slices(paths)
    found = found.interleave(records, cycle_length=FILES, block_length=1, **beside)
    found = found.map(decode, **beside)
    found = (found.cache() if cached else found).repeat().batch(batch, drop_remainder=True)
    return own_threads(tf, found.prefetch(prefetch) if prefetch else found, max(1, workers))


def own_threads(tf, found, count):
    """Return batches with so many threads: TensorFlow's own are one, for operations."""
    options = tf.data.Options()
    threading = getattr(options, "threading", None) or getattr(
        options, "experimental_threading", None
    )
    if threading is None:
        if count > 1:
            raise harness.Unsupported("this TensorFlow's tf.data has no threads of its own")
        return found
    threading.private_threadpool_size = count
    return found.with_options(options)


def reading(indicator, parameters, batch, cached, prefetch, workers):
    here = framework.start(indicator, dict(parameters, device="cpu"))
    cached, prefetch, workers = cached == "yes", int(prefetch), int(workers)
    paths = write(framework.temporary_folder())
    following = iter(batches(here.tf, paths, batch, cached, prefetch, workers))
    seen = []

    def run():
        seen[1:] = [next(following)]  # the first batch is kept, and the last one

    run()
    if cached:
        for _ in range(FILES * RECORDS // batch + 1):  # all of them, so that all are kept
            run()
    return here.described(run, None, lambda: here.digest(seen[0]), trace=None, items=batch)


def join(index, ports, parameters):
    """Return TensorFlow as one of two workers, and a function that adds up both their numbers."""
    task = {"type": "worker", "index": index}
    workers = ["127.0.0.1:{}".format(port) for port in ports]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    here = framework.start(INDICATORS["all_reduce"], dict(parameters, device="cpu"))
    if not hasattr(here.tf.distribute, "MultiWorkerMirroredStrategy"):
        reason = "TensorFlow {} has no MultiWorkerMirroredStrategy, it came with 2.4"
        raise harness.Unsupported(reason.format(here.tf.__version__))
    if index == 0:
        start_other(ports, parameters)
    strategy = here.tf.distribute.MultiWorkerMirroredStrategy()
    numbers = here.numbers([parameters["size"]])

    def add(numbers):
        context = here.tf.distribute.get_replica_context()
        numbers = here.tf.identity(numbers)  # here, where it gets this process's device
        return context.all_reduce(here.tf.distribute.ReduceOp.SUM, numbers)

    together = here.tf.function(lambda numbers: strategy.run(add, (numbers,)), autograph=False)
    return here, lambda: together(numbers)


def start_other(ports, parameters):
    """Start the other process; it ends with this one, whatever happens to this one."""
    arguments = json.dumps([ports, parameters])
    command = [sys.executable, os.path.abspath(__file__), "--as-the-other", arguments]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    atexit.register(end, other)


def be_the_other(arguments):
    """Add up for ever; standard input ends when the first process does."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    ports, parameters = json.loads(arguments)
    add = join(1, ports, parameters)[1]
    while True:
        add()


def end(process):
    """End a process and wait until it has ended."""
    process.kill()
    process.wait()


def free_ports():
    """Return two ports of the loopback network that nobody uses."""
    try:
        with socket.socket() as first, socket.socket() as second:
            for each in (first, second):
                each.bind(("127.0.0.1", 0))
                each.listen(1)
                with socket.create_connection(each.getsockname(), timeout=5):
                    pass
            return [first.getsockname()[1], second.getsockname()[1]]
    except OSError as error:
        reason = "two processes need the loopback network to meet: {}".format(error)
        raise harness.Unsupported(reason)


def all_reduce(parameters):
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    here, add = join(0, free_ports(), parameters)
    last = [None]

    def run():
        last[0] = add()

    here.attempt(run)
    return here.described(run, None, lambda: here.digest(last[0]), trace=None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-the-other"]:
        be_the_other(sys.argv[2])
    else:
        harness.main_table(globals())
