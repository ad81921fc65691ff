"""Commands that read what is known: advise, history, and those of the knowledge base."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stackgen.campaign.options import IndexOptions, IndicatorOptions, SourceOptions, TargetOptions
from stackgen.cli.commands import subcommand
from stackgen.cli.indicators import OtherFormat, write_text
from stackgen.cli.options import (
    ANSWER_QUICKLY_S,
    LOCK_FILES,
    AsJson,
    KnowledgeBase,
    print_report,
    user_paths,
)
from stackgen.commands.options import (
    AdviceOptions,
    MeasureOptions,
    VulnerabilityOptions,
    WriteOptions,
)
from stackgen.errors import DatabaseError, UsageError
from stackgen.model.choices import AdviceFormat
from stackgen.model.options import parse_pair
from stackgen.model.reports.history import HistoryAxis
from stackgen.report.terminal import open_progress
from stackgen.storage.paths import Paths

if TYPE_CHECKING:
    from stackgen.commands.advise_request import AdviseRequest
    from stackgen.model.progress import Progress


def _readable(kb: Path | None) -> Paths:
    """Return where the knowledge base is, with the observations in it that come with stackgen."""
    from stackgen.commands.kb import load_seeds

    paths = user_paths(kb=kb, reading=True)
    load_seeds(paths, partial(typer.echo, err=True))
    return paths


def history(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="As in tensorflow.")],
    pi: Annotated[
        str,
        typer.Option(metavar="NAME", help="Indicator [default: the package's, with most blocks]."),
    ] = "",
    by: Annotated[
        HistoryAxis, typer.Option(help="Against releases, or against days (the newest release).")
    ] = HistoryAxis.RELEASE,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plot there, as SVG, too.")
    ] = None,
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Show how long an indicator took, release by release or night by night.

    Times come from the comparisons in the knowledge base; nothing is run. Change points are
    secondary evidence: no block compares times of different campaigns (stackgen compare does).
    """
    from stackgen.commands.history import history as run
    from stackgen.report.history import history_svg, history_text

    found = run(package, pi, by, _readable(kb))
    if svg is not None:
        write_text(svg, history_svg(found))
    print_report(found, history_text, json=json)


def advise(
    advice: AdviceOptions,
    measuring: MeasureOptions,
    writing: WriteOptions,
    indicators: IndicatorOptions,
    target: TargetOptions,
    sources: SourceOptions,
    vulnerabilities: VulnerabilityOptions,
    index: IndexOptions,
    lock: Annotated[Path | None, typer.Argument(metavar="LOCK", help=LOCK_FILES)] = None,
    new: Annotated[
        Path | None,
        typer.Argument(metavar="NEW", help="Another lock: is the update to it faster or slower?"),
    ] = None,
    environment: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Instead of a lock: a virtualenv, or its interpreter."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print what it rests on, down to samples and wheel hashes."),
    ] = False,
    kb: KnowledgeBase = None,
    form: Annotated[
        AdviceFormat, typer.Option("--format", help="markdown is for a pull request.")
    ] = AdviceFormat.TEXT,
    json: AsJson = False,
) -> None:
    """Recommend versions for a lock file, or judge an update of one.

    The answer comes from all campaigns that were measured; nothing is run without --measure. The
    package index says whether the rest of the lock admits what is recommended. Exit code 3 means
    that nothing is recommended or known, 7 that the update to NEW is slower, and 11 that it was
    measured on other machines alone.
    """
    with _one_blas_thread():
        from stackgen.commands.advise_request import AdviseRequest

    # With --measure, --dry-run prints the plan of the campaign.
    changes = replace(writing, dry_run=writing.dry_run and measuring.budget_s is None).anything
    if (lock is None) == (environment is None) or (new is not None and changes):
        raise _unclear_advice(lock, new)
    request = AdviseRequest(
        path=lock or environment or Path(),
        new=new,
        environment=environment is not None,
        options=advice,
        sources=sources,
        index=index,
        vulnerabilities=vulnerabilities,
        measure=measuring,
        indicators=indicators,
        target=target,
        explain=explain,
    )
    with open_progress(sys.stderr, delay_s=ANSWER_QUICKLY_S) as progress:
        paths = user_paths(kb=kb, reading=measuring.budget_s is None)
        _advise(request, writing, AdviceFormat.JSON if json else form, paths, progress)


