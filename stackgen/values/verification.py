"""What independent judges say of a stack that somebody locked."""

from dataclasses import dataclass
from enum import Enum

NO_VERDICT, CONTRADICTED, UNREACHABLE = 3, 4, 8
"""Exit codes of a command whose judges said nothing, said no, or could not reach the index."""


class Ruling(str, Enum):
    """What one judge says."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one judge says of a stack, and why.

    judge: its name and version.
    words: its own words where it refuses, else why it was not asked or gave no verdict.
    missing: pins that it would add, as ``name==version``.
    superfluous: pins that nothing needs of what was asked for.
    unreachable: it gave no verdict because the package index did not answer.
    """

    judge: str
    ruling: Ruling
    words: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    superfluous: tuple[str, ...] = ()
    unreachable: bool = False

    def __post_init__(self) -> None:
        if self.ruling is Ruling.FAILS and not (self.words or self.missing or self.superfluous):
            raise ValueError("a judge that refuses says why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What all judges say of a lock on one target.

    place: the base that the lock was read for, with its Python.
    pins: the whole stack as ``name==version``, sorted.
    skipped: what the lock holds and no index has, in words.
    unasked: why nobody could look for superfluous packages; "" where they were looked for.
    """

    path: str
    place: str
    pins: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    skipped: tuple[str, ...] = ()
    unasked: str = ""

    @property
    def exit_code(self) -> int:
        """Return 0 where at least one judge was asked and all asked ones agree with the lock."""
        rulings = {each.ruling for each in self.judgements}
        if Ruling.FAILS in rulings:
            return CONTRADICTED
        if Ruling.HOLDS in rulings:
            return 0
        return UNREACHABLE if any(each.unreachable for each in self.judgements) else NO_VERDICT
