"""Copy numbers between the memory of the CPU and that of a GPU with PyTorch."""

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
    "summary": "Copy between the memories of CPU and GPU (ordinary memory, not pinned)",
    "component": "torch",
    "unit": "byte",
    "timeout_s": 300,
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
}
PEAK = 1.0e12  # bytes/s: 900 GB/s is the fastest link between a CPU and a GPU (NVLink-C2C)


def setup(parameters):
    here = framework.start(INDICATOR, parameters)
    if not here.gpu:
        raise harness.Unsupported("PyTorch sees no GPU here, so there is nowhere to copy to")
    moved = parameters["size"] * 2**20
    there = here.numbers((moved // here.bytes_of(1),))
    source, target = there.cpu(), there.cpu()
    if parameters["direction"] == "to_device":
        target = here.torch.zeros_like(there)
    else:
        source, target = there, here.torch.zeros_like(target)

    def run():
        target.copy_(source)

    operation = here.measured(run, lambda: here.digest(target.to(here.device)), moved)
    operation.peak = PEAK
    return operation


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
