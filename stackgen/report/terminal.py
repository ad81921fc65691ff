"""Progress: a live line on a terminal, plain lines in a log. All of it goes to standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.status import Status

QUIET_S = 10.0
"""In a log, the same activity is printed no more often than this."""


class Plain:
    """Lines for a log: each new activity once, then only now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = ""
        self._printed = float("-inf")

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Say what is going on, unless it was said a moment ago."""
        activity = text.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0]
        now = self._clock()
        if activity != self._last or now - self._printed > QUIET_S:
            self._last, self._printed = activity, now
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


class Patient:
    """Prints nothing of what is over soon; notes are printed at once.

    It stands before a progress that is slow to open, and opens it when the time has come.
    """

    def __init__(
        self,
        stream: TextIO,
        open_it: Callable[[], Plain | Live],
        *,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._open_it = open_it
        self._clock = clock
        self._end = clock() + delay_s
        self._opened: Plain | Live | None = None

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Say what is going on, once it has gone on for long."""
        if self._opened is None and self._clock() >= self._end:
            self._opened = self._open_it()
        if self._opened is not None:
            self._opened.doing(text, done=done, total=total)

    def note(self, text: str) -> None:
        """Say it."""
        if self._opened is not None:
            self._opened.note(text)
        else:
            print(text, file=self._stream, flush=True)


@contextmanager
def open_progress(stream: TextIO, *, delay_s: float = 0.0) -> Iterator[Plain | Live | Patient]:
    """Open the progress that suits a stream; with patience, only what takes so long is printed."""
    with ExitStack() as opened:

        def open_it() -> Plain | Live:
            if not stream.isatty():
                return Plain(stream)
            from rich.console import Console

            return Live(opened.enter_context(Console(file=stream).status("starting")))

        yield Patient(stream, open_it, delay_s=delay_s) if delay_s else open_it()


def _counted(text: str, done: int, total: int) -> str:
    return f"{text} ({done}/{total})" if total else text
