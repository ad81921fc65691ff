"""Load the observations that come with stackgen, each file once, as origins of their own.

A seed is a compressed public export (``kb/seed``). It was measured on another machine, and counts
as that. Which seeds a knowledge base has is state of the installation: an origin that the user
removed does not come back with a later seed.
"""

import gzip
import hashlib
import io
from pathlib import Path

import msgspec

from stackgen.knowledge.database import Database
from stackgen.storage.state import State, state_path


class _Line(msgspec.Struct):
    origins: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(_Line)


def load_seeds(database: Database, folder: Path | None) -> int:
    """Add what the exports of a folder hold, where that was not done; return the new inspections.

    A knowledge base that is only read is left as it is.

    Raises:
        DatabaseError: a line is not valid or contradicts a known row.
    """
    if folder is None or database.read_only:
        return 0
    files = {hashlib.sha256(each.read_bytes()).hexdigest(): each for each in folder.glob("*.gz")}
    added = 0
    with State(state_path(database.path)) as state:
        for sha256 in sorted(files.keys() - state.loaded_seeds(database.base_id)):
            content = gzip.decompress(files[sha256].read_bytes())
            if not _origins(content) & state.removed_origins(database.base_id):
                added += database.import_lines(io.BytesIO(content), files[sha256])
            state.add_loaded_seed(database.base_id, sha256)
    return added


def _origins(content: bytes) -> frozenset[str]:
    lines = content.splitlines()
    return frozenset(origin for line in lines for origin in _DECODER.decode(line).origins)
