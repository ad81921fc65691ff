"""Feed records from files to a model with PyTorch's DataLoader: read, decode, batch."""

# /// script
# requires-python = ">=3.7"
# dependencies = ["torch"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_torch as framework
import harness

INDICATOR = {
    "summary": "One batch of images from DataLoader, read from files and decoded",
    "component": "torch",
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
        "prefetch": {"type": "int", "default": 0, "help": "batches that each worker has ready"},
        "workers": {"type": "int", "default": 0, "help": "processes that read; 0: this one"},
    },
}
FILES, RECORDS, PIXELS = 4, 1024, 32 * 32 * 3  # 12.6 MB in all
RECORD = PIXELS + 1  # the first byte is the label


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


def setup(parameters):
    here = framework.start(INDICATOR, dict(parameters, device="cpu"))
    workers, prefetch = parameters["workers"], parameters["prefetch"]
    if bool(workers) != bool(prefetch):
        reason = "a DataLoader reads ahead in workers, and then always: give both or none"
        raise harness.Unsupported(reason)
    folder = framework.temporary_folder()
    write(here, folder)
    batches = iter(
        here.torch.utils.data.DataLoader(
            Images(folder, parameters["cached"] == "yes"),
            batch_size=parameters["batch"],
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
    return here.measured(run, checksum, items=parameters["batch"])


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
