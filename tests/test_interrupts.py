"""Signals end a command in order; what must be whole is done whole; a second one ends it soon."""

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from stackgen import interrupts

pytestmark = pytest.mark.usefixtures("signals_as_usual")

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ALL)
def test_each_is_raised_and_has_the_exit_code(number: signal.Signals) -> None:
    with interrupts.interruptible() as received:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert received == [number]
        assert interrupts.exit_code() == 128 + number
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def test_without_a_signal_an_interruption_is_that_of_ctrl_c() -> None:
    with interrupts.interruptible():
        assert interrupts.exit_code() == interrupts.INTERRUPTED == 130


@pytest.mark.parametrize("number", ALL)
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with interrupts.interruptible() as received:
        signal.raise_signal(number)
    assert received == []
    assert signal.getsignal(number) == signal.SIG_IGN


def test_what_must_be_whole_is_done_whole() -> None:
    done = []

    def work() -> None:
        with interrupts.uninterrupted():
            with interrupts.uninterrupted():
                signal.raise_signal(signal.SIGTERM)
                done.append("inner")
            done.append("outer")

    with interrupts.interruptible():
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == ["inner", "outer"]
        with interrupts.uninterrupted():
            done.append("the next one")
    assert done[-1] == "the next one"


def test_a_thread_keeps_nothing_from_the_main_one() -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with interrupts.uninterrupted():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        entered.wait(60)
        with interrupts.interruptible(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize(
    "cleanup",
    [
        "with uninterrupted():\n    send(signal.SIGTERM)\n    time.sleep(60)",
        "with suppress(KeyboardInterrupt):\n    send(signal.SIGTERM)\ntime.sleep(60)",
    ],
)
def test_a_second_one_ends_even_what_hangs(cleanup: str) -> None:
    """Run it in a process of its own."""
    code = (
        "import os, signal, time\n"
        "from contextlib import suppress\n"
        "from stackgen.interrupts import interruptible, uninterrupted\n"
        "def send(number):\n"
        "    os.kill(os.getpid(), number)\n"
        "with interruptible():\n"
        "    try:\n"
        "        send(signal.SIGINT)\n"
        "    finally:\n"
        f"{textwrap.indent(cleanup, ' ' * 8)}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("interrupted again: ended at once")
