"""What work costs: prices of a machine's time, and what follows from them."""

from dataclasses import dataclass

from stackgen.values.identity import IndicatorId, StackId


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a machine's time costs per hour.

    machine_cpus: how many CPUs this machine has for us.
    whole: price of all of them; None where prices are given by their number.
    by_cpus: (number of CPUs, price) pairs, sorted.
    currency: of both, for reports; "" where nobody said it.
    """

    machine_cpus: int
    whole: float | None = None
    by_cpus: tuple[tuple[int, float], ...] = ()
    currency: str = ""

    def per_hour(self, cpus: int) -> float | None:
        """Return the price of so many CPUs, in proportion where that of the whole is known.

        None where it is not given.
        """
        if self.whole is not None:
            return self.whole * cpus / self.machine_cpus
        return dict(self.by_cpus).get(cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an indicator's work costs on a stack.

    seconds: per operation: the reference's, by the fastest samples of its blocks; of others, that
        by their speed.
    items: samples that an operation processes; None where it counts as one.
    per_hour: price of the CPUs that count, in the currency of the prices.
    per_million: price of a million samples (of operations, where there are no samples).
    per_unit: samples (operations) that one unit of the currency pays for.
    """

    stack_id: StackId
    indicator_id: IndicatorId
    seconds: float
    items: int | None
    per_hour: float
    per_million: float
    per_unit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A stack on a number of CPUs, beside the reference on the fewest, from the same blocks.

    indicator: what was measured, the number of CPUs apart.
    time: ratio of times, so below 1 means faster; low, high: its interval; 0 and infinity where
        too few blocks allow none.
    cost: ratio of costs: that of times by that of prices; None where no time was measured.
    """

    stack_id: StackId
    indicator: str
    cpus: int
    time: float
    low: float
    high: float
    blocks: int
    cost: float | None
