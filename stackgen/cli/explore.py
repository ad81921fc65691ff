"""The command that explores: it parses what was asked for, and prints the report."""

import os
import sys
from typing import Annotated

import typer

from stackgen.cli import options as cli_options
from stackgen.cli.options import (
    AsJson,
    BaseName,
    Budget,
    BuildCpus,
    Completion,
    CompletionName,
    Confidence,
    Cpus,
    DryRun,
    ExecutorName,
    Fix,
    From,
    Gpus,
    Granularity,
    GranularityName,
    Indicators,
    Kb,
    LockOut,
    Margin,
    MeasureCpus,
    Parameters,
    PriceFile,
    PricePerHour,
    Reference,
    Seed,
    Settings,
    Stacks,
    StrategyName,
    StrategyOf,
    Threads,
    Vary,
    Weights,
    check_confidence,
    check_prices,
    parse_cpu_list,
    parse_cpus,
    parse_gpus,
    parse_margin,
    parse_pair,
    parse_settings,
    parse_span,
    parse_weights,
)


def explore(
    requirements: cli_options.Requirements = None,
    file: cli_options.Files = [],  # noqa: B006 # typer copies it
    extra: cli_options.Extras = [],  # noqa: B006
    group: cli_options.Groups = [],  # noqa: B006
    constraint: cli_options.Constraints = [],  # noqa: B006
    override: cli_options.Overrides = [],  # noqa: B006
    exclude: cli_options.Excluded = [],  # noqa: B006
    allow_build: cli_options.BuildsSources = [],  # noqa: B006
    rebuild: cli_options.Rebuild = False,
    pre: cli_options.Pre = False,
    prerelease: cli_options.PrereleasePolicy = None,
    exclude_newer: cli_options.ExcludeNewer = None,
    vary: Vary = [],  # noqa: B006
    fix: Fix = [],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    lock: From = None,
    reference: Reference = None,
    pi: Indicators = [],  # noqa: B006
    param: Parameters = [],  # noqa: B006
    pi_command: cli_options.PiCommand = None,
    project: cli_options.Project = None,
    data: cli_options.Data = [],  # noqa: B006
    env: cli_options.Env = [],  # noqa: B006
    network: cli_options.Network = False,
    figure: cli_options.Figure = "",
    better: cli_options.Better = None,
    check: cli_options.Check = "",
    time_limit: cli_options.TimeLimit = "",
    base: BaseName = "",
    executor: Annotated[ExecutorName, typer.Option(help="Where stacks run.")] = ExecutorName.auto,
    budget: Budget = "30m",
    stacks: Stacks = None,
    strategy: StrategyOf = StrategyName.racing,
    confidence: Confidence = None,
    margin: Margin = "2%",
    weight: Weights = [],  # noqa: B006
    seed: Seed = 0,
    threads: Threads = 0,
    gpus: Gpus = "",
    cpus: Cpus = "",
    measure_cpus: MeasureCpus = "",
    build_cpus: BuildCpus = "",
    price_per_hour: PricePerHour = None,
    prices: PriceFile = None,
    granularity: Granularity = GranularityName.minor,
    completion: Completion = CompletionName.newest_working,
    lock_out: LockOut = None,
    kb: Kb = None,
    dry_run: DryRun = False,
    json: AsJson = False,
    index_url: cli_options.IndexUrl = None,
    extra_index_url: cli_options.ExtraIndexUrl = [],  # noqa: B006
    find_links: cli_options.FindLinks = [],  # noqa: B006
    compare_index: cli_options.CompareIndex = [],  # noqa: B006
    no_index: cli_options.NoIndex = False,
    offline: cli_options.Offline = False,
) -> None:
    """Measure which stack runs fastest here.

    Stacks are complete sets of versions that satisfy REQUIREMENT...; some are built and measured
    against each other within the budget. The same command goes on where it was. Exit code 3 means
    that there is no answer yet, 6 that equal stacks were shown to differ.
    """
    cli_options.refuse_redirected_requirement()
    from stackgen.campaign.request import ExecutorChoice, ExploreOptions, Strategy
    from stackgen.campaign.user_input import understood
    from stackgen.commands.explore import explore as run
    from stackgen.model import choices
    from stackgen.report import open_progress
    from stackgen.storage.paths import find_paths

    cli_options.refuse_nothing(requirements, file, lock)
    check_prices(price_per_hour, prices)
    wanted = understood(
        cli_options.wishes(
            requirements=requirements,
            files=file,
            extras=extra,
            groups=group,
            constraints=constraint,
            overrides=override,
            excluded=exclude,
            allow_build=tuple(allow_build),
            around=lock,
            pre=pre,
            prerelease=prerelease,
            exclude_newer=exclude_newer,
            index_url=index_url,
            extra_index_urls=extra_index_url,
            find_links=find_links,
            compared=compare_index,
            no_index=no_index,
            offline=offline,
        ),
        os.environ,
    )
    paths = find_paths(os.environ, kb=kb)
    way = Strategy(strategy.value)
    certainty = check_confidence(confidence, way.value, searches=way.searches)
    options = ExploreOptions(
        asked=wanted.request,
        vary=tuple(vary),
        fixed=tuple(fix),
        settings=parse_settings(settings),
        lock=wanted.lock,
        reference_file=reference,
        project=wanted.project,
        indicators=tuple(pi),
        parameters=tuple(parse_pair(each, "--param") for each in param),
        program=cli_options.program_call(
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
            dry_run=dry_run,
        ),
        base=base,
        executor=ExecutorChoice(executor.value),
        budget_s=parse_span(budget),
        stacks=stacks or 0,
        strategy=way,
        confidence=certainty,
        margin=parse_margin(margin),
        weights=parse_weights(weight),
        seed=seed,
        threads=threads,
        gpus=parse_gpus(gpus),
        cpus=parse_cpus(cpus),
        measure_cpus=parse_cpu_list(measure_cpus, "--measure-cpus"),
        build_cpus=parse_cpu_list(build_cpus, "--build-cpus"),
        price_per_hour=price_per_hour,
        prices=prices,
        granularity=choices.Granularity(granularity.value),
        completion=choices.Completion(completion.value),
        lock_out=lock_out,
        dry_run=dry_run,
        rebuild=rebuild,
        index=wanted.index,
    )
    with open_progress(sys.stderr) as progress:
        for note in wanted.left_out:
            progress.note(f"left out: {note}")
        found = run(options, paths, os.environ, progress)
    _print_exploration(found, as_json=json)


def _print_exploration(found: object, *, as_json: bool) -> None:
    from stackgen.model.reports import ExplorePlan, ExploreReport
    from stackgen.report import as_json as json_text
    from stackgen.report import plan_text, report_text

    if isinstance(found, ExplorePlan):
        typer.echo(json_text(found) if as_json else plan_text(found))
        return
    assert isinstance(found, ExploreReport)  # noqa: S101
    typer.echo(json_text(found) if as_json else report_text(found))
    raise typer.Exit(found.exit_code)