def _unclear_advice(lock: Path | None, new: Path | None) -> UsageError:
    if lock is not None and new is not None:
        return UsageError(
            "the comparison of two locks writes nothing",
            why="both of them are given, and none is recommended",
            fix="run: stackgen advise LOCK --write",
        )
    return UsageError(
        "a lock file or an environment is needed, and not both",
        why="the advice is for one of them",
        fix="run: stackgen advise LOCK, or: stackgen advise --environment PATH",
    )


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Let NumPy, where it is loaded inside, compute in one thread.

    The matrices of an answer are small: more threads take twice the CPU time, and no process that
    this one starts may see the variable.
    """
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def _advise(
    request: "AdviseRequest",
    writing: WriteOptions,
    form: AdviceFormat,
    paths: Paths,
    progress: "Progress",
) -> None:
    """Answer, print the answer, and apply it to the lock."""
    from stackgen.commands.advise import advise
    from stackgen.commands.advise_write import apply_advice
    from stackgen.model.reports.campaigns import ExplorePlan
    from stackgen.report.advice import advice_markdown, advice_text
    from stackgen.report.explore import plan_text
    from stackgen.report.tables import as_json
    from stackgen.report.terminal import printable

    if request.measure.budget_s is None:
        report = advise(request, paths, os.environ, progress)
    else:
        from stackgen.commands.advise_measure import measure

        found = measure(request, paths, os.environ, progress, dry_run=writing.dry_run)
        if isinstance(found, ExplorePlan):
            typer.echo(as_json(found) if form is AdviceFormat.JSON else plan_text(found))
            return
        report = found
    written = {
        AdviceFormat.TEXT: advice_text,
        AdviceFormat.JSON: as_json,
        AdviceFormat.MARKDOWN: advice_markdown,
    }
    typer.echo(printable(written[form](report)))
    if report.advice.lock is not None and writing.anything:
        applied = apply_advice(
            report,
            request.path,
            writing,
            index_options=request.index,
            paths=paths,
            environ=os.environ,
            progress=progress,
        )
        typer.echo(applied.diff, nl=False, err=form is not AdviceFormat.TEXT)
        for note in applied.notes:
            progress.note(note)
    elif writing.anything:
        progress.note("Nothing is written: nothing is recommended.")
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def kb_stats(kb: KnowledgeBase = None, json: AsJson = False) -> None:
    """Count what the knowledge base holds."""
    from stackgen.commands.kb import stats, stats_rows
    from stackgen.report.tables import columns

    paths = _readable(kb)
    found = stats(paths)
    rows = [("file", str(paths.knowledge)), *stats_rows(found)]
    print_report(found, lambda _: "\n".join(columns(rows, indent="")), json=json)


def kb_failures(kb: KnowledgeBase = None, json: AsJson = False) -> None:
    """Group the stacks that do not run."""
    from stackgen.commands.kb import failures
    from stackgen.report.listings import failures_text

    paths = _readable(kb)
    print_report(failures(paths), partial(failures_text, kb_option=paths.kb_option), json=json)


def kb_query(
    name: Annotated[str, typer.Argument(help="Without one, the queries are listed.")] = "",
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE...", help="Its parameters."),
    ] = None,
    datasette: Annotated[
        bool,
        typer.Option("--datasette", help="Print all of them as the metadata of Datasette."),
    ] = False,
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Run one of the named queries.

    Datasette shows the file with all of them: stackgen kb query --datasette > metadata.json;
    datasette stackgen.db --metadata metadata.json
    """
    from stackgen.commands.kb import datasette_metadata, query, query_names
    from stackgen.report.tables import as_json, columns

    if datasette:
        typer.echo(as_json(datasette_metadata(user_paths(kb=kb, reading=True))))
        return
    if not name:
        typer.echo("\n".join(columns(query_names(), indent="")))
        return
    parameters = dict(parse_pair(each, "the parameter") for each in values or ())
    found = query(_readable(kb), name, parameters)
    rows = [
        found.columns,
        *(["" if c is None else str(c) for c in row] for row in found.rows),
    ]
    print_report(found, lambda _: "\n".join(columns(rows, indent="")), json=json)


def kb_merge(
    other: Annotated[Path, typer.Argument(metavar="FILE", help="Another knowledge base.")],
    kb: KnowledgeBase = None,
) -> None:
    """Add what another knowledge base holds; every row is checked first."""
    from stackgen.commands.kb import merge

    typer.echo(f"{merge(user_paths(kb=kb), other)} inspections added")


