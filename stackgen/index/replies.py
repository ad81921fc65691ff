"""What servers answer."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered; `body` is empty where only the headers were wanted."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
