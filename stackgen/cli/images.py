"""Commands about bases, images, and the store of wheels and layers."""

import os
import re
from typing import Annotated

import typer

from stackgen.cli.bases import images_bases
from stackgen.cli.options import AsJson
from stackgen.cli.stack_images import images_build, images_export, images_list, images_show
from stackgen.errors import UsageError

images_app = typer.Typer(help="Bases, images that were built, and the store they are made from.")
images_app.command("bases", epilog="Example: stackgen images bases py37 --make")(images_bases)
images_app.command(
    "build", epilog="Example: stackgen images build Pipfile.lock --base bookworm-py311 --tag mine"
)(images_build)
images_app.command("list")(images_list)
images_app.command("show", epilog="Example: stackgen images show mine")(images_show)
images_app.command(
    "export",
    epilog="Examples: stackgen images export mine --oci folder | "
    "stackgen images export Pipfile.lock --dockerfile folder",
)(images_export)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@images_app.callback()
def images(context: typer.Context, json: AsJson = False) -> None:
    """List the bases, and the images of stacks that the engine holds."""
    if context.invoked_subcommand is None:
        from stackgen.pipeline.images import overview
        from stackgen.pipeline.places import find_places
        from stackgen.render import as_json, images_text

        found = overview(find_places(os.environ))
        typer.echo(as_json(found) if json else images_text(found))


@images_app.command("prune", epilog="Example: stackgen images prune --keep 20GB --images 10")
def images_prune(
    keep: Annotated[str, typer.Option(metavar="SIZE", help="How much stays in all, as 20GB.")] = "",
    images: Annotated[
        int | None, typer.Option(min=0, help="How many images stay in the engine.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Remove what was not used for longest: wheels, layers, virtualenvs, images of stacks.

    What another process or a container is using stays, and so do images that you named. What was
    removed is fetched or made again when a stack needs it.
    """
    from stackgen.pipeline.places import find_places
    from stackgen.pipeline.store import prune
    from stackgen.render import as_json, pruned_text

    if not keep and images is None:
        raise UsageError(
            "there is nothing to prune",
            why="neither --keep nor --images was given",
            fix="say what stays, as in: stackgen images prune --keep 20GB --images 10",
        )
    found = prune(
        find_places(os.environ),
        keep_bytes=parse_size(keep) if keep else None,
        keep_images=images,
        dry_run=dry_run,
    )
    typer.echo(as_json(found) if json else pruned_text(found))


@images_app.command("fsck", epilog="Exit status: 0 the store is whole, 9 it is damaged.")
def images_fsck(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what is damaged or left over.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Compare every wheel and layer, and every file in a virtualenv, with its digest.

    It also finds what killed processes left. What --repair removes is fetched or made again when
    a stack needs it.
    """
    from stackgen.pipeline.places import find_places
    from stackgen.pipeline.store import check
    from stackgen.render import as_json, check_text

    found = check(find_places(os.environ), repair=repair)
    typer.echo(as_json(found) if json else check_text(found))
    raise typer.Exit(found.exit_code)


def parse_size(text: str) -> int:
    """Return bytes: ``20GB``, ``1.5 TB``, ``512MiB``; a bare number is bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.strip().lower())
    unit = (_UNITS | _BINARY_UNITS).get(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"cannot read the size {text!r}",
            why="it is a number of bytes, or one that ends in kB, MB, GB, TB, MiB or GiB",
            fix="give it as in: --keep 20GB",
        )
    return int(float(match[1]) * unit)
