"""Average numbers over two processes with PyTorch, as data-parallel training does its gradients."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import atexit
import datetime
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "Average of the numbers of two processes (gloo, on the CPU, over loopback)",
    "component": "torch",
    "unit": "byte",
    "timeout_s": 300,
    "common": {"dtype": "float32"},
    "parameters": {
        "size": {"type": "int", "default": 1048576, "help": "how many numbers each process has"},
    },
}
PATIENCE_S = 60  # for the other process to come
# What the other process does. It ends with this one, whatever happens to this one: its standard
# input ends then.
OTHER = """
import datetime, os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
import torch
store, threads, size, dtype, patience_s = sys.argv[1:]
torch.set_num_threads(int(threads))
torch.distributed.init_process_group(
    "gloo", init_method="file://" + store, rank=1, world_size=2,
    timeout=datetime.timedelta(seconds=int(patience_s)))
numbers = torch.zeros(int(size), dtype=getattr(torch, dtype))
while True:
    numbers.div_(2)
    torch.distributed.all_reduce(numbers)
"""


def moved(size, itemsize):
    """Return bytes that one process sends and receives: its half of each sum, and the other one."""
    return 2 * size * itemsize


def setup(parameters):
    require_loopback()
    here = framework.start(INDICATOR, dict(parameters, device="cpu"))
    torch, size = here.torch, parameters["size"]
    if not (torch.distributed.is_available() and hasattr(torch.distributed, "ProcessGroupGloo")):
        raise harness.Unsupported("this PyTorch was built without gloo")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = os.path.join(framework.temporary_folder(), "store")
    arguments = [store, parameters["threads"], size, parameters["dtype"], PATIENCE_S]
    command = [sys.executable, "-c", OTHER] + [str(each) for each in arguments]
    atexit.register(end, subprocess.Popen(command, stdin=subprocess.PIPE))
    torch.distributed.init_process_group(
        "gloo",
        init_method="file://" + store,
        rank=0,
        world_size=2,
        timeout=datetime.timedelta(seconds=PATIENCE_S),
    )
    numbers = here.numbers((size,))

    def run():
        # An average of averages stays what it is, so every run does and gives the same.
        numbers.div_(2)
        torch.distributed.all_reduce(numbers)

    here.attempt(run)
    work = moved(size, here.bytes_of(1))
    return here.measured(run, lambda: here.digest(numbers), work)


def require_loopback():
    """Refuse where this process cannot reach even itself."""
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            with socket.create_connection(server.getsockname(), timeout=5):
                pass
    except OSError as error:
        reason = "two processes need the loopback network to meet: {}".format(error)
        raise harness.Unsupported(reason)


def end(process):
    """End a process and wait until it has ended."""
    process.kill()
    process.wait()


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
