"""Indicators of how PyTorch moves data: from files, to a GPU, between processes."""

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

FAMILY = {"component": "torch"}
INDICATORS = {
    "copy": {
        "summary": "Copy between the memories of CPU and GPU (ordinary memory, not pinned)",
        "unit": "byte",
        "common": {"dtype": "float32", "device": "auto"},
        "parameters": {
            "size": {"type": "int", "default": 16, "help": "MiB"},
            "direction": {
                "type": "str",
                "default": "to_device",
                "allowed": ["to_device", "to_host"],
                "help": "from the CPU's memory to the GPU's, or back",
            },
        },
        "work": "size * 2**20",
    },
    "input": {
        "summary": "One batch of images from DataLoader, read from files and decoded",
        "common": {"batch": 32},
        "parameters": {
            "cached": {
                "type": "str",
                "default": "no",
                "allowed": ["no", "yes"],
                "help": "yes: decoded records are kept in memory",
            },
            "prefetch": {"type": "int", "default": 0, "help": "batches that each worker has ready"},
            "workers": {"type": "int", "default": 0, "help": "processes that read; 0: this one"},
        },
        "setup": "reading",
    },
    "all_reduce": {
        "summary": "Average of the numbers of two processes (gloo, on the CPU, over loopback)",
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
PEAK = 1.0e12  # bytes/s: 900 GB/s is the fastest link between a CPU and a GPU (NVLink-C2C)
FILES, RECORDS, PIXELS = 4, 1024, 32 * 32 * 3  # 12.6 MB in all
RECORD = PIXELS + 1  # the first byte is the label
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


def copy(here, size, direction):
    if not here.gpu:
        raise harness.Unsupported("PyTorch sees no GPU here, so there is nowhere to copy to")
    there = here.numbers((size * 2**20 // here.bytes_of(1),))
    source, target = there.cpu(), there.cpu()
    if direction == "to_device":
        target = here.torch.zeros_like(there)
    else:
        source, target = there, here.torch.zeros_like(target)

    def run():
        target.copy_(source)

    operation = here.measured(run, lambda: here.digest(target.to(here.device)))
    operation.peak = PEAK
    return operation


class Images:
    """The records of all files, decoded: numbers from 0 to 1 and a label."""

    def __init__(self, folder, cached):
        self.folder = folder
        self.kept = [self.decoded(place) for place in range(len(self))] if cached else None

    def __len__(self):
        return FILES * RECORDS

    def __getitem__(self, place):
        return self.kept[place] if self.kept else self.decoded(place)

    def decoded(self, place):
        """Read one record and decode it."""
        torch = sys.modules["torch"]
        with open(file_name(self.folder, place // RECORDS), "rb") as file:
            file.seek(place % RECORDS * RECORD)
            record = torch.frombuffer(bytearray(file.read(RECORD)), dtype=torch.uint8)
        return record[1:].reshape(3, 32, 32).float() / 255, int(record[0])


class Places:
    """The places of records in an order that mixes files, for ever."""

    def __iter__(self):
        place = 0
        while True:
            yield place
            place = (place + 1537) % (FILES * RECORDS)


def file_name(folder, number):
    """Return the path of a file of records."""
    return os.path.join(folder, "records-{}".format(number))


def write(here, folder):
    """Write all files."""
    for number in range(FILES):
        records = here.integers((RECORDS * RECORD,), 256, number + 1)
        with open(file_name(folder, number), "wb") as file:
            file.write(bytes(records.tolist()))


def reading(indicator, parameters, batch, cached, prefetch, workers):
    here = framework.start(indicator, dict(parameters, device="cpu"))
    if bool(workers) != bool(prefetch):
        reason = "a DataLoader reads ahead in workers, and then always: give both or none"
        raise harness.Unsupported(reason)
    folder = framework.temporary_folder()
    write(here, folder)
    batches = iter(
        here.torch.utils.data.DataLoader(
            Images(folder, cached == "yes"),
            batch_size=batch,
            sampler=Places(),
            num_workers=workers,
            **({"prefetch_factor": prefetch} if workers else {}),
        )
    )
    seen = []

    def run():
        seen[1:] = [next(batches)]  # the first batch is kept, and the last one

    def checksum():
        images, labels = seen[0]
        return here.digest(images) + here.digest(labels)

    run()
    return here.measured(run, checksum, items=batch)


def all_reduce(indicator, parameters, size):
    require_loopback()
    here = framework.start(indicator, dict(parameters, device="cpu"))
    torch = here.torch
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
    return here.measured(run, lambda: here.digest(numbers))


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
    harness.main_table(globals())
