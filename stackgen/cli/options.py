"""Options of the command line, and how their text is read."""

import math
import os
import re
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.errors import UsageError
from stackgen.model.choices import Prereleases

if TYPE_CHECKING:
    from stackgen.campaign.user_input import Wishes
    from stackgen.model.inspections import IndicatorCall
    from stackgen.storage.paths import Paths


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


# Options that say what is asked for; resolve and explore share them

Requirements = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REQUIREMENT...",
        help='As in "tensorflow>=2.7", in quotes; "a|b" takes either; or the path of a wheel.',
    ),
]
Files = Annotated[
    list[Path],
    typer.Option(
        "-r", "--requirement", metavar="FILE", help="requirements.txt, pyproject.toml or Pipfile."
    ),
]
Extras = Annotated[
    list[str], typer.Option("--extra", metavar="NAME", help="Extra of the pyproject.toml.")
]
Groups = Annotated[
    list[str], typer.Option("--group", metavar="NAME", help="Dependency group of the file.")
]
Constraints = Annotated[
    list[Path],
    typer.Option("-c", "--constraint", metavar="FILE", help="Limits versions, asks for nothing."),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--override",
        metavar="REQUIREMENT",
        help="Counts in place of all that others require of it.",
    ),
]
Excluded = Annotated[
    list[str],
    typer.Option(
        "--exclude", metavar="NAME", callback=refuse_empty, help="Leave out, whoever requires it."
    ),
]
AllowBuild = Annotated[
    list[str],
    typer.Option(
        "--allow-build",
        metavar="NAME",
        callback=refuse_empty,
        help="Source distributions will do as well.",
    ),
]
BuildsSources = Annotated[
    list[str],
    typer.Option(
        "--allow-build",
        metavar="NAME",
        callback=refuse_empty,
        help="Where NAME has no wheel, build it. That runs its authors' code, in a container "
        "without network; ':all:' allows it for every package.",
    ),
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Build again what failed to build.")]
Pre = Annotated[bool, typer.Option("--pre", help="The same as --prerelease allow.")]
PrereleasePolicy = Annotated[
    Prereleases | None,
    typer.Option(
        "--prerelease",
        help="Which prereleases are candidates, as in uv. [default: if-necessary]",
    ),
]
ExcludeNewer = Annotated[
    str | None,
    typer.Option("--exclude-newer", metavar="DATE", help="Nothing uploaded after it."),
]
IndexUrl = Annotated[str | None, typer.Option("--index-url", metavar="URL", help="Package index.")]
ExtraIndexUrl = Annotated[
    list[str], typer.Option("--extra-index-url", metavar="URL", help="Asked after the first.")
]
FindLinks = Annotated[
    list[str], typer.Option("--find-links", metavar="PATH", help="Folder or page with wheels.")
]
CompareIndex = Annotated[
    list[str],
    typer.Option(
        "--compare-index", metavar="NAME=URL", help="Its versions stand beside those of the others."
    ),
]
NoIndex = Annotated[bool, typer.Option("--no-index", help="Ask no index; --find-links alone.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use what is cached.")]


def wishes(
    *,
    requirements: list[str] | None,
    files: list[Path],
    extras: list[str],
    groups: list[str],
    constraints: list[Path],
    overrides: list[str],
    excluded: list[str],
    pre: bool,
    prerelease: Prereleases | None,
    exclude_newer: str | None,
    index_url: str | None,
    extra_index_urls: list[str],
    find_links: list[str],
    compared: list[str],
    no_index: bool,
    offline: bool,
    allow_build: tuple[str, ...] = (),
    around: Path | None = None,
) -> "Wishes":
    """Return what the options say, as one value."""
    from stackgen.campaign.request import IndexOptions
    from stackgen.campaign.user_input import Wishes

    return Wishes(
        requirements=tuple(requirements or ()),
        files=tuple(files),
        around=around,
        extras=tuple(extras),
        groups=tuple(groups),
        constraints=tuple(constraints),
        overrides=tuple(overrides),
        excluded=tuple(excluded),
        allow_build=allow_build,
        prereleases=_prereleases(pre, prerelease),
        exclude_newer=exclude_newer,
        index=IndexOptions(
            index_url=index_url,
            extra_index_urls=tuple(extra_index_urls),
            find_links=tuple(find_links),
            compared=tuple(compared),
            no_index=no_index,
            offline=offline,
        ),
    )


def _prereleases(pre: bool, policy: Prereleases | None) -> Prereleases:
    if pre and policy and policy is not Prereleases.ALLOW:
        raise UsageError(
            f"--pre and --prerelease {policy.value} were given together",
            why="--pre means --prerelease allow",
            fix="give one of them",
        )
    return Prereleases.ALLOW if pre else policy or Prereleases.IF_NECESSARY


def refuse_nothing(requirements: list[str] | None, files: list[Path], around: Path | None) -> None:
    """Stop where nothing was named that stacks could be made of."""
    if not requirements and not files and around is None:
        raise UsageError(
            "there is nothing to explore",
            why="neither a requirement nor a file was given",
            fix='name one, as in: stackgen explore "tensorflow>=2.7"',
        )


def refuse_redirected_requirement() -> None:
    """Stop where the shell took an unquoted ``>=`` for a redirection of our output."""
    try:
        name = Path(f"/proc/self/fd/{sys.stdout.fileno()}").resolve().name
    except (OSError, ValueError):
        return
    if name.startswith("="):
        raise UsageError(
            f"the output goes into a file named {name!r}",
            why="the shell takes an unquoted > for a redirection",
            fix='put the requirement in quotes, as in: stackgen resolve "tensorflow>=2.7"',
        )


# Options that say which command of the user's is measured, and what it may see


class BetterName(str, Enum):
    """Which figures are better."""

    LOWER = "lower"
    HIGHER = "higher"


PiCommand = Annotated[
    str | None,
    typer.Option(
        "--pi-command",
        metavar="COMMAND",
        help='Measure a command of yours, as in "python train.py --epochs 1". It runs in a fresh '
        "copy of the project; what it writes is thrown away.",
    ),
]
Project = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder that COMMAND runs in. [default: this]")
]
Data = Annotated[
    list[Path], typer.Option("--data", metavar="DIR", help="Further folder that COMMAND reads.")
]
Env = Annotated[
    list[str],
    typer.Option("--env", metavar="NAME", help="Give COMMAND this variable of yours (NAME=VALUE)."),
]
Network = Annotated[bool, typer.Option("--network", help="Let COMMAND use the network.")]
Figure = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        help="Compare a number that COMMAND prints, not its time: 'loss: ([0-9.e-]+)'; the last "
        "one.",
    ),
]
Better = Annotated[
    BetterName | None, typer.Option(help="Which figures are better. [default: lower]")
]
Check = Annotated[
    str,
    typer.Option(metavar="FILE", help="File that COMMAND writes: is it the same in every stack?"),
]
TimeLimit = Annotated[
    str,
    typer.Option(
        "--time-limit", metavar="TIME", help="Of one run of COMMAND [default: the budget]"
    ),
]


