"""The command line: parse, call one command, print one report."""

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from stackgen import __version__, interrupts
from stackgen.cli.commands import Entry, build
from stackgen.errors import StackgenError, StorageError, UsageError

_MEASURE, _KNOW, _RESOLVE, _INSTALLATION = "Measure", "Know", "Resolve and build", "Installation"

ENTRIES = {
    "explore": Entry(
        target="stackgen.cli.measure:explore",
        summary="Measure which stack runs fastest on this machine.",
        heading=_MEASURE,
        examples=(
            'stackgen explore "tensorflow>=2.7"',
            'stackgen explore "torch==2.13.0+cpu" --pi import',
            "stackgen explore --from Pipfile.lock --budget 30m",
            'stackgen explore torch --from requirements.txt --pi-command "python train.py"',
        ),
    ),
    "compare": Entry(
        target="stackgen.cli.measure:compare",
        summary="Measure whether one stack is faster than another.",
        heading=_MEASURE,
        examples=(
            'stackgen compare "numpy==1.26.4" "numpy==2.3.5" --base 3.11',
            "stackgen compare old/Pipfile.lock Pipfile.lock --budget 30m",
            'stackgen compare 3f2a91c0 requirements.txt --pi-command "python train.py"',
        ),
    ),
    "bisect": Entry(
        target="stackgen.cli.measure:bisect",
        summary="Find which package makes a stack slower, or fail.",
        heading=_MEASURE,
        examples=(
            'stackgen bisect "numpy==1.26.4 scipy==1.12.0" "numpy==2.3.5 scipy==1.16.3" --pi sort',
            "stackgen bisect old/uv.lock uv.lock --releases",
            'stackgen bisect old.txt new.txt --pi-command "python train.py"',
        ),
    ),
    "nightly": Entry(
        target="stackgen.cli.nightly:nightly",
        summary="Measure what was newly released.",
        heading=_MEASURE,
        examples=(
            "stackgen nightly tensorflow torch",
            "stackgen nightly --check",
            "stackgen nightly --watch training --releases 3",
        ),
    ),
    "findings": Entry(
        target="stackgen.cli.nightly:FINDINGS_GROUP",
        summary="List what nights have found, and acknowledge it.",
        heading=_KNOW,
        group=True,
    ),
    "noise": Entry(
        target="stackgen.cli.measure:noise",
        summary="Report how small a difference this machine can show.",
        heading=_MEASURE,
        examples=("stackgen noise tensorflow --budget 10m", "stackgen noise --dry-run"),
    ),
    "advise": Entry(
        target="stackgen.cli.knowledge:advise",
        summary="Recommend versions for a lock file, from what was measured.",
        heading=_KNOW,
        examples=(
            "stackgen advise Pipfile.lock",
            "stackgen advise uv.lock --write",
            "stackgen advise --environment .venv --constraints faster.txt",
        ),
    ),
    "history": Entry(
        target="stackgen.cli.knowledge:history",
        summary="Show the times of a package's releases, or of its nights.",
        heading=_KNOW,
        examples=(
            "stackgen history tensorflow --pi matmul",
            "stackgen history numpy --pi sort --by night --svg numpy.svg",
        ),
    ),
    "kb": Entry(
        target="stackgen.cli.knowledge:KB_GROUP",
        summary="Look into the knowledge base.",
        heading=_KNOW,
        group=True,
    ),
    "pis": Entry(
        target="stackgen.cli.indicators:pis",
        summary="List the performance indicators, or what one of them takes.",
        heading=_KNOW,
        examples=("stackgen pis", "stackgen pis numpy/matmul"),
    ),
    "pi": Entry(
        target="stackgen.cli.indicators:PI_GROUP",
        summary="Measure one performance indicator by itself.",
        heading=_KNOW,
        group=True,
    ),
    "resolve": Entry(
        target="stackgen.cli.resolve:resolve",
        summary="Count the stacks that satisfy requirements, and print some.",
        heading=_RESOLVE,
        examples=(
            'stackgen resolve "tensorflow>=2.7" numpy --count',
            'stackgen resolve "tensorflow==2.12.*" --one --format requirements --hashes',
            'stackgen resolve "tensorflow>=2.7" --explain "numpy<1.24"',
        ),
    ),
    "verify": Entry(
        target="stackgen.cli.resolve:verify",
        summary="Check a lock with uv and pip-tools.",
        heading=_RESOLVE,
        examples=("stackgen verify Pipfile.lock --base bookworm-py311",),
    ),
    "provenance": Entry(
        target="stackgen.cli.resolve:provenance",
        summary="Check a lock's hashes, indexes, attestations and known vulnerabilities.",
        heading=_RESOLVE,
        examples=(
            "stackgen provenance uv.lock",
            "stackgen provenance requirements.txt --osv osv-pypi.zip --ignore yanked",
        ),
    ),
    "images": Entry(
        target="stackgen.cli.images:IMAGES_GROUP",
        summary="Build, list and export images of stacks, and their bases.",
        heading=_RESOLVE,
        group=True,
        examples=("stackgen images", "stackgen images build Pipfile.lock --base bookworm-py311"),
    ),
    "doctor": Entry(
        target="stackgen.cli.system:doctor",
        summary="Report what works on this machine, and how to mend the rest.",
        heading=_INSTALLATION,
        examples=("stackgen doctor",),
    ),
    "machine": Entry(
        target="stackgen.cli.system:machine",
        summary="Show what is recorded of this machine.",
        heading=_INSTALLATION,
        examples=("stackgen machine --json",),
    ),
    "init": Entry(
        target="stackgen.cli.nightly:init",
        summary="Write a watch for nightly into stackgen.toml.",
        heading=_INSTALLATION,
        examples=("stackgen init", 'stackgen init "tensorflow>=2.16" --yes'),
    ),
    "config": Entry(
        target="stackgen.cli.system:config",
        summary="Print the options that are set, and where.",
        heading=_INSTALLATION,
        examples=("stackgen config", "stackgen config explore --all"),
    ),
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stackgen {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[  # typer calls _version
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Measure which versions of your dependencies run your code fastest, and recommend them."""


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_PATHS = (errno.ENAMETOOLONG, errno.EACCES, errno.EROFS, errno.ELOOP)

ROOT_GROUP = (ENTRIES, _root)


def app() -> None:
    """Run the command that the arguments of this process name."""
    root = Entry(
        target="stackgen.cli:ROOT_GROUP",
        summary="",
        group=True,
        examples=('stackgen explore "tensorflow>=2.7" --budget 15m',),
    )
    build("", root)()


def _fail(error: StackgenError) -> NoReturn:
    from stackgen.report.terminal import printable

    typer.echo(printable(f"error: {error}"), err=True)
    raise SystemExit(error.exit_code)


def _open_closed_streams() -> None:
    """Let what was closed (``>&-``) discard what is written, as other programs do.

    A file that is opened later must not become standard output, either.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest free number is taken, which is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def main() -> None:
    """Run the command; explain expected failures, let bugs show tracebacks."""
    _open_closed_streams()
    try:
        with interrupts.interruptible() as received:
            _run(received)
    except KeyboardInterrupt:  # while the end was under way
        interrupts.end_at_once()


def _run(received: Sequence[int]) -> None:
    try:
        _refuse_lost_folder()
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
        _fail(_explained(error))


def _refuse_lost_folder() -> None:
    """Stop where the current folder was removed, or may not be read.

    Raises:
        UsageError: paths relative to it, and its configuration, cannot be found.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            "the current folder cannot be used",
            why=error.strerror or str(error),
            fix="change into another folder, then give the same command",
        ) from error


def _explained(error: OSError) -> StackgenError:
    """Return what an error of the disk means that no command has explained; raise any other."""
    why = error.strerror or str(error)
    if error.errno in _DISK_FULL:
        return StorageError(
            "the result cannot be written",
            why=why,
            fix="free disk space; what was measured is stored, and the same command prints it",
        )
    if error.errno in _NO_PATHS and error.filename is not None:
        return UsageError(
            f"cannot use the path {error.filename}",
            why=why,
            fix="give another path, or change the rights of this one",
        )
    raise error


def _end_interrupted(error: BaseException, *, again: bool) -> NoReturn:
    """End as a signal requires; a command that reported its result has printed its own end."""
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
