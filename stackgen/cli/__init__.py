"""The command line: parse, call one pipeline function, print one report."""

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stackgen import __version__
from stackgen.cli import asking, program
from stackgen.cli.compare import compare
from stackgen.cli.images import images_app
from stackgen.cli.indicators import kb_export, machine, pi_app, pis
from stackgen.cli.noise import noise
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
from stackgen.cli.resolve import resolve
from stackgen.cli.verify import verify
from stackgen.errors import StackgenError, StorageError

# Plain help starts in half the time of the rich one.
app = typer.Typer(
    name="stackgen",
    help="Which versions of your dependencies run your code fastest, measured on your hardware.",
    epilog='Example: stackgen explore "tensorflow>=2.7" --budget 15m',
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
kb_app = typer.Typer(help="Look into the knowledge base.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")
kb_app.command(
    "export", epilog="Example: stackgen kb export 3f2a --pi numpy/matmul --format pyperf"
)(kb_export)
app.command(
    epilog='Examples: stackgen compare "numpy==1.26.4" "numpy==2.3.5" --base 3.11 | '
    "stackgen compare old/Pipfile.lock Pipfile.lock --budget 30m | "
    'stackgen compare 3f2a91c0 requirements.txt --pi-command "python train.py"'
)(compare)
app.add_typer(images_app, name="images", invoke_without_command=True)
app.add_typer(pi_app, name="pi")
app.command(epilog="Example: stackgen pis numpy/matmul")(pis)
app.command()(machine)
app.command(epilog="Example: stackgen noise tensorflow --budget 10m")(noise)
app.command(
    epilog='Examples: stackgen resolve "tensorflow>=2.7" numpy --count | '
    'stackgen resolve "tensorflow==2.12.*" --one --format requirements --hashes | '
    'stackgen resolve "tensorflow>=2.7" --explain "numpy<1.24"'
)(resolve)
app.command(epilog="Example: stackgen verify Pipfile.lock --base bookworm-py311")(verify)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stackgen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # typer calls _version
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command(
    epilog='Examples: stackgen explore "tensorflow>=2.7" | '
    'stackgen explore "torch==2.13.0+cpu" | '
    "stackgen explore --from Pipfile.lock --budget 30m | "
    'stackgen explore torch --from requirements.txt --pi-command "python train.py"'
)
def explore(
    requirements: asking.Requirements = None,
    file: asking.Files = [],  # noqa: B006 # typer copies it
    extra: asking.Extras = [],  # noqa: B006
    group: asking.Groups = [],  # noqa: B006
    constraint: asking.Constraints = [],  # noqa: B006
    override: asking.Overrides = [],  # noqa: B006
    exclude: asking.Excluded = [],  # noqa: B006
    allow_build: asking.BuildsSources = [],  # noqa: B006
    rebuild: asking.Rebuild = False,
    pre: asking.Prereleases = False,
    exclude_newer: asking.ExcludeNewer = None,
    vary: Vary = [],  # noqa: B006
    fix: Fix = [],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    lock: From = None,
    reference: Reference = None,
    pi: Indicators = [],  # noqa: B006
    param: Parameters = [],  # noqa: B006
    pi_command: program.PiCommand = None,
    project: program.Project = None,
    data: program.Data = [],  # noqa: B006
    env: program.Env = [],  # noqa: B006
    network: program.Network = False,
    figure: program.Figure = "",
    better: program.Better = None,
    check: program.Check = "",
    time_limit: program.TimeLimit = "",
    base: BaseName = "",
    executor: Annotated[ExecutorName, typer.Option(help="Where stacks run.")] = ExecutorName.auto,
    budget: Budget = "30m",
    stacks: Stacks = None,
    strategy: StrategyOf = StrategyName.racing,
    confidence: Confidence = 0.95,
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
    index_url: asking.IndexUrl = None,
    extra_index_url: asking.ExtraIndexUrl = [],  # noqa: B006
    find_links: asking.FindLinks = [],  # noqa: B006
    compare_index: asking.CompareIndex = [],  # noqa: B006
    no_index: asking.NoIndex = False,
    offline: asking.Offline = False,
) -> None:
    """Measure which stack runs fastest here.

    Stacks are complete sets of versions that satisfy REQUIREMENT...; some are built and measured
    against each other within the budget. The same command goes on where it was.
    """
    asking.refuse_redirected_requirement()
    from stackgen.pipeline.explore import explore as run
    from stackgen.pipeline.options import ExecutorChoice, ExploreOptions, Strategy
    from stackgen.pipeline.places import find_places
    from stackgen.pipeline.wishes import understood
    from stackgen.render import open_progress
    from stackgen.resolve import choose

    asking.refuse_nothing(requirements, file, lock)
    check_prices(price_per_hour, prices)
    wanted = understood(
        asking.wishes(
            requirements=requirements,
            files=file,
            extras=extra,
            groups=group,
            constraints=constraint,
            overrides=override,
            excluded=exclude,
            allow_build=tuple(allow_build),
            around=lock,
            prereleases=pre,
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
    places = find_places(os.environ, kb=kb)
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
        program=program.program_call(
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
            places=places,
            dry_run=dry_run,
        ),
        base=base,
        executor=ExecutorChoice(executor.value),
        budget_s=parse_span(budget),
        stacks=stacks or 0,
        strategy=Strategy(strategy.value),
        confidence=confidence,
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
        granularity=choose.Granularity(granularity.value),
        completion=choose.Completion(completion.value),
        lock_out=lock_out,
        dry_run=dry_run,
        rebuild=rebuild,
        index=wanted.index,
    )
    with open_progress(sys.stderr) as progress:
        for note in wanted.left_out:
            progress.note(f"left out: {note}")
        found = run(options, places, os.environ, progress)
    _print_exploration(found, as_json=json)


@app.command(epilog="Example: stackgen advise Pipfile.lock")
def advise(
    lock: Annotated[Path, typer.Argument(metavar="LOCK", help="Pipfile.lock, poetry.lock, ...")],
    kb: Kb = None,
    json: AsJson = False,
) -> None:
    """Recommend versions for a lock file.

    The answer comes from what was measured, on this machine or the nearest one; nothing is run.
    """
    from stackgen.pipeline.advise import advise as run
    from stackgen.pipeline.places import find_places
    from stackgen.render import advice_text, as_json

    report = run(lock, find_places(os.environ, kb=kb, reading=True))
    typer.echo(as_json(report) if json else advice_text(report))
    if report.advice.lock is None:
        raise typer.Exit(3)


@app.command()
def doctor(kb: Kb = None, json: AsJson = False) -> None:
    """Tell what works here, and what does not."""
    from stackgen.pipeline.doctor import doctor as run
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, checks_text

    checks = run(find_places(os.environ, kb=kb), os.environ)
    typer.echo(as_json(checks) if json else checks_text(checks))
    if any(check.essential and not check.fine for check in checks):
        raise typer.Exit(1)


@kb_app.command("stats")
def kb_stats(kb: Kb = None, json: AsJson = False) -> None:
    """Count what the knowledge base holds."""
    from stackgen.pipeline.knowledge import stats, stats_rows
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, columns

    places = find_places(os.environ, kb=kb, reading=True)
    found = stats(places)
    rows = [("file", str(places.knowledge)), *stats_rows(found)]
    typer.echo(as_json(found) if json else "\n".join(columns(rows, indent="")))


@kb_app.command("failures")
def kb_failures(kb: Kb = None, json: AsJson = False) -> None:
    """Group the stacks that do not run."""
    from stackgen.pipeline.knowledge import failures
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, failures_text

    places = find_places(os.environ, kb=kb, reading=True)
    found = failures(places)
    typer.echo(as_json(found) if json else failures_text(found, kb_option=places.kb_option))


@kb_app.command("query", epilog="Example: stackgen kb query seen name=tensorflow")
def kb_query(
    name: Annotated[str, typer.Argument(help="Without one, the queries are listed.")] = "",
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="What it asks for.")
    ] = None,
    kb: Kb = None,
    json: AsJson = False,
) -> None:
    """Run one of the named queries."""
    from stackgen.pipeline.knowledge import query, query_names
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, columns

    if not name:
        typer.echo("\n".join(columns(query_names(), indent="")))
        return
    given = dict(parse_pair(each, "the parameter") for each in values or ())
    found = query(find_places(os.environ, kb=kb, reading=True), name, given)
    rows = [found.columns, *(["" if c is None else str(c) for c in row] for row in found.rows)]
    typer.echo(as_json(found) if json else "\n".join(columns(rows, indent="")))


