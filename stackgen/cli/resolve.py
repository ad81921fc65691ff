"""Commands that resolve and check, and install nothing: resolve, verify."""

import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.campaign.options import (
    IndexOptions,
    RequirementOptions,
    SourceOptions,
    VariationOptions,
)
from stackgen.cli.options import (
    ANSWER_QUICKLY_S,
    AsJson,
    LockArgument,
    refuse_redirected_requirement,
)
from stackgen.errors import UsageError
from stackgen.model.choices import Completion

if TYPE_CHECKING:
    from stackgen.model.reports import Resolution

MOST_STACKS_OF_A_COVER = 1_000_000
LISTING, TARGET, OUTPUT = "What is printed", "Where stacks run", "Output format"


class Format(str, Enum):
    """How stacks are written."""

    TABLE = "table"
    JSON = "json"
    REQUIREMENTS = "requirements"
    PYLOCK = "pylock"


ONE_STACK_FORMATS = (Format.REQUIREMENTS, Format.PYLOCK)

Base = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Base, image, or Python such as 3.11.",
        rich_help_panel=TARGET,
    ),
]


def resolve(
    requirements: RequirementOptions,
    sources: SourceOptions,
    count: Annotated[bool, typer.Option("--count", help="Print the number of stacks.")] = False,
    one: Annotated[bool, typer.Option("--one", help="Print the newest stack.")] = False,
    number: Annotated[
        int | None,
        typer.Option("--list", min=1, metavar="N", help="Print N stacks, newest choices first."),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="List stacks, not choices: the last decided varies first.",
            rich_help_panel=LISTING,
        ),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="N stacks, spread over the versions that vary.",
            rich_help_panel=LISTING,
        ),
    ] = None,
    uniform: Annotated[
        bool,
        typer.Option(
            "--uniform",
            help="Sample all stacks alike, whatever varies.",
            rich_help_panel=LISTING,
        ),
    ] = False,
    rest: Annotated[
        bool,
        typer.Option(
            "--sample-rest",
            help="Sample also what does not vary.",
            rich_help_panel=LISTING,
        ),
    ] = False,
    cover: Annotated[
        bool,
        typer.Option(
            "--cover",
            help="Few stacks with every pair of varied versions.",
            rich_help_panel=LISTING,
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of samples.", rich_help_panel=LISTING)] = 0,
    variation: VariationOptions = VariationOptions(completion=Completion.NEWEST),
    explain: Annotated[
        str,
        typer.Option(metavar="NAME-OR-REQ", help="Why versions of it are, or are not, in stacks."),
    ] = "",
    contains: Annotated[
        Path | None,
        typer.Option(metavar="LOCK", help="Is this lock one of the stacks, and if not, why?"),
    ] = None,
    base: Base = "",
    python: Annotated[
        str,
        typer.Option(metavar="X.Y", help="Python to resolve for.", rich_help_panel=TARGET),
    ] = "",
    platform: Annotated[
        str,
        typer.Option(
            metavar="TAG",
            help="As manylinux_2_36_x86_64, macosx_14_0_arm64, win_amd64, linux.",
            rich_help_panel=TARGET,
        ),
    ] = "",
    style: Annotated[
        Format, typer.Option("--format", help="Of the output.", rich_help_panel=OUTPUT)
    ] = Format.TABLE,
    hashes: Annotated[
        bool,
        typer.Option(
            "--hashes",
            help="With --format requirements: also hashes.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    json: AsJson = False,
    index: IndexOptions = IndexOptions(),
) -> None:
    """Count the stacks that satisfy REQUIREMENT..., and print some of them.

    A stack is a complete set of versions. Exit code 4 means that none satisfies it; the error
    says why, and what would help. Nothing is installed (but --base makes a base that is missing).
    """
    refuse_redirected_requirement()
    from stackgen.commands.resolve import Listing, ResolveRequest
    from stackgen.commands.resolve import resolve as run
    from stackgen.report import open_progress
    from stackgen.storage.paths import find_paths

    if not requirements.requirements and not requirements.files:
        raise UsageError(
            "there is nothing to resolve",
            why="neither a requirement nor a file was given",
            fix='name one, as in: stackgen resolve "tensorflow>=2.7"',
        )
    style = Format.JSON if json and style is Format.TABLE else style
    _refuse_together(
        {
            "--count": count,
            "--one": one,
            "--list": number is not None,
            "--sample": sample is not None,
            "--cover": cover,
            "--explain": bool(explain),
            "--contains": contains is not None,
            f"--format {style.value}": style in ONE_STACK_FORMATS and not one,
        }
    )
    _refuse_without("--sample", sample is not None, {"--uniform": uniform, "--sample-rest": rest})
    _refuse_without("--format requirements", style is Format.REQUIREMENTS, {"--hashes": hashes})
    _refuse_without("--format json", style not in ONE_STACK_FORMATS, {"--json": json})
    listing = Listing.STACKS if every else Listing.COVER if cover else Listing.CHOICES
    if sample is not None:
        listing = Listing.UNIFORM if uniform else Listing.STRATIFIED
    default = MOST_STACKS_OF_A_COVER if cover else 1 if one or style in ONE_STACK_FORMATS else 3
    request = ResolveRequest(
        requirements=requirements,
        sources=sources,
        variation=variation,
        index=index,
        base=base,
        python=python,
        platform=platform,
        listing=listing,
        n=0 if count else sample or number or default,
        seed=seed,
        sample_rest=rest,
        explain=explain,
        contains=contains,
        complete=style in ONE_STACK_FORMATS,
    )
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        found = run(request, find_paths(os.environ), os.environ, progress)
        for note in found.notes:
            progress.note(note)
    typer.echo(_text(found, style, count=count, one=one, hashes=hashes), nl=False)
    if found.membership is not None and not found.membership.inside:
        raise typer.Exit(4)


def _refuse_together(given: Mapping[str, bool]) -> None:
    """Refuse questions that have different answers."""
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise UsageError(
            f"{' and '.join(names)} were given together",
            why="each prints something else",
            fix=f"give one of them, as in: stackgen resolve ... {names[0]}",
        )


def _refuse_without(needed: str, is_there: bool, given: Mapping[str, bool]) -> None:
    """Refuse options that mean nothing without another one."""
    for name, is_given in given.items():
        if is_given and not is_there:
            raise UsageError(
                f"{name} was given without {needed}",
                why="it means nothing by itself",
                fix=f"add {needed}, or leave {name} out",
            )


def _text(found: "Resolution", style: Format, *, count: bool, one: bool, hashes: bool) -> str:
    from stackgen.locks import write_pylock, write_requirements
    from stackgen.report import as_json, count_text, resolution_text, stack_text

    if style is Format.JSON:
        return f"{as_json(found)}\n"
    if count:
        return f"{count_text(found)}\n"
    if found.explained or found.membership or (style is Format.TABLE and not one):
        return f"{resolution_text(found)}\n"
    lock = found.stacks[0].lock
    if style is Format.REQUIREMENTS:
        return write_requirements(lock, hashes=hashes)
    if style is Format.PYLOCK:
        return write_pylock(lock, found.target)
    return f"{stack_text(lock)}\n"


def verify(
    lock: LockArgument,
    base: Base = "",
    python: Annotated[
        str, typer.Option("--python", metavar="PY", help="Interpreter, or its version.")
    ] = "",
    json: AsJson = False,
) -> None:
    """Check a lock with uv and pip-tools.

    They are given its packages as pins, must accept all of them, and must find nothing missing
    and, where the lock says what is required, nothing superfluous. Nothing is installed.
    """
    from stackgen.commands.verify import verify as run
    from stackgen.report import as_json, open_progress, verification_text
    from stackgen.storage.paths import find_paths

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
            paths=find_paths(os.environ),
            environ=os.environ,
            progress=progress,
        )
    typer.echo(as_json(found) if json else verification_text(found))
    raise typer.Exit(found.exit_code)
