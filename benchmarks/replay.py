"""False alarms and power of stackgen's statistic beside a plain t and Welch's t, on recorded noise.

python benchmarks/replay.py
"""

import gzip
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from scipy import stats

from stackgen.measure import ALPHA, LOOKS, effect, level_of_a_look
from stackgen.values import IndicatorId, StackId, Verdict

RECORDED = Path(__file__).parent.parent / "tests" / "recorded"
Rule = Callable[[Sequence[float], Sequence[float]], bool]


def ours(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether stackgen calls the two arms different (log times, block by block)."""
    found = effect(
        a=StackId("a"),
        b=StackId("b"),
        indicator_id=IndicatorId("x"),
        contrasts=[y - x for x, y in zip(a, b, strict=True)],
    )
    return found.verdict in (Verdict.FASTER, Verdict.SLOWER)


def plain(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether a paired t test calls them different."""
    p = stats.ttest_rel(a, b).pvalue
    return bool(p < level_of_a_look(ALPHA))


def welch(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether Welch's t, which ignores the blocks, calls them different."""
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    return bool(p < level_of_a_look(ALPHA))


def blocks_until_different(
    rule: Rule, a: Sequence[float], b: Sequence[float], order: Sequence[int]
) -> int | None:
    """Return after how many blocks, at which look, a rule calls two arms different."""
    for look in LOOKS:
        if look <= len(order):
            chosen = order[:look]
            if rule([a[i] for i in chosen], [b[i] for i in chosen]):
                return look
    return None


def main() -> None:
    """Print one table per recording."""
    for name in ("quiet", "busy"):
        document = json.loads(
            gzip.decompress((RECORDED / f"eight-arms-{name}.json.gz").read_bytes())
        )
        print(f"{name}: false alarms; power for 3/5/10 % (median blocks)")
        for indicator, arms in document.items():
            blocks = sorted(set.intersection(*(set(times) for times in arms.values())), key=int)
            logs = {arm: [math.log(times[b]) for b in blocks] for arm, times in arms.items()}
            for rule in (ours, plain, welch):
                print(f"  {indicator:10} {rule.__name__:6} {row(rule, logs)}")


def row(rule: Rule, logs: dict[str, list[float]]) -> str:
    """Return one line of the table."""
    dice = random.Random(1)
    equal = sorted(arm for arm in logs if arm.startswith("A"))
    alarms = []
    found: dict[str, list[int | None]] = {"P3": [], "P5": [], "P10": []}
    for _ in range(8):
        order = list(range(len(logs["A1"])))
        dice.shuffle(order)
        for a, b in combinations(equal, 2):
            alarms.append(blocks_until_different(rule, logs[a], logs[b], order) is not None)
        for planted, looks in found.items():
            looks += [blocks_until_different(rule, logs[planted], logs[a], order) for a in equal]
    cells = []
    for looks in found.values():
        hits = [look for look in looks if look is not None]
        median = f"{statistics.median(hits):.0f}" if hits else "-"
        cells.append(f"{len(hits) / len(looks):.2f} ({median})")
    return f"{sum(alarms) / len(alarms):6.1%}   " + "  ".join(cells)


if __name__ == "__main__":
    main()