@kb_app.command("merge")
def kb_merge(
    other: Annotated[Path, typer.Argument(metavar="FILE", help="Another knowledge base.")],
    kb: Kb = None,
) -> None:
    """Add what another knowledge base holds."""
    from stackgen.pipeline.knowledge import merge
    from stackgen.pipeline.places import find_places

    typer.echo(f"{merge(find_places(os.environ, kb=kb), other)} inspections added")


@app.command(epilog="Example: stackgen nightly tensorflow torch")
def nightly(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Packages to watch.")],
    pi: Indicators = [],  # noqa: B006
    base: BaseName = "",
    executor: Annotated[ExecutorName, typer.Option(help="Where stacks run.")] = ExecutorName.auto,
    budget: Budget = "30m",
    seed: Seed = 0,
    kb: Kb = None,
    json: AsJson = False,
) -> None:
    """Measure what was newly released.

    Each new release is compared with the best known stack; a difference is a finding once a
    second, independent measurement shows it, too.
    """
    from stackgen.pipeline.nightly import nightly as run
    from stackgen.pipeline.options import ExecutorChoice
    from stackgen.pipeline.places import find_places
    from stackgen.render import as_json, nightly_text, open_progress

    with open_progress(sys.stderr) as progress:
        report = run(
            tuple(names),
            indicators=tuple(pi),
            executor=ExecutorChoice(executor.value),
            base=base,
            budget_s=parse_span(budget),
            seed=seed,
            places=find_places(os.environ, kb=kb),
            environ=os.environ,
            progress=progress,
        )
    typer.echo(as_json(report) if json else nightly_text(report))
    raise typer.Exit(report.exit_code)


def _print_exploration(found: object, *, as_json: bool) -> None:
    from stackgen.render import as_json as json_text
    from stackgen.render import plan_text, report_text
    from stackgen.values import ExplorePlan, ExploreReport

    if isinstance(found, ExplorePlan):
        typer.echo(json_text(found) if as_json else plan_text(found))
        return
    assert isinstance(found, ExploreReport)  # noqa: S101
    typer.echo(json_text(found) if as_json else report_text(found))
    raise typer.Exit(found.exit_code)


def _fail(error: StackgenError) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise SystemExit(error.exit_code)


def main() -> None:
    """Run the command; explain expected failures, let bugs show tracebacks."""
    try:
        app()
    except StackgenError as error:
        _fail(error)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise SystemExit(130) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _fail(
            StorageError(
                "the result cannot be written",
                why=error.strerror or str(error),
                fix="make room; everything measured is kept, the same command prints it again",
            )
        )
