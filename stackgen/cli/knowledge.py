"""Commands that look into the knowledge base."""

import os
from pathlib import Path
from typing import Annotated

import typer

from stackgen.cli.options import AsJson, Kb, parse_pair
from stackgen.errors import DatabaseError

kb_app = typer.Typer(help="Look into the knowledge base.", no_args_is_help=True)


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


@kb_app.command("check")
def kb_check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove them, after a copy was written beside it.")
    ] = False,
    kb: Kb = None,
) -> None:
    """List the rows that are not valid: ids, values, references, positions in blocks."""
    from stackgen.pipeline.knowledge import check
    from stackgen.pipeline.knowledge import repair as run_repair
    from stackgen.pipeline.places import find_places

    places = find_places(os.environ, kb=kb, reading=True)
    found = check(places)
    if not found:
        typer.echo("every row is valid")
        return
    if not repair:
        typer.echo("\n".join([*found, f"{len(found)} rows are not valid"]))
        raise typer.Exit(DatabaseError.exit_code)
    removed, backup = run_repair(places)
    typer.echo("\n".join([*(f"removed {each}" for each in removed), f"the file before: {backup}"]))
