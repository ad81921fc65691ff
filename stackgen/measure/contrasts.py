"""What blocks say once the blocks themselves are taken out: as few contrasts as there are stacks.

Each block has an effect of its own, of which nothing is known, so only differences within a block
count. All inspections together reduce to one contrast for each measured stack but one, with
independent noise of the size of one inspection's, and to what repetitions of the same stack leave
unexplained: however often the stacks were measured, the algebra stays that of a few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

_TINY = 1e-9
_FURTHEST = 2.5
"""Residuals beyond so many deviations are drawn in: noise has tails. Where it has none, nearer ones
would cost the stated confidence its truth (ADR 21)."""
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Measured:
    """One inspection that ended well: the block that held it, the stack (its place), log time."""

    block: int
    stack: int
    log_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrasts:
    """Differences within blocks.

    places: of the stacks that were measured, ascending, shape (measured,). rows: contrasts over
    these stacks, shape (contrasts, measured). values: theirs. left: the sum of squares that no
    difference between stacks explains. freedom: how many differences there were in all.
    """

    places: Places
    rows: Array
    values: Array
    left: float
    freedom: int
    blocks: Places
    stacks: Places
    log_s: Array

    def drawn_in(self, gain: Array) -> tuple[Array, float]:
        """Return values and what is left when residuals far from the rest are drawn in.

        What a residual loses is made up for in all of them, so that least squares of what comes
        out have the right uncertainty (Huber 1973).

        Args:
            gain: how values make the expected log times of the measured stacks, shape (measured,
                contrasts).
        """
        log_s = self.log_s
        values, left = self.values, self.left
        for _ in range(_ROUNDS):
            fitted = (gain @ values)[self.stacks]
            fitted = fitted + _means(log_s - fitted, self.blocks)[self.blocks]
            residuals = self.log_s - fitted
            # Of k residuals in a block only k - 1 are free; the median takes no notice.
            reach = _FURTHEST * float(np.median(np.abs(residuals))) / 0.6745
            inside = np.abs(residuals) <= reach
            if reach < _TINY or inside.all():
                break
            log_s = fitted + np.clip(residuals, -reach, reach) / inside.mean()
            values, left = _reduced(self.rows, log_s, blocks=self.blocks, stacks=self.stacks)
        return values, left


def contrasts(measured: Sequence[Measured]) -> Contrasts:
    """Reduce inspections to contrasts; blocks with a single one say nothing and are left out."""
    held: dict[int, int] = {}
    for each in measured:
        held[each.block] = held.get(each.block, 0) + 1
    used = [each for each in measured if held[each.block] > 1]
    places, stacks = _numbered([each.stack for each in used])
    known, blocks = _numbered([each.block for each in used])
    shared = np.zeros((len(known), len(places)))
    np.add.at(shared, (blocks, stacks), 1.0)
    sizes = shared.sum(axis=1)
    precision = np.diag(shared.sum(axis=0)) - shared.T @ (shared / sizes[:, None])
    strengths, vectors = np.linalg.eigh(precision)
    kept = strengths > _TINY * max(1.0, float(strengths.max(initial=0.0)))
    rows: Array = (vectors[:, kept] * np.sqrt(strengths[kept])).T
    log_s = np.array([each.log_s for each in used], dtype=float)
    reduced = _reduced(rows, log_s, blocks=blocks, stacks=stacks)
    return Contrasts(
        places=np.array(places, dtype=np.intp),
        rows=rows,
        values=reduced[0],
        left=reduced[1],
        freedom=len(used) - len(known),
        blocks=blocks,
        stacks=stacks,
        log_s=log_s,
    )


def _reduced(rows: Array, log_s: Array, *, blocks: Places, stacks: Places) -> tuple[Array, float]:
    """Return the value of each row of contrasts, and the sum of squares that they leave."""
    centred = log_s - _means(log_s, blocks)[blocks]
    sums = np.bincount(stacks, centred, rows.shape[1])
    # The rows are orthogonal: their pseudo-inverse is themselves, over their squared lengths.
    values: Array = rows @ sums / np.maximum((rows**2).sum(axis=1), _TINY)
    return values, max(0.0, float(centred @ centred) - float(values @ values))


def _means(values: Array, groups: Places) -> Array:
    found: Array = np.bincount(groups, values) / np.bincount(groups)
    return found


def _numbered(names: Sequence[int]) -> tuple[list[int], Places]:
    known = sorted(set(names))
    numbers = {name: number for number, name in enumerate(known)}
    return known, np.array([numbers[name] for name in names], dtype=np.intp)
