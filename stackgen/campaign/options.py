"""The option groups of commands that measure and resolve, as a user gives them.

Each group is shown under its own heading in ``--help``; see ``stackgen.model.options``. Defaults
that differ between commands are given where a command declares the group.
"""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from stackgen.errors import UsageError
from stackgen.model.choices import (
    Better,
    Completion,
    ExecutorChoice,
    Granularity,
    Listing,
    Order,
    Prereleases,
    Strategy,
)
from stackgen.model.goals import Goal, Limit, parse_goals, parse_limits
from stackgen.model.options import (
    Option,
    format_duration,
    format_percent,
    parse_cpu_counts,
    parse_cpu_list,
    parse_duration,
    parse_gpus,
    parse_margin,
    parse_names,
    parse_parameters,
    parse_settings,
    parse_size,
    parse_weights,
)

DEFAULT_STACKS, NEWEST_STACKS = 16, 6
"""How many stacks take part by default; NEWEST_STACKS: with the strategy ``newest``."""
FEWEST_TO_SEARCH = 4
"""Fewer stacks are compared at once: the baseline and the best two would be all of them."""
DEFAULT_CONFIDENCE = 0.95
DEFAULT_SAMPLES = 30
"""Timings of one process that runs outside of a campaign."""
DEFAULT_MARGIN = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementOptions:
    """What every stack must satisfy, as text and files; reading them is ``user_input``'s."""

    TITLE: ClassVar[str] = "Requirements"

    requirements: Annotated[
        tuple[str, ...],
        Option(
            argument=True,
            metavar="REQUIREMENT...",
            help='As in "tensorflow>=2.7", in quotes; "a|b" takes either; or the path of a wheel.',
        ),
    ] = ()
    files: Annotated[
        tuple[Path, ...],
        Option(
            flags=("-r", "--requirement"),
            metavar="FILE",
            help="requirements.txt, pyproject.toml or Pipfile.",
            common=True,
        ),
    ] = ()
    extras: Annotated[
        tuple[str, ...],
        Option(flags=("--extra",), metavar="NAME", help="Extra of the pyproject.toml."),
    ] = ()
    groups: Annotated[
        tuple[str, ...],
        Option(flags=("--group",), metavar="NAME", help="Dependency group of the file."),
    ] = ()
    constraints: Annotated[
        tuple[Path, ...],
        Option(
            flags=("-c", "--constraint"),
            metavar="FILE",
            help="Limits versions without requiring the packages.",
        ),
    ] = ()
    overrides: Annotated[
        tuple[str, ...],
        Option(
            flags=("--override",),
            metavar="REQUIREMENT",
            help="Replaces all that other packages require of it.",
        ),
    ] = ()
    excluded: Annotated[
        tuple[str, ...],
        Option(
            flags=("--exclude",),
            metavar="NAME",
            parse=parse_names,
            help="Leave this package out, also where another one requires it.",
        ),
    ] = ()
    pre: Annotated[bool, Option(help="Same as --prerelease allow.")] = False
    prerelease: Annotated[
        Prereleases, Option(help="Which prereleases are candidates, as in uv.")
    ] = Prereleases.IF_NECESSARY
    exclude_newer: Annotated[
        str, Option(metavar="DATE", help="Ignore files uploaded after this date (ISO 8601).")
    ] = ""

    def __post_init__(self) -> None:
        if self.pre and self.prerelease not in (Prereleases.IF_NECESSARY, Prereleases.ALLOW):
            raise UsageError(
                f"--pre and --prerelease {self.prerelease.value} were given together",
                why="--pre means --prerelease allow",
                fix="give one of them",
            )

    @property
    def prereleases(self) -> Prereleases:
        """Return which prereleases are candidates."""
        return Prereleases.ALLOW if self.pre else self.prerelease


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What may be built from source distributions."""

    TITLE: ClassVar[str] = "Requirements"

    allow_build: Annotated[
        tuple[str, ...],
        Option(
            flags=("--allow-build",),
            metavar="NAME",
            parse=parse_names,
            help="Where NAME has no wheel, build it from source. That runs its authors' code, in "
            "a container without network; ':all:' allows it for every package.",
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VariationOptions:
    """In what the stacks differ."""

    TITLE: ClassVar[str] = "What varies"

    vary: Annotated[
        tuple[str, ...],
        Option(metavar="NAME", parse=parse_names, help="Vary this package as well.", common=True),
    ] = ()
    granularity: Annotated[
        Granularity, Option(help="minor: the newest patch of each minor release; patch: all.")
    ] = Granularity.MINOR
    completion: Annotated[Completion, Option(help="How packages that do not vary are chosen.")] = (
        Completion.NEWEST_WORKING
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOptions:
    """What is explored around, and what the stacks are compared with."""

    TITLE: ClassVar[str] = "What varies"

    fixed: Annotated[
        tuple[str, ...],
        Option(
            flags=("--fix",), metavar="NAME", parse=parse_names, help="Do not vary this package."
        ),
    ] = ()
    settings: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...],
        Option(
            flags=("--set",),
            metavar="VARIABLE=V1,V2",
            help="Vary an environment variable.",
            parse=parse_settings,
        ),
    ] = ()
    around: Annotated[
        Path | None,
        Option(
            flags=("--from",),
            metavar="FILE",
            help="Explore around this lock, which is the baseline; or what your project requires "
            "(requirements.txt, pyproject.toml, Pipfile): it is in every stack.",
            common=True,
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        Option(
            metavar="LOCK",
            help="Compare every stack with this lock as it is, without exploring around it.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorOptions:
    """What is measured."""

    TITLE: ClassVar[str] = "Measurement"

    indicators: Annotated[
        tuple[str, ...],
        Option(
            flags=("--pi",),
            metavar="NAME",
            help="Indicator, or your own .py file [default: matmul].",
            common=True,
        ),
    ] = ()
    parameters: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            flags=("--param",),
            metavar="NAME=VALUE",
            help="Parameter of the indicator.",
            parse=parse_parameters,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """How observations are compared.

    weights: of indicators, by their names; 1 where none is given.
    margin: a relative difference that does not matter.
    """

    TITLE: ClassVar[str] = "Measurement"

    weights: Annotated[
        tuple[tuple[str, float], ...],
        Option(
            flags=("--weight",),
            metavar="NAME=NUMBER",
            help="How much an indicator counts, as in matmul=2 [default: 1].",
            parse=parse_weights,
        ),
    ] = ()
    margin: Annotated[
        float,
        Option(
            metavar="PERCENT",
            help="A difference that does not matter to you.",
            parse=parse_margin,
            show=format_percent,
        ),
    ] = DEFAULT_MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOptions:
    """What a stack shall be good at besides speed.

    goals: each with its weight; None where none is given.
    """

    TITLE: ClassVar[str] = "Goals"

    goals: Annotated[
        tuple[tuple[Goal, float | None], ...],
        Option(
            flags=("--goal",),
            metavar="NAME[=WEIGHT]",
            help="speed, import, memory or size. Several without weights give a Pareto front, with "
            "weights (speed=2) one winner [default: speed].",
            parse=parse_goals,
        ),
    ] = ()
    limits: Annotated[
        tuple[Limit, ...],
        Option(
            flags=("--at-most",),
            metavar="QUANTITY=AMOUNT",
            help='Only stacks within it win: "peak memory=4GB", "import time=2s", "import memory", '
            '"download size", "installed size".',
            parse=parse_limits,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOptions:
    """Which processors measure, and which do all else.

    threads: 0 chooses max(1, cores - 1).
    measure_cpus: the CPUs that are measured on; empty means the last ones.
    build_cpus: where all else is done; empty means anywhere.
    gpus: numbers or ids with commas between them, or "all"; "" shows none.
    """

    TITLE: ClassVar[str] = "Processors"

    threads: Annotated[int, Option(minimum=0, help="0 takes all cores but one.")] = 0
    measure_cpus: Annotated[
        tuple[int, ...],
        Option(
            metavar="LIST",
            help="Measure on these CPUs and no others, as in 2-3 or 0,4-7.",
            parse=partial(parse_cpu_list, option="--measure-cpus"),
            repeated=False,
        ),
    ] = ()
    build_cpus: Annotated[
        tuple[int, ...],
        Option(
            metavar="LIST",
            help="Do all else on these CPUs; builds still wait for measurements.",
            parse=partial(parse_cpu_list, option="--build-cpus"),
            repeated=False,
        ),
    ] = ()
    gpus: Annotated[
        str,
        Option(
            metavar="IDS",
            help="GPUs that stacks see: all, or numbers like 0,1 [default: none].",
            parse=parse_gpus,
        ),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingOptions:
    """What measuring on more CPUs brings.

    cpus: numbers of CPUs that everything is measured on; empty means one number, by ``threads``.
    """

    TITLE: ClassVar[str] = "Processors"

    cpus: Annotated[
        tuple[int, ...],
        Option(
            metavar="N,N",
            help="Measure everything on so many CPUs each, as in 1,2,4.",
            parse=parse_cpu_counts,
            repeated=False,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """What measured work costs.

    price_per_hour: of this machine, all of its CPUs.
    prices: a file with prices by number of CPUs.
    """

    TITLE: ClassVar[str] = "Processors"

    price_per_hour: Annotated[
        float | None,
        Option(metavar="PRICE", help="Of this machine: reports what work costs."),
    ] = None
    prices: Annotated[
        Path | None, Option(metavar="FILE", help="TOML: prices per hour by number of CPUs.")
    ] = None

    def __post_init__(self) -> None:
        if self.price_per_hour is not None and not 0 < self.price_per_hour < math.inf:
            raise UsageError(
                f"cannot calculate with a price of {self.price_per_hour:g} per hour",
                why="a price is a number above zero",
                fix="give it as in: --price-per-hour 0.42",
            )
        if self.price_per_hour is not None and self.prices is not None:
            raise UsageError(
                "there are two kinds of prices",
                why="--price-per-hour is that of the whole machine, --prices has one by number of "
                "CPUs",
                fix="give one of them",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """A command of the user's that is measured.

    time_limit_s: of one run; None means the budget.
    """

    TITLE: ClassVar[str] = "Your own program"

    command: Annotated[
        str | None,
        Option(
            flags=("--pi-command",),
            metavar="COMMAND",
            help='Measure a command of yours, as in "python train.py --epochs 1". It runs in a '
            "fresh copy of the project; what it writes is discarded.",
            common=True,
        ),
    ] = None
    project: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder that COMMAND runs in [default: the current one]."),
    ] = None
    data: Annotated[
        tuple[Path, ...], Option(metavar="DIR", help="Further folder that COMMAND reads.")
    ] = ()
    variables: Annotated[
        tuple[str, ...],
        Option(
            flags=("--env",),
            metavar="NAME",
            help="Pass this environment variable to COMMAND (NAME=VALUE sets it).",
        ),
    ] = ()
    network: Annotated[bool, Option(help="Let COMMAND use the network.")] = False
    figure: Annotated[
        str,
        Option(
            metavar="REGEX",
            help="Compare a number that COMMAND prints, not its time: 'loss: ([0-9.e-]+)'; the "
            "last one counts.",
        ),
    ] = ""
    better: Annotated[Better | None, Option(help="Which figures are better [default: lower].")] = (
        None
    )
    check: Annotated[
        str, Option(metavar="FILE", help="File that COMMAND writes: is it equal in every stack?")
    ] = ""
    time_limit_s: Annotated[
        float | None,
        Option(
            flags=("--time-limit",),
            metavar="TIME",
            help="Of one run of COMMAND [default: the budget].",
            parse=partial(parse_duration, option="--time-limit"),
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOptions:
    """How long building and measuring may take together, and in which order it is done.

    Commands with another default budget give it where they declare the group (``cli/measure.py``).
    """

    TITLE: ClassVar[str] = "Budget and search"

    budget_s: Annotated[
        float,
        Option(
            flags=("--budget",),
            metavar="TIME",
            help="For building and measuring, as in 90s, 30m, 2h.",
            parse=parse_duration,
            show=format_duration,
            common=True,
        ),
    ] = 1800.0
    seed: Annotated[int, Option(help="Seed of the order of measurements.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Which of the stacks are measured.

    stacks: how many take part, settings included; 0 chooses by the strategy.
    order: which of them come first.
    download_bytes: of the wheels of all that are spread; None takes the default.
    confidence: of the leader being within the margin of the best, at which a search ends; None
        means the default.
    """

    TITLE: ClassVar[str] = "Budget and search"

    stacks: Annotated[
        int,
        Option(
            minimum=0,
            metavar="INTEGER",
            help="How many stacks take part [default: 16; newest: 6; spread: 5].",
        ),
    ] = 0
    order: Annotated[
        Order,
        Option(
            help="Which stacks take part first. spread: over releases, NumPy's major versions and "
            "settings (the default ones first); auto: that, where only a framework is named.",
        ),
    ] = Order.AUTO
    download_bytes: Annotated[
        int | None,
        Option(
            flags=("--download-budget",),
            metavar="SIZE",
            help="Of the wheels of all stacks that are spread [default: 1.5GB].",
            parse=parse_size,
        ),
    ] = None
    strategy: Annotated[
        Strategy,
        Option(
            help="racing: blocks of four stacks that may be the fastest; random, pairwise: of "
            "others; the best two are then compared with the baseline. exhaustive, newest: all "
            "at once.",
        ),
    ] = Strategy.RACING
    confidence: Annotated[
        float | None,
        Option(
            minimum=0.5,
            maximum=0.999,
            help="Of the leader being within the margin of the best: ends a search "
            f"[default: {DEFAULT_CONFIDENCE}].",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.confidence is not None and not self.strategy.searches:
            raise UsageError(
                "--confidence ends a search, and there is none",
                why=f"with --strategy {self.strategy.value} all stacks are measured in every "
                "block, until each comparison is certain or the budget is spent",
                fix="leave it out, or search with --strategy racing",
            )

    @property
    def required_confidence(self) -> float:
        """Return the confidence at which a search ends."""
        return DEFAULT_CONFIDENCE if self.confidence is None else self.confidence

    @property
    def wanted(self) -> int:
        """Return how many stacks take part."""
        newest = self.strategy is Strategy.NEWEST
        return self.stacks or (NEWEST_STACKS if newest else DEFAULT_STACKS)

    def searches(self, choices: int) -> bool:
        """Return whether the best of so many choices are searched before they are compared."""
        return self.strategy.searches and min(self.wanted, choices) >= FEWEST_TO_SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What stacks are installed on, and run in."""

    TITLE: ClassVar[str] = "Where stacks run"

    base: Annotated[
        str, Option(metavar="NAME", help="Base, image, or Python such as 3.11.", common=True)
    ] = ""
    executor: Annotated[
        ExecutorChoice, Option(help="auto: containers where they can be had, else virtualenvs.")
    ] = ExecutorChoice.AUTO
    rebuild: Annotated[bool, Option(help="Build again what failed to build.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """Which package indexes are used; what is not given comes from pip's and uv's configuration."""

    TITLE: ClassVar[str] = "Package indexes"

    index_url: Annotated[str, Option(metavar="URL", help="Package index.")] = ""
    extra_index_urls: Annotated[
        tuple[str, ...],
        Option(flags=("--extra-index-url",), metavar="URL", help="Further index, after the first."),
    ] = ()
    find_links: Annotated[
        tuple[str, ...], Option(metavar="PATH", help="Folder or page with wheels.")
    ] = ()
    compared: Annotated[
        tuple[str, ...],
        Option(
            flags=("--compare-index",),
            metavar="NAME=URL",
            help="Its versions are further candidates beside those of the other indexes.",
        ),
    ] = ()
    no_index: Annotated[bool, Option(help="Use no index; --find-links alone.")] = False
    offline: Annotated[bool, Option(help="Use what is cached.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTargetOptions:
    """What a resolution is for: a base, or a target that is stated; ours by default.

    base: a base's name, an image, or an interpreter. python, platform: either may be "".
    """

    TITLE: ClassVar[str] = "Where stacks run"

    base: Annotated[str, Option(metavar="NAME", help="Base, image, or Python such as 3.11.")] = ""
    python: Annotated[str, Option(metavar="X.Y", help="Python to resolve for.")] = ""
    platform: Annotated[
        str,
        Option(
            metavar="TAG",
            help="As manylinux_2_36_x86_64, macosx_14_0_arm64, win_amd64, linux.",
        ),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingOptions:
    """What is printed of a search space, and which of its stacks.

    explain: a package, or a requirement, whose versions are explained.
    contains: a lock file that may be one of the stacks.
    """

    TITLE: ClassVar[str] = "What is printed"

    count: Annotated[bool, Option(help="Print the number of stacks.", common=True)] = False
    one: Annotated[bool, Option(help="Print the newest stack.", common=True)] = False
    number: Annotated[
        int | None,
        Option(
            flags=("--list",),
            minimum=1,
            metavar="N",
            help="Print N stacks, newest choices first.",
            common=True,
        ),
    ] = None
    explain: Annotated[
        str,
        Option(
            metavar="NAME-OR-REQ",
            help="Why versions of it are, or are not, in stacks.",
            common=True,
        ),
    ] = ""
    contains: Annotated[
        Path | None,
        Option(
            metavar="LOCK",
            help="Is this lock one of the stacks, and if not, why?",
            common=True,
        ),
    ] = None
    every: Annotated[
        bool,
        Option(flags=("--all",), help="List stacks, not choices: the last decided varies first."),
    ] = False
    sample: Annotated[
        int | None,
        Option(minimum=1, metavar="N", help="N stacks, spread over the versions that vary."),
    ] = None
    uniform: Annotated[bool, Option(help="Sample all stacks alike, whatever varies.")] = False
    sample_rest: Annotated[bool, Option(help="Sample also what does not vary.")] = False
    cover: Annotated[bool, Option(help="Few stacks with every pair of varied versions.")] = False
    seed: Annotated[int, Option(help="Seed of samples.")] = 0

    @property
    def kind(self) -> Listing:
        """Return which stacks are listed."""
        if self.sample is not None:
            return Listing.UNIFORM if self.uniform else Listing.STRATIFIED
        if self.every:
            return Listing.STACKS
        return Listing.COVER if self.cover else Listing.CHOICES

    @property
    def given(self) -> dict[str, bool]:
        """Return the options that exclude each other, and whether each was given."""
        return {
            "--count": self.count,
            "--one": self.one,
            "--list": self.number is not None,
            "--sample": self.sample is not None,
            "--cover": self.cover,
            "--explain": bool(self.explain),
            "--contains": self.contains is not None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunOptions:
    """How one indicator is measured in an interpreter as it is.

    python: an interpreter, a virtualenv's folder, or a name on PATH; "" means our own.
    repeats: fresh processes for each combination of parameters.
    gpus: as in ``Limits``; "all" leaves to the user's variables which ones are seen.
    trace: a folder for profiler traces, or None.
    seed: of the order of processes.
    """

    TITLE: ClassVar[str] = "Options"

    python: Annotated[
        str, Option(metavar="PATH", help="Interpreter or virtualenv. [default: our own]")
    ] = ""
    samples: Annotated[int, Option(minimum=1, help="Timings that are kept of a process.")] = (
        DEFAULT_SAMPLES
    )
    repeats: Annotated[
        int,
        Option(
            minimum=1,
            help="Fresh processes of each combination, in random order: shows how far they are "
            "apart. To compare versions of packages, use stackgen explore.",
        ),
    ] = 1
    gpus: Annotated[
        str,
        Option(
            metavar="IDS",
            parse=lambda text: "" if text == "none" else parse_gpus(text),
            show=str,
            help="all, none, or numbers like 0,1.",
        ),
    ] = "all"
    trace: Annotated[
        Path | None, Option(metavar="DIR", help="Keep a profiler trace of each combination.")
    ] = None
    seed: Annotated[int, Option(help="Seed of the order of measurements.")] = 0
