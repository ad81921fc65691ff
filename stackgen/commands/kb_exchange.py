"""Hands a knowledge base on and takes others in, for ``stackgen kb``."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path

from stackgen.errors import DatabaseError, StorageError, UsageError
from stackgen.executors.machine import this_machine
from stackgen.knowledge.database import open_database
from stackgen.knowledge.loading import prepare
from stackgen.knowledge.origins import OriginSummary
from stackgen.knowledge.public import Redaction
from stackgen.storage.files import atomic_write
from stackgen.storage.paths import Paths

_NAMESPACE = "stackgen"  # of signatures, so that none made for another purpose holds here
_SIGN_S = 60


def export(
    paths: Paths, output: Path | None, *, public: bool, sign: Path | None
) -> Mapping[str, int]:
    """Write the knowledge base as JSON lines; return how many rows were left out, by table.

    Args:
        output: the file; None writes to standard output.
        public: leave out what is private.
        sign: the private key with which ``ssh-keygen`` writes a signature beside the file.

    Raises:
        UsageError: there is nothing to sign, or no ``ssh-keygen``.
        DatabaseError: a row is not valid.
        StorageError: the file cannot be written.
    """
    if sign is not None and output is None:
        raise UsageError(
            "a signature needs a file",
            why="it is written beside the export",
            fix="add --output FILE",
        )
    program = _ssh_keygen() if sign is not None else ""
    redaction = Redaction() if public else None
    with (
        open_database(paths.knowledge, reading=True) as database,
        closing(database.export(redaction)) as lines,
    ):
        if output is None:
            sys.stdout.writelines(lines)
        else:
            _write(output, lines)
    if sign is not None and output is not None:
        done = _run([program, "-Y", "sign", "-n", _NAMESPACE, "-f", str(sign), str(output)])
        if done.returncode:
            raise UsageError(
                f"{output} was written, but not signed",
                why=done.stderr.strip() or f"ssh-keygen ended with {done.returncode}",
                fix="give a private key of SSH with --sign; its passphrase comes from ssh-agent",
            )
    return redaction.left_out if redaction is not None else {}


def _write(output: Path, lines: Iterable[str]) -> None:
    """Write all lines, or leave what is there, which may be an earlier export."""
    try:
        with atomic_write(output.resolve() if output.is_file() else output) as file:  # a link stays
            file.writelines(line.encode("ascii") for line in lines)
    except OSError as error:
        raise StorageError(
            f"cannot write {output}",
            why=error.strerror or str(error),
            fix="name another file with --output",
        ) from error


def import_export(
    paths: Paths, source: Path, *, signers: Path | None, signature: Path | None
) -> tuple[int, str]:
    """Add the rows of an export; return how many inspections are new, and who signed ("" if any).

    Args:
        source: the file.
        signers: an ``allowed_signers`` file of SSH; the file must have a signature of one of them.
        signature: the file with the signature; by default beside the export.

    Raises:
        UsageError: there is no such file, or no ``ssh-keygen``.
        DatabaseError: no valid signature, or a line is not valid.
    """
    signer = ""
    if signers is not None:
        beside = source.with_name(f"{source.name}.sig")
        signer = _verified(source, signature or beside, signers)
    try:
        file = source.open("rb")
    except OSError as error:
        raise UsageError(
            f"cannot read {source}", why=error.strerror or str(error), fix="check the path"
        ) from error
    with file, open_database(paths.knowledge) as database:
        found = database.import_lines(file, source)
        prepare(database, this_machine())
    return found, signer


def _verified(source: Path, signature: Path, signers: Path) -> str:
    """Return who of the allowed signers signed a file.

    Raises:
        DatabaseError: none of them did, or the file was changed since.
    """
    program = _ssh_keygen()
    found = _run([program, "-Y", "find-principals", "-s", str(signature), "-f", str(signers)])
    signer = found.stdout.splitlines()[0].strip() if found.stdout else ""
    verify = [program, "-Y", "verify", "-f", str(signers), "-I", signer, "-n", _NAMESPACE]
    done = _run([*verify, "-s", str(signature)], source) if signer else found
    if found.returncode or done.returncode or not signer:
        raise DatabaseError(
            f"{source} was not imported: its signature does not hold",
            why=(done.stderr or found.stderr).strip() or "no allowed signer made it",
            fix=f"get it and its signature anew, or look who signed: ssh-keygen -Y "
            f"check-novalidate -n {_NAMESPACE} -s {shlex.quote(str(signature))}",
        )
    return signer


def _ssh_keygen() -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError(
            "signatures need ssh-keygen",
            why="there is no such program on the PATH",
            fix="install OpenSSH (8.1 or newer), or leave signatures out",
        )
    return program


def _run(command: list[str], source: Path | None = None) -> "subprocess.CompletedProcess[str]":
    with source.open("rb") if source is not None else nullcontext(subprocess.DEVNULL) as file:
        return subprocess.run(
            command, stdin=file, capture_output=True, text=True, timeout=_SIGN_S, check=False
        )


def origins(paths: Paths) -> tuple[OriginSummary, ...]:
    """Return the installations that recorded rows of the knowledge base."""
    with open_database(paths.knowledge, reading=True) as database:
        return database.origin_summaries()


def origins_rows(found: tuple[OriginSummary, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the origins as rows of a table, with a heading."""
    heading = ("origin", "label", "inspections", "alone", "first", "last", "trusted")
    return (
        heading,
        *(
            (
                each.id[:12],
                "(this installation)" if each.own else each.label,
                f"{each.inspections:,}",
                f"{each.alone:,}",
                each.first[:10],
                each.last[:10],
                "yes" if each.trusted else "no",
            )
            for each in found
        ),
    )


def set_trust(paths: Paths, begins: str, *, trusted: bool) -> str:
    """Trust an origin, or trust it no longer; return its id."""
    with open_database(paths.knowledge) as database:
        origin = database.find_origin(begins)
        database.set_trust(origin, trusted=trusted)
    return origin


def remove(paths: Paths, begins: str) -> tuple[str, int]:
    """Remove an origin with what it alone recorded; return its id and how many inspections."""
    with open_database(paths.knowledge) as database:
        origin = database.find_origin(begins)
        return origin, database.remove_origin(origin)
