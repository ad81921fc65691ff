"""Load the observations that come with stackgen, each file once, as origins of their own.

A seed is a compressed public export (``kb/seed``). It was measured on another machine, and counts
as that. Which seeds a knowledge base has is state of the installation: an origin that the user
removed does not come back with a later seed.
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from stackgen.errors import DatabaseError, StorageError
from stackgen.knowledge.database import Database
from stackgen.storage.state import StateDatabase, state_path


class _Line(msgspec.Struct):
    origins: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(_Line)


def load_seeds(database: Database, folder: Path | None) -> int:
    """Add what the exports of a folder hold, where that was not done; return the new inspections.

    A knowledge base that is only read is left as it is.

    Raises:
        DatabaseError: a file is damaged, or a line is not valid or contradicts a known row.
    """
    if folder is None or database.read_only:
        return 0
    files = {hashlib.sha256(_content(each)).hexdigest(): each for each in folder.glob("*.gz")}
    added = 0
    with StateDatabase(state_path(database.path)) as state:
        for sha256 in sorted(files.keys() - state.loaded_seeds(database.base_id)):
            content, origins = _read(files[sha256])
            if not origins & state.removed_origins(database.base_id):
                added += database.import_lines(io.BytesIO(content), files[sha256])
            state.add_loaded_seed(database.base_id, sha256)
    return added


def load_shipped(database: Database, folder: Path | None, *, notify: Callable[[str], None]) -> None:
    """Load what comes with stackgen; where that is impossible, the user's own evidence suffices."""
    if folder is not None and not folder.is_dir():
        notify(
            f"The observations that come with stackgen were not loaded: {folder} is no folder. "
            "STACKGEN_SEED= (empty) leaves them out."
        )
        return
    try:
        added = load_seeds(database, folder)
    except (DatabaseError, StorageError) as error:
        notify(
            f"The observations that come with stackgen were not loaded: {error.what}: {error.why}. "
            "STACKGEN_SEED= (empty) leaves them out."
        )
        return
    if added:
        notify(
            f"{added:,} inspections that come with stackgen were loaded; they were measured "
            "elsewhere (stackgen kb origins)."
        )


def _read(path: Path) -> tuple[bytes, frozenset[str]]:
    """Return the lines of an export, and the installations that measured them."""
    try:
        content = gzip.decompress(_content(path))
        lines = [_DECODER.decode(each) for each in content.splitlines()]
    except (EOFError, OSError, zlib.error, msgspec.MsgspecError) as error:
        raise _unreadable(path, error) from error
    return content, frozenset(origin for each in lines for origin in each.origins)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DatabaseError:
    return DatabaseError(
        f"cannot read {path}", why=str(error), fix="install stackgen again, or remove the file"
    )
