"""Add up the numbers of two processes with TensorFlow, as data-parallel training does."""

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

INDICATOR = {
    "summary": "Sum of the numbers of two processes (collective operations, on the CPU, loopback)",
    "component": "tensorflow",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float32"},
    "parameters": {
        "size": {"type": "int", "default": 1048576, "help": "how many numbers each process has"},
    },
}


def moved(size, itemsize):
    """Return bytes that one process sends and receives: its half of each sum, and the other one."""
    return 2 * size * itemsize


def join(index, ports, parameters):
    """Return TensorFlow as one of two workers, and a function that adds up both their numbers."""
    task = {"type": "worker", "index": index}
    workers = ["127.0.0.1:{}".format(port) for port in ports]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    here = framework.start(INDICATOR, dict(parameters, device="cpu"))
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


def setup(parameters):
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    here, add = join(0, free_ports(), parameters)
    last = [None]

    def run():
        last[0] = add()

    here.attempt(run)
    work = moved(parameters["size"], here.bytes_of(1))
    return here.described(run, None, lambda: here.digest(last[0]), trace=None, work=work)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-the-other"]:
        be_the_other(sys.argv[2])
    else:
        harness.main(INDICATOR, setup)
