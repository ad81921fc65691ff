"""Declaring what a user can choose: one field of a request is one option.

A request of a command is made of option groups: frozen dataclasses whose fields are declared with
``option``. The command line, ``stackgen.toml`` and the baseline are all derived from them, so an
option is declared once.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from stackgen.errors import UsageError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of an option group, and how it is given as text.

    name, kind, default: of the field.
    flags: on the command line; by default ``--`` and the field's name. An argument has none.
    help: one sentence for ``--help``.
    metavar: what stands for the value in ``--help``.
    parse: from the text to the value of the field; from all texts where it can be repeated.
    show: from a default to the text that a user would write, where ``parse`` is given.
    minimum, maximum: of a number.
    repeated: whether it may be given several times; by default wherever the value is a tuple.
    common: shown among the first options of ``--help``, before the groups.
    argument: a positional argument.
    """

    name: str
    kind: Any
    default: Any
    flags: tuple[str, ...]
    help: str
    repeated: bool
    metavar: str = ""
    parse: Callable[[Any], object] | None = None
    show: Callable[[Any], str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    common: bool = False
    argument: bool = False

    @property
    def item_kind(self) -> Any:
        """Return the type of one given value: text, where ``parse`` makes the value."""
        if self.parse is not None:
            return str
        kinds = (each for each in get_args(self.kind) if each not in (type(None), ...))
        return next(kinds, self.kind)


def option(default: _T, *flags: str, **details: Any) -> _T:
    """Declare a field of an option group: its default, its flags, further fields of ``Option``."""
    metadata = {"flags": flags, **details} if flags else details
    return dataclasses.field(default=default, metadata=metadata)


def declared_options(defaults: Any) -> Iterator[Option]:
    """Yield the options of a group with the defaults of an instance, in the order of its fields."""
    hints = get_type_hints(type(defaults))
    for field in dataclasses.fields(defaults):
        kind = hints[field.name]
        derived = {
            "flags": (f"--{field.name.replace('_', '-')}",),
            "repeated": get_origin(kind) is tuple,
        }
        default = getattr(defaults, field.name)
        yield Option(name=field.name, kind=kind, default=default, **{**derived, **field.metadata})


def format_duration(seconds: float) -> str:
    """Return a duration as ``parse_duration`` reads it: ``90s``, ``30m``, ``2h``."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def format_percent(fraction: float) -> str:
    """Return a relative difference as ``parse_margin`` reads it: ``2%``."""
    return f"{100 * fraction:g}%"


def parse_duration(text: str, option: str = "--budget") -> float:
    """Return seconds: ``90s``, ``30m``, ``2h``; a bare number is seconds.

    Raises:
        UsageError: it is no duration above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(text).strip())
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"cannot read the {option.strip('-').replace('-', ' ')} {text!r}",
            why="it is a number of seconds, or one that ends in s, m or h",
            fix=f"give it as in: {option} 30m",
        )
    return seconds


def parse_margin(text: str) -> float:
    """Return a relative difference: ``1%`` and ``0.01`` are the same.

    Raises:
        UsageError: it is no number, or none above zero and below one half.
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", str(text).strip(), re.ASCII)
    margin = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < margin < 0.5:
        raise UsageError(
            f"cannot read the margin {text!r}",
            why="it is a relative difference above 0 and below 50 %",
            fix="give it as in: --margin 1%, or: --margin 0.01",
        )
    return margin


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``.

    Raises:
        UsageError: there is no ``=``, or nothing before it.
    """
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError(
            f"cannot read {option} {text}",
            why="it has no name or no value",
            fix=f"give {option} as NAME=VALUE",
        )
    return name, value


def parse_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of packages.

    Raises:
        UsageError: one of them is empty.
    """
    if any(not each.strip() for each in given):
        raise UsageError(
            "the name of a package is empty",
            why="an option that takes a package's name was given an empty text",
            fix="name a package, or leave the option out",
        )
    return tuple(given)


def parse_parameters(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the parameters of indicators: ``size=512``, each given with ``--param``."""
    return tuple(parse_pair(each, "--param") for each in given)


def parse_number(text: str) -> float:
    """Return a decimal number without sign and exponent; 0 where it is none."""
    return float(text) if re.fullmatch(r"\d+(?:\.\d*)?|\.\d+", text, re.ASCII) else 0.0


def parse_weights(given: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return the names of indicators, each with its weight: ``matmul=2``.

    Raises:
        UsageError: a weight is no number above zero, or an indicator has two of them.
    """
    found: dict[str, float] = {}
    for name, text in (parse_pair(each, "--weight") for each in given):
        weight = parse_number(text.strip())
        if not 0 < weight < math.inf:
            raise UsageError(
                f"cannot give {name} the weight {text!r}",
                why="a weight is a number above zero; an indicator that shall not count need not "
                "be measured",
                fix=f"give it as in: --weight {name}=2",
            )
        if found.setdefault(name, weight) != weight:
            raise UsageError(
                f"{name} has two weights",
                why=f"they are {found[name]:g} and {weight:g}",
                fix="give one of them",
            )
    return tuple(found.items())


def parse_settings(given: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return variables with their values: ``A=1,2`` twice is one variable, equal values are one."""
    merged: dict[str, list[str]] = {}
    for name, values in (parse_pair(each, "--set") for each in given):
        merged.setdefault(name, []).extend(values.split(","))
    return tuple((name, tuple(dict.fromkeys(values))) for name, values in merged.items())


def parse_gpus(text: str) -> str:
    """Return which GPUs are shown: ``all``, or numbers or ids with commas between them.

    Raises:
        UsageError: it is neither.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if any(not re.fullmatch(r"all|\d+|(GPU|MIG)-[\w/-]+", part) for part in parts) or (
        "all" in parts and len(parts) > 1
    ):
        raise UsageError(
            f"cannot read the GPUs {text!r}",
            why='they are "all", or numbers or ids (GPU-..., MIG-...) with commas between them',
            fix="give them as in: --gpus all, or: --gpus 0,1",
        )
    return ",".join(parts)


def parse_cpu_counts(text: str) -> tuple[int, ...]:
    """Return numbers of CPUs, each once, the fewest first; none of an empty text.

    Raises:
        UsageError: one of them is no whole number above zero.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if any(not part.isascii() or not part.isdigit() or int(part) < 1 for part in parts):
        raise UsageError(
            f"cannot read the numbers of CPUs {text!r}",
            why="they are whole numbers above zero with commas between them",
            fix="give them as in: --cpus 1,2,4",
        )
    return tuple(sorted({int(part) for part in parts}))


def parse_cpu_list(text: str, option: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as ``0,2-5``, in order, each once; none of an empty text.

    Raises:
        UsageError: it is no such list.
    """
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip(), re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UsageError(
                f"cannot read the CPUs {text!r} of {option}",
                why="they are their numbers, from 0, and ranges of them, with commas between",
                fix=f"give them as in: {option} 2-3, or: {option} 0,4-7",
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


_SIZE_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


def parse_size(text: str) -> int:
    """Return bytes: ``20GB``, ``1.5 TB``, ``512MiB``; a bare number is bytes.

    Raises:
        UsageError: it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.strip().lower())
    unit = _SIZE_UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"cannot read the size {text!r}",
            why="it is a number of bytes, or one that ends in kB, MB, GB, TB, MiB or GiB",
            fix="write it as in: 20GB, or: 512MiB",
        )
    return int(float(match[1]) * unit)
