"""The command that measures one stack against itself."""

import os
import sys
from typing import Annotated

import typer

from stackgen.cli import asking
from stackgen.cli.options import (
    AsJson,
    BaseName,
    BuildCpus,
    ExecutorName,
    Kb,
    MeasureCpus,
    Parameters,
    Seed,
    Threads,
    parse_cpu_list,
    parse_pair,
    parse_span,
)

Measured = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REQUIREMENT...", help="One stack of these is measured [default: numpy]."
    ),
]
Pis = Annotated[
    list[str],
    typer.Option(
        "--pi",
        metavar="NAME",
        help="Indicator, or your own .py file [default: numpy's matmul, sort and ufunc, or the "
        "framework's matmul]; python/pure is always measured.",
    ),
]
Minutes = Annotated[
    str, typer.Option(metavar="TIME", help="For building and measuring, 10m at most.")
]


def noise(
    requirements: Measured = None,
    pi: Pis = [],  # noqa: B006 # typer copies it
    param: Parameters = [],  # noqa: B006
    budget: Minutes = "5m",
    base: BaseName = "",
    executor: Annotated[ExecutorName, typer.Option(help="Where it runs.")] = ExecutorName.auto,
    threads: Threads = 0,
    measure_cpus: MeasureCpus = "",
    build_cpus: BuildCpus = "",
    seed: Seed = 0,
    kb: Kb = None,
    json: AsJson = False,
) -> None:
    """Tell how small a difference this machine can show, and how long that takes.

    One stack is measured against itself: all that differs then is noise. The same command goes on
    where it was. Exit code 3 means that there is no answer yet, 6 that equal runs differ.
    """
    asking.refuse_redirected_requirement()
    from stackgen.pipeline.noise import noise as run
    from stackgen.pipeline.options import ExecutorChoice, ExploreOptions
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, open_progress
    from stackgen.render.noise import noise_text
    from stackgen.resolve import asked

    options = ExploreOptions(
        asked=asked(*(requirements or ("numpy",))),
        indicators=tuple(pi),
        parameters=tuple(parse_pair(each, "--param") for each in param),
        base=base,
        executor=ExecutorChoice(executor.value),
        budget_s=parse_span(budget),
        seed=seed,
        threads=threads,
        measure_cpus=parse_cpu_list(measure_cpus, "--measure-cpus"),
        build_cpus=parse_cpu_list(build_cpus, "--build-cpus"),
    )
    with open_progress(sys.stderr) as progress:
        found = run(options, find_places(os.environ, kb=kb), os.environ, progress)
    typer.echo(as_json(found) if json else noise_text(found))
    raise typer.Exit(found.exit_code)
