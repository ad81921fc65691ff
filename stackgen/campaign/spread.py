"""The default choice of stacks: a spread over what is likely to differ, within a download budget.

What is likely to differ for a framework is data: ``defaults.toml``.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from stackgen.campaign.options import SearchOptions
from stackgen.campaign.request import CampaignRequest
from stackgen.model import toml
from stackgen.model.choices import Granularity, Order, Strategy
from stackgen.model.options import parse_size
from stackgen.resolve.space import Slice

Settings = tuple[tuple[str, str], ...]
Pick = tuple[Slice, Settings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What is measured of a framework where a command does not say it.

    packages: names of requirements that it is for.
    stacks: how many take part. releases: the newest minor releases over which they are spread.
    download_bytes: of the wheels of all of them, at most.
    settings: environment variables with the values that are tried beside the default.
    indicators: what is measured; empty means the framework's matmul.
    """

    packages: tuple[str, ...]
    stacks: int
    releases: int
    download_bytes: int
    settings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    indicators: tuple[str, ...] = ()


@cache
def read_defaults() -> tuple[Defaults, ...]:
    """Return the table of defaults, one entry for each framework."""
    text = files("stackgen.campaign").joinpath("defaults.toml").read_text("utf-8")
    return tuple(
        Defaults(
            packages=tuple(row["packages"]),
            stacks=row["stacks"],
            releases=row["releases"],
            download_bytes=parse_size(row["download"]),
            settings=tuple(
                (name, tuple(values)) for name, values in row.get("settings", {}).items()
            ),
            indicators=tuple(row.get("indicators", ())),
        )
        for row in toml.loads(text).values()
    )


def defaults_of(request: CampaignRequest) -> Defaults | None:
    """Return the defaults for the one framework that is named; None where there are none."""
    names = set(request.stacks.requirements.names) - set(request.stacks.project)
    if len(names) != 1:
        return None
    return next((each for each in read_defaults() if names <= set(each.packages)), None)


def with_defaults(request: CampaignRequest) -> CampaignRequest:
    """Return a request with the default choice, where it names a framework and nothing else.

    Whatever else says which stacks take part (``--stacks``, ``--set``, ``--vary``, ``--from``, ...)
    leaves the request as it is, and so does ``--order newest``. The indicators depend on the
    framework alone, not on how many of its stacks take part, so that a rerun with more goes on.
    """
    stacks, search, found = request.stacks, request.search, defaults_of(request)
    alone = (
        request.kind == "explore"
        and not (stacks.vary or stacks.fixed or stacks.project or stacks.pair)
        and stacks.lock is None
        and stacks.baseline_file is None
        and stacks.baseline is None
    )
    measured = request.measurement
    given = (measured.indicators, measured.program, measured.parameters, measured.weights)
    if alone and found and found.indicators and not (any(given) or request.scaling.cpus):
        request = request.with_indicators(*found.indicators)
    silent = (
        alone
        and not stacks.settings
        and stacks.granularity is Granularity.MINOR
        and search == SearchOptions(order=search.order, download_bytes=search.download_bytes)
    )
    if found is None or not silent or search.order is Order.NEWEST:
        return request
    chosen = SearchOptions(
        stacks=found.stacks,
        strategy=Strategy.EXHAUSTIVE,
        order=Order.SPREAD,
        download_bytes=search.download_bytes or found.download_bytes,
    )
    return replace(request.with_stacks(settings=found.settings), search=chosen)


def spread(
    choices: Sequence[Slice], settings: Sequence[Settings], *, releases: int | None
) -> tuple[Pick, ...]:
    """Return choices with settings in an order of which every beginning is spread widely.

    The newest release comes first, without any settings: the baseline. Then come the oldest
    release, the newest one with each of the settings and with the other major versions of the
    second package that varies (NumPy), then the releases that are farthest from all before, and
    last all else that varies beside the newest release.

    Args:
        choices: feasible versions of the varied packages, newest first.
        settings: combinations of values of environment variables.
        releases: of the first package that varies, the newest so many; None takes all.
    """
    first: dict[str, Slice] = {}
    for each in choices:
        first.setdefault(_release(each), each)
    newest = list(first.values())[:releases]
    if not newest:
        return ()
    own = [each for each in choices if _release(each) == _release(newest[0])]
    majors = {_major(each): each for each in reversed(own)}
    picks = [
        (newest[0], ()),
        (newest[-1], ()),
        *((newest[0], each) for each in settings),
        *((each, ()) for _, each in sorted(majors.items(), reverse=True)),
        *((newest[place], ()) for place in _farthest(len(newest))),
        *((each, ()) for each in own),
    ]
    return tuple(dict.fromkeys(picks))


