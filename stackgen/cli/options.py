"""Options of the command line, and how their text is read."""

import math
import re
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stackgen.errors import UsageError


class ExecutorName(str, Enum):
    """Where stacks run."""

    auto = "auto"
    virtualenv = "virtualenv"
    docker = "docker"


class StrategyName(str, Enum):
    """Which stacks are measured in which block."""

    racing = "racing"
    exhaustive = "exhaustive"
    random = "random"
    pairwise = "pairwise"
    newest = "newest"


def refuse_empty(option: typer.CallbackParam, names: list[str]) -> list[str]:
    """Return the values of an option that takes names of packages.

    Raises:
        UsageError: one of them is empty.
    """
    if any(not each.strip() for each in names):
        raise UsageError(
            f"{option.opts[-1]} was given without a name",
            why="its value is empty",
            fix="name a package, or leave the option out",
        )
    return names


Kb = Annotated[
    Path | None, typer.Option("--kb", help="Knowledge base (or STACKGEN_KB).", metavar="FILE")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Vary = Annotated[
    list[str],
    typer.Option("--vary", metavar="NAME", callback=refuse_empty, help="Vary this package, too."),
]
Fix = Annotated[
    list[str],
    typer.Option("--fix", metavar="NAME", callback=refuse_empty, help="Do not vary this package."),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="VARIABLE=V1,V2", help="Vary an environment variable."),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Explore around this lock, which is the reference; or what your project requires "
        "(requirements.txt, pyproject.toml, Pipfile): it is in every stack.",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        metavar="LOCK",
        help="Compare every stack with this lock as it stands; it is not explored around.",
    ),
]
Indicators = Annotated[
    list[str],
    typer.Option("--pi", metavar="NAME", help="Indicator, or your own .py file [default: matmul]."),
]
Parameters = Annotated[
    list[str], typer.Option("--param", metavar="NAME=VALUE", help="Parameter of the indicator.")
]
BaseName = Annotated[
    str,
    typer.Option("--base", metavar="NAME", help="Base, image, or Python such as 3.11."),
]
Budget = Annotated[
    str, typer.Option(metavar="TIME", help="For building and measuring, as in 90s, 30m, 2h.")
]
Stacks = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="How many stacks take part, newest first [default: 16; newest: 6].",
        show_default=False,
    ),
]
StrategyOf = Annotated[
    StrategyName,
    typer.Option(
        "--strategy",
        help="racing: blocks of four stacks that may be the fastest; random, pairwise: of others; "
        "the best two are then compared with the reference. exhaustive, newest: all at once.",
    ),
]
CONFIDENCE = 0.95
Confidence = Annotated[
    float | None,
    typer.Option(
        min=0.5,
        max=0.999,
        help="Of the leader being within the margin of the best: ends a search. "
        f"[default: {CONFIDENCE}]",
    ),
]
Margin = Annotated[
    str, typer.Option(metavar="PERCENT", help="A difference that you do not care about.")
]
Weights = Annotated[
    list[str],
    typer.Option(
        "--weight",
        metavar="NAME=NUMBER",
        help="How much an indicator counts, as in matmul=2 [default: 1].",
    ),
]
Seed = Annotated[int, typer.Option(help="Of the order of measurements.")]
Threads = Annotated[int, typer.Option(min=0, help="0 takes all cores but one.")]
Gpus = Annotated[
    str,
    typer.Option(
        metavar="IDS", help="GPUs that stacks see: all, or numbers like 0,1. By default none."
    ),
]
Cpus = Annotated[
    str,
    typer.Option(
        "--cpus", metavar="N,N", help="Measure everything on so many CPUs each, as in 1,2,4."
    ),
]
MeasureCpus = Annotated[
    str,
    typer.Option(
        "--measure-cpus",
        metavar="LIST",
        help="Measure on these CPUs and no others, as in 2-3 or 0,4-7.",
    ),
]
BuildCpus = Annotated[
    str,
    typer.Option(
        "--build-cpus",
        metavar="LIST",
        help="Do all else on these (with --measure-cpus); builds still wait for measurements.",
    ),
]
PricePerHour = Annotated[
    float | None,
    typer.Option(
        "--price-per-hour", metavar="PRICE", help="Of this machine: tells what work costs."
    ),
]
PriceFile = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="TOML: prices per hour by number of CPUs."),
]
LockOut = Annotated[
    Path | None,
    typer.Option(
        "--lock-out",
        metavar="DIR",
        help="Write the best stack there, as pylock.toml and requirements.txt with hashes.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print count and plan; build nothing.")]


