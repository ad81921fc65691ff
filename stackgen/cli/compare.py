"""The command that compares two stacks, and nothing else."""

import os
import sys
from typing import Annotated

import typer

from stackgen.cli import options as given
from stackgen.cli.options import (
    AsJson,
    BaseName,
    Budget,
    BuildCpus,
    ExecutorName,
    Gpus,
    Indicators,
    Kb,
    Margin,
    MeasureCpus,
    Parameters,
    PriceFile,
    PricePerHour,
    Seed,
    Threads,
    Weights,
    check_prices,
    parse_cpu_list,
    parse_gpus,
    parse_margin,
    parse_pair,
    parse_span,
    parse_weights,
)

Reference = Annotated[
    str,
    typer.Argument(
        metavar="A",
        help='What B is compared with: a lock file, versions ("numpy==1.26.4 scipy==1.12.0"; what '
        "else they need is chosen, newest first), or the beginning of a stack's id.",
        show_default=False,
    ),
]
Other = Annotated[
    str, typer.Argument(metavar="B", help="What is compared with A.", show_default=False)
]


def compare(
    a: Reference,
    b: Other,
    pi: Indicators = [],  # noqa: B006 # typer copies it
    param: Parameters = [],  # noqa: B006
    weight: Weights = [],  # noqa: B006
    pi_command: given.PiCommand = None,
    project: given.Project = None,
    data: given.Data = [],  # noqa: B006
    env: given.Env = [],  # noqa: B006
    network: given.Network = False,
    figure: given.Figure = "",
    better: given.Better = None,
    check: given.Check = "",
    time_limit: given.TimeLimit = "",
    base: BaseName = "",
    executor: Annotated[ExecutorName, typer.Option(help="Where stacks run.")] = ExecutorName.auto,
    budget: Budget = "15m",
    margin: Margin = "2%",
    seed: Seed = 0,
    threads: Threads = 0,
    gpus: Gpus = "",
    measure_cpus: MeasureCpus = "",
    build_cpus: BuildCpus = "",
    price_per_hour: PricePerHour = None,
    prices: PriceFile = None,
    allow_build: given.BuildsSources = [],  # noqa: B006
    rebuild: given.Rebuild = False,
    kb: Kb = None,
    json: AsJson = False,
    index_url: given.IndexUrl = None,
    extra_index_url: given.ExtraIndexUrl = [],  # noqa: B006
    find_links: given.FindLinks = [],  # noqa: B006
    no_index: given.NoIndex = False,
    offline: given.Offline = False,
) -> None:
    """Measure whether stack B is faster than stack A, and by how much.

    Both are measured in every block until the answer is certain or the budget is spent. The same
    command goes on where it was. Exit code 3 means that there is no answer yet.
    """
    given.refuse_redirected_requirement()
    from stackgen.campaign.request import ExecutorChoice, ExploreOptions
    from stackgen.campaign.user_input import understood
    from stackgen.commands.compare import compare as run
    from stackgen.report import as_json, open_progress
    from stackgen.report.compare import compare_text
    from stackgen.storage.paths import find_paths

    check_prices(price_per_hour, prices)
    wanted = understood(
        given.wishes(
            requirements=[],
            files=[],
            extras=[],
            groups=[],
            constraints=[],
            overrides=[],
            excluded=[],
            allow_build=tuple(allow_build),
            pre=False,
            prerelease=None,
            exclude_newer=None,
            index_url=index_url,
            extra_index_urls=extra_index_url,
            find_links=find_links,
            compared=[],
            no_index=no_index,
            offline=offline,
        ),
        os.environ,
    )
    paths = find_paths(os.environ, kb=kb)
    options = ExploreOptions(
        asked=wanted.request,
        indicators=tuple(pi),
        parameters=tuple(parse_pair(each, "--param") for each in param),
        weights=parse_weights(weight),
        program=given.program_call(
            pi_command,
            project=project,
            data=data,
            env=env,
            network=network,
            figure=figure,
            better=better,
            check=check,
            timeout_s=parse_span(time_limit, "--time-limit") if time_limit else None,
            budget_s=parse_span(budget),
            paths=paths,
            dry_run=False,
        ),
        base=base,
        executor=ExecutorChoice(executor.value),
        budget_s=parse_span(budget),
        margin=parse_margin(margin),
        seed=seed,
        threads=threads,
        gpus=parse_gpus(gpus),
        measure_cpus=parse_cpu_list(measure_cpus, "--measure-cpus"),
        build_cpus=parse_cpu_list(build_cpus, "--build-cpus"),
        price_per_hour=price_per_hour,
        prices=prices,
        rebuild=rebuild,
        index=wanted.index,
    )
    with open_progress(sys.stderr) as progress:
        found = run(a, b, options, paths, os.environ, progress)
    typer.echo(as_json(found) if json else compare_text(found))
    raise typer.Exit(found.exit_code)


# The command that measures one stack against itself

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
    given.refuse_redirected_requirement()
    from stackgen.campaign.request import ExecutorChoice, ExploreOptions
    from stackgen.commands.noise import noise as run
    from stackgen.report import as_json, open_progress
    from stackgen.report.noise import noise_text
    from stackgen.resolve import parse_requirements
    from stackgen.storage.paths import find_paths

    options = ExploreOptions(
        asked=parse_requirements(*(requirements or ("numpy",))),
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
        found = run(options, find_paths(os.environ, kb=kb), os.environ, progress)
    typer.echo(as_json(found) if json else noise_text(found))
    raise typer.Exit(found.exit_code)
