"""The command line: parse, call one pipeline function, print one report."""

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stackgen import __version__, interrupts
from stackgen.cli import options
from stackgen.cli.compare import compare, noise
from stackgen.cli.explore import explore
from stackgen.cli.images import images_app
from stackgen.cli.knowledge import kb_app, kb_export, machine, pi_app, pis
from stackgen.cli.options import (
    AsJson,
    BaseName,
    Budget,
    ExecutorName,
    Indicators,
    Kb,
    Seed,
    parse_span,
)
from stackgen.cli.resolve import PATIENCE_S, resolve, verify
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
app.add_typer(kb_app, name="kb")
app.command(
    epilog='Examples: stackgen explore "tensorflow>=2.7" | '
    'stackgen explore "torch==2.13.0+cpu" | '
    "stackgen explore --from Pipfile.lock --budget 30m | "
    'stackgen explore torch --from requirements.txt --pi-command "python train.py"'
)(explore)
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


@app.command(epilog="Example: stackgen advise Pipfile.lock")
def advise(
    lock: Annotated[Path, typer.Argument(metavar="LOCK", help="Pipfile.lock, poetry.lock, ...")],
    kb: Kb = None,
    json: AsJson = False,
    index_url: options.IndexUrl = None,
    extra_index_url: options.ExtraIndexUrl = [],  # noqa: B006 # typer copies it
    find_links: options.FindLinks = [],  # noqa: B006
    no_index: options.NoIndex = False,
    offline: options.Offline = False,
) -> None:
    """Recommend versions for a lock file.

    The answer comes from what was measured, on this machine or the nearest one; nothing is run.
    The package index is asked whether the rest of the lock admits what is recommended.
    """
    from stackgen.campaign.request import IndexOptions
    from stackgen.commands.advise import advise as run
    from stackgen.report import advice_text, as_json, open_progress
    from stackgen.storage.paths import find_paths

    index_options = IndexOptions(
        index_url=index_url,
        extra_index_urls=tuple(extra_index_url),
        find_links=tuple(find_links),
        no_index=no_index,
        offline=offline,
    )
    with open_progress(sys.stderr, patience_s=PATIENCE_S) as progress:
        paths = find_paths(os.environ, kb=kb, reading=True)
        report = run(lock, index_options, paths, os.environ, progress)
    typer.echo(as_json(report) if json else advice_text(report))
    if report.advice.lock is None:
        raise typer.Exit(3)


@app.command()
def doctor(kb: Kb = None, json: AsJson = False) -> None:
    """Tell what works here, and what does not."""
    from stackgen.commands.doctor import doctor as run
    from stackgen.report import as_json, checks_text
    from stackgen.storage.paths import find_paths

    checks = run(find_paths(os.environ, kb=kb), os.environ)
    typer.echo(as_json(checks) if json else checks_text(checks))
    if any(check.essential and not check.fine for check in checks):
        raise typer.Exit(1)


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
    second, independent measurement shows it, too. What is new is recorded by package, base and
    indicators. The releases share the budget. Exit code 7 means findings, 3 that some release is
    not decided; it stays new.
    """
    from stackgen.campaign.request import ExecutorChoice
    from stackgen.commands.nightly import nightly as run
    from stackgen.report import as_json, nightly_text, open_progress
    from stackgen.storage.paths import find_paths

    with open_progress(sys.stderr) as progress:
        report = run(
            tuple(names),
            indicators=tuple(pi),
            executor=ExecutorChoice(executor.value),
            base=base,
            budget_s=parse_span(budget),
            seed=seed,
            paths=find_paths(os.environ, kb=kb),
            environ=os.environ,
            progress=progress,
        )
    typer.echo(as_json(report) if json else nightly_text(report))
    raise typer.Exit(report.exit_code)


def _fail(error: StackgenError) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise SystemExit(error.exit_code)


def main() -> None:
    """Run the command; explain expected failures, let bugs show tracebacks."""
    try:
        with interrupts.interruptible() as received:
            _run(received)
    except KeyboardInterrupt:  # while the end was under way
        interrupts.end_at_once()


def _run(received: Sequence[int]) -> None:
    try:
        app()
    except StackgenError as error:
        _fail(error)
    except (SystemExit, KeyboardInterrupt) as error:
        if not received:
            raise
        _end_interrupted(error, again=len(received) > 1)
    except OSError as error:
        if received and error.errno == errno.EIO:  # the terminal is gone
            _end_interrupted(error, again=False)
        if error.errno != errno.ENOSPC:
            raise
        _fail(
            StorageError(
                "the result cannot be written",
                why=error.strerror or str(error),
                fix="make room; everything measured is kept, the same command prints it again",
            )
        )


def _end_interrupted(error: BaseException, *, again: bool) -> NoReturn:
    """End as a signal asked for; a command that reported what it had found has said so itself."""
    interrupts.ignore_more()
    reported = isinstance(error, SystemExit) and not _cut_short(error)
    if again and not reported:
        interrupts.end_at_once()
    code = interrupts.exit_code()
    if isinstance(error, SystemExit) and reported and error.code != interrupts.INTERRUPTED:
        code = error.code if isinstance(error.code, int) else 1  # it was done when the signal came
    with contextlib.suppress(OSError):  # the terminal may be gone
        if not reported:
            typer.echo("interrupted", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # everything is closed, and threads may still be at work


def _cut_short(error: BaseException) -> bool:
    """Return whether an exit is what became of a KeyboardInterrupt (typer turns it into one)."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _cut_short(cause))
