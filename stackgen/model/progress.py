"""Progress of a long command; results never go this way."""

from typing import Protocol


class Progress(Protocol):
    """Receives progress: a terminal, a log, a test."""

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Report the current activity; done and total count its parts where they are known."""

    def note(self, text: str) -> None:
        """Report a line that stays readable after the activity."""


class NullProgress:
    """Discards progress."""

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Discard it."""

    def note(self, text: str) -> None:
        """Discard it."""
