"""Commands about performance indicators: pis, pi run."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.cli.commands import subcommand
from stackgen.cli.options import AsJson, print_report, user_paths
from stackgen.commands.options import LocalRunOptions
from stackgen.errors import StorageError, UsageError
from stackgen.model.options import parse_pair
from stackgen.report.terminal import open_progress

if TYPE_CHECKING:
    from stackgen.model.reports.local import LocalReport


class OtherFormat(str, Enum):
    """Formats of other tools."""

    perfzero = "perfzero"
    pytorch_benchmark = "pytorch-benchmark"
    thoth = "thoth"
    pyperf = "pyperf"


def pis(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="Describe this one, or your own file."),
    ] = "",
    json: AsJson = False,
) -> None:
    """List the performance indicators, or describe what one of them takes."""
    if name:
        typer.echo(_described(name, json=json))
        return
    from stackgen.campaign.indicators import known_indicators
    from stackgen.report.listings import indicators_text

    every = known_indicators()
    print_report(every, indicators_text, json=json)


def _described(name: str, *, json: bool = False) -> str:
    from stackgen.commands.indicators import find_indicator
    from stackgen.report.listings import indicator_text
    from stackgen.report.tables import as_json

    found = find_indicator(name)
    return as_json(found) if json else indicator_text(found)


def run(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Indicator, or your own .py file.")
    ] = "",
    param: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES",
            help="A parameter, also one that is called like an option here.",
        ),
    ] = [],  # noqa: B006 # typer copies it
    options: LocalRunOptions = LocalRunOptions(),
    json: AsJson = False,
    form: Annotated[
        OtherFormat | None,
        typer.Option("--format", help="Print it as another tool would."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write JSON or format there, and print the table."),
    ] = None,
) -> None:
    """Measure an indicator in an existing interpreter.

    Nothing is built, nothing is confined, and nothing goes into the knowledge base.
    """
    from stackgen.commands.indicators import LocalRunRequest, measure_locally
    from stackgen.report.formats import refuse_unfit

    _refuse_nonsense(name, json=json, form=form, output=output)
    # --param also names what is an option of this command.
    named = ["--{}={}".format(*parse_pair(each, "--param")) for each in param]
    parameters = parse_parameters([*named, *context.args])
    if form:
        refuse_unfit(form.value, parameters)
    request = LocalRunRequest(indicator=name, parameters=parameters, options=options)
    with open_progress(sys.stderr) as progress:
        report = measure_locally(request, user_paths(), os.environ, progress)
    _print(report, json=json, form=form, output=output)
    raise typer.Exit(report.exit_code)


def _print(
    report: "LocalReport", *, json: bool, form: OtherFormat | None, output: Path | None
) -> None:
    from stackgen.report.formats import formatted
    from stackgen.report.indicators import local_text
    from stackgen.report.tables import as_json
    from stackgen.report.terminal import printable

    has_table = not (json or form) or output is not None
    odd = any(each.failure or (each.figures and each.figures.figure) for each in report.results)
    if has_table or odd:  # some formats have no place for these
        typer.echo(printable(local_text(report)), err=not has_table)
    if json or form:
        text = formatted(report, form.value) if form else as_json(report)
        write_text(output, text)


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


def _refuse_nonsense(
    name: str, *, json: bool, form: OtherFormat | None, output: Path | None
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
            f"cannot write {output}",
            why="its folder does not exist",
            fix="make the folder first",
        )


def write_text(path: Path | None, text: str) -> None:
    """Write a file that ends in a newline; print the text where no file is named.

    Raises:
        StorageError: it cannot be written.
    """
    if path is None:
        typer.echo(text)
        return
    try:
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write {path}",
            why=error.strerror or str(error),
            fix="name another file",
        ) from error


run.context_settings = {  # type: ignore[attr-defined]
    "ignore_unknown_options": True,
    "allow_extra_args": True,
}
run.describe = _described  # type: ignore[attr-defined]
PI_COMMANDS = {
    "run": subcommand(
        run,
        "Measure an indicator in an interpreter as it is.",
        "stackgen pi run tensorflow/matmul --size 64,128,256 --dtype float32 --threads 1,2",
        "stackgen pi run ./mine.py --repeats 5",
        "stackgen pi run torch/mlp --python ~/envs/gpu --batch 1,32 --format pytorch-benchmark",
    ),
}
PI_GROUP = (PI_COMMANDS, None)
