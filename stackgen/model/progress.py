"""How a long command tells what it is doing; results never go this way."""

from typing import Protocol


class Progress(Protocol):
    """Somebody who watches: a terminal, a log, a test."""

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Say what is going on now; done and total count its parts where they are known."""

    def note(self, text: str) -> None:
        """Say something that stays readable after it is over."""


class Silent:
    """Nobody watches."""

    def doing(self, text: str, *, done: int = 0, total: int = 0) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""
