"""Judge the updates of lock files since a git revision: for pre-commit and for CI.

``python -m stackgen.cli.lock_updates [--since REV] [--markdown] [--kb FILE] LOCK...`` runs
``stackgen advise OLD NEW`` for every lock that differs. It fails where an update is slower, and
where a lock cannot be read; what is unknown or measured elsewhere only prints what would decide it.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

SLOWER = 7
_FINE = (0, 3, 11)
"""Exit codes of ``advise``: not slower, not known, and measured elsewhere."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge each lock that is named; return 1 where an update is slower or cannot be judged."""
    parser = argparse.ArgumentParser(prog="lock_updates", description=__doc__)
    parser.add_argument("locks", nargs="+", metavar="LOCK")
    parser.add_argument("--since", default="HEAD", metavar="REV", help="git revision [HEAD]")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--kb", metavar="FILE", help="knowledge base")
    given = parser.parse_args(arguments)
    options = ["--format", "markdown"] if given.markdown else []
    options += ["--kb", given.kb] if given.kb else []
    codes = [_judge(Path(each), given.since, options) for each in given.locks]
    return int(any(code not in _FINE for code in codes))


def _judge(lock: Path, since: str, options: Sequence[str]) -> int:
    """Print what is known of one update; return the exit code of ``advise``, 0 where none is."""
    old = _content_at(since, lock)
    if old is None or not lock.is_file():
        typer.echo(f"{lock}: not in {since}, or deleted: no update")
        return 0
    if old == lock.read_bytes():
        return 0
    with TemporaryDirectory() as folder:
        before = Path(folder) / lock.name  # formats are recognised by the file's name
        before.write_bytes(old)
        command = [sys.executable, "-m", "stackgen", "advise", str(before), str(lock), *options]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    typer.echo(done.stdout.replace(str(before), f"{lock} at {since}"))
    if done.returncode == SLOWER:
        typer.echo(f"{lock}: the update is slower than {since}", err=True)
    return done.returncode


def _content_at(since: str, lock: Path) -> bytes | None:
    """Return a file as a git revision has it; None where it has none of that name."""
    folder = lock.absolute().parent
    done = subprocess.run(
        ["git", "show", f"{since}:./{lock.name}"],
        cwd=folder if folder.is_dir() else None,
        check=False,
        capture_output=True,
    )
    return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
