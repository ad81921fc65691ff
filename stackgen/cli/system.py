"""Commands about this installation and machine: doctor, machine, config."""

import os
from pathlib import Path
from typing import Annotated

import typer

from stackgen.campaign.options import IndexOptions
from stackgen.cli.commands import Without
from stackgen.cli.options import AsJson, KnowledgeBase, print_report, user_paths


def doctor(
    index: Annotated[IndexOptions, Without(("compared", "offline"))],
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Report what works on this machine, and how to mend the rest."""
    from stackgen.commands.doctor import doctor as run
    from stackgen.report.tables import checks_text

    checks = run(index, user_paths(kb=kb), os.environ)
    print_report(checks, checks_text, json=json)
    if any(check.essential and not check.passed for check in checks):
        raise typer.Exit(1)


def machine(json: AsJson = False) -> None:
    """Show what is recorded of this machine, and what makes its identity."""
    from stackgen.executors.machine import this_machine
    from stackgen.report.tables import as_json, machine_text

    found = this_machine()
    record = {"id": found.id, "identity": found.identity, "circumstances": found.circumstances}
    typer.echo(as_json(record) if json else machine_text(found))


def config(
    command: Annotated[
        str,
        typer.Argument(metavar="[COMMAND]", help="Only the options of this command."),
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Also options that have their default value.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Print the options that are set, with their values and where each was set.

    Options are set in stackgen.toml or in [tool.stackgen] of a pyproject.toml, in this folder or
    one above it; a table with a command's name counts for that command alone, and relative paths
    count from the folder of the file. The command line wins over both, and so does STACKGEN_KB.
    """
    from stackgen.cli import ENTRIES
    from stackgen.cli.commands import all_options
    from stackgen.cli.config import effective_options, find_config
    from stackgen.report.tables import as_json, columns

    found = find_config(Path.cwd())
    rows = effective_options(
        found, all_options(ENTRIES), environ=os.environ, only=command, every=every
    )
    if json:
        values = [
            dict(zip(("command", "option", "value", "source"), row, strict=True)) for row in rows
        ]
        typer.echo(as_json(values))
        return
    typer.echo(f"configuration file: {found.path or 'none'}")
    if rows:
        header = ("command", "option", "value", "source")
        typer.echo("\n".join(columns([header, *rows], indent="")))
