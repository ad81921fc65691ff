"""Commands that build images of stacks, list and show them, and write them for other tools."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.cli import asking
from stackgen.cli.options import AsJson, BaseName
from stackgen.errors import UsageError

if TYPE_CHECKING:
    from stackgen.pipeline.building import BuildOptions

_LOCKS = "Pipfile.lock, poetry.lock, uv.lock, pylock.toml, or requirements.txt with == pins."
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = re.compile(rf"(?:{_PART}:\d+/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII)


def images_build(
    lock: Annotated[Path, typer.Argument(metavar="LOCK", help=_LOCKS)],
    base: BaseName = "",
    allow_build: asking.BuildsSources = [],  # noqa: B006 # typer copies it
    rebuild: asking.Rebuild = False,
    tag: Annotated[str, typer.Option(metavar="NAME[:TAG]", help="Name of the image.")] = "",
    json: AsJson = False,
    index_url: asking.IndexUrl = None,
    extra_index_url: asking.ExtraIndexUrl = [],  # noqa: B006 # typer copies it
    find_links: asking.FindLinks = [],  # noqa: B006
    no_index: asking.NoIndex = False,
    offline: asking.Offline = False,
) -> None:
    """Build an image of exactly what a lock says.

    What is missing is downloaded; layers that the engine has are not made again. Nothing is
    resolved: what the lock lacks, the image lacks.
    """
    from stackgen.pipeline.building import build
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, built_text, open_progress

    if tag:
        refuse_tag(tag)
    options = replace(
        _options(lock, base, index_url, extra_index_url, find_links, no_index, offline),
        allow_build=tuple(allow_build),
        rebuild=rebuild,
    )
    with open_progress(sys.stderr, patience_s=1.0) as progress:
        found = build(options, find_places(os.environ), os.environ, progress, tag=tag)
    typer.echo(as_json(found) if json else built_text(found))


def refuse_tag(tag: str) -> None:
    """Stop where no engine gives an image this name, or it is one of those that we give."""
    if tag.partition(":")[0] == "stackgen":
        raise UsageError(
            f"an image cannot be called {tag!r}",
            why="names that begin with stackgen: are those that stackgen gives and takes away",
            fix="choose another one, as in: --tag mine:1.0",
        )
    if not _TAG.fullmatch(tag):
        raise UsageError(
            f"an image cannot be called {tag!r}",
            why="a name has small letters, digits, and between them dots, dashes, underscores and "
            "slashes; a tag follows one colon",
            fix="give it as in: --tag mine:1.0",
        )


def images_list(json: AsJson = False) -> None:
    """List the images of stacks that the engine holds, the latest used first."""
    from stackgen.pipeline.images import listed
    from stackgen.render import as_json, image_list_text

    found = listed()
    typer.echo(as_json(found) if json else image_list_text(found))


def images_show(
    image: Annotated[
        str, typer.Argument(metavar="IMAGE", help="Tag, or the beginning of its or its stack's id.")
    ],
    json: AsJson = False,
) -> None:
    """Show the labels, the lock and the layers of an image, and who shares them."""
    from stackgen.pipeline.images import details
    from stackgen.render import as_json, image_text

    found = details(image)
    typer.echo(as_json(found) if json else image_text(found))


def images_export(
    what: Annotated[str, typer.Argument(metavar="LOCK|IMAGE", help="A lock, or an image's name.")],
    oci: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write an OCI image layout.")
    ] = None,
    dockerfile: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a Dockerfile and hashed requirements, of a lock."),
    ] = None,
    base: BaseName = "",
    allow_build: asking.BuildsSources = [],  # noqa: B006
    json: AsJson = False,
    index_url: asking.IndexUrl = None,
    extra_index_url: asking.ExtraIndexUrl = [],  # noqa: B006
    find_links: asking.FindLinks = [],  # noqa: B006
    no_index: asking.NoIndex = False,
    offline: asking.Offline = False,
) -> None:
    """Write an image for skopeo and podman, or a Dockerfile that makes it without stackgen.

    The folder must not be there, or be empty. Of a lock the image is built where there is none.
    """
    from stackgen.pipeline.building import export_dockerfile, export_layout
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, exported_text, open_progress

    options = replace(
        _options(Path(what), base, index_url, extra_index_url, find_links, no_index, offline),
        allow_build=tuple(allow_build),
    )
    places = find_places(os.environ)
    with open_progress(sys.stderr, patience_s=1.0) as progress:
        if oci is not None and dockerfile is None:
            found = export_layout(what, oci, options, places, os.environ, progress)
        elif dockerfile is not None and oci is None:
            _refuse_image(what)
            _refuse_building(allow_build)
            found = export_dockerfile(dockerfile, options, places, os.environ, progress)
        else:
            raise UsageError(
                "it is not clear what to write",
                why="one of --oci and --dockerfile is needed, and not both",
                fix="give one, as in: stackgen images export LOCK --oci FOLDER",
            )
    typer.echo(as_json(found) if json else exported_text(found))


def _refuse_image(what: str) -> None:
    if not Path(what).is_file():
        raise UsageError(
            f"there is no lock {what}",
            why="a Dockerfile is made of a lock: an image does not say which index had its wheels",
            fix="give the path of the lock (stackgen images show IMAGE prints what is in one)",
        )


def _refuse_building(allowed: Sequence[str]) -> None:
    if allowed:
        raise UsageError(
            "a Dockerfile is written for wheels alone",
            why="what is built here from sources, no index has",
            fix="export the image with what was built in it: --oci FOLDER in place of --dockerfile",
        )


def _options(
    lock: Path,
    base: str,
    index_url: str | None,
    extra_index_urls: list[str],
    find_links: list[str],
    no_index: bool,
    offline: bool,
) -> "BuildOptions":
    from stackgen.pipeline.building import BuildOptions
    from stackgen.pipeline.options import IndexOptions

    return BuildOptions(
        lock=lock,
        base=base,
        index=IndexOptions(
            index_url=index_url,
            extra_index_urls=tuple(extra_index_urls),
            find_links=tuple(find_links),
            no_index=no_index,
            offline=offline,
        ),
    )
