"""Families of indicators: operations that get faster or slower together.

What is said of a stack as a whole rests on several families. One matrix product beside another
says little more than one alone.
"""

from collections.abc import Iterable

FEWEST_FAMILIES = 3
"""What was measured in fewer families speaks of its own operations only."""
OTHER = "other"
"""The family of indicators that are not listed: a user's own, or another distribution's."""
START_UP = "start-up"
"""It is paid once in a process, and is no operation of a program: it does not count."""

FAMILIES = {
    "linear algebra": "matmul batched_matmul einsum cholesky eigh qr solve svd",
    "element by element": "ufunc broadcast elementwise activation",
    "reductions": "reduction softmax batch_norm layer_norm",
    "sorting": "sort unique",
    "moving data": "take transpose embedding copy input all_reduce",
    "fourier transforms": "fft",
    "random numbers": "random",
    "convolutions": "conv1d conv2d conv3d depthwise pooling",
    "sequences": "rnn gru lstm bilstm char_lstm attention transformer",
    "whole networks": "mlp cnn deep_cnn efficientnet_b0 text_classifier",
    "call overhead": "small_arrays dispatch",
    START_UP: "import first_call compile",
}
"""Names of indicators, without their component, by family."""
_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names.split()}

DEFAULTS = {
    "numpy": ("numpy/matmul", "numpy/ufunc", "numpy/sort"),
    "tensorflow": ("tensorflow/matmul", "tensorflow/conv2d", "tensorflow/mlp"),
    "torch": ("torch/matmul", "torch/conv2d", "torch/mlp"),
}
"""By component, quick indicators of as many families as an answer as a whole needs."""


def family_of(name: str) -> str:
    """Return the family of an indicator by its name, such as ``numpy/sort``."""
    return _FAMILY_OF.get(name.rpartition("/")[2], OTHER) if "/" in name else OTHER


def families_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the families of indicators that count, sorted."""
    return tuple(sorted({family_of(name) for name in names} - {START_UP}))
