"""Commands that resolve and check, and install nothing: resolve, verify, provenance."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from stackgen.campaign.options import (
    IndexOptions,
    RequirementOptions,
    SourceOptions,
    VariationOptions,
)
from stackgen.cli.commands import Without
from stackgen.cli.options import (
    ANSWER_QUICKLY_S,
    AsJson,
    LockArgument,
    print_report,
    refuse_no_requirement,
    user_paths,
)
from stackgen.commands.options import ListingOptions, StatedTargetOptions, VulnerabilityOptions
from stackgen.errors import UsageError
from stackgen.model.choices import Completion
from stackgen.model.options import option
from stackgen.report.terminal import open_progress

if TYPE_CHECKING:
    from stackgen.model.reports.resolution import Resolution


class Format(str, Enum):
    """How stacks are written."""

    TABLE = "table"
    JSON = "json"
    REQUIREMENTS = "requirements"
    PYLOCK = "pylock"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """How stacks are written."""

    TITLE: ClassVar[str] = "Output format"

    json: bool = option(False, help="Print the result as JSON.", common=True)
    format: Format = option(Format.TABLE, help="Of the output.")
    hashes: bool = option(False, help="With --format requirements: also hashes.")

    @property
    def style(self) -> Format:
        """Return the format that is printed."""
        return Format.JSON if self.json and self.format is Format.TABLE else self.format

    @property
    def is_lock_file(self) -> bool:
        """Return whether what is printed is one lock file."""
        return self.style in (Format.REQUIREMENTS, Format.PYLOCK)


def resolve(
    requirements: RequirementOptions,
    sources: SourceOptions,
    listing: ListingOptions,
    variation: VariationOptions = VariationOptions(completion=Completion.NEWEST),
    target: StatedTargetOptions = StatedTargetOptions(),
    output: FormatOptions = FormatOptions(),
    index: IndexOptions = IndexOptions(),
) -> None:
    """Count the stacks that satisfy REQUIREMENT..., and print some of them.

    A stack is a complete set of versions. Exit code 4 means that none satisfies it; the error
    says why, and what would help. Nothing is installed (but --base makes a base that is missing).
    """
    refuse_no_requirement(requirements, command="resolve")
    from stackgen.commands.resolve import ResolveRequest
    from stackgen.commands.resolve import resolve as run

    _refuse_contradictions(listing, output)
    request = ResolveRequest(
        requirements=requirements,
        sources=sources,
        variation=variation,
        index=index,
        target=target,
        listing=listing,
        as_file=output.is_lock_file,
    )
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        found = run(request, user_paths(), os.environ, progress)
        for note in found.notes:
            progress.note(note)
    typer.echo(_text(found, listing, output), nl=False)
    if found.membership is not None and not found.membership.inside:
        raise typer.Exit(4)


def _refuse_contradictions(listing: ListingOptions, output: FormatOptions) -> None:
    style = output.style
    one_file = {f"--format {style.value}": output.is_lock_file and not listing.one}
    _refuse_together({**listing.given, **one_file})
    sampling = {"--uniform": listing.uniform, "--sample-rest": listing.sample_rest}
    _refuse_without("--sample", listing.sample is not None, sampling)
    of_requirements = style is Format.REQUIREMENTS
    _refuse_without("--format requirements", of_requirements, {"--hashes": output.hashes})
    _refuse_without("--format json", not output.is_lock_file, {"--json": output.json})


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


def _text(found: "Resolution", listing: ListingOptions, output: FormatOptions) -> str:
    from stackgen.locks import writing
    from stackgen.report.resolve import count_text, resolution_text, stack_text
    from stackgen.report.tables import as_json

    if output.style is Format.JSON:
        return f"{as_json(found)}\n"
    if listing.count:
        return f"{count_text(found)}\n"
    if found.explained or found.membership or not (listing.one or output.is_lock_file):
        return f"{resolution_text(found)}\n"
    lock = found.stacks[0].lock
    if output.style is Format.REQUIREMENTS:
        return writing.write_requirements(lock, hashes=output.hashes)
    if output.style is Format.PYLOCK:
        return writing.write_pylock(lock, found.target)
    return f"{stack_text(lock)}\n"


def verify(
    lock: LockArgument,
    base: Annotated[
        str, typer.Option(metavar="NAME", help="Base, image, or Python such as 3.11.")
    ] = "",
    json: AsJson = False,
    index: Annotated[IndexOptions, Without(("compared", "offline"))] = IndexOptions(),
) -> None:
    """Check a lock with uv and pip-tools.

    They are given its packages as pins, must accept all of them, and must find nothing missing
    and, where the lock says what is required, nothing superfluous. Nothing is installed.
    """
    from stackgen.commands.verify import verify as run
    from stackgen.report.listings import verification_text

    with open_progress(sys.stderr) as progress:
        found = run(lock, index, user_paths(), os.environ, progress, base=base)
    print_report(found, verification_text, json=json)
    raise typer.Exit(found.exit_code)


def provenance(
    lock: LockArgument,
    vulnerabilities: VulnerabilityOptions = VulnerabilityOptions(),
    allow_index: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Index a lock may name (default: the configured ones)."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Leave out findings of this code or vulnerability id."),
    ] = None,
    json: AsJson = False,
    index: IndexOptions = IndexOptions(),
) -> None:
    """Compare a lock with the package indexes, and its releases with known vulnerabilities.

    Only configured indexes are contacted, whatever the lock names. Exit code 7 means that there
    are errors (warnings are none), and 3 that vulnerabilities could not be checked as requested.
    """
    from stackgen.commands.provenance import ProvenanceRequest
    from stackgen.commands.provenance import provenance as run
    from stackgen.report.provenance import provenance_text

    request = ProvenanceRequest(
        allowed=tuple(allow_index or ()),
        ignored=tuple(ignore or ()),
        vulnerabilities=vulnerabilities,
    )
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        found = run(lock, request, index, user_paths(), os.environ, progress)
    print_report(found, provenance_text, json=json)
    raise typer.Exit(found.exit_code)
