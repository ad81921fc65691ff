"""Blocks that something disturbed are excluded, by a rule that is blind to the timings.

Its limits are fixed here, before anything is measured. It uses what the system counted around
the samples and at how long a sample was when it was calibrated, never at how fast a stack was in a
block (docs/adr/0022 has the evidence).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stackgen.model.identity import CampaignId, IndicatorId
from stackgen.model.inspections import Inspection, Observation, Role

BlockKey: TypeAlias = tuple[CampaignId, int]

LIMIT = 0.2
"""The share of a run for which others may have had its CPU, where the fastest sample counts."""
LIMIT_OF_ONE = 0.05
"""The same where there is one sample alone, which has all of it."""
SHORT_S = 0.003
"""Samples up to this length fit between two turns of others, so that some are whole."""
ASLEEP_S = 1.0
"""How long a machine may have been suspended within a block: what clocks that are read one after
the other differ by, and no more."""
ALWAYS_AFTER = 4
"""From so many blocks on, a machine that disturbs more than half of them is always like that."""
HOT = 0x08 | 0x20 | 0x40 | 0x80
"""NVML's reasons for which a GPU slows down by itself: slowdown, too hot (twice), power brake.

Not its power cap (4): large models run into that all the time, on every stack.
"""
_SHARES = (
    ("steal_s", "the machine's host had its CPU for {} of a run"),
    ("throttled_s", "a CPU quota stopped it for {} of a run"),
)
Circumstances: TypeAlias = Mapping[str, str]
Calibrated: TypeAlias = Mapping[tuple[CampaignId, IndicatorId], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbedBlocks:
    """Which blocks of campaigns were disturbed, each with what disturbed it, in words.

    excluded: that count for nothing, and whose place further blocks take.
    tolerated: that count all the same, since more than half of all blocks are like that.
    """

    excluded: Mapping[BlockKey, str] = field(default_factory=dict)
    tolerated: Mapping[BlockKey, str] = field(default_factory=dict)


def exclude_disturbed(inspections: Iterable[Inspection]) -> DisturbedBlocks:
    """Return which blocks were disturbed, and which of these are excluded.

    A block's fate rests on itself and on the blocks before it, so it never changes later. Of the
    first blocks each may be excluded, and of all blocks until then at most every second one: on a
    machine that is always busy, this costs three blocks and no more.

    Args:
        inspections: everything that the campaigns recorded, in the order of time; calibrations
            show how long samples are. What is left out of them was never disturbed.
    """
    seen = list(inspections)
    calibrated = _calibrated(seen)
    by_block: dict[BlockKey, list[Inspection]] = {}
    for each in seen:
        if each.block > 0:
            by_block.setdefault((each.campaign_id, each.block), []).append(each)
    excluded: dict[BlockKey, str] = {}
    tolerated: dict[BlockKey, str] = {}
    blocks: dict[CampaignId, int] = {}
    disturbed: dict[CampaignId, int] = {}
    for key in sorted(by_block):
        campaign = key[0]
        blocks[campaign] = blocks.get(campaign, 0) + 1
        reason = _reason(by_block[key], calibrated)
        if reason is None:
            continue
        disturbed[campaign] = disturbed.get(campaign, 0) + 1
        rare = disturbed[campaign] * 2 <= blocks[campaign]
        (excluded if rare or blocks[campaign] < ALWAYS_AFTER else tolerated)[key] = reason
    return DisturbedBlocks(excluded=excluded, tolerated=tolerated)


def _reason(block: Iterable[Inspection], calibrated: Calibrated) -> str | None:
    """Return what disturbed a block most, in words; None where nothing did."""
    worst, reason = 1.0, None
    asleep: list[float] = []
    for each in block:
        if each.observation is None:
            continue
        circumstances = dict(each.observation.circumstances)
        if _is_hot(circumstances):
            return "its GPU slowed itself down"
        asleep += _asleep(circumstances)
        if _is_short(circumstances, calibrated.get((each.campaign_id, each.indicator_id))):
            continue
        limit = LIMIT if len(each.observation.values_s) > 1 else LIMIT_OF_ONE
        for share, words in _shares(circumstances):
            if share / limit > worst:
                worst, reason = share / limit, words.format(f"{share:.0%}")
    if asleep and max(asleep) - min(asleep) > ASLEEP_S:
        return "the machine was suspended in between"
    return reason


def _shares(circumstances: Circumstances) -> Iterator[tuple[float, str]]:
    """Yield the shares of a run in which it could not go on, each with its cause."""
    wall_s = number(circumstances, "wall_s")
    if not wall_s:
        return
    waited_s = _waited(circumstances, wall_s)
    if waited_s is not None:
        alone = _threads(circumstances) == 1
        own = "other processes had its CPU" if alone else "processes waited for a CPU"
        yield min(1.0, waited_s / wall_s), own + " for {} of a run"
    for name, words in _SHARES:
        seconds = number(circumstances, name)
        if seconds is not None:
            # What is stolen is counted for all CPUs together.
            cpus = number(circumstances, "cpu_count") if name == "steal_s" else 1
            yield min(1.0, seconds / wall_s / (cpus or 1)), words


def _waited(circumstances: Circumstances, wall_s: float) -> float | None:
    """Return for how many seconds a run wanted a CPU that another process had.

    Pressure is that of the whole machine, and a run that used less CPU time than passed may have
    waited for a disk: the smaller of the two is neither. With several threads, CPU time says
    nothing.
    """
    pressure = number(circumstances, "pressure_cpu_s")
    used = number(circumstances, "cpu_time_s")
    if pressure is None or used is None or _threads(circumstances) != 1:
        return pressure
    return min(pressure, max(0.0, wall_s - used))


def _calibrated(inspections: Iterable[Inspection]) -> Calibrated:
    """Return how long a sample of each indicator is, in seconds, as it was first calibrated."""
    found: dict[tuple[CampaignId, IndicatorId], float] = {}
    for each in inspections:
        if each.role is Role.CALIBRATION and each.observation is not None:
            found.setdefault((each.campaign_id, each.indicator_id), _length(each.observation))
    return found


def _length(observation: Observation) -> float:
    """Return the seconds of one sample; a figure of the user's own is no time."""
    return math.inf if observation.gives_figure else observation.best_s * observation.loops


def _is_short(circumstances: Circumstances, sample_s: float | None) -> bool:
    """Return whether some samples are whole however busy the CPU is.

    Where several threads wait for each other, each sample waits for the one that was delayed.
    """
    return sample_s is not None and sample_s <= SHORT_S and _threads(circumstances) == 1


def _threads(circumstances: Circumstances) -> float | None:
    return number(circumstances, "env OMP_NUM_THREADS")


def _asleep(circumstances: Circumstances) -> list[float]:
    """Return for how long the machine had been suspended, before and after a run."""
    after = number(circumstances, "suspended_since_boot_s")
    return [] if after is None else [after - (number(circumstances, "suspended_s") or 0.0), after]


def _is_hot(circumstances: Circumstances) -> bool:
    """Return whether a GPU slowed down because of its temperature or its power supply."""
    masks = (circumstances.get(f"gpu {_THROTTLING} {when}", "") for when in ("before", "after"))
    return any(_mask(text) & HOT for text in masks)


_THROTTLING = "clocks_throttle_reasons.active"


def _mask(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def number(circumstances: Circumstances, name: str) -> float | None:
    """Return a number; what a process printed may be anything."""
    try:
        value = float(circumstances.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None
