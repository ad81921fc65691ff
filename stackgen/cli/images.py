"""Commands about bases, images of stacks, and the store that they are made from."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stackgen.campaign.options import IndexOptions, SourceOptions
from stackgen.cli.commands import subcommand
from stackgen.cli.options import ANSWER_QUICKLY_S, AsJson, LockArgument, print_report, user_paths
from stackgen.errors import UsageError
from stackgen.model.options import parse_size
from stackgen.report.terminal import open_progress

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = re.compile(rf"(?:{_PART}:\d+/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII)

BaseOption = Annotated[
    str, typer.Option(metavar="NAME", help="Base, image, or Python such as 3.11.")
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Build again what failed to build.")]


def images_build(
    lock: LockArgument,
    base: BaseOption = "",
    sources: SourceOptions = SourceOptions(),
    rebuild: Rebuild = False,
    tag: Annotated[str, typer.Option(metavar="NAME[:TAG]", help="Name of the image.")] = "",
    json: AsJson = False,
    index: IndexOptions = IndexOptions(),
) -> None:
    """Build an image of exactly what a lock says.

    What is missing is downloaded; layers that the engine has are not made again. Nothing is
    resolved: what the lock lacks, the image lacks.
    """
    from stackgen.commands.images import BuildRequest, build
    from stackgen.report.images import built_text

    if tag:
        refuse_tag(tag)
    request = BuildRequest(
        lock=lock, base=base, sources=sources, index=index, rebuild=rebuild, tag=tag
    )
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        found = build(request, user_paths(), os.environ, progress)
    print_report(found, built_text, json=json)


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
    from stackgen.commands.images import listed
    from stackgen.report.images import image_list_text

    found = listed()
    print_report(found, image_list_text, json=json)


def images_show(
    image: Annotated[
        str,
        typer.Argument(metavar="IMAGE", help="Tag, or the beginning of its or its stack's id."),
    ],
    json: AsJson = False,
) -> None:
    """Show the labels, the lock and the layers of an image, and who shares them."""
    from stackgen.commands.images import details
    from stackgen.report.images import image_text

    found = details(image)
    print_report(found, image_text, json=json)


def images_export(
    what: Annotated[str, typer.Argument(metavar="LOCK|IMAGE", help="A lock, or an image's name.")],
    oci: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write an OCI image layout.")
    ] = None,
    dockerfile: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a Dockerfile and hashed requirements, of a lock."),
    ] = None,
    base: BaseOption = "",
    sources: SourceOptions = SourceOptions(),
    json: AsJson = False,
    index: IndexOptions = IndexOptions(),
) -> None:
    """Write an image for skopeo and podman, or a Dockerfile that makes it without stackgen.

    The folder must not be there, or be empty. Of a lock the image is built where there is none.
    """
    from stackgen.commands.images import BuildRequest, export_dockerfile, export_layout
    from stackgen.report.images import exported_text

    request = BuildRequest(lock=Path(what), base=base, sources=sources, index=index)
    paths = user_paths()
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        if oci is not None and dockerfile is None:
            found = export_layout(what, oci, request, paths, os.environ, progress)
        elif dockerfile is not None and oci is None:
            _refuse_image(what)
            _refuse_building(sources.allow_build)
            found = export_dockerfile(dockerfile, request, paths, os.environ, progress)
        else:
            raise UsageError(
                "it is not clear what to write",
                why="one of --oci and --dockerfile is needed, and not both",
                fix="give one, as in: stackgen images export LOCK --oci FOLDER",
            )
    print_report(found, exported_text, json=json)


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


def images_bases(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Bases; all by default."),
    ] = None,
    make: Annotated[
        bool,
        typer.Option("--make", help="Make those that the engine does not hold yet."),
    ] = False,
    json: AsJson = False,
) -> None:
    """List the bases: which Python, libc, machine and BLAS each has, and how it is had.

    A base of your own is a file NAME.toml in the folder that STACKGEN_IMAGES names.
    """
    from stackgen.campaign.backend import bases
    from stackgen.report.listings import bases_text

    with open_progress(sys.stderr) as progress:
        found = bases(names or (), make=make, paths=user_paths(), progress=progress)
    print_report(found, bases_text, json=json)
    raise typer.Exit(found.exit_code)


def images(context: typer.Context, json: AsJson = False) -> None:
    """List the bases, and the images of stacks that the engine holds."""
    if context.invoked_subcommand is None:
        from stackgen.commands.images import overview
        from stackgen.report.images import images_text

        found = overview(user_paths())
        print_report(found, images_text, json=json)


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
    from stackgen.commands.images import prune
    from stackgen.report.images import pruned_text

    if not keep and images is None:
        raise UsageError(
            "there is nothing to prune",
            why="neither --keep nor --images was given",
            fix="say what stays, as in: stackgen images prune --keep 20GB --images 10",
        )
    found = prune(
        user_paths(),
        keep_bytes=parse_size(keep) if keep else None,
        keep_images=images,
        dry_run=dry_run,
    )
    print_report(found, pruned_text, json=json)


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
    from stackgen.commands.images import check
    from stackgen.report.images import check_text

    found = check(user_paths(), repair=repair)
    print_report(found, check_text, json=json)
    raise typer.Exit(found.exit_code)


IMAGES_COMMANDS = {
    "build": subcommand(
        images_build,
        "Build an image of exactly what a lock says.",
        "stackgen images build Pipfile.lock --base bookworm-py311 --tag mine",
    ),
    "list": subcommand(
        images_list, "List the images of stacks that the engine holds.", "stackgen images list"
    ),
    "show": subcommand(
        images_show,
        "Show the labels, the lock and the layers of an image.",
        "stackgen images show mine",
    ),
    "export": subcommand(
        images_export,
        "Write an image for skopeo and podman, or a Dockerfile.",
        "stackgen images export mine --oci folder",
        "stackgen images export Pipfile.lock --dockerfile folder",
    ),
    "bases": subcommand(
        images_bases, "List the bases, and make them.", "stackgen images bases py37 --make"
    ),
    "prune": subcommand(
        images_prune,
        "Remove what was not used for longest.",
        "stackgen images prune --keep 20GB --images 10",
    ),
    "fsck": subcommand(
        images_fsck, "Compare every stored file with its digest.", "stackgen images fsck --repair"
    ),
}
IMAGES_GROUP = (IMAGES_COMMANDS, images)
