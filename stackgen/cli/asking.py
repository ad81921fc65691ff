"""Options that say what is asked for; resolve and explore share them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.cli.options import refuse_empty
from stackgen.errors import UsageError
from stackgen.values import Prereleases

if TYPE_CHECKING:
    from stackgen.pipeline.wishes import Wishes


Requirements = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REQUIREMENT...",
        help='As in "tensorflow>=2.7", in quotes; "a|b" takes either; or the path of a wheel.',
    ),
]
Files = Annotated[
    list[Path],
    typer.Option(
        "-r", "--requirement", metavar="FILE", help="requirements.txt, pyproject.toml or Pipfile."
    ),
]
Extras = Annotated[
    list[str], typer.Option("--extra", metavar="NAME", help="Extra of the pyproject.toml.")
]
Groups = Annotated[
    list[str], typer.Option("--group", metavar="NAME", help="Dependency group of the file.")
]
Constraints = Annotated[
    list[Path],
    typer.Option("-c", "--constraint", metavar="FILE", help="Limits versions, asks for nothing."),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--override",
        metavar="REQUIREMENT",
        help="Counts in place of all that others require of it.",
    ),
]
Excluded = Annotated[
    list[str],
    typer.Option(
        "--exclude", metavar="NAME", callback=refuse_empty, help="Leave out, whoever requires it."
    ),
]
AllowBuild = Annotated[
    list[str],
    typer.Option(
        "--allow-build",
        metavar="NAME",
        callback=refuse_empty,
        help="Source distributions will do as well.",
    ),
]
BuildsSources = Annotated[
    list[str],
    typer.Option(
        "--allow-build",
        metavar="NAME",
        callback=refuse_empty,
        help="Where NAME has no wheel, build it. That runs its authors' code, in a container "
        "without network; ':all:' allows it for every package.",
    ),
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Build again what failed to build.")]
Pre = Annotated[bool, typer.Option("--pre", help="The same as --prerelease allow.")]
PrereleasePolicy = Annotated[
    Prereleases | None,
    typer.Option(
        "--prerelease",
        help="Which prereleases are candidates, as in uv. [default: if-necessary]",
    ),
]
ExcludeNewer = Annotated[
    str | None,
    typer.Option("--exclude-newer", metavar="DATE", help="Nothing uploaded after it."),
]
IndexUrl = Annotated[str | None, typer.Option("--index-url", metavar="URL", help="Package index.")]
ExtraIndexUrl = Annotated[
    list[str], typer.Option("--extra-index-url", metavar="URL", help="Asked after the first.")
]
FindLinks = Annotated[
    list[str], typer.Option("--find-links", metavar="PATH", help="Folder or page with wheels.")
]
CompareIndex = Annotated[
    list[str],
    typer.Option(
        "--compare-index", metavar="NAME=URL", help="Its versions stand beside those of the others."
    ),
]
NoIndex = Annotated[bool, typer.Option("--no-index", help="Ask no index; --find-links alone.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use what is cached.")]


def wishes(
    *,
    requirements: list[str] | None,
    files: list[Path],
    extras: list[str],
    groups: list[str],
    constraints: list[Path],
    overrides: list[str],
    excluded: list[str],
    pre: bool,
    prerelease: Prereleases | None,
    exclude_newer: str | None,
    index_url: str | None,
    extra_index_urls: list[str],
    find_links: list[str],
    compared: list[str],
    no_index: bool,
    offline: bool,
    allow_build: tuple[str, ...] = (),
    around: Path | None = None,
) -> "Wishes":
    """Return what the options say, as one value."""
    from stackgen.pipeline.options import IndexOptions
    from stackgen.pipeline.wishes import Wishes

    return Wishes(
        requirements=tuple(requirements or ()),
        files=tuple(files),
        around=around,
        extras=tuple(extras),
        groups=tuple(groups),
        constraints=tuple(constraints),
        overrides=tuple(overrides),
        excluded=tuple(excluded),
        allow_build=allow_build,
        prereleases=_prereleases(pre, prerelease),
        exclude_newer=exclude_newer,
        index=IndexOptions(
            index_url=index_url,
            extra_index_urls=tuple(extra_index_urls),
            find_links=tuple(find_links),
            compared=tuple(compared),
            no_index=no_index,
            offline=offline,
        ),
    )


def _prereleases(pre: bool, policy: Prereleases | None) -> Prereleases:
    if pre and policy and policy is not Prereleases.ALLOW:
        raise UsageError(
            f"--pre and --prerelease {policy.value} were given together",
            why="--pre means --prerelease allow",
            fix="give one of them",
        )
    return Prereleases.ALLOW if pre else policy or Prereleases.IF_NECESSARY


def refuse_nothing(requirements: list[str] | None, files: list[Path], around: Path | None) -> None:
    """Stop where nothing was named that stacks could be made of."""
    if not requirements and not files and around is None:
        raise UsageError(
            "there is nothing to explore",
            why="neither a requirement nor a file was given",
            fix='name one, as in: stackgen explore "tensorflow>=2.7"',
        )


def refuse_redirected_requirement() -> None:
    """Stop where the shell took an unquoted ``>=`` for a redirection of our output."""
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
