"""Commands of nights: nightly, findings, init."""

import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.campaign.options import (
    BudgetOptions,
    IndexOptions,
    IndicatorOptions,
    TargetOptions,
)
from stackgen.cli.commands import Without, subcommand
from stackgen.cli.options import (
    AsJson,
    KnowledgeBase,
    print_report,
    refuse_redirected_requirement,
    user_paths,
)
from stackgen.errors import UsageError
from stackgen.report.terminal import open_progress

if TYPE_CHECKING:
    from stackgen.model.findings import FindingState, NightlyPlan
    from stackgen.nightly.store import NightStore
    from stackgen.nightly.watch import Watch


def nightly(
    context: typer.Context,
    indicators: IndicatorOptions,
    budget: Annotated[BudgetOptions, Without(("seed",))],
    target: Annotated[TargetOptions, Without(("rebuild",))],
    index: Annotated[IndexOptions, Without(("compared",))],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Packages to watch [default: the [watch.NAME] tables of stackgen.toml].",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this table of stackgen.toml."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Validate, and print what would run; measure nothing.")
    ] = False,
    releases: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="On a first night, measure the last N releases of each package.",
            show_default=False,
        ),
    ] = 0,
    kb: KnowledgeBase = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the result as Markdown.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Measure what was newly released.

    Each new release is compared with its predecessor, all else equal; a difference is a finding
    once a second campaign in new environments shows it. With NAME..., the options say how to
    measure. Exit code 7 means findings, 3 not decided yet, 0 nothing new or all well; others: a
    night could not run.
    """
    from stackgen.commands.nightly import check as planned
    from stackgen.commands.nightly import mark_reported, watch_of
    from stackgen.commands.nightly import nightly as run
    from stackgen.model.findings import NightlyReport
    from stackgen.report.nightly import nights_text

    found: NightlyPlan | NightlyReport
    if names is not None:
        watches = tuple(watch_of(name, indicators, budget, target) for name in dict.fromkeys(names))
    else:
        watches = _configured(context, watch or ())
    watches = tuple(replace(each, index=index) for each in watches)
    paths = user_paths(kb=kb)
    with open_progress(sys.stderr) as progress:
        common = (watches, os.environ, progress, paths, releases)
        found = planned(*common) if check else run(*common, budget.budget_s if names else None)
    print_report(found, partial(nights_text, markdown=markdown), json=json)
    if isinstance(found, NightlyReport):
        mark_reported(found, watches, os.environ, paths)
    raise typer.Exit(found.exit_code)


def _configured(context: typer.Context, names: Sequence[str]) -> "tuple[Watch, ...]":
    """Return the watches of the configuration file, or those of these names.

    Raises:
        UsageError: an option says how to measure: the tables of the file do.
    """
    from stackgen.cli.config import find_config
    from stackgen.commands.nightly import selected
    from stackgen.nightly.watch import read_watches

    _refuse_measuring(context)
    config = find_config(Path.cwd())
    return selected(read_watches(config.values, config.path), names)


_OF_EVERY_NIGHT = frozenset(
    {"watch", "check", "releases", "kb", "markdown", "json"}
    | {each.name for each in fields(IndexOptions)}
)


def _refuse_measuring(context: typer.Context) -> None:
    """Refuse options that say how to measure: without NAME, each table does.

    Those of the file are for other commands, too; that they do not count here is reported.
    """
    unused = []
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name in _OF_EVERY_NIGHT or source is None:
            continue
        if source.name == "DEFAULT_MAP":
            unused.append(max(param.opts, key=len).lstrip("-"))
        if source.name != "COMMANDLINE":
            continue
        option = max(param.opts, key=len)
        raise UsageError(
            f"{option} needs the name of a package",
            why="without one, the [watch.NAME] tables of stackgen.toml say how to measure",
            fix=f"run: stackgen nightly NAME {option} ..., or change the table",
        )
    if unused:
        keys = ", ".join(unused)
        typer.echo(f"Not used: {keys} outside of the [watch.NAME] tables.", err=True)


def init(
    requirements: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REQUIREMENT...",
            help='What is watched, as in numpy or "tensorflow>=2.16" [default: what a lock in this '
            "folder has].",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take the defaults.")] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the watch.")] = "nightly",
) -> None:
    """Write a watch for nightly into the stackgen.toml of this folder."""
    from stackgen.commands.watches import add_watch, proposed

    refuse_redirected_requirement()
    folder = Path.cwd()
    found = proposed(folder, name, tuple(requirements or ()), needed=yes)
    if not yes:
        try:
            found = _prompted(found)
        except typer.Abort:
            if sys.stdin is not None and sys.stdin.isatty():  # Ctrl-C, Ctrl-D
                raise
            raise UsageError(
                "The questions were not answered",
                why="standard input ended before the last of them",
                fix="give --yes, which asks nothing and takes the REQUIREMENT..., or what a lock "
                "in this folder has",
            ) from None
    path = add_watch(folder, found)
    typer.echo(f"Wrote [watch.{found.name}] into {path}.")
    typer.echo("Next: stackgen nightly --check; then: stackgen nightly --releases 3")


def _prompted(proposal: "Watch") -> "Watch":
    """Return a watch as the user answers; each prompt shows the proposal."""
    from stackgen.model.options import format_duration, parse_duration

    def several(text: str, default: tuple[str, ...]) -> tuple[str, ...]:
        answer = typer.prompt(text, default=", ".join(default), show_default=bool(default))
        return tuple(filter(None, (each.strip() for each in answer.split(","))))

    return replace(
        proposal,
        requirements=several("Requirements, as in tensorflow>=2.16", proposal.requirements),
        vary=several("Further packages to watch, with commas between them", proposal.vary),
        indicators=several("Indicators (stackgen pis lists them)", proposal.indicators),
        budget_s=parse_duration(
            typer.prompt("Budget of a night", default=format_duration(proposal.budget_s))
        ),
        notify=several("Notify, as in slack:env:WEBHOOK or github-summary", proposal.notify),
    )


FindingId = Annotated[
    str, typer.Argument(metavar="ID", help="Beginning of its id.", show_default=False)
]


def findings_list(
    every: Annotated[bool, typer.Option("--all", help="Also what is closed or expired.")] = False,
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """List the findings that count."""
    from stackgen.report.nightly import findings_text

    found = _open_store(kb).listed(every=every)
    print_report(found, findings_text, json=json)


def findings_show(finding: FindingId, kb: KnowledgeBase = None, json: AsJson = False) -> None:
    """Show a finding: effect, changed packages, and the command that reproduces it."""
    _echo(_open_store(kb).find(finding), json=json)


def findings_ack(
    finding: FindingId,
    days: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="It is open again after N days.", show_default=False),
    ] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Acknowledge a finding: it no longer counts as open."""
    store = _open_store(kb)
    _echo(store.acknowledge(store.find(finding), days=days, note=note), json=json)


def findings_reopen(finding: FindingId, kb: KnowledgeBase = None, json: AsJson = False) -> None:
    """Let a finding count again."""
    store = _open_store(kb)
    _echo(store.reopen(store.find(finding)), json=json)


def _open_store(kb: Path | None) -> "NightStore":
    from stackgen.nightly.store import open_store

    return open_store(user_paths(kb=kb, reading=True))


def _echo(found: "FindingState", *, json: bool) -> None:
    from stackgen.report.nightly import finding_text

    print_report(found, finding_text, json=json)


FINDINGS_COMMANDS = {
    "list": subcommand(
        findings_list, "List the findings that count.", "stackgen findings list --all"
    ),
    "show": subcommand(findings_show, "Show a finding.", "stackgen findings show 3f2a"),
    "ack": subcommand(
        findings_ack,
        "Acknowledge a finding.",
        'stackgen findings ack 3f2a --days 14 --note "reported upstream"',
    ),
    "reopen": subcommand(
        findings_reopen, "Let a finding count again.", "stackgen findings reopen 3f2a"
    ),
}
FINDINGS_GROUP = (FINDINGS_COMMANDS, None)
