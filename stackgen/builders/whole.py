"""Which engines want every layer in an archive, remembered between runs."""

import contextlib
import fcntl
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

_KEPT = 32  # engines; each new version of one is another


@dataclass(frozen=True, slots=True)
class WholeArchives:
    """A file of the engines that refused an archive with layers left out.

    What cannot be read or written is not remembered: that costs time, and nothing else.
    """

    path: Path

    def wanted_by(self, engine: str) -> bool:
        """Return whether an engine, by its identity, refused such an archive."""
        return engine in self._read()

    def remember(self, engine: str) -> None:
        """Note that it did; what other processes note at the same time stays noted."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._write([*(each for each in self._read() if each != engine), engine])

    def _read(self) -> tuple[str, ...]:
        try:
            return tuple(str(each) for each in json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return ()

    def _write(self, engines: list[str]) -> None:
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.parent, prefix=self.path.name, delete=False, encoding="utf-8"
        ) as file:
            temporary = Path(file.name)
            try:
                json.dump(engines[-_KEPT:], file)
                file.close()
                temporary.replace(self.path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
