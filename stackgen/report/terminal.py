"""Progress: a live line on a terminal, plain lines in a log. All of it goes to standard error."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.status import Status

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
QUIET_S = 10.0
"""In a log, the same activity is printed no more often than this."""


class Plain:
    """Lines for a log: each new activity once, then only now and then.

    delay_s: nothing is printed of what is over sooner; notes are printed at once.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, *, delay_s: float = 0.0
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._begin = clock() + delay_s
        self._last = ""
        self._printed = float("-inf")

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Print the current activity, unless it was printed a moment ago."""
        activity = text.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0]
        now = self._clock()
        if now < self._begin:
            return
        if activity != self._last or now - self._printed > QUIET_S:
            self._last, self._printed = activity, now
            print(_counted(text, done, total), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Print a line."""
        print(printable(text), file=self._stream, flush=True)


class Live(Plain):
    """One line that changes, with notes above it; it is opened for the first activity.

    opened: closes the line in the end.
    """

    def __init__(self, stream: TextIO, opened: ExitStack, *, delay_s: float = 0.0) -> None:
        super().__init__(stream, delay_s=delay_s)
        self._opened = opened
        self._status: Status | None = None

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Show the current activity in the live line."""
        if self._clock() < self._begin:
            return
        from rich.console import Console
        from rich.markup import escape

        if self._status is None:
            console = Console(file=self._stream)
            self._status = self._opened.enter_context(console.status("starting"))
        self._status.update(escape(_counted(text, done, total)))

    def note(self, text: str) -> None:
        """Print a line above the live one."""
        if self._status is None:
            super().note(text)
        else:
            self._status.console.print(printable(text), markup=False, highlight=False)


@contextmanager
def open_progress(stream: TextIO, *, delay_s: float = 0.0) -> Iterator[Plain]:
    """Open the progress that suits a stream; what takes less than ``delay_s`` is not printed."""
    with ExitStack() as opened:
        yield (
            Live(stream, opened, delay_s=delay_s)
            if stream.isatty()
            else Plain(stream, delay_s=delay_s)
        )


def printable(text: str) -> str:
    """Return a text with its control characters spelled out, but for line ends and tabs.

    Names, reasons and logs come from indexes, packages and other people's knowledge bases: none of
    them may move the cursor of a terminal, or write to its clipboard.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _counted(text: str, done: int, total: int) -> str:
    return f"{text} ({done}/{total})" if total else text
