"""Prices that the user gave, and numbers of CPUs that they are for."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from stackgen.errors import UsageError
from stackgen.measure.costs import AtCount
from stackgen.pipeline.options import ExploreOptions
from stackgen.values import IndicatorCall, IndicatorId, Limits, Prices

_EXAMPLE = "as in: [per_hour] and below it lines like 2 = 0.084"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """The calls of a campaign with what is metered of them.

    counts: one for each call that is measured on a given number of CPUs.
    limits: of these calls.
    per_hour: price of what each call runs on; empty where no prices were given.
    """

    calls: tuple[IndicatorCall, ...]
    counts: tuple[AtCount, ...] = ()
    limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)
    per_hour: Mapping[IndicatorId, float] = field(default_factory=dict)
    currency: str = ""


def metered(
    options: ExploreOptions, calls: Sequence[IndicatorCall], limits: Limits, usable: Sequence[int]
) -> Metered:
    """Return the calls, one for each number of CPUs where ``--cpus`` was given, and their prices.

    Args:
        options: what was asked for.
        calls: what is measured.
        limits: of whatever is not given a number of CPUs.
        usable: numbers of the CPUs that this machine has for us.

    Raises:
        UsageError: there are not so many CPUs, prices cannot be read, or one is missing.
    """
    prices = read_prices(options, len(usable))
    if not options.cpus:
        price = _price(prices, len(usable)) if prices else None
        return Metered(
            calls=tuple(calls),
            per_hour={} if price is None else {call.id: price for call in calls},
            currency=prices.currency if prices else "",
        )
    usable = options.measure_cpus or usable
    _refuse_counts(options, usable)
    counts = tuple(
        AtCount(
            call=_with_threads(call, count),
            indicator=_without_threads(call).label,
            cpus=count,
            price=_price(prices, count) if prices else float(count),
        )
        for call in calls
        for count in options.cpus
    )
    return Metered(
        calls=tuple(each.call for each in counts),
        counts=counts,
        limits={
            each.call.id: replace(limits, threads=each.cpus, cpus=tuple(usable[-each.cpus :]))
            for each in counts
        },
        per_hour={each.call.id: each.price for each in counts} if prices else {},
        currency=prices.currency if prices else "",
    )


def read_prices(options: ExploreOptions, machine_cpus: int) -> Prices | None:
    """Return the prices that were given, None where none were.

    Raises:
        UsageError: the file is not there, or is none of prices.
    """
    if options.price_per_hour is not None:
        return Prices(machine_cpus=machine_cpus, whole=options.price_per_hour)
    if options.prices is None:
        return None
    try:
        document = tomllib.loads(options.prices.read_text(encoding="utf-8"))
        by_cpus = _by_cpus(document)
        currency = document.get("currency", "")
        if not isinstance(currency, str):
            raise ValueError("currency is a text")
    except (OSError, ValueError) as error:  # what is no TOML is a ValueError, too
        raise UsageError(
            f"cannot read prices from {options.prices}",
            why=str(error),
            fix=f"give a TOML file with the price per hour by number of CPUs, {_EXAMPLE}",
        ) from error
    return Prices(machine_cpus=machine_cpus, by_cpus=by_cpus, currency=currency)


def _by_cpus(document: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    rows = document.get("per_hour")
    if unknown := sorted(document.keys() - {"per_hour", "currency"}):
        raise ValueError(f"it has {unknown[0]}, which means nothing here")
    if not isinstance(rows, dict) or not rows:
        raise ValueError("it has no table [per_hour] of numbers of CPUs and prices")
    for count, price in rows.items():
        if not count.isascii() or not count.isdigit() or int(count) < 1:
            raise ValueError(f"{count} is no number of CPUs")
        number = isinstance(price, int | float) and not isinstance(price, bool)
        if not number or not 0 < price < math.inf:
            raise ValueError(f"{price!r} is no price above zero")
    return tuple(sorted((int(count), float(price)) for count, price in rows.items()))


def _price(prices: Prices, cpus: int) -> float:
    found = prices.per_hour(cpus)
    if found is None:
        known = ", ".join(str(count) for count, _ in prices.by_cpus)
        raise UsageError(
            f"the prices have none for {cpus} CPUs",
            why=f"they have one for {known}; what several CPUs cost is not guessed from others",
            fix=f"add a line to [per_hour]: {cpus} = PRICE; or measure others with --cpus",
        )
    return found


def _refuse_counts(options: ExploreOptions, usable: Sequence[int]) -> None:
    most = max(options.cpus)
    if most > len(usable):
        raise UsageError(
            f"stacks cannot be measured on {most} CPUs",
            why=f"{'--measure-cpus names' if options.measure_cpus else 'this machine has'} "
            f"{len(usable)} for us",
            fix=f"give no more than these, as in: --cpus {_example(len(usable))}",
        )
    if options.threads or any(name == "threads" for name, _ in options.parameters):
        raise UsageError(
            "--cpus sets the number of threads by itself",
            why="each number of CPUs is measured with as many threads",
            fix="leave out --threads and --param threads=..., or --cpus",
        )


def _example(most: int) -> str:
    powers = {1 << power for power in range(most.bit_length() - 1)}
    return ",".join(str(count) for count in sorted({most, *powers}))


def _with_threads(call: IndicatorCall, count: int) -> IndicatorCall:
    arguments = {**dict(call.arguments), "threads": str(count)}
    return replace(call, arguments=tuple(sorted(arguments.items())))


def _without_threads(call: IndicatorCall) -> IndicatorCall:
    return replace(call, arguments=tuple(p for p in call.arguments if p[0] != "threads"))
