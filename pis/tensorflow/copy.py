"""Copy numbers to a GPU, or from it, with TensorFlow."""

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
    "summary": "Copy of numbers to a GPU or from it",
    "component": "tensorflow",
    "unit": "byte",
    "timeout_s": 300,
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
}
MIB = 2**20


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    if not here.gpu:
        raise harness.Unsupported("TensorFlow sees no GPU here to copy to or from")
    tf, last = here.tf, [None]
    places = ["/CPU:0", "/GPU:0"]
    origin, goal = places if parameters["direction"] == "to_device" else places[::-1]
    with tf.device(origin):
        numbers = here.numbers([parameters["size"] * MIB // here.bytes_of(1)])

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
        work=parameters["size"] * MIB,
    )


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
