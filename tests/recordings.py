"""Recorded noise as the tests and the benchmarks replay it."""

import gzip
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from stackgen.measure.contrasts import CampaignContrasts, estimates
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId

FOLDER = Path(__file__).parent / "recorded"
NAMES = ("eight-arms-quiet", "eight-arms-busy", "numpy-two-versions")
ALIKE = (("A1", "A2", "A3", "A4", "A5"), ("A1u", "A2u"), ("A1p", "A2p"))
"""Arms of a recording that are identical."""
Arms = Mapping[str, Mapping[str, float]]


def recording(name: str) -> dict[str, Arms]:
    """Return times by indicator, arm and block, in nanoseconds."""
    path = FOLDER / f"{name}.json.gz"
    found: dict[str, Arms] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def times(arms: Arms, name: str) -> list[float]:
    """Return log times of an arm in the order of the blocks."""
    return [math.log(arms[name][block]) for block in sorted(arms[name], key=int)]


def identical_pairs(arms: Arms) -> list[tuple[str, str]]:
    """Return pairs of arms that do the same."""
    return [pair for group in ALIKE if group[0] in arms for pair in combinations(group, 2)]


def contrasts(arms: Arms, a: str, b: str) -> list[float]:
    """Return log(time of b / time of a) block by block."""
    return [y - x for x, y in zip(times(arms, a), times(arms, b), strict=True)]


def campaigns(arms: Arms, *, baseline: str, blocks: int = 10) -> list[CampaignContrasts]:
    """Return parts of a recording as campaigns that compare all of its arms."""
    others = sorted(arms.keys() - {baseline})
    shared = sorted(set.intersection(*(set(each) for each in arms.values())), key=int)
    found = []
    for number in range(len(shared) // blocks):
        part = shared[blocks * number : blocks * (number + 1)]
        name = CampaignId(f"part {number}")
        values = estimates(
            [
                {(name, int(b)): math.log(arms[baseline][b] / arms[other][b]) for b in part}
                for other in others
            ]
        )
        found.append(
            CampaignContrasts(
                campaign_id=name,
                indicator_id=IndicatorId("recorded"),
                machine_id=MachineId("recorded"),
                origins=(),
                date="2026-11-21",
                baseline=StackId(baseline),
                candidates=tuple(StackId(other) for other in others),
                log_ratios=values.log_ratios,
                covariance=values.covariance,
                blocks=values.blocks,
                freedom=values.freedom,
            )
        )
    return found


def shuffled(
    values: Sequence[float], dice: random.Random, count: int, *, swapped: bool = False
) -> Iterator[list[float]]:
    """Yield contrasts in random orders of the blocks.

    swapped: in each block a coin decides which of two identical arms is called which, so that
        nothing but noise is left, whatever one recording happens to have.
    """
    for _ in range(count):
        found = [value * (dice.choice((-1, 1)) if swapped else 1) for value in values]
        dice.shuffle(found)
        yield found
