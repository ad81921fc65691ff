"""Report of how long an indicator took, release by release or night by night."""

from dataclasses import dataclass
from enum import Enum


class HistoryAxis(str, Enum):
    """What times are shown against: releases of the package, or the days of campaigns."""

    RELEASE = "release"
    NIGHT = "night"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """One release, or one day.

    time_s: seconds of one operation, with a 95 % interval for what another campaign would show.
    """

    label: str
    time_s: float
    low_s: float
    high_s: float
    campaigns: int
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """Where the level changes; secondary evidence, for no block compares these times.

    label: the first point of the new level. ratio: of its time to that before.
    """

    label: str
    before: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """The history of one indicator on one machine.

    where: base and Python, and what else was the same in all stacks, in words.
    elsewhere: the machine is another one than this.
    left_out: other indicators, bases or machines that the knowledge base has times of.
    """

    package: str
    indicator: str
    axis: HistoryAxis
    machine: str
    where: str
    elsewhere: bool
    points: tuple[HistoryPoint, ...]
    changes: tuple[ChangePoint, ...]
    left_out: tuple[str, ...] = ()
    knowledge_base: str = ""
