"""What a user wants of a stack besides speed: goals, and limits of quantities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stackgen.errors import UsageError
from stackgen.model.options import parse_duration, parse_number, parse_size


class Goal(str, Enum):
    """What a stack shall be good at; every goal is better where its quantity is smaller.

    SPEED: the time of the indicators. IMPORT: the time of the framework's import. MEMORY: the peak
    memory of that import (of a program: of its run). SIZE: the installed size.
    """

    SPEED = "speed"
    IMPORT = "import"
    MEMORY = "memory"
    SIZE = "size"


class Quantity(str, Enum):
    """What is recorded of each stack besides its speed, in seconds or bytes."""

    IMPORT_TIME = "import time"
    IMPORT_MEMORY = "import memory"
    PEAK_MEMORY = "peak memory"
    DOWNLOAD = "download size"
    INSTALLED = "installed size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that a stack may have of a quantity: seconds of a time, bytes of all others."""

    quantity: Quantity
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """The goals and limits of a campaign.

    wanted: each goal with its weight; none means speed alone.
    weighted: whether the weighted geometric mean of all goals decides; otherwise several goals
        have a Pareto front.
    """

    wanted: tuple[tuple[Goal, float], ...] = ()
    weighted: bool = False
    limits: tuple[Limit, ...] = ()

    @property
    def decides(self) -> bool:
        """Return whether anything but speed decides which stack is the best."""
        return bool(self.limits) or any(goal is not Goal.SPEED for goal, _ in self.wanted)

    @property
    def has_front(self) -> bool:
        """Return whether the answer is a Pareto front instead of one stack."""
        return len(self.wanted) > 1 and not self.weighted

    @property
    def weights(self) -> tuple[tuple[Goal, float], ...]:
        """Return what decides, with weights: speed where no goal is given."""
        return self.wanted or ((Goal.SPEED, 1.0),)


SPEED_ALONE = Goals()

_GOALS = ", ".join(each.value for each in Goal)


def parse_goals(given: Sequence[str]) -> tuple[tuple[Goal, float | None], ...]:
    """Return goals with their weights: ``speed=2``; None where no weight is given.

    Raises:
        UsageError: there is no such goal, it comes twice, or a weight is no number above zero.
    """
    found: dict[Goal, float | None] = {}
    for text in given:
        name, separator, number = (part.strip() for part in text.partition("="))
        weight = parse_number(number)
        if name not in {each.value for each in Goal} or Goal(name) in found:
            raise UsageError(
                f"cannot read the goal {text!r}",
                why=f"goals are {_GOALS}, each given once",
                fix="give them as in: --goal speed --goal size, or with weights: --goal speed=2",
            )
        if separator and not 0 < weight < math.inf:
            raise UsageError(
                f"cannot give the goal {name} the weight {number!r}",
                why="a weight is a number above zero",
                fix=f"give it as in: --goal {name}=2",
            )
        found[Goal(name)] = weight if separator else None
    return tuple(found.items())


def parse_limits(given: Sequence[str]) -> tuple[Limit, ...]:
    """Return limits: ``peak memory=4GB``, ``import time=2s``.

    Raises:
        UsageError: there is no such quantity, it comes twice, or the amount cannot be read.
    """
    names = ", ".join(each.value for each in Quantity)
    found: dict[Quantity, Limit] = {}
    for text in given:
        name, _, amount = (part.strip() for part in text.partition("="))
        name = name.replace("-", " ").replace("_", " ")
        if name not in {each.value for each in Quantity} or Quantity(name) in found or not amount:
            raise UsageError(
                f"cannot read the limit {text!r}",
                why=f"limits are of: {names}, each given once",
                fix='give it as in: --at-most "peak memory=4GB", or: --at-most "import time=2s"',
            )
        quantity = Quantity(name)
        most = (
            parse_duration(amount, "--at-most")
            if quantity is Quantity.IMPORT_TIME
            else float(parse_size(amount))
        )
        found[quantity] = Limit(quantity=quantity, most=most)
    return tuple(found.values())


def read_goals(given: Sequence[tuple[Goal, float | None]], limits: Sequence[Limit]) -> Goals:
    """Return the goals of a request; one that has no weight beside others with one counts as 1."""
    weighted = len(given) == 1 or any(weight is not None for _, weight in given)
    return Goals(
        wanted=tuple((goal, 1.0 if weight is None else weight) for goal, weight in given),
        weighted=weighted,
        limits=tuple(limits),
    )
