"""The option groups of a campaign, as a user gives them: what is resolved, measured, and where.

Those that no campaign needs (``resolve``, ``advise``, ``pi run``) are in ``commands/options.py``.
Each group is shown under its own heading in ``--help``; see ``stackgen.model.options``. Defaults
that differ between commands are given where a command declares the group.
"""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from stackgen.errors import UsageError
from stackgen.model.choices import (
    Better,
    Completion,
    ExecutorChoice,
    Granularity,
    Order,
    Prereleases,
    Strategy,
)
from stackgen.model.goals import Goal, Limit, parse_goals, parse_limits
from stackgen.model.options import (
    format_duration,
    format_percent,
    option,
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
DEFAULT_MARGIN = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementOptions:
    """What every stack must satisfy, as text and files; reading them is ``user_input``'s."""

    TITLE: ClassVar[str] = "Requirements"

    requirements: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="REQUIREMENT...",
        help='As in "tensorflow>=2.7", in quotes; "a|b" takes either; or the path of a wheel.',
    )
    files: tuple[Path, ...] = option(
        (),
        "-r",
        "--requirement",
        metavar="FILE",
        help="requirements.txt, pyproject.toml or Pipfile.",
        common=True,
    )
    extras: tuple[str, ...] = option(
        (), "--extra", metavar="NAME", help="Extra of the pyproject.toml."
    )
    groups: tuple[str, ...] = option(
        (), "--group", metavar="NAME", help="Dependency group of the file."
    )
    constraints: tuple[Path, ...] = option(
        (),
        "-c",
        "--constraint",
        metavar="FILE",
        help="Limits versions without requiring the packages.",
    )
    overrides: tuple[str, ...] = option(
        (),
        "--override",
        metavar="REQUIREMENT",
        help="Replaces all that other packages require of it.",
    )
    excluded: tuple[str, ...] = option(
        (),
        "--exclude",
        metavar="NAME",
        parse=parse_names,
        help="Leave this package out, also where another one requires it.",
    )
    pre: bool = option(False, help="Same as --prerelease allow.")
    prerelease: Prereleases = option(
        Prereleases.IF_NECESSARY, help="Which prereleases are candidates, as in uv."
    )
    exclude_newer: str = option(
        "", metavar="DATE", help="Ignore files uploaded after this date (ISO 8601)."
    )

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

    allow_build: tuple[str, ...] = option(
        (),
        "--allow-build",
        metavar="NAME",
        parse=parse_names,
        help="Where NAME has no wheel, build it from source. That runs its authors' code, in "
        "a container without network; ':all:' allows it for every package.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariationOptions:
    """In what the stacks differ."""

    TITLE: ClassVar[str] = "What varies"

    vary: tuple[str, ...] = option(
        (), metavar="NAME", parse=parse_names, help="Vary this package as well.", common=True
    )
    granularity: Granularity = option(
        Granularity.MINOR, help="minor: the newest patch of each minor release; patch: all."
    )
    completion: Completion = option(
        Completion.NEWEST_WORKING, help="How packages that do not vary are chosen."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOptions:
    """What is explored around, and what the stacks are compared with."""

    TITLE: ClassVar[str] = "What varies"

    fixed: tuple[str, ...] = option(
        (), "--fix", metavar="NAME", parse=parse_names, help="Do not vary this package."
    )
    settings: tuple[tuple[str, tuple[str, ...]], ...] = option(
        (),
        "--set",
        metavar="VARIABLE=V1,V2",
        help="Vary an environment variable.",
        parse=parse_settings,
    )
    around: Path | None = option(
        None,
        "--from",
        metavar="FILE",
        help="Explore around this lock, which is the baseline; or what your project requires "
        "(requirements.txt, pyproject.toml, Pipfile): it is in every stack.",
        common=True,
    )
    baseline: Path | None = option(
        None,
        metavar="LOCK",
        help="Compare every stack with this lock as it is, without exploring around it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorOptions:
    """What is measured."""

    TITLE: ClassVar[str] = "Measurement"

    indicators: tuple[str, ...] = option(
        (),
        "--pi",
        metavar="NAME",
        help="Indicator, or your own .py file [default: matmul].",
        common=True,
    )
    parameters: tuple[tuple[str, str], ...] = option(
        (),
        "--param",
        metavar="NAME=VALUE",
        help="Parameter of the indicator.",
        parse=parse_parameters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """How observations are compared.

    weights: of indicators, by their names; 1 where none is given.
    margin: a relative difference that does not matter.
    """

    TITLE: ClassVar[str] = "Measurement"

    weights: tuple[tuple[str, float], ...] = option(
        (),
        "--weight",
        metavar="NAME=NUMBER",
        help="How much an indicator counts, as in matmul=2 [default: 1].",
        parse=parse_weights,
    )
    margin: float = option(
        DEFAULT_MARGIN,
        metavar="PERCENT",
        help="A difference that does not matter to you.",
        parse=parse_margin,
        show=format_percent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOptions:
    """What a stack shall be good at besides speed.

    goals: each with its weight; None where none is given.
    """

    TITLE: ClassVar[str] = "Goals"

    goals: tuple[tuple[Goal, float | None], ...] = option(
        (),
        "--goal",
        metavar="NAME[=WEIGHT]",
        help="speed, import, memory or size. Several without weights give a Pareto front, with "
        "weights (speed=2) one winner [default: speed].",
        parse=parse_goals,
    )
    limits: tuple[Limit, ...] = option(
        (),
        "--at-most",
        metavar="QUANTITY=AMOUNT",
        help='Only stacks within it win: "peak memory=4GB", "import time=2s", "import memory", '
        '"download size", "installed size".',
        parse=parse_limits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOptions:
    """Which processors measure, and which do all else.

    threads: 0 chooses max(1, cores - 1).
    measure_cpus: the CPUs that are measured on; empty means the last ones.
    build_cpus: where all else is done; empty means anywhere.
    gpus: numbers or ids with commas between them, or "all"; "" shows none.
    """

    TITLE: ClassVar[str] = "Processors"

    threads: int = option(0, minimum=0, help="0 takes all cores but one.")
    measure_cpus: tuple[int, ...] = option(
        (),
        metavar="LIST",
        help="Measure on these CPUs and no others, as in 2-3 or 0,4-7.",
        parse=partial(parse_cpu_list, option="--measure-cpus"),
        repeated=False,
    )
    build_cpus: tuple[int, ...] = option(
        (),
        metavar="LIST",
        help="Do all else on these CPUs; builds still wait for measurements.",
        parse=partial(parse_cpu_list, option="--build-cpus"),
        repeated=False,
    )
    gpus: str = option(
        "",
        metavar="IDS",
        help="GPUs that stacks see: all, or numbers like 0,1 [default: none].",
        parse=parse_gpus,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingOptions:
    """What measuring on more CPUs brings.

    cpus: numbers of CPUs that everything is measured on; empty means one number, by ``threads``.
    """

    TITLE: ClassVar[str] = "Processors"

    cpus: tuple[int, ...] = option(
        (),
        metavar="N,N",
        help="Measure everything on so many CPUs each, as in 1,2,4.",
        parse=parse_cpu_counts,
        repeated=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """What measured work costs.

    price_per_hour: of this machine, all of its CPUs.
    prices: a file with prices by number of CPUs.
    """

    TITLE: ClassVar[str] = "Processors"

    price_per_hour: float | None = option(
        None, metavar="PRICE", help="Of this machine: reports what work costs."
    )
    prices: Path | None = option(
        None, metavar="FILE", help="TOML: prices per hour by number of CPUs."
    )

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

    command: str | None = option(
        None,
        "--pi-command",
        metavar="COMMAND",
        help='Measure a command of yours, as in "python train.py --epochs 1". It runs in a '
        "fresh copy of the project; what it writes is discarded.",
        common=True,
    )
    project: Path | None = option(
        None, metavar="DIR", help="Folder that COMMAND runs in [default: the current one]."
    )
    data: tuple[Path, ...] = option((), metavar="DIR", help="Further folder that COMMAND reads.")
    variables: tuple[str, ...] = option(
        (),
        "--env",
        metavar="NAME",
        help="Pass this environment variable to COMMAND (NAME=VALUE sets it).",
    )
    network: bool = option(False, help="Let COMMAND use the network.")
    figure: str = option(
        "",
        metavar="REGEX",
        help="Compare a number that COMMAND prints, not its time: 'loss: ([0-9.e-]+)'; the "
        "last one counts.",
    )
    better: Better | None = option(None, help="Which figures are better [default: lower].")
    check: str = option(
        "", metavar="FILE", help="File that COMMAND writes: is it equal in every stack?"
    )
    time_limit_s: float | None = option(
        None,
        "--time-limit",
        metavar="TIME",
        help="Of one run of COMMAND [default: the budget].",
        parse=partial(parse_duration, option="--time-limit"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOptions:
    """How long building and measuring may take together, and in which order it is done.

    Commands with another default budget give it where they declare the group (``cli/measure.py``).
    """

    TITLE: ClassVar[str] = "Budget and search"

    budget_s: float = option(
        1800.0,
        "--budget",
        metavar="TIME",
        help="For building and measuring, as in 90s, 30m, 2h.",
        parse=parse_duration,
        show=format_duration,
        common=True,
    )
    seed: int = option(0, help="Seed of the order of measurements.")


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

    stacks: int = option(
        0,
        minimum=0,
        metavar="INTEGER",
        help="How many stacks take part [default: 16; newest: 6; spread: 5].",
    )
    order: Order = option(
        Order.AUTO,
        help="Which stacks take part first. spread: over releases, NumPy's major versions and "
        "settings (the default ones first); auto: that, where only a framework is named.",
    )
    download_bytes: int | None = option(
        None,
        "--download-budget",
        metavar="SIZE",
        help="Of the wheels of all stacks that are spread [default: 1.5GB].",
        parse=parse_size,
    )
    strategy: Strategy = option(
        Strategy.RACING,
        help="racing: blocks of four stacks that may be the fastest; random, pairwise: of "
        "others; the best two are then compared with the baseline. exhaustive, newest: all "
        "at once.",
    )
    confidence: float | None = option(
        None,
        minimum=0.5,
        maximum=0.999,
        help="Of the leader being within the margin of the best: ends a search "
        f"[default: {DEFAULT_CONFIDENCE}].",
    )

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

    base: str = option("", metavar="NAME", help="Base, image, or Python such as 3.11.", common=True)
    executor: ExecutorChoice = option(
        ExecutorChoice.AUTO, help="auto: containers where they can be had, else virtualenvs."
    )
    rebuild: bool = option(False, help="Build again what failed to build.")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """Which package indexes are used; what is not given comes from pip's and uv's configuration."""

    TITLE: ClassVar[str] = "Package indexes"

    index_url: str = option("", metavar="URL", help="Package index.")
    extra_index_urls: tuple[str, ...] = option(
        (), "--extra-index-url", metavar="URL", help="Further index, after the first."
    )
    find_links: tuple[str, ...] = option((), metavar="PATH", help="Folder or page with wheels.")
    compared: tuple[str, ...] = option(
        (),
        "--compare-index",
        metavar="NAME=URL",
        help="Its versions are further candidates beside those of the other indexes.",
    )
    no_index: bool = option(False, help="Use no index; --find-links alone.")
    offline: bool = option(False, help="Use what is cached.")
