"""The command that asks other resolvers about a lock."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from stackgen.cli.options import AsJson, BaseName
from stackgen.errors import UsageError


def verify(
    lock: Annotated[Path, typer.Argument(metavar="LOCK", help="Pipfile.lock, poetry.lock, ...")],
    base: BaseName = "",
    python: Annotated[
        str, typer.Option("--python", metavar="PY", help="Interpreter, or its version.")
    ] = "",
    json: AsJson = False,
) -> None:
    """Ask uv and pip-tools whether a lock holds.

    They are given its packages as pins, must accept all of them, and must find nothing missing
    and, where the lock says what was asked for, nothing superfluous. Nothing is installed.
    """
    from stackgen.pipeline.places import find_places
    from stackgen.pipeline.verify import verify as run
    from stackgen.render import as_json, open_progress, verification_text

    if base and python:
        raise UsageError(
            "--base and --python were given together",
            why="a lock is verified for one target at a time",
            fix="give one of them",
        )
    with open_progress(sys.stderr) as progress:
        found = run(
            lock,
            base=base or python,
            places=find_places(os.environ),
            environ=os.environ,
            progress=progress,
        )
    typer.echo(as_json(found) if json else verification_text(found))
    raise typer.Exit(found.exit_code)
