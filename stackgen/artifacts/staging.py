"""Room to work in: temporary folders of a store, which nobody sweeps while their owner lives."""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stackgen.in_use import InUse, Work

_NAME = re.compile(r"tmp-[0-9a-f]+-(\d+)")  # its end is how many bytes its owner asked for
_ROOM = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Temporary folders below the root of a store."""

    root: Path
    in_use: InUse

    @contextmanager
    def folder(self, work: Work, need: int) -> Iterator[Path]:
        """Yield a new folder, which goes with all that is left in it.

        Args:
            work: keeps the folder from being swept.
            need: bytes that will be written; others that work here count on theirs as well.

        Raises:
            OSError: there is less room than that (ENOSPC), or no folder can be made.
        """
        path = self.root / f"tmp-{secrets.token_hex(8)}-{need}"
        work.take(path.name)  # before it is there, so that nobody sees it without its owner
        work.wait(_ROOM)  # whoever has it waits for nothing
        try:
            self._require_room(need)
            path.mkdir()
        finally:
            work.give_back(_ROOM)
        try:
            path.chmod(0o755)  # a compiling container may run as somebody else
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def sweep(self, *, remove: bool = True) -> tuple[Path, ...]:
        """Return (and remove) what killed processes left."""
        found = []
        with self.in_use.working() as work:
            for path in (*self.root.glob("tmp-*"), *self.root.glob("??/tmp-*")):
                if work.take(path.name):
                    found.append(path)
                    if remove:
                        _remove(path)
        return tuple(found)

    def _require_room(self, need: int) -> None:
        free = shutil.disk_usage(self.root).free
        asked = {path: _asked(path) for path in self.root.glob("tmp-*")}
        if free >= need + sum(asked.values()):
            return
        # What others have written is no longer free: only what they still lack counts.
        others = sum(max(0, asked[path] - _written(path)) for path in asked if self._lives(path))
        if free < need + others:
            more = f", of which others need {others >> 20} MiB" if others else ""
            raise OSError(errno.ENOSPC, f"{free >> 20} MiB are free{more}")

    def _lives(self, path: Path) -> bool:
        with self.in_use.working() as work:
            return not work.take(path.name)


def _asked(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def _written(path: Path) -> int:
    """Return the bytes below a folder that somebody may be writing or removing."""
    return sum(_size(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
