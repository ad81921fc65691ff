"""The command that counts, lists and explains stacks; it installs nothing."""

import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stackgen.cli import options as given
from stackgen.cli.options import (
    AsJson,
    BaseName,
    Completion,
    CompletionName,
    Granularity,
    GranularityName,
    refuse_empty,
)
from stackgen.errors import UsageError

PATIENCE_S = 1.0
"""What takes no longer than this is over before anybody wonders."""


MANY = 1_000_000
"""More stacks than a cover ever has."""


class Format(str, Enum):
    """How stacks are written."""

    table = "table"
    json = "json"
    requirements = "requirements"
    pylock = "pylock"


WRITTEN = (Format.requirements, Format.pylock)
"""These hold one stack, the newest."""


def resolve(
    requirements: given.Requirements = None,
    file: given.Files = [],  # noqa: B006 # typer copies it
    extra: given.Extras = [],  # noqa: B006
    group: given.Groups = [],  # noqa: B006
    constraint: given.Constraints = [],  # noqa: B006
    override: given.Overrides = [],  # noqa: B006
    exclude: given.Excluded = [],  # noqa: B006
    allow_build: given.AllowBuild = [],  # noqa: B006
    pre: given.Pre = False,
    prerelease: given.PrereleasePolicy = None,
    exclude_newer: given.ExcludeNewer = None,
    count: Annotated[bool, typer.Option("--count", help="Print the number of stacks.")] = False,
    one: Annotated[bool, typer.Option("--one", help="Print the newest stack.")] = False,
    number: Annotated[
        int | None,
        typer.Option("--list", min=1, metavar="N", help="Print N stacks, newest choices first."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List stacks, not choices: the last decided varies first.")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="N stacks, spread over the versions that vary."),
    ] = None,
    uniform: Annotated[
        bool, typer.Option("--uniform", help="Sample all stacks alike, whatever varies.")
    ] = False,
    rest: Annotated[
        bool, typer.Option("--sample-rest", help="Sample also what does not vary.")
    ] = False,
    cover: Annotated[
        bool, typer.Option("--cover", help="Few stacks with every pair of varied versions.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME",
            callback=refuse_empty,
            help="What varies [default: what is asked for].",
        ),
    ] = [],  # noqa: B006
    granularity: Granularity = GranularityName.minor,
    completion: Completion = CompletionName.newest,
    explain: Annotated[
        str,
        typer.Option(metavar="NAME-OR-REQ", help="Why versions of it are, or are not, in stacks."),
    ] = "",
    contains: Annotated[
        Path | None,
        typer.Option(metavar="LOCK", help="Is this lock one of the stacks, and if not, why?"),
    ] = None,
    base: BaseName = "",
    python: Annotated[str, typer.Option(metavar="X.Y", help="Python to resolve for.")] = "",
    platform: Annotated[
        str,
        typer.Option(
            metavar="TAG", help="As manylinux_2_36_x86_64, macosx_14_0_arm64, win_amd64, linux."
        ),
    ] = "",
    style: Annotated[Format, typer.Option("--format", help="Of the output.")] = Format.table,
    hashes: Annotated[
        bool, typer.Option("--hashes", help="With --format requirements: also hashes.")
    ] = False,
    json: AsJson = False,
    index_url: given.IndexUrl = None,
    extra_index_url: given.ExtraIndexUrl = [],  # noqa: B006
    find_links: given.FindLinks = [],  # noqa: B006
    compare_index: given.CompareIndex = [],  # noqa: B006
    no_index: given.NoIndex = False,
    offline: given.Offline = False,
) -> None:
    """Count the stacks that satisfy REQUIREMENT..., and print some of them.

    A stack is a complete set of versions. Exit code 4 means that none satisfies it; the error
    says why, and what would help. Nothing is installed (but --base makes a base that is lacking).
    """
    given.refuse_redirected_requirement()
    from stackgen.commands.resolve import Listing, ResolveOptions
    from stackgen.commands.resolve import resolve as run
    from stackgen.model import choices
    from stackgen.report import open_progress
    from stackgen.storage.paths import find_paths

    if not requirements and not file:
        raise UsageError(
            "there is nothing to resolve",
            why="neither a requirement nor a file was given",
            fix='name one, as in: stackgen resolve "tensorflow>=2.7"',
        )
    style = Format.json if json and style is Format.table else style
    _refuse_together(
        {
            "--count": count,
            "--one": one,
            "--list": number is not None,
            "--sample": sample is not None,
            "--cover": cover,
            "--explain": bool(explain),
            "--contains": contains is not None,
            f"--format {style.value}": style in WRITTEN and not one,
        }
    )
    _refuse_without("--sample", sample is not None, {"--uniform": uniform, "--sample-rest": rest})
    _refuse_without("--format requirements", style is Format.requirements, {"--hashes": hashes})
    _refuse_without("--format json", style not in WRITTEN, {"--json": json})
    listing = Listing.STACKS if every else Listing.COVER if cover else Listing.CHOICES
    if sample is not None:
        listing = Listing.UNIFORM if uniform else Listing.STRATIFIED
    wanted = sample or number or (MANY if cover else 1 if one or style in WRITTEN else 3)
    options = ResolveOptions(
        wishes=given.wishes(
            requirements=requirements,
            files=file,
            extras=extra,
            groups=group,
            constraints=constraint,
            overrides=override,
            excluded=exclude,
            pre=pre,
            prerelease=prerelease,
            exclude_newer=exclude_newer,
            index_url=index_url,
            extra_index_urls=extra_index_url,
            find_links=find_links,
            compared=compare_index,
            no_index=no_index,
            offline=offline,
            allow_build=tuple(allow_build),
        ),
        base=base,
        python=python,
        platform=platform,
        vary=tuple(vary),
        listing=listing,
        n=0 if count else wanted,
        seed=seed,
        sampled_rest=rest,
        granularity=choices.Granularity(granularity.value),
        completion=choices.Completion(completion.value),
        explain=explain,
        contains=contains,
        complete=style in WRITTEN,
    )
    with open_progress(sys.stderr, patience_s=PATIENCE_S) as progress:
        found = run(options, find_paths(os.environ), os.environ, progress)
        for note in found.notes:
            progress.note(note)
    typer.echo(_text(found, style, count=count, one=one, hashes=hashes), nl=False)
    if found.membership is not None and not found.membership.inside:
        raise typer.Exit(4)


def _refuse_together(given: Mapping[str, bool]) -> None:
    """Refuse questions that have different answers."""
    asked = [name for name, is_given in given.items() if is_given]
    if len(asked) > 1:
        raise UsageError(
            f"{' and '.join(asked)} were given together",
            why="each asks for an answer of its own",
            fix=f"give one of them, as in: stackgen resolve ... {asked[0]}",
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


def _text(found: object, style: Format, *, count: bool, one: bool, hashes: bool) -> str:
    from stackgen.locks import write_pylock, write_requirements
    from stackgen.model.reports import Resolution
    from stackgen.report import as_json, count_text, resolution_text, stack_text

    assert isinstance(found, Resolution)  # noqa: S101
    if style is Format.json:
        return f"{as_json(found)}\n"
    if count:
        return f"{count_text(found)}\n"
    if found.explained or found.membership or (style is Format.table and not one):
        return f"{resolution_text(found)}\n"
    lock = found.stacks[0].lock
    if style is Format.requirements:
        return write_requirements(lock, hashes=hashes)
    if style is Format.pylock:
        return write_pylock(lock, found.target)
    return f"{stack_text(lock)}\n"


# The command that asks other resolvers about a lock


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
