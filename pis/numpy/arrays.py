"""Indicators of NumPy's arrays: functions of elements, orders, random numbers, small calls."""

# /// script
# requires-python = ">=3.6"
# dependencies = ["numpy"]
# ///

import functools
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

FAMILY = {"component": "numpy", "common": {"dtype": "float64"}}
INDICATORS = {
    "ufunc": {
        "summary": "One function of every element, into an array that is there",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "add",
                "allowed": ["add", "multiply", "divide", "maximum", "sqrt", "exp", "log", "tanh"],
                "help": "the function",
            },
            "size": {
                "type": "int",
                "default": 1048576,
                "help": "elements of each array; few show what a call costs",
            },
        },
        "work": "(2 if kind in ('sqrt', 'exp', 'log', 'tanh') else 3) * size * itemsize",
    },
    "broadcast": {
        "summary": "Sum of a column and a row, which is a matrix",
        "unit": "byte",
        "parameters": {
            "size": {"type": "int", "default": 1024, "help": "length of the row and of the column"},
        },
        "work": "(size * size + 2 * size) * itemsize",
    },
    "reduction": {
        "summary": "Sum, mean or largest number of each row",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "sum",
                "allowed": ["sum", "mean", "max"],
                "help": "what is found of each row",
            },
            "size": {"type": "int", "default": 1024, "help": "rows and columns"},
        },
        "work": "(size * size + size) * itemsize",
    },
    "take": {
        "summary": "Fancy indexing: elements by their places, or by a mask",
        "unit": "byte",
        "parameters": {
            "kind": {
                "type": "str",
                "default": "index",
                "allowed": ["index", "mask"],
                "help": "index: as many places in no order; mask: half of the elements",
            },
            "size": {"type": "int", "default": 262144, "help": "elements of the array"},
        },
    },
    "sort": {
        "summary": "Sorted copy of numbers in no order",
        "parameters": {
            "size": {"type": "int", "default": 100000, "help": "how many numbers"},
            "kind": {
                "type": "str",
                "default": "quicksort",
                "allowed": ["quicksort", "stable", "heapsort"],
                "help": "what NumPy calls the way to sort",
            },
        },
    },
    "unique": {
        "summary": "Different values among numbers in no order",
        "parameters": {
            "size": {"type": "int", "default": 100000, "help": "how many numbers"},
            "distinct": {
                "type": "int",
                "default": 1000,
                "help": "how many different values there may be",
            },
        },
    },
    "fft": {
        "summary": "Fast Fourier transform of complex numbers",
        "unit": "FLOP",
        "parameters": {
            "size": {"type": "int", "default": 16384, "help": "how many complex numbers"},
        },
    },
    "random": {
        "summary": "Random numbers, of the old or the new generator",
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
    },
    "small_arrays": {
        "summary": "Ten calls on small arrays: what each costs besides computing",
        "parameters": {
            "size": {"type": "int", "default": 10, "help": "elements of each array"},
        },
    },
}
# Mean and standard deviation of what is drawn; integers are from 0 to 999.
EXPECTED = {"uniform": (0.5, 12**-0.5), "normal": (0, 1), "integers": (499.5, 83333.25**0.5)}


def ufunc(here, kind, size):
    function = getattr(here.np, kind)
    arrays = [here.numbers(size, seed, shift=0.75) for seed in range(1, function.nin + 1)]
    out = here.np.empty(size, dtype=here.dtype)  # so that no memory is asked for
    # By position, and no function of ours around it: a small array takes 0.4 us in all.
    return here.operation(functools.partial(function, *(arrays + [out])))


def broadcast(here, size):
    column, row = here.numbers((size, 1), seed=1), here.numbers((1, size), seed=2)
    out = here.np.empty((size, size), dtype=here.dtype)  # so that no memory is asked for
    return here.operation(lambda: here.np.add(column, row, out=out))


def reduction(here, kind, size):
    reduce, a = getattr(here.np, kind), here.numbers((size, size), shift=0.75)
    return here.operation(lambda: reduce(a, axis=-1))


def take(here, kind, size):
    a, places = here.numbers(size), here.integers(size, below=size, seed=2)
    if kind == "mask":
        places = places < size // 2
    found = int(places.sum()) if places.dtype == bool else size
    moved = places.nbytes + 2 * found * here.dtype.itemsize
    return here.operation(lambda: a[places], work=moved)


def sort(here, size, kind):
    a = here.numbers(size)
    return here.operation(lambda: here.np.sort(a, kind=kind))


def unique(here, size, distinct):
    a = here.integers(size, below=distinct).astype(here.dtype)
    return here.operation(lambda: here.np.unique(a))


def fft(here, size):
    kinds = {"float32": "complex64", "float64": "complex128"}
    if here.dtype.name not in kinds:
        raise harness.Unsupported("NumPy has no complex numbers of {}".format(here.dtype.name))
    a = here.numbers((size, 2)).view(kinds[here.dtype.name]).reshape(size)
    return here.operation(lambda: here.np.fft.fft(a), work=5 * size * math.log(size, 2))


def random(here, kind, generator, size):
    new = generator == "new"
    if new and not hasattr(here.np.random, "Generator"):
        raise harness.Unsupported("Generator came with NumPy 1.17")
    if here.dtype.name != "float64" and (not new or kind == "integers"):
        raise harness.Unsupported(
            "RandomState draws float64 alone, and integers have no float type"
        )
    operation = here.operation(drawing(here, kind, generator, size))

    def checksum():
        # The first numbers, however many were drawn before.
        drawn = drawing(here, kind, generator, size)()
        mean, deviation = EXPECTED[kind]
        if abs(drawn.mean() - mean) > 6 * deviation / drawn.size**0.5:
            raise harness.Invalid("the mean of what was drawn is {}".format(drawn.mean()))
        # RandomState is frozen; the stream of Generator may change with every version.
        return None if new else here.checksum(drawn)

    operation.checksum = checksum
    return operation


def drawing(here, kind, generator, size):
    """Return what draws numbers from the beginning of its stream on."""
    random = here.np.random
    if generator == "legacy":
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


def small_arrays(here, size):
    np = here.np
    a, b = here.numbers(size, seed=1), here.numbers(size, seed=2)
    numbers = a.tolist()

    def compute():
        return (
            a + b,
            a * 2.0,
            np.sqrt(np.abs(a)),
            np.array(numbers, dtype=here.dtype),
            np.concatenate((a, b)),
            np.where(a > b, a, b),
            np.zeros(a.shape, dtype=here.dtype)[1:],
            a.sum(),
            np.dot(a, b),
            b.max(),
        )

    def whole(found):
        return np.concatenate([np.reshape(each, -1).astype("float64") for each in found])

    return here.operation(compute, result=whole)


if __name__ == "__main__":
    harness.main_table(globals())
