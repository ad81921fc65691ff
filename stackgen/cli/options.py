"""Options that several commands have and that belong to no request."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from stackgen.errors import UsageError

if TYPE_CHECKING:
    from stackgen.campaign.options import RequirementOptions
    from stackgen.storage.paths import Paths

_T = TypeVar("_T")

ANSWER_QUICKLY_S = 1.0
"""Progress of commands that usually answer at once is shown after this many seconds."""

LOCK_FILES = (
    "Pipfile.lock, poetry.lock, uv.lock, pdm.lock, pylock.toml, or requirements.txt with == pins."
)

KnowledgeBase = Annotated[
    Path | None,
    typer.Option("--kb", metavar="FILE", help="Knowledge base (or STACKGEN_KB)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print count and plan; build nothing.")]
LockOut = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write the best stack there, as pylock.toml and requirements.txt with hashes.",
    ),
]
LockArgument = Annotated[Path, typer.Argument(metavar="LOCK", help=LOCK_FILES)]


def user_paths(*, kb: Path | None = None, reading: bool = False) -> "Paths":
    """Return where the user's data and caches are; see ``find_paths``."""
    from stackgen.storage.paths import find_paths

    return find_paths(os.environ, kb=kb, reading=reading)


def print_report(found: _T, text: Callable[[_T], str], *, json: bool) -> None:
    """Print a report as JSON, or as text."""
    from stackgen.report.tables import as_json
    from stackgen.report.terminal import printable

    typer.echo(as_json(found) if json else printable(text(found)))


def refuse_redirected_requirement() -> None:
    """Stop where the shell took an unquoted ``>=`` for a redirection of our output.

    Raises:
        UsageError: standard output is a file whose name begins with ``=``.
    """
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


def refuse_no_requirement(
    given: "RequirementOptions", around: Path | None = None, *, command: str
) -> None:
    """Stop where a command has no requirements to work on.

    Raises:
        UsageError: neither a requirement nor a file was given, nor what is explored around; or the
            shell took one for a redirection.
    """
    refuse_redirected_requirement()
    if not (given.requirements or given.files or around):
        raise UsageError(
            f"there is nothing to {command}",
            why="neither a requirement nor a file was given",
            fix=f'name one, as in: stackgen {command} "tensorflow>=2.7"',
        )