class GranularityName(str, Enum):
    """Which versions are told apart."""

    minor = "minor"
    patch = "patch"


class CompletionName(str, Enum):
    """How the packages that are not varied are chosen."""

    newest = "newest"
    contemporary = "contemporary"
    newest_working = "newest-working"


Granularity = Annotated[
    GranularityName,
    typer.Option(help="Of each minor release the newest patch alone, or every one."),
]
Completion = Annotated[
    CompletionName, typer.Option(help="How packages that are not varied are chosen.")
]


def parse_span(text: str, option: str = "--budget") -> float:
    """Return seconds: ``90s``, ``30m``, ``2h``; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if seconds <= 0:
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
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.strip(), re.ASCII)
    margin = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < margin < 0.5:
        raise UsageError(
            f"cannot read the margin {text!r}",
            why="it is a difference that nobody cares about, above 0 and below 50 %",
            fix="give it as in: --margin 1%, or: --margin 0.01",
        )
    return margin


def parse_weights(given: list[str]) -> tuple[tuple[str, float], ...]:
    """Return indicators' names, each with its weight: ``matmul=2``.

    Raises:
        UsageError: a weight is no number above zero, or an indicator has two of them.
    """
    found: dict[str, float] = {}
    for name, text in (parse_pair(each, "--weight") for each in given):
        match = re.fullmatch(r"\d+(?:\.\d*)?|\.\d+", text.strip(), re.ASCII)
        weight = float(match[0]) if match else 0.0
        if not 0 < weight < math.inf:
            raise UsageError(
                f"cannot give {name} the weight {text!r}",
                why="a weight is a number above zero; what is to have none need not be measured",
                fix=f"give it as in: --weight {name}=2",
            )
        if found.setdefault(name, weight) != weight:
            raise UsageError(
                f"{name} has two weights",
                why=f"they are {found[name]:g} and {weight:g}",
                fix="give one of them",
            )
    return tuple(found.items())


def parse_gpus(text: str) -> str:
    """Return which GPUs are shown: ``all``, or numbers or ids with commas between them."""
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


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return numbers of CPUs, each once, the fewest first; none of an empty text."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if any(not part.isascii() or not part.isdigit() or int(part) < 1 for part in parts):
        raise UsageError(
            f"cannot read the numbers of CPUs {text!r}",
            why="they are whole numbers above zero with commas between them",
            fix="give them as in: --cpus 1,2,4",
        )
    return tuple(sorted({int(part) for part in parts}))


def parse_cpu_list(text: str, option: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as ``0,2-5``, in order, each once; none of an empty text."""
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


def check_prices(per_hour: float | None, file: Path | None) -> None:
    """Refuse a price that is none, and two kinds of prices."""
    if per_hour is not None and not 0 < per_hour < math.inf:
        raise UsageError(
            f"cannot calculate with a price of {per_hour:g} per hour",
            why="a price is a number above zero",
            fix="give it as in: --price-per-hour 0.42",
        )
    if per_hour is not None and file is not None:
        raise UsageError(
            "there are two kinds of prices",
            why="--price-per-hour is that of the whole machine, --prices has one by number of CPUs",
            fix="give one of them",
        )


def check_confidence(given: float | None, strategy: str, *, searches: bool) -> float:
    """Return the confidence that ends a search; refuse one where nothing is searched."""
    if given is not None and not searches:
        raise UsageError(
            "--confidence ends a search, and there is none",
            why=f"with --strategy {strategy} all stacks are measured in every block, until each "
            "comparison is certain or the budget is spent",
            fix="leave it out, or search with --strategy racing",
        )
    return CONFIDENCE if given is None else given


def parse_settings(given: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return variables with their values: ``A=1,2`` twice is one variable, equal values are one."""
    merged: dict[str, list[str]] = {}
    for name, values in (parse_pair(each, "--set") for each in given):
        merged.setdefault(name, []).extend(values.split(","))
    return tuple((name, tuple(dict.fromkeys(values))) for name, values in merged.items())


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError(
            f"cannot read {option} {text}",
            why="it has no name or no value",
            fix=f"give it as in: {option} NAME=VALUE",
        )
    return name, value
