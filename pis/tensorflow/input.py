"""Feed records from files to a model with tf.data: read, decode, batch."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["tensorflow"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_tensorflow as framework
import harness

INDICATOR = {
    "summary": "One batch of images from tf.data, read from files and decoded",
    "component": "tensorflow",
    "unit": "",
    "timeout_s": 300,
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
}
FILES, RECORDS, PIXELS = 4, 1024, 32 * 32 * 3  # 12.6 MB in all
RECORD = PIXELS + 1  # the first byte is the label


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


def setup(parameters):
    here = framework.start(INDICATOR, dict(parameters, device="cpu"))
    batch, cached = parameters["batch"], parameters["cached"] == "yes"
    prefetch, workers = int(parameters["prefetch"]), int(parameters["workers"])
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


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
