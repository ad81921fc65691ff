"""What a CPU quota does to times, and what stackgen's way, a set of CPUs, does not.

python -m benchmarks.live.quota [--processes N] [--samples N] [--threads N] [--quota CPUS]

One stack (NumPy), in containers, run by stackgen's executor in three ways that take turns:
quota: one CPU's worth of time on all CPUs (what ``docker run --cpus 1`` sets: 100 ms of every
100 ms) with as many threads as CPUs; cpuset: one CPU, one thread, as stackgen runs it; free: all
CPUs, as many threads, and no quota, to tell one from the other. Threads that run at once use up the
period's time before it ends, and all of them stop until the next one begins: a sample takes the
time of its work, or that and a stop. With N CPUs a stop lasts 100 - 100/N ms (50 on two CPUs,
nearly 100 on many), and stops are n times 100 ms apart. The other samples look faster than one CPU
is. A minute on a machine where nothing else runs; on a busy one, take --quota 0.25.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from docker import APIClient

from benchmarks.live.bench import CAMPAIGN, Arm, Bench, call_of, opened
from stackgen.campaign.indicators import limits, usable_cpus
from stackgen.executors.docker import CAMPAIGN_LABEL, DockerExecutor
from stackgen.model.choices import ExecutorChoice
from stackgen.model.inspections import Limits, Observation
from stackgen.model.stacks import Environment

PERIOD_US = 100_000
PERIOD_S = PERIOD_US / 1e6
STOPPED_S = 0.25 * PERIOD_S  # so much longer than the fastest: no scheduler between equals does it
NEAR_S = 0.1 * PERIOD_S
BINS_MS = (5, 15, 35, 65, 85, 115, 135, 165, 185, 215)
SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """All processes that ran in one way.

    stops: (begin, end) of each in seconds from the first sample on, process by process.
    """

    name: str
    observations: tuple[Observation, ...]

    @property
    def samples(self) -> list[float]:
        """Return the seconds that each sample took, all of its operations together."""
        return [value * each.loops for each in self.observations for value in each.values_s]

    def circumstance(self, name: str) -> float:
        """Return the sum of a circumstance."""
        return sum(float(dict(each.circumstances).get(name, 0)) for each in self.observations)

    def gaps(self) -> Iterator[float]:
        """Yield the seconds from the end of each long sample to that of the next one."""
        for each in self.observations:
            fastest, now, ends = min(each.values_s) * each.loops, 0.0, []
            for value in each.values_s:
                now += value * each.loops
                if value * each.loops - fastest > STOPPED_S:
                    ends.append(now)
            yield from (after - before for before, after in pairwise(ends))


def arms_of(environment: Environment, threads: int, size: int, samples: int) -> tuple[Arm, ...]:
    """Return the three ways: the quota is set on a container when it exists."""
    every = Limits(threads=threads, memory_bytes=limits(0).memory_bytes)
    one = replace(limits(1), threads=1)
    # A byte less makes it a container of its own.
    limited = replace(every, memory_bytes=(every.memory_bytes or 0) - (1 << 20))

    def arm(name: str, given: Limits) -> Arm:
        call = call_of("numpy/matmul", {"size": size}, threads=given.threads)
        return Arm(
            name=name, environment=environment, call=call, limits=given, samples=samples, loops=1
        )

    return arm("quota", limited), arm("cpuset", one), arm("free", every)


def limit(api: APIClient, memory_bytes: int | None, quota_us: int) -> None:
    """Give the container with so much memory so much time in every period."""
    for each in api.containers(filters={"label": f"{CAMPAIGN_LABEL}={CAMPAIGN}"}):
        reported = api.inspect_container(each["Id"])["HostConfig"]
        if reported["Memory"] == memory_bytes:
            api.update_container(each["Id"], cpu_period=PERIOD_US, cpu_quota=quota_us)
            return
    raise SystemExit("the engine lost the container that was to have a quota")


def measured(bench: Bench, arms: Sequence[Arm], processes: int, quota_us: int) -> list[Way]:
    """Return what blocks of the three ways show."""
    executor = bench.backend.executor
    assert isinstance(executor, DockerExecutor)
    for arm in arms:
        bench.inspect(replace(arm, samples=2).plan())  # makes the container, which is kept
    limit(executor.api, arms[0].limits.memory_bytes, quota_us)
    rows = [bench.block(arms, number, SEED) for number in range(processes)]
    return [Way(name=arm.name, observations=tuple(each[arm.name] for each in rows)) for arm in arms]


def histogram(way: Way) -> str:
    """Return the share of samples by how many milliseconds they took more than the fastest."""
    fastest = min(way.samples)
    found = Counter(
        sum((value - fastest) * 1e3 >= edge for edge in BINS_MS) for value in way.samples
    )
    shares = [found[place] / len(way.samples) for place in range(len(BINS_MS) + 1)]
    return " ".join(f"{share:6.1%}" if share else "     -" for share in shares)


def report(ways: Sequence[Way]) -> None:
    """Print how samples are distributed, and what the kernel counted."""
    print("\nshare of samples by milliseconds beyond the fastest")
    names = ["<5", *(f"{low}+" for low in BINS_MS)]
    print(f"{'':7}" + " ".join(f"{each:>6}" for each in names))
    for way in ways:
        print(f"{way.name:7}{histogram(way)}")
    print("\n        fastest    mean   max of  stopped  stopped   long     of which ends are")
    print("             ms      ms  medians    times        s   samples  apart by n x 100 ms")
    for way in ways:
        medians = [statistics.median(each.values_s) for each in way.observations]
        gaps = list(way.gaps())
        near = sum(abs(gap - PERIOD_S * round(gap / PERIOD_S)) <= NEAR_S for gap in gaps)
        long = sum(value - min(way.samples) > STOPPED_S for value in way.samples)
        share = f"{near / len(gaps):8.0%} of {len(gaps)}" if gaps else "       -"
        print(
            f"{way.name:7}{min(way.samples) * 1e3:8.2f}{statistics.fmean(way.samples) * 1e3:8.2f}"
            f"{max(medians) / min(medians):9.3f}{way.circumstance('throttled_times'):9.0f}"
            f"{way.circumstance('throttled_s'):9.2f}{long / len(way.samples):10.1%}{share}"
        )
    print("max of medians: over the smallest, of processes that are all alike")


def main() -> None:
    """Measure the three ways, and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=8, help="of each way")
    parser.add_argument("--samples", type=int, default=400, help="of one operation, each process")
    parser.add_argument("--threads", type=int, default=len(usable_cpus()))
    parser.add_argument("--quota", type=float, default=1.0, help="CPUs; fewer on a busy machine")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--base", default="bookworm-py311")
    options = parser.parse_args()
    with opened(options.base, ExecutorChoice.DOCKER) as bench:
        environment = bench.environment("numpy==2.3.5")
        print(f"numpy 2.3.5, matmul {options.size}, {len(usable_cpus())} CPUs; quota and free: "
              f"{options.threads} threads; cpuset: 1")  # fmt: skip
        arms = arms_of(environment, options.threads, options.size, options.samples)
        quota_us = round(options.quota * PERIOD_US)
        report(measured(bench, arms, options.processes, quota_us))


if __name__ == "__main__":
    main()
