"""Options that say which command of the user's is measured, and what it may see."""

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.errors import UsageError

if TYPE_CHECKING:
    from stackgen.pipeline.places import Places
    from stackgen.values import IndicatorCall


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
    places: "Places",
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
    from stackgen.pipeline import program

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
    path = program.key_path(places.knowledge)
    return program.program_call(
        wishes,
        os.environ,
        key=lambda: program.kept_key(path, dry_run=dry_run),
        besides=program.own_files(places.knowledge, places.cache),
    )
