"""CPUs that are set aside: some to measure on, others for whatever stackgen does besides."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stackgen.errors import UsageError
from stackgen.pipeline.options import ExploreOptions

_TOPOLOGY = Path("/sys/devices/system/cpu")


def refuse_cpus(options: ExploreOptions, usable: Sequence[int]) -> None:
    """Refuse CPUs that cannot be set aside as they were given.

    Args:
        options: what was asked for.
        usable: numbers of the CPUs that this machine has for us.

    Raises:
        UsageError: a CPU is not there or not for us, has two purposes, or there are too few.
    """
    measure, build = options.measure_cpus, options.build_cpus
    if not measure and not build:
        _refuse_threads(options, usable, given="")
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(
            "CPUs cannot be set aside here",
            why="this system lets no program choose its CPUs",
            fix="leave out --measure-cpus and --build-cpus",
        )
    if not measure:
        raise UsageError(
            "--build-cpus alone keeps nothing apart",
            why="it is not said where is measured, and that could be on the same CPUs",
            fix=f"give both, as in: {_example(usable)}",
        )
    for option, cpus in (("--measure-cpus", measure), ("--build-cpus", build)):
        _refuse_missing(option, cpus, usable)
    if both := sorted({*measure} & {*build}):
        raise UsageError(
            f"{_named(both)} cannot be for measuring and for building",
            why="what is built would disturb what is measured",
            fix=f"give each CPU to one of them, as in: {_example(usable)}",
        )
    _refuse_threads(options, measure, given="--measure-cpus")


def _refuse_missing(option: str, cpus: Sequence[int], usable: Sequence[int]) -> None:
    missing = [cpu for cpu in cpus if cpu not in usable]
    if missing:
        raise UsageError(
            f"{option}: {_named(missing)} cannot be used",
            why=f"this process may run on {cpu_list(usable)} (the machine has no others, or "
            "taskset, a container or the system keeps them)",
            fix=f"give some of these: {option} {cpu_list(usable)}",
        )


def _refuse_threads(options: ExploreOptions, cpus: Sequence[int], *, given: str) -> None:
    """Refuse more threads than CPUs: they would take turns on them, which is another question.

    Args:
        options: what was asked for.
        cpus: those that are measured on.
        given: the option that names them, or "" where they are all that this machine has for us.
    """
    most = len(cpus)
    asked = [int(v) for name, v in options.parameters if name == "threads" and v.isdigit()]
    if (threads := max([options.threads, *asked])) <= most:
        return
    who = f"{given} names {most}" if given else f"this process may use {most}"
    fix = f"give --threads {most} or fewer"
    raise UsageError(
        f"{threads} threads cannot be measured on {cpu_list(cpus)}",
        why=f"{who}, and threads that wait for each other's CPU tell nothing about versions",
        fix=f"{fix}, or more {given}" if given else fix,
    )


@contextmanager
def kept_to(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and what it starts meanwhile, to these CPUs; to no others if empty.

    What is measured is bound to CPUs of its own, and may leave these.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shared_cores(
    measure: Iterable[int], build: Iterable[int], topology: Path = _TOPOLOGY
) -> tuple[int, ...]:
    """Return the CPUs for building that are the other half of a core that is measured on.

    Source: Linux, Documentation/admin-guide/cputopology.rst.
    """
    siblings: set[int] = set()
    for cpu in measure:
        try:
            text = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text("ascii")
        except OSError:
            continue
        siblings.update(_numbers(text.strip()))
    return tuple(sorted(siblings & set(build)))


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as they are given, such as ``0,2-5``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _named(cpus: Sequence[int]) -> str:
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"the CPUs {cpu_list(cpus)}"


def _example(usable: Sequence[int]) -> str:
    if len(usable) < 2:
        return "--measure-cpus 1 --build-cpus 0"
    half = len(usable) // 2
    return f"--measure-cpus {cpu_list(usable[half:])} --build-cpus {cpu_list(usable[:half])}"
