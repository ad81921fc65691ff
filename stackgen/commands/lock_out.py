"""Write the stack that an exploration found to be the best one as locks of other tools."""

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from stackgen.errors import EvidenceError, StackgenError, StorageError, UsageError
from stackgen.images.exports import index_options
from stackgen.index import IndexConfig
from stackgen.index.config import DEFAULT_NAME
from stackgen.locks.writing import write_pylock, write_requirements
from stackgen.measure.ranking import RankingAnswer, compared, conclusion
from stackgen.model.packages import Lock, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.campaigns import ChosenStack, ExploreReport
from stackgen.storage.files import atomic_write_text

FILES = ("pylock.toml", "requirements.txt")
MARK = "# Written by stackgen"
"""How a file begins that we may overwrite."""

_NOTHING = {
    RankingAnswer.NOTHING_COMPARED: "nothing was compared",
    RankingAnswer.BASELINE_FAILED: "the baseline failed while it was measured",
    RankingAnswer.CONTROLS_FAILED: "the controls failed, so that the ranking cannot be relied on",
    RankingAnswer.FRONT: "goals without weights have a Pareto front and no winner (--goal speed=2)",
    RankingAnswer.NONE_WITHIN_LIMITS: "no stack that was compared is within the limits",
    RankingAnswer.TOO_EARLY: "there are too few blocks for any answer",
}


def check_folder(folder: Path, *, make: bool) -> None:
    """Refuse a folder that locks cannot be written into, before anything is measured.

    Args:
        folder: where they will be.
        make: whether it is made, and tried; otherwise its place is looked at, and nothing changed.

    Raises:
        UsageError: it has such a file that is not stackgen's, or is no folder.
        StorageError: it cannot be made, or nothing can be written there.
    """
    try:
        _refuse_others_files(folder)
        if not make:
            _refuse_place(folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def _refuse_place(folder: Path) -> None:
    """Refuse a folder that could not be made or written, without making anything.

    Raises:
        UsageError: something on the way to it is no folder.
        OSError: it, or the folder that it would be made in, cannot be written.
    """
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if _exists(each))
    if not place.is_dir():
        raise _no_folder(place)
    if not os.access(place, os.W_OK | os.X_OK):
        read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        number = errno.EROFS if read_only else errno.EACCES
        raise OSError(number, os.strerror(number))


def _exists(path: Path) -> bool:
    """Return whether there is anything, also a link that leads nowhere."""
    return path.is_symlink() or path.exists()


def keep_winner(
    report: ExploreReport, folder: Path, target: Target, config: IndexConfig, progress: Progress
) -> ExploreReport:
    """Write the winner's locks, and report it; where there is no winner, report why.

    What goes wrong is reported as well and decides the exit code: the report is never lost by it.
    """
    try:
        chosen = _winner(report)
        files = locks_of(report, chosen, target, config)
        _refuse_others_files(folder)
        _write(folder, files)
    except EvidenceError as error:
        progress.note(f"No lock was written into {folder}: {error.why}.")
        return report
    except StackgenError as error:
        progress.note(f"error: {error}")
        return replace(
            report, run=replace(report.run, exit_code=report.run.exit_code or error.exit_code)
        )
    written = " and ".join(str(folder / name) for name in files)
    progress.note(f"Wrote {written}: {chosen.label}, {_why(report)}.")
    return report


def locks_of(
    report: ExploreReport, chosen: ChosenStack, target: Target, config: IndexConfig
) -> Mapping[str, str]:
    """Return what each file holds: the very artifacts that were measured, with their hashes.

    Where they are not of the default index, the requirements name theirs.

    Raises:
        UsageError: an artifact has no hash.
    """
    head = "".join(f"{' '.join(line.split())}\n" for line in _head(report, chosen))
    pins = _indexes(chosen.lock, config) + write_requirements(chosen.lock, hashes=True)
    texts = (write_pylock(chosen.lock, target), pins)
    return {name: head + text for name, text in zip(FILES, texts, strict=True)}


def _indexes(lock: Lock, config: IndexConfig) -> str:
    used = {each.index for each in lock.artifacts}
    known = {each.name: each.url for each in (*config.indexes, *config.compared)}
    urls = [url for name, url in known.items() if name in used - {DEFAULT_NAME}]
    pages = [each.url for each in config.find_links if each.name in used]
    return index_options(urls=urls, pages=pages, default=DEFAULT_NAME in used)


def _winner(report: ExploreReport) -> ChosenStack:
    """Return the stack to be written.

    Raises:
        EvidenceError: there is none.
    """
    found = conclusion(report)
    why = (
        "it was interrupted before it ended"
        if report.run.interrupted
        else _NOTHING.get(found.answer)
    )
    chosen = [
        each for each in report.stacks if found.winner and each.stack_id == found.winner.stack_id
    ]
    if why or not chosen:
        raise EvidenceError(
            "there is no stack to be written",
            why=why or "nothing was compared",
            fix="give the same command again; it continues from there",
        )
    return chosen[0]


def _why(report: ExploreReport) -> str:
    """Return why this stack is written and no other; a figure of the user's own is no speed."""
    effects = [each for row in report.ranking for each in row.effects]
    figures = all(each.indicator_id in report.figures for each in effects)
    answer = conclusion(report).answer
    if answer is RankingAnswer.BETTER:
        return "shown to be better than the baseline by the goals"
    if answer is RankingAnswer.WITHIN_LIMITS:
        return "the best within the limits, which the baseline exceeds"
    if answer is not RankingAnswer.FASTER:
        return f"the baseline: nothing is shown to be {'better' if figures else 'faster'}"
    if sum(row.best for row in report.ranking) > 1:
        return f"shown to be {'better' if figures else 'faster'} than the baseline, as others are"
    of = f" of the {compared(report)} that were compared" if report.search else ""
    return f"shown to be the {'best' if figures else 'fastest'}{of}"


def _head(report: ExploreReport, chosen: ChosenStack) -> Iterator[str]:
    setup, names = report.plan.setup, report.labels
    measured = {each.indicator_id: None for row in report.ranking for each in row.effects}
    yield f"{MARK} explore --lock-out, which may overwrite it"
    yield f"# {chosen.label}, {_why(report)}"
    yield f"# Measured: {', '.join(names.get(each, each) for each in measured)}"
    yield f"# On: Python {setup.python} ({setup.base}), {setup.machine}"
    if chosen.settings:
        settings = " ".join(f"{name}={value}" for name, value in chosen.settings)
        yield f"# It was measured with these variables, which no lock can set: {settings}"


def _refuse_others_files(folder: Path) -> None:
    if _exists(folder) and not folder.is_dir():
        raise _no_folder(folder)
    for path in (folder / name for name in FILES):
        if path.is_symlink() or (path.exists() and not _is_ours(path)):
            raise UsageError(
                f"{path} is not overwritten",
                why="it is there already, and not written by stackgen",
                fix="name another folder, as in: --lock-out fastest; or move the file away",
            )


def _no_folder(path: Path) -> UsageError:
    return UsageError(
        f"{path} is no folder",
        why="pylock.toml and requirements.txt are to be written into it, or below it",
        fix="name another one, as in: --lock-out fastest",
    )


def _is_ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline().startswith(MARK)
    except OSError:
        return False


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, each whole or not at all.

    Raises:
        StorageError: there is no room, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            atomic_write_text(folder / name, text)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"nothing can be written into {folder}",
        why=error.strerror or str(error),
        fix="name another folder, as in: --lock-out fastest",
    )
