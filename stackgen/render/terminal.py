"""Progress: a live line on a terminal, plain lines in a log. All of it goes to standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.status import Status

QUIET_S = 10.0
"""In a log, the same activity is told no more often than this."""


class Plain:
    """Lines for a log: each new activity once, then only now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = ""
        self._told = float("-inf")

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Say what is going on, unless it was said a moment ago."""
        activity = text.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0]
        now = self._clock()
        if activity != self._last or now - self._told > QUIET_S:
            self._last, self._told = activity, now
            print(_counted(text, done, total), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Say it."""
        print(text, file=self._stream, flush=True)


class Live:
    """One line that changes, with notes above it."""

    def __init__(self, status: "Status") -> None:
        self._status = status

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Show it in the live line."""
        from rich.markup import escape

        self._status.update(escape(_counted(text, done, total)))

    def note(self, text: str) -> None:
        """Print it above the live line."""
        self._status.console.print(text, markup=False, highlight=False)


@contextmanager
def open_progress(stream: TextIO) -> Iterator[Plain | Live]:
    """Open the progress that suits a stream."""
    if not stream.isatty():
        yield Plain(stream)
        return
    from rich.console import Console

    console = Console(file=stream)
    with console.status("starting") as status:
        yield Live(status)


def _counted(text: str, done: int, total: int) -> str:
    return f"{text} ({done}/{total})" if total else text
