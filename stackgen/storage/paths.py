"""Where stackgen keeps things: caches that may be deleted, and knowledge that may not."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from stackgen.errors import StorageError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The folders and files of one user.

    cache: wheels, layers, virtualenvs, index pages: all can be made again.
    knowledge: the knowledge base.
    kb_option: what a command that we propose needs to find it, "" where it does so by itself.
    seeds: folder of exports that are loaded into a knowledge base once; None loads none.
    """

    cache: Path
    knowledge: Path
    kb_option: str = ""
    seeds: Path | None = None


def find_paths(
    environ: Mapping[str, str], *, kb: Path | None = None, reading: bool = False
) -> Paths:
    """Return the user's paths: options first, then STACKGEN_KB, STACKGEN_CACHE and STACKGEN_SEED.

    Args:
        environ: the user's variables.
        kb: the knowledge base that was named.
        reading: it is only read, so that one that was named has to be there.

    Raises:
        StorageError: a folder cannot be made.
        UsageError: there is no such knowledge base.
    """
    option = f" --kb {shlex.quote(str(kb))}" if kb else ""
    if reading and kb is not None and not kb.exists():
        raise UsageError(
            f"there is no knowledge base {kb}",
            why="no such file",
            fix=f"check the path, or measure something: stackgen explore ...{option}",
        )
    cache = Path(environ.get("STACKGEN_CACHE") or platformdirs.user_cache_dir("stackgen"))
    default = Path(platformdirs.user_data_dir("stackgen")) / "stackgen.db"
    knowledge = kb or Path(environ.get("STACKGEN_KB") or default)
    for folder in (cache, knowledge.parent):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the folder {folder}",
                why=error.strerror or str(error),
                fix="name other folders with STACKGEN_CACHE and STACKGEN_KB (or --kb)",
            ) from error
    shipped = shipped_folder("kb") / "seed"
    seeds = environ.get("STACKGEN_SEED", str(shipped))
    return Paths(
        cache=cache.absolute(),
        knowledge=knowledge.absolute(),
        kb_option=option,
        seeds=Path(seeds) if seeds else None,
    )


def shipped_folder(name: str) -> Path:
    """Return a folder that travels with stackgen: ``pis``, ``images`` or ``kb``.

    An installed wheel carries them inside the package; a checkout has them beside it.
    """
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_shipped" / name
    return shipped if shipped.is_dir() else package.parent / name
