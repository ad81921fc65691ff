"""Transform complex numbers with NumPy's FFT."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "Fast Fourier transform of complex numbers",
    "component": "numpy",
    "unit": "FLOP",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "size": {"type": "int", "default": 16384, "help": "how many complex numbers"},
    },
}


def setup(parameters):
    here = framework.start(parameters)
    size, kinds = parameters["size"], {"float32": "complex64", "float64": "complex128"}
    if here.dtype.name not in kinds:
        raise harness.Unsupported("NumPy has no complex numbers of {}".format(here.dtype.name))
    a = here.numbers((size, 2)).view(kinds[here.dtype.name]).reshape(size)
    return here.operation(lambda: here.np.fft.fft(a), work=5 * size * math.log(size, 2))


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
