"""What became of building source distributions: remembered, each with its log.

The wheels themselves lie in the wheel store, as all wheels do: pruned, checked and shared there.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from stackgen.errors import StorageError
from stackgen.model.packages import Artifact, BuildRecord
from stackgen.storage.files import atomic_write_text, exclusive

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BuiltWheels:
    """Records below a folder; several processes may share it.

    root: holds a record and a log for each build, by its key.
    """

    root: Path

    def record(self, key: str) -> BuildRecord | None:
        """Return what became of a build, or None where it was never finished."""
        try:
            found = json.loads(self._place(key, "json").read_text(encoding="utf-8"))
            wheel = found["wheel"]
            return BuildRecord(
                wheel=Artifact(**wheel) if wheel else None,
                asks=tuple(found["asks"]),
                failure=found["failure"],
                fix=found["fix"],
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def log(self, key: str) -> Path:
        """Return where the log of a build lies once it is finished."""
        return self._place(key, "log")

    def keep(self, key: str, record: BuildRecord, log: str) -> None:
        """Remember what became of a build; the log is there before the record is.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        try:
            self._place(key, "log").parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(self._place(key, "log"), log)
            atomic_write_text(self._place(key, "json"), json.dumps(asdict(record), sort_keys=True))
        except OSError as error:
            raise _unwritable(self.root, error) from error

    @contextlib.contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Keep every other process from the same build meanwhile.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        try:
            self._place(key, "lock").parent.mkdir(parents=True, exist_ok=True)
            locked = contextlib.ExitStack()
            locked.enter_context(exclusive(self._place(key, "lock")))
        except OSError as error:
            raise _unwritable(self.root, error) from error
        with locked:
            yield

    @contextlib.contextmanager
    def folder(self, key: str) -> Iterator[Path]:
        """Yield an empty folder to build in, for who is alone; what a killed process left is gone.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        place = self._place(key, "work")
        try:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            yield place
        except OSError as error:
            raise _unwritable(self.root, error) from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _place(self, key: str, suffix: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"not a key: {key!r}")
        return self.root / key[:2] / f"{key}.{suffix}"


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot keep what was built in {folder}",
        why=error.strerror or str(error),
        fix="make room (stackgen images prune --keep SIZE), or put STACKGEN_CACHE elsewhere",
    )
