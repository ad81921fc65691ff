"""Handling of SIGINT, SIGTERM and SIGHUP.

The first signal raises KeyboardInterrupt, as Ctrl-C does in any Python program: running work is
ended, and results so far are reported. A second one raises it again, and ends this process within
seconds. Signals that this process was started to ignore (``nohup``, a background job) stay ignored.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # there is no SIGHUP on Windows
INTERRUPTED = 128 + signal.SIGINT
"""Exit code of interrupted commands; ``exit_code`` returns that of a particular signal."""
_AT_ONCE = b"interrupted again: ended at once, without a report; what was stored is kept\n"
_GRACE_S = 2.0  # what cleaning up may take after the second one


@dataclass(slots=True)
class _State:
    """State of the process.

    received: numbers of the signals so far.
    whole: number of active ``uninterrupted`` contexts.
    late: a signal came in such a context.
    """

    received: list[int] = field(default_factory=list)
    whole: int = 0
    late: bool = False


_state = _State()


@contextlib.contextmanager
def interruptible() -> Iterator[Sequence[int]]:
    """Within this context, signals raise KeyboardInterrupt; yield the numbers of those that came.

    It belongs to the main thread, and restores what was there before.
    """
    usual = {}
    _state.received = []
    for number in _numbers():
        if signal.getsignal(number) is not signal.SIG_IGN:
            usual[number] = signal.signal(number, _handle)
    try:
        yield _state.received
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals to the end of this context."""
    if threading.current_thread() is not threading.main_thread():  # only that one handles signals
        yield
        return
    _state.whole += 1
    try:
        yield
    finally:
        _state.whole -= 1
        if _state.late and not _state.whole:
            _state.late = False
            raise KeyboardInterrupt


def refuse_second() -> None:
    """Raise KeyboardInterrupt again where a second signal came with the first, or soon after it.

    The code that catches the first one, to report results so far, calls this before anything else.
    """
    if len(_state.received) > 1:
        raise KeyboardInterrupt


def ignore_more() -> None:
    """Ignore further signals: this process is about to end."""
    for number in _numbers():
        signal.signal(number, signal.SIG_IGN)


def received() -> bool:
    """Return whether a signal came: nothing further is to begin."""
    return bool(_state.received)


def exit_code() -> int:
    """Return the exit code of this process after a signal: 128 and the signal's number."""
    return 128 + (_state.received or [signal.SIGINT])[-1]


def end_at_once() -> NoReturn:
    """Report a second signal, and end this process without waiting."""
    with contextlib.suppress(OSError):
        os.write(2, _AT_ONCE)
    os._exit(exit_code())


def _numbers() -> Iterator[int]:
    return (getattr(signal, name) for name in _NAMES if hasattr(signal, name))


def _handle(number: int, _: FrameType | None) -> None:
    _state.received.append(number)
    if len(_state.received) == 2 and sys.platform != "win32":
        signal.signal(signal.SIGALRM, lambda *_: end_at_once())
        signal.setitimer(signal.ITIMER_REAL, _GRACE_S)
    if _state.whole:
        _state.late = True
    else:
        raise KeyboardInterrupt