def kb_check(kb: KnowledgeBase = None, json: AsJson = False) -> None:
    """List the rows that are not valid: ids, values, references, positions in blocks."""
    from stackgen.commands.kb import check
    from stackgen.report.tables import as_json

    found = check(user_paths(kb=kb, reading=True))
    if json:
        typer.echo(as_json(found))
    elif found.invalid:
        count = len(found.invalid)
        what = "row is" if count == 1 else "rows are"
        typer.echo("\n".join([*found.invalid, f"{count:,} {what} not valid"]))
    else:
        typer.echo("every row is valid")
    if found.invalid:
        raise typer.Exit(DatabaseError.exit_code)


def kb_show(
    begins: Annotated[str, typer.Argument(metavar="ID", help="Beginning of its id.")],
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Show a stack, a campaign or a machine."""
    from stackgen.commands.kb_views import show
    from stackgen.report.tables import view_text

    found = show(_readable(kb), begins)
    print_report(found, view_text, json=json)


def kb_why(
    pin: Annotated[str, typer.Argument(metavar="PACKAGE==VERSION", help="A version.")],
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """Show what a version does: effects with intervals, failures it explains, conflicts.

    Each effect compares the two measured stacks with the fewest other differences, which are named.
    """
    from stackgen.commands.kb_views import why
    from stackgen.report.tables import view_text

    found = why(_readable(kb), pin)
    print_report(found, view_text, json=json)


class GraphFormat(str, Enum):
    """What others read, or a picture."""

    GRAPHML = "graphml"
    JSON = "json"
    DOT = "dot"
    SVG = "svg"


def kb_graph(
    form: Annotated[
        GraphFormat | None,
        typer.Option("--format", help="svg is a picture [default: as FILE ends, else svg]."),
    ] = None,
    pi: Annotated[
        str, typer.Option("--pi", metavar="NAME", help="Of this indicator alone [default: all].")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")
    ] = None,
    kb: KnowledgeBase = None,
) -> None:
    """Write the evidence graph: stacks, and the campaigns that compared them."""
    from stackgen.commands.kb_views import graph
    from stackgen.report.evidence import graph_text

    ending = output.suffix[1:] if output else ""
    chosen = form or next((each for each in GraphFormat if each.value == ending), GraphFormat.SVG)
    write_text(output, graph_text(graph(_readable(kb), pi), chosen.value))


def kb_recover(
    damaged: Annotated[Path, typer.Argument(metavar="FILE", help="It is left as it is.")],
    output: Annotated[Path, typer.Argument(metavar="NEW", help="The knowledge base to make.")],
) -> None:
    """Copy what can be read, and is valid, of a damaged knowledge base to a new one."""
    from stackgen.commands.kb import recover
    from stackgen.report.tables import counted

    found, lost = recover(damaged, output)
    recovered = f"{counted(found, 'inspection')} recovered"
    typer.echo(f"{recovered}, {counted(lost, 'row')} lost or not valid: {output}")


def kb_export(
    stack: Annotated[
        str,
        typer.Argument(
            metavar="[STACK]",
            help="Beginning of its id, for the format of another tool; without it, everything.",
        ),
    ] = "",
    pi: Annotated[
        str, typer.Option("--pi", metavar="NAME", help="Of STACK: indicator that was measured.")
    ] = "",
    form: Annotated[
        OtherFormat | None, typer.Option("--format", help="Of STACK: the tool that reads it.")
    ] = None,
    machine_id: Annotated[
        str,
        typer.Option("--machine", metavar="ID", help="Of STACK: beginning of its id, if several."),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Leave out commands, paths, variables, addresses and host names."
        ),
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign the file with this private key of SSH."),
    ] = None,
    kb: KnowledgeBase = None,
) -> None:
    """Write the knowledge base as JSON lines, or a stack in the format of another tool."""
    from stackgen.commands.kb_exchange import export

    paths = user_paths(kb=kb, reading=True)
    if stack or pi or form:
        _export_stack(paths, stack, pi, form, machine_id, output)
        return
    left_out = export(paths, output, public=public, sign=sign)
    if left_out:
        rows = ", ".join(f"{count:,} {table}" for table, count in left_out.items())
        typer.echo(f"left out as private: {rows}", err=True)


def _export_stack(
    paths: Paths, stack: str, pi: str, form: OtherFormat | None, machine: str, output: Path | None
) -> None:
    from stackgen.commands.kb import export
    from stackgen.report.formats import formatted, refuse_unfit

    if not (stack and pi and form):
        raise UsageError(
            "the format of another tool takes a stack, --pi and --format",
            why="one of them is missing",
            fix="stackgen kb export STACK --pi NAME --format pyperf; without any of them, the "
            "whole knowledge base is written",
        )
    report = export(paths, stack, indicator=pi, machine=machine)
    arguments: dict[str, list[str]] = {}
    for name, value in (pair for each in report.results for pair in each.arguments):
        arguments.setdefault(name, []).append(value)
    refuse_unfit(form.value, [(name, tuple(values)) for name, values in arguments.items()])
    write_text(output, formatted(report, form.value))


def kb_import(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Written by stackgen kb export.")],
    signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Allowed signers of SSH; one of them must have signed."),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The signature, if not FILE.sig.")
    ] = None,
    kb: KnowledgeBase = None,
) -> None:
    """Add what an export holds; every line is checked first.

    Rows belong to the installations that are said to have measured them: see stackgen kb origins.
    """
    from stackgen.commands.kb_exchange import import_export
    from stackgen.report.tables import counted

    paths = user_paths(kb=kb)
    added, signer = import_export(paths, source, signers=signers, signature=signature)
    typer.echo(
        f"{counted(added, 'inspection')} added" + (f"; signed by {signer}" if signer else "")
    )


def kb_origins(
    trust: Annotated[
        str, typer.Option(metavar="ID", help="Trust this one as this installation itself.")
    ] = "",
    distrust: Annotated[str, typer.Option(metavar="ID", help="Trust this one no longer.")] = "",
    kb: KnowledgeBase = None,
    json: AsJson = False,
) -> None:
    """List the installations that measured what the knowledge base holds."""
    from stackgen.commands.kb_exchange import origins, origins_rows, set_trust
    from stackgen.report.tables import columns

    paths = user_paths(kb=kb, reading=True)
    for begins, trusted in ((trust, True), (distrust, False)):
        if begins:
            set_trust(paths, begins, trusted=trusted)
    found = origins(paths)
    print_report(found, lambda _: "\n".join(columns(origins_rows(found), indent="")), json=json)


def kb_remove(
    origin: Annotated[str, typer.Option("--origin", metavar="ID", help="Beginning of its id.")],
    kb: KnowledgeBase = None,
) -> None:
    """Remove what one installation recorded, and no other one did."""
    from stackgen.commands.kb_exchange import remove

    removed, count = remove(user_paths(kb=kb), origin)
    typer.echo(f"{count:,} inspections of origin {removed[:12]} removed")


KB_COMMANDS = {
    "stats": subcommand(kb_stats, "Count what the knowledge base holds.", "stackgen kb stats"),
    "failures": subcommand(
        kb_failures, "Group the stacks that do not run.", "stackgen kb failures --json"
    ),
    "query": subcommand(
        kb_query,
        "Run one of the named queries.",
        "stackgen kb query",
        "stackgen kb query versions name=tensorflow",
    ),
    "show": subcommand(kb_show, "Show a stack, a campaign or a machine.", "stackgen kb show 3f2a"),
    "why": subcommand(
        kb_why,
        "Show what a version does: effects, failures, conflicts.",
        'stackgen kb why "numpy==2.0.2"',
    ),
    "graph": subcommand(
        kb_graph,
        "Write the evidence graph, or draw it.",
        "stackgen kb graph --format svg --output graph.svg",
    ),
    "merge": subcommand(
        kb_merge, "Add what another knowledge base holds.", "stackgen kb merge team.db"
    ),
    "check": subcommand(
        kb_check,
        "List the rows that are not valid.",
        "stackgen kb check",
    ),
    "recover": subcommand(
        kb_recover,
        "Copy what can be read of a damaged file to a new one.",
        "stackgen kb recover stackgen.db recovered.db",
    ),
    "export": subcommand(
        kb_export,
        "Write it as JSON lines, or a stack in the format of another tool.",
        "stackgen kb export --public --output team.jsonl --sign ~/.ssh/id_ed25519",
        "stackgen kb export 3f2a --pi numpy/matmul --format pyperf",
    ),
    "import": subcommand(
        kb_import,
        "Add what an export holds.",
        "stackgen kb import team.jsonl",
        "stackgen kb import team.jsonl --signers allowed_signers",
    ),
    "origins": subcommand(
        kb_origins,
        "List the installations that measured, and whom you trust.",
        "stackgen kb origins",
        "stackgen kb origins --trust 3f2a",
    ),
    "remove": subcommand(
        kb_remove, "Remove what one installation recorded.", "stackgen kb remove --origin 3f2a"
    ),
}
KB_GROUP = (KB_COMMANDS, None)
