"""False alarms and power of stackgen's verdicts beside other rules, on recorded noise.

All rules look after 6, 10, 16, 26, 42 and 60 blocks and stop at the first difference that they see:
stackgen's; a paired t test and Welch's t test (which ignores the blocks), both at stackgen's level
of an interim analysis; and the fastest of all samples so far, which calls 2 % a difference, as is
often done.

python -m benchmarks.replay [--orders 80]
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence

from scipy import stats

from stackgen.measure import ALPHA, INTERIM_ANALYSES, MARGIN, effect, level_per_analysis
from stackgen.model.evidence import Verdict
from stackgen.model.identity import IndicatorId, StackId
from tests.recordings import NAMES, Arms, identical_pairs, recording, times

Rule = Callable[[Sequence[float], Sequence[float]], bool]
PLANTED = (("P3", 0.03), ("P5", 0.05), ("P10", 0.10))


def ours(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether stackgen calls the two arms different (log times, block by block)."""
    found = effect(
        a=StackId("a"),
        b=StackId("b"),
        indicator_id=IndicatorId("x"),
        contrasts=[y - x for x, y in zip(a, b, strict=True)],
    )
    return found.verdict in (Verdict.FASTER, Verdict.SLOWER)


def paired_t(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether a paired t test calls them different."""
    return bool(stats.ttest_rel(a, b).pvalue < level_per_analysis(ALPHA))


def welch(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether Welch's t, which ignores the blocks, calls them different."""
    return bool(stats.ttest_ind(a, b, equal_var=False).pvalue < level_per_analysis(ALPHA))


def min_of_n(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether the fastest samples of all blocks so far differ by more than the margin."""
    return abs(min(a) - min(b)) > math.log1p(MARGIN)


def blocks_until_different(rule: Rule, a: Sequence[float], b: Sequence[float]) -> int | None:
    """Return after how many blocks, at which interim analysis, a rule calls two arms different."""
    return next(
        (
            analysis
            for analysis in INTERIM_ANALYSES
            if analysis <= len(a) and rule(a[:analysis], b[:analysis])
        ),
        None,
    )


def orders(
    a: Sequence[float], b: Sequence[float], count: int, dice: random.Random
) -> Iterator[tuple[list[float], list[float]]]:
    """Yield two arms with their blocks in random orders."""
    for _ in range(count):
        order = dice.sample(range(len(a)), len(a))
        yield [a[k] for k in order], [b[k] for k in order]


def row(rule: Rule, arms: Arms, count: int) -> str:
    """Return false alarms and power of one rule on one indicator."""
    dice = random.Random(1)
    equal = identical_pairs(arms)
    logs = {arm: times(arms, arm) for arm in arms}
    each = max(1, count // len(equal))
    alarms = [
        blocks_until_different(rule, *found) is not None
        for a, b in equal
        for found in orders(logs[a], logs[b], each, dice)
    ]
    cells = [f"{sum(alarms) / len(alarms):6.1%}"]
    for arm, more in PLANTED:
        if arm in arms:
            pairs = [
                (logs[arm], logs[same]) for same in sorted({a for pair in equal for a in pair})
            ]
        else:
            pairs = [([x + math.log1p(more) for x in logs[a]], logs[b]) for a, b in equal]
        ends = [
            blocks_until_different(rule, *found)
            for a, b in pairs
            for found in orders(a, b, max(1, count // len(pairs)), dice)
        ]
        hits = [end for end in ends if end is not None]
        median = f"{statistics.median(hits):.0f}" if hits else "-"
        cells.append(f"{len(hits) / len(ends):.2f} ({median:>2})")
    return "  ".join(cells)


def main() -> None:
    """Print one table per recording."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=80, help="of the blocks, for each figure")
    options = parser.parse_args()
    for name in NAMES:
        how = "more work" if name.startswith("eight") else "planted by scaling"
        print(f"{name}: false alarms; power for 3, 5, 10 % {how} (median blocks)")
        for indicator, arms in recording(name).items():
            for rule in (ours, paired_t, welch, min_of_n):
                print(f"  {indicator:10} {rule.__name__:9} {row(rule, arms, options.orders)}")


if __name__ == "__main__":
    main()