def releases_of(choices: Iterable[Slice]) -> tuple[str, ...]:
    """Return the versions of the first package that varies, each once, in the order of choices."""
    return tuple(dict.fromkeys(_release(each) for each in choices))


def _release(choice: Slice) -> str:
    return choice.versions[0][1] if choice.versions else ""


def _major(choice: Slice) -> int:
    """Return the major version of the second package that varies; 0 where there is none."""
    text = choice.versions[1][1] if len(choice.versions) > 1 else ""
    number = text.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _farthest(count: int) -> Iterator[int]:
    """Yield places from 0 to count - 1, each the farthest from all before it."""
    seen = [0, count - 1]
    while left := [place for place in range(count) if place not in seen]:
        place = max(left, key=lambda one: min(abs(one - each) for each in seen))
        seen.append(place)
        yield place


def without_larger(
    choices: Sequence[Slice],
    wheels: Callable[[Slice], Mapping[str, int] | None],
    most_bytes: int | None,
    *,
    releases: int | None,
) -> tuple[Slice, ...]:
    """Return choices without the newest releases that are too large by themselves.

    On PyPI, PyTorch brings 3 GB of CUDA; an index with wheels for CPUs may end at an older release,
    and that is then the newest that can be compared with others. Where none of the newest releases
    is small enough, nothing is left out.

    Args:
        choices: feasible versions of the varied packages, newest first.
        wheels: returns bytes of a choice's wheels by digest; None where it has no lock.
        most_bytes: None is no limit.
        releases: of the first package that varies, the newest so many are weighed; None weighs all.
    """
    newest = releases_of(choices)[:releases]
    for number, release in enumerate(newest):
        found = wheels(next(each for each in choices if _release(each) == release))
        if found is not None and (most_bytes is None or sum(found.values()) <= most_bytes):
            return tuple(each for each in choices if _release(each) not in newest[:number])
    return tuple(choices)


def within_download(
    picks: Sequence[Pick],
    wheels: Callable[[Slice], Mapping[str, int] | None],
    most_bytes: int | None,
    *,
    wanted: int,
) -> tuple[Pick, ...]:
    """Return those of the picks, in order, whose wheels together are no larger than that.

    Wheels that are on disk already count as well, so that the same command means the same stacks
    when it is called again. The first is always taken; where it is too large by itself, what the
    others add to it counts. Twice as many as are wanted are taken at most: further ones take the
    place of what does not run.

    Args:
        picks: in the order of their importance.
        wheels: returns bytes of a choice's wheels by digest; None where it has no lock.
        most_bytes: None is no limit.
        wanted: how many stacks shall take part.
    """
    taken: list[Pick] = []
    counted: dict[str, int] = {}
    limit = math.inf if most_bytes is None else most_bytes
    for choice, settings in picks:
        if len(taken) >= 2 * wanted:
            break
        found = wheels(choice)
        if found is None:
            continue
        together = {**found, **counted}
        size = sum(together.values())
        if not taken and size > limit:
            limit += size
        if size > limit and len(together) > len(counted):
            continue
        counted = together
        taken.append((choice, settings))
    return tuple(taken)


def left_out(
    newest: Sequence[str],
    picks: Sequence[Pick],
    wheels: Callable[[Slice], Mapping[str, int] | None],
    most_bytes: int | None,
    *,
    wanted: int,
) -> tuple[str, ...]:
    """Return which of the newest releases take no part because of the download budget.

    Where as many stacks as are wanted fit, other releases are left out for their number.

    Args:
        newest: releases that could take part, newest first.
        picks: what takes part (`within_download`).
    """
    taken = releases_of(each for each, _ in picks)
    first = sum((wheels(picks[0][0]) or {}).values()) if picks else 0
    too_large = most_bytes is not None and first > most_bytes
    if len(picks) >= wanted and newest[:1] == taken[:1] and not too_large:
        return ()
    return tuple(each for each in newest if each not in taken)
