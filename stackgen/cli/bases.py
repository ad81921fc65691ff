"""The command about bases: ``stackgen images bases``."""

import os
import sys
from typing import Annotated

import typer

from stackgen.cli.options import AsJson


def images_bases(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Bases; all by default.")
    ] = None,
    make: Annotated[
        bool, typer.Option("--make", help="Make those that the engine does not hold yet.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the bases: which Python, libc, machine and BLAS each has, and how it is had.

    A base of your own is a file NAME.toml in the folder that STACKGEN_IMAGES names.
    """
    from stackgen.pipeline.bases import bases
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, bases_text, open_progress

    with open_progress(sys.stderr) as progress:
        found = bases(names or (), make=make, places=find_places(os.environ), progress=progress)
    typer.echo(as_json(found) if json else bases_text(found))
    raise typer.Exit(found.exit_code)
