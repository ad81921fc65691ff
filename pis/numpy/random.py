"""Draw random numbers with NumPy."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import framework_numpy as framework
import harness

INDICATOR = {
    "summary": "Random numbers, of the old or the new generator",
    "component": "numpy",
    "unit": "",
    "timeout_s": 300,
    "common": {"dtype": "float64"},
    "parameters": {
        "kind": {
            "type": "str",
            "default": "uniform",
            "allowed": ["uniform", "normal", "integers"],
            "help": "how they are distributed",
        },
        "generator": {
            "type": "str",
            "default": "legacy",
            "allowed": ["legacy", "new"],
            "help": "legacy: RandomState; new: Generator (NumPy 1.17 and newer)",
        },
        "size": {"type": "int", "default": 100000, "help": "how many numbers"},
    },
}

# Mean and standard deviation of what is drawn; integers are from 0 to 999.
EXPECTED = {"uniform": (0.5, 12**-0.5), "normal": (0, 1), "integers": (499.5, 83333.25**0.5)}


def setup(parameters):
    here = framework.start(parameters)
    new = parameters["generator"] == "new"
    if new and not hasattr(here.np.random, "Generator"):
        raise harness.Unsupported("Generator came with NumPy 1.17")
    if here.dtype.name != "float64" and (not new or parameters["kind"] == "integers"):
        raise harness.Unsupported(
            "RandomState draws float64 alone, and integers have no float type"
        )
    operation = here.operation(drawing(here, parameters))

    def checksum():
        drawn = drawing(here, parameters)()  # the first numbers, however many were drawn before
        mean, deviation = EXPECTED[parameters["kind"]]
        if abs(drawn.mean() - mean) > 6 * deviation / drawn.size**0.5:
            raise harness.Invalid("the mean of what was drawn is {}".format(drawn.mean()))
        # RandomState is frozen; the stream of Generator may change with every version.
        return None if new else here.checksum(drawn)

    operation.checksum = checksum
    return operation


def drawing(here, parameters):
    """Return what draws numbers from the beginning of its stream on."""
    random, size, kind = here.np.random, parameters["size"], parameters["kind"]
    if parameters["generator"] == "legacy":
        state = random.RandomState(5)
        return {
            "uniform": lambda: state.random_sample(size),
            "normal": lambda: state.standard_normal(size),
            "integers": lambda: state.randint(0, 1000, size),
        }[kind]
    state = random.Generator(random.PCG64(5))
    return {
        "uniform": lambda: state.random(size, dtype=here.dtype.type),
        "normal": lambda: state.standard_normal(size, dtype=here.dtype.type),
        "integers": lambda: state.integers(0, 1000, size),
    }[kind]


if __name__ == "__main__":
    harness.main(INDICATOR, setup)
