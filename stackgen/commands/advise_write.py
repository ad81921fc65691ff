"""Apply an advice: to the lock file itself, as constraints, or by the lock's own tool."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from stackgen.campaign.options import IndexOptions
from stackgen.campaign.targets import find_target
from stackgen.campaign.user_input import index_config
from stackgen.commands.lock_changes import lock_changes, refuse_excluded
from stackgen.commands.options import WriteOptions
from stackgen.errors import EvidenceError, StorageError, UsageError
from stackgen.index import PackageIndex
from stackgen.locks.editing import diff, tool_command, write_constraints, write_lock, writes
from stackgen.locks.reading import decode_text
from stackgen.model.packages import LockChange, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.locks import AdviceReport
from stackgen.storage.files import atomic_write
from stackgen.storage.paths import Paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done, or would be.

    diff: of the lock file; "" where it is not changed here.
    notes: what was written, and what else is to be done, one sentence each.
    """

    diff: str = ""
    notes: tuple[str, ...] = ()


def apply_advice(
    report: AdviceReport,
    path: Path,
    request: WriteOptions,
    *,
    index_options: IndexOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> Applied:
    """Apply what an advice recommends.

    Raises:
        EvidenceError: it recommends nothing.
        UsageError: the lock file cannot be changed safely, or only by its own tool.
        ResolutionError: the rest of the lock does not admit it any more.
        StorageError: a file cannot be written.
    """
    if report.advice.lock is None:
        raise EvidenceError(
            f"{path} is not changed",
            why="nothing is recommended for it",
            fix=f"run: stackgen advise {shlex.quote(str(path))}",
        )
    changes = _changes(report, index_options, paths, environ, progress)
    lockfile = report.lockfile
    notes: list[str] = []
    shown = ""
    if request.constraints is not None:
        text = constraints_of(report, changes)
        if request.dry_run:
            shown += diff("", text, str(request.constraints))
        else:
            _write(request.constraints, text.encode())
            notes.append(f"Wrote {request.constraints}.")
    if not (request.write or request.dry_run):
        return Applied(diff=shown, notes=tuple(notes))
    if not writes(lockfile.format):
        command = tool_command(lockfile.format, str(path), changes)
        notes.append(_by_tool(command, path, request))
        return Applied(diff=shown, notes=tuple(notes))
    old = path.read_bytes()
    shown = change_file(report, path, changes, write=request.write and not request.dry_run) + shown
    if request.write and not request.dry_run and path.read_bytes() != old:
        notes.append(f"Changed {path}.")
    return Applied(diff=shown, notes=tuple(notes))


def _changes(
    report: AdviceReport,
    index_options: IndexOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> tuple[LockChange, ...]:
    wanted = {str(canonicalize_name(each.name)): each.recommended for each in report.advice.changes}
    with PackageIndex(index_config(index_options, environ), paths.cache) as index:
        target = _target(report, paths, progress)
        changes = lock_changes(report.lockfile, wanted, target, index=index, progress=progress)
    refuse_excluded(report.lockfile, changes)
    return changes


def _target(report: AdviceReport, paths: Paths, progress: Progress) -> Target:
    """Return the target that the advice was measured on, as far as locks depend on it."""
    measured = next((each.python for each in report.advice.provenance), "")
    minor = ".".join(measured.split()[-1].split(".")[:2]) if measured else ""
    return find_target(base="", python=minor, platform="", paths=paths, progress=progress)


def change_file(
    report: AdviceReport, path: Path, changes: Sequence[LockChange], *, write: bool
) -> str:
    """Change a lock file, or only find out how; return what changes as a unified diff."""
    content = path.read_bytes()
    try:
        old = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not changed",
            why="only files in UTF-8 are, and it is in another encoding",
            fix="convert it: iconv -f ENCODING -t UTF-8 FILE",
        ) from error
    mark = "\ufeff" if old.startswith("\ufeff") else ""
    new = mark + write_lock(decode_text(content), report.lockfile, changes)
    if write and new != old:
        _write(path, new.encode("utf-8"))
    return diff(old, new, str(path))


def constraints_of(report: AdviceReport, changes: Sequence[LockChange]) -> str:
    """Return the recommended versions as constraints, each with what is known about it."""
    advice = report.advice
    labels = dict(report.indicators)
    head = [f"Recommended by stackgen for {Path(report.lockfile.path).name}"]
    for effect, found in zip(advice.effects, advice.provenance, strict=False):
        interval = f"{effect.low:.3f} to {effect.high:.3f}"
        head.append(
            f"{labels.get(effect.indicator_id, found.indicator)}: {effect.ratio:.3f} times as fast "
            f"({interval}), {effect.blocks} blocks, {found.machine}, {found.last[:10]}"
        )
    head += [f"caveat: {each}" for each in advice.caveats]
    head.append("Use it with any tool: pip install -c FILE, uv pip install -c FILE")
    current = {str(canonicalize_name(each.name)): each.current for each in advice.changes}
    evidence = {
        name: [f"was {version}"] if version else ["is new"] for name, version in current.items()
    }
    return write_constraints(changes, evidence=evidence, head=head)


def _by_tool(command: tuple[str, ...], path: Path, request: WriteOptions) -> str:
    line = shlex.join(command)
    if not request.run or request.dry_run:
        return f"Only its own tool may change {path}: {line}"
    try:
        done = subprocess.run(command, cwd=path.absolute().parent, check=False)
    except OSError as error:
        raise UsageError(
            f"cannot run {command[0]}",
            why=error.strerror or str(error),
            fix=f"install it, and run: {line}",
        ) from error
    if done.returncode:
        raise UsageError(
            f"{command[0]} ended with exit code {done.returncode}",
            why="its own output says why",
            fix=f"run it by hand: {line}",
        )
    return f"Ran: {line}"


def _write(path: Path, content: bytes) -> None:
    path = path.resolve() if path.is_file() else path  # a link stays one
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}",
            why=error.strerror or str(error),
            fix="check the folder's permissions and free space",
        ) from error