def program_call(
    command: str | None,
    *,
    project: Path | None,
    data: list[Path],
    env: list[str],
    network: bool,
    figure: str,
    better: BetterName | None,
    check: str,
    timeout_s: float | None,
    budget_s: float,
    paths: "Paths",
    dry_run: bool,
) -> "IndicatorCall | None":
    """Return the command that these options ask for, None where they ask for none.

    Raises:
        UsageError: options belong to a command that was not given, or cannot be understood.
    """
    given = {
        "--project": project, "--data": data, "--env": env, "--network": network,
        "--figure": figure, "--better": better, "--check": check, "--time-limit": timeout_s,
    }  # fmt: skip
    if command is None:
        for option in (name for name, value in given.items() if value):
            raise UsageError(
                f"{option} belongs to a command of yours",
                why="--pi-command was not given",
                fix='give it as in: --pi-command "python train.py --epochs 1"',
            )
        return None
    if better and not figure:
        raise UsageError(
            "--better says which figures are better, and there is no figure",
            why="without --figure the time is compared, of which less is better",
            fix="add it as in: --figure 'accuracy: ([0-9.e-]+)'",
        )
    from stackgen.campaign import program

    wishes = program.ProgramWishes(
        command=command,
        project=project or Path(),
        data=tuple(data),
        variables=tuple(env),
        figure=figure,
        better=better.value if better else "lower",
        check=check,
        network=network,
        timeout_s=timeout_s or budget_s,
    )
    path = program.key_path(paths.knowledge)
    return program.program_call(
        wishes,
        os.environ,
        key=lambda: program.kept_key(path, dry_run=dry_run),
        besides=program.own_files(paths.knowledge, paths.cache),
    )
