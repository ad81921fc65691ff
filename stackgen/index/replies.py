"""What servers answer."""

from collections.abc import Mapping
from dataclasses import dataclass


class ReplyTooLargeError(Exception):
    """A body is larger than its reader takes; limit: bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is larger than {limit / (1 << 20):g} MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered; `body` is empty where only the headers were wanted."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
