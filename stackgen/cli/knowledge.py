"""Commands that look into the knowledge base."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from stackgen.cli.options import AsJson, Kb, Seed, parse_gpus, parse_pair
from stackgen.errors import DatabaseError, StorageError, UsageError

kb_app = typer.Typer(help="Look into the knowledge base.", no_args_is_help=True)


@kb_app.command("stats")
def kb_stats(kb: Kb = None, json: AsJson = False) -> None:
    """Count what the knowledge base holds."""
    from stackgen.commands.kb import stats, stats_rows
    from stackgen.report import as_json, columns
    from stackgen.storage.paths import find_paths

    paths = find_paths(os.environ, kb=kb, reading=True)
    found = stats(paths)
    rows = [("file", str(paths.knowledge)), *stats_rows(found)]
    typer.echo(as_json(found) if json else "\n".join(columns(rows, indent="")))


@kb_app.command("failures")
def kb_failures(kb: Kb = None, json: AsJson = False) -> None:
    """Group the stacks that do not run."""
    from stackgen.commands.kb import failures
    from stackgen.report import as_json, failures_text
    from stackgen.storage.paths import find_paths

    paths = find_paths(os.environ, kb=kb, reading=True)
    found = failures(paths)
    typer.echo(as_json(found) if json else failures_text(found, kb_option=paths.kb_option))


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
    from stackgen.commands.kb import query, query_names
    from stackgen.report import as_json, columns
    from stackgen.storage.paths import find_paths

    if not name:
        typer.echo("\n".join(columns(query_names(), indent="")))
        return
    given = dict(parse_pair(each, "the parameter") for each in values or ())
    found = query(find_paths(os.environ, kb=kb, reading=True), name, given)
    rows = [found.columns, *(["" if c is None else str(c) for c in row] for row in found.rows)]
    typer.echo(as_json(found) if json else "\n".join(columns(rows, indent="")))


@kb_app.command("merge")
def kb_merge(
    other: Annotated[Path, typer.Argument(metavar="FILE", help="Another knowledge base.")],
    kb: Kb = None,
) -> None:
    """Add what another knowledge base holds."""
    from stackgen.commands.kb import merge
    from stackgen.storage.paths import find_paths

    typer.echo(f"{merge(find_paths(os.environ, kb=kb), other)} inspections added")


@kb_app.command("check")
def kb_check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove them, after a copy was written beside it.")
    ] = False,
    kb: Kb = None,
) -> None:
    """List the rows that are not valid: ids, values, references, positions in blocks."""
    from stackgen.commands.kb import check
    from stackgen.commands.kb import repair as run_repair
    from stackgen.storage.paths import find_paths

    paths = find_paths(os.environ, kb=kb, reading=True)
    found = check(paths)
    if not found:
        typer.echo("every row is valid")
        return
    if not repair:
        typer.echo("\n".join([*found, f"{len(found)} rows are not valid"]))
        raise typer.Exit(DatabaseError.exit_code)
    removed, backup = run_repair(paths)
    typer.echo("\n".join([*(f"removed {each}" for each in removed), f"the file before: {backup}"]))


# Commands about performance indicators and the machine: list, show, measure here and now

pi_app = typer.Typer(help="Measure one performance indicator by itself.", no_args_is_help=True)


Name = Annotated[str, typer.Argument(metavar="NAME", help="Indicator, or your own .py file.")]


class FormatName(str, Enum):
    """Formats of other tools."""

    perfzero = "perfzero"
    pytorch_benchmark = "pytorch-benchmark"
    thoth = "thoth"
    pyperf = "pyperf"


def pis(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Tell all about this one, or your own file.")
    ] = "",
    json: AsJson = False,
) -> None:
    """List the performance indicators, or tell what one of them takes."""
    from stackgen.campaign.indicators import shipped_indicators
    from stackgen.commands.indicators import find_indicator
    from stackgen.report import as_json, indicator_text, indicators_text

    if name:
        found = find_indicator(name)
        typer.echo(as_json(found) if json else indicator_text(found))
        return
    every = shipped_indicators()
    typer.echo(as_json(every) if json else indicators_text(every))


def machine(json: AsJson = False) -> None:
    """Show what is recorded of this machine, and what makes its identity."""
    from stackgen.commands.kb import machine_record
    from stackgen.report import as_json
    from stackgen.report.tables import machine_text

    found = machine_record()
    told = {"id": found.id, "identity": found.identity, "circumstances": found.circumstances}
    typer.echo(as_json(told) if json else machine_text(found))


@pi_app.command(
    "run",
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "help_option_names": [],
    },
    epilog="Every parameter of the indicator is an option by its own name, with one value or "
    "several: stackgen pi run tensorflow/matmul --size 64,128,256 --dtype float32,float64 "
    "--threads 1,2 | stackgen pi run ./mine.py --repeats 5 | "
    "stackgen pi run torch/mlp --python ~/envs/gpu --batch 1,32 --format pytorch-benchmark",
)
def run(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Indicator, or your own .py file.")
    ] = "",
    param: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES", help="A parameter, also one that is called like an option here."
        ),
    ] = [],  # noqa: B006 # typer copies it
    python: Annotated[
        str, typer.Option(metavar="PATH", help="Interpreter or virtualenv. [default: our own]")
    ] = "",
    samples: Annotated[int, typer.Option(min=1, help="Timings that are kept of a process.")] = 30,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            help="Fresh processes of each combination, in random order: shows how far they are "
            "apart. To compare versions of packages, use stackgen explore.",
        ),
    ] = 1,
    gpus: Annotated[
        str, typer.Option(metavar="IDS", help="all, none, or numbers like 0,1.")
    ] = "all",
    trace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep a profiler trace of each combination."),
    ] = None,
    seed: Seed = 0,
    json: AsJson = False,
    form: Annotated[
        FormatName | None, typer.Option("--format", help="Print it as another tool would.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write JSON or format there, and print the table."),
    ] = None,
    wants_help: Annotated[
        bool, typer.Option("--help", "-h", help="Show this, and what NAME takes.")
    ] = False,
) -> None:
    """Measure an indicator here and now, in an interpreter as it is.

    Nothing is built, nothing is confined, and nothing goes into the knowledge base.
    """
    from stackgen.commands.indicators import HereOptions, find_indicator, measure_here
    from stackgen.report import as_json, here_text, indicator_text, open_progress
    from stackgen.report.formats import formatted, refuse_unfit
    from stackgen.storage.paths import find_paths

    if wants_help:
        typer.echo(context.get_help())
        typer.echo(f"\n{indicator_text(find_indicator(name))}" if name else "", nl=bool(name))
        return
    _refuse_nonsense(name, json=json, form=form, output=output)
    parameters = parse_parameters([*_spelled_out(param), *context.args])
    if form:
        refuse_unfit(form.value, parameters)
    options = HereOptions(
        indicator=name,
        parameters=parameters,
        python=python,
        samples=samples,
        repeats=repeats,
        gpus="" if gpus == "none" else parse_gpus(gpus),
        trace=trace,
        seed=seed,
    )
    with open_progress(sys.stderr) as progress:
        report = measure_here(options, find_paths(os.environ), os.environ, progress)
    printed = not (json or form) or output is not None
    odd = any(each.failure or (each.figures and each.figures.figure) for each in report.results)
    if printed or odd:  # which formats may not be able to tell
        typer.echo(here_text(report), err=not printed)
    if json or form:
        text = formatted(report, form.value) if form else as_json(report)
        if output is None:
            typer.echo(text)
        else:
            _write(output, text)
    raise typer.Exit(report.exit_code)


def kb_export(
    stack: Annotated[str, typer.Argument(metavar="STACK", help="Beginning of its id.")],
    pi: Annotated[str, typer.Option("--pi", metavar="NAME", help="Indicator that was measured.")],
    form: Annotated[FormatName, typer.Option("--format", help="The tool that shall read it.")],
    machine_id: Annotated[
        str, typer.Option("--machine", metavar="ID", help="Beginning of its id, if several.")
    ] = "",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there.")] = None,
    kb: Kb = None,
) -> None:
    """Write what was measured of a stack in the format of another tool."""
    from stackgen.commands.kb import export
    from stackgen.report.formats import formatted, refuse_unfit
    from stackgen.storage.paths import find_paths

    paths = find_paths(os.environ, kb=kb, reading=True)
    report = export(paths, stack, indicator=pi, machine=machine_id)
    given: dict[str, list[str]] = {}
    for name, value in (pair for each in report.results for pair in each.arguments):
        given.setdefault(name, []).append(value)
    refuse_unfit(form.value, [(name, tuple(values)) for name, values in given.items()])
    text = formatted(report, form.value)
    if output is None:
        typer.echo(text)
    else:
        _write(output, text)


def parse_parameters(words: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return parameters with their values: ``--size 64,128 --size=256 --dtype float32``."""
    found: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        name, separator, text = word.partition("=")
        if not name.startswith("--") or len(name) <= len("--"):
            raise UsageError(
                f"cannot read {word!r}",
                why="it is no option, and belongs to none",
                fix="give parameters by name, as in: --size 64,128",
            )
        values = (text if separator else next(rest, "")).split(",")
        if not all(values) or values[0].startswith("--"):
            raise UsageError(
                f"{name} has no value",
                why="every parameter of an indicator takes one, or several with commas",
                fix=f"give it as in: {name} VALUE",
            )
        found.setdefault(name.removeprefix("--").replace("-", "_"), []).extend(values)
    return tuple((name, tuple(values)) for name, values in found.items())


def _spelled_out(pairs: list[str]) -> list[str]:
    """Return ``--param size=64`` as ``--size=64``; it also names what is an option of ours."""
    return ["--{}={}".format(*parse_pair(each, "--param")) for each in pairs]


def _refuse_nonsense(
    name: str, *, json: bool, form: FormatName | None, output: Path | None
) -> None:
    if not name or name.startswith("-"):
        raise UsageError(
            "no indicator was named" if not name else f"{name} stands before the indicator",
            why="its name comes first, and its parameters after it",
            fix="see what there is: stackgen pis",
        )
    if json and form:
        raise UsageError(
            "--json and --format exclude each other",
            why="one answer has one form",
            fix="leave one of them out",
        )
    if output is not None and not (json or form):
        raise UsageError(
            "--output needs --json or --format",
            why="the table is printed",
            fix=f"add one of them, as in: --json --output {output}",
        )
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(
            f"cannot write {output}", why="its folder does not exist", fix="make the folder first"
        )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write {path}",
            why=error.strerror or str(error),
            fix="name another file with --output",
        ) from error
