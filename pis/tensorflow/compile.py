"""Make a small function ready with TensorFlow: as a graph or compiled (XLA), and run it once."""

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
    "summary": "Time to make a small function ready: traced or compiled, and run once",
    "component": "tensorflow",
    "unit": "",
    "one_shot": True,
    "timeout_s": 600,
    "common": {"dtype": "float32", "device": "auto", "mode": "graph"},
    "parameters": {},
}


def setup(parameters):
    if parameters["mode"] == "eager":
        raise harness.Unsupported("mode=eager makes nothing ready: give graph or compiled")
    here = framework.start(INDICATOR, parameters)
    tf, last = here.tf, [None]
    given = [here.numbers([32, 64], 1), here.numbers([64, 64], 2), here.numbers([64], 3)]

    def function(rows, first, second):
        inner = tf.tanh(tf.matmul(rows, first) + second)
        return tf.nn.softmax(tf.matmul(inner, first)) * 2

    def run():
        if here.session is not None:
            last[0] = here.session.run(function(*given))
        else:
            last[0] = here.prepared(lambda *given: function(*given))(*given)

    def finish():
        if here.session is None:
            here.finish(last[0])

    def plain():
        last[0] = function(*given)
        if here.session is not None:
            here.session.run(last[0])

    here.attempt(plain)  # what the operations' own first calls cost is not compilation
    return here.described(
        lambda: here.attempt(run), finish, lambda: here.digest(last[0]), trace=None
    )


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
