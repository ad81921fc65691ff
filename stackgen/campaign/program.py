"""A command of the user's as something to be measured: what is run, and what identifies it.

A script that was changed is another indicator: what was measured before is never mixed with what is
measured after. The same command on the same files goes on with its campaign.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from stackgen.campaign.options import ProgramOptions
from stackgen.errors import MeasurementError, StorageError, UsageError
from stackgen.executors import Executor
from stackgen.images.layers import PREFIX
from stackgen.indicators.declaration import THREADS, literal_revision
from stackgen.model.choices import Better
from stackgen.model.inspections import Indicator, IndicatorCall, Inspection, InspectionPlan
from stackgen.model.stacks import PROGRAM, Program
from stackgen.storage.files import file_sha256
from stackgen.storage.paths import Paths, shipped_folder
from stackgen.storage.state import state_path

# Digests of the files that a user's command meets: those of its project, and data beside it
# As in pis/program.py: what tools make again, and what is only linked to.
LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".ipynb_checkpoints", "node_modules", ".idea", ".vscode", ".DS_Store",
}  # fmt: skip
LEFT_OUT_ENDS = (".pyc", ".swp", "~")
READ_BYTES = 1 << 20
MOST_FILES = 20_000
_DIGITS = 16


def manifest(project: Path, besides: Collection[Path] = ()) -> dict[str, str]:
    """Return what identifies the content of each file of a project, by its path in there.

    Of small files that is all they hold, of large ones size and time.

    Args:
        besides: files and folders that are no part of it, wherever they lie.

    Raises:
        UsageError: there are too many of them to be copied for each run, or one cannot be read.
    """
    found: dict[str, str] = {}
    try:
        # Counted before any is read: in a home folder, reading takes long.
        paths = list(islice(_files(project, frozenset(besides)), MOST_FILES + 1))
        if len(paths) > MOST_FILES:
            raise UsageError(
                f"{project} is too large for a project",
                why=f"it has more than {MOST_FILES:,} files, and each run gets a copy",
                fix="name the folder with the code alone (--project DIR), others with --data",
            )
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                found[str(path.relative_to(project))] = _content(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the project {project}",
            why=str(error),
            fix="make its files readable, or name another folder: --project DIR",
        ) from error
    return found


def project_digest(files: Mapping[str, str]) -> str:
    """Return a digest of a project's manifest."""
    rows = (os.fsencode(f"{name}\0{content}\0") for name, content in sorted(files.items()))
    return hashlib.sha256(b"".join(rows)).hexdigest()[:_DIGITS]


def data_digest(data: Path) -> str:
    """Return a digest of names, sizes and times of the files in a folder; none of them is read."""
    digest = hashlib.sha256()
    for folder, names, files in os.walk(data):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name)
            digest.update(os.fsencode(f"{path.relative_to(data)}\0{_size_and_time(path)}\0"))
    return digest.hexdigest()[:_DIGITS]


def _files(project: Path, besides: Collection[Path]) -> Iterator[Path]:
    """Yield what belongs to a project; links are not followed."""
    for folder, names, files in os.walk(project):
        paths = {name: Path(folder, name) for name in (*names, *files)}
        included = [name for name, path in paths.items() if _belongs(path) and path not in besides]
        names[:] = [name for name in names if name in included]
        for name in included:
            if name in files or paths[name].is_symlink():
                yield paths[name]


def _belongs(path: Path) -> bool:
    made = path.name in LEFT_OUT or path.name.endswith(LEFT_OUT_ENDS)
    return not (made or (path / "pyvenv.cfg").exists())


def _content(path: Path) -> str:
    """Return what identifies the content of a file, with its right to be executed."""
    if path.is_symlink():
        return f"link {os.readlink(path)}"  # noqa: PTH115
    if not path.is_file():
        return "special"
    status = path.stat()
    if status.st_size > READ_BYTES or not os.access(path, os.R_OK):
        return _size_and_time(path)
    return f"{status.st_mode & 0o111} {file_sha256(path)}"


def _size_and_time(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere
        return "gone"
    return f"{status.st_size} {status.st_mtime_ns}"


_KEY_BYTES = 32
DEFAULT_TIMEOUT_S = 1800.0
"""Of one run, where nothing limits it."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OURS = re.compile(r"PATH|HOME|TMPDIR|STACKGEN_\w*")
# Folders of the system: one of the user's in their place would hide what a stack needs.
_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin")
_SYSTEM_TREES = tuple(Path("/", name) for name in (*_SYSTEM, "stackgen", "sys", "usr", PREFIX))
_KERNELS = tuple(Path("/", name) for name in ("dev", "proc", "sys"))  # reading these may never end
_SYSTEM_ROOTS = tuple(map(Path, ("/", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var")))  # noqa: S108


def read_program(
    options: ProgramOptions,
    budget_s: float,
    paths: Paths,
    environ: Mapping[str, str],
    *,
    dry_run: bool = False,
) -> IndicatorCall | None:
    """Return the command that these options name; None where they name none.

    Args:
        budget_s: how long one run may take where no time limit is given, in seconds.
        paths: where the key lies that values of variables are digested with.
        dry_run: write no key.

    Raises:
        UsageError: options belong to a command that was not given, or are wrong.
    """
    if options.command is None:
        given = {
            "--project": options.project, "--data": options.data, "--env": options.variables,
            "--network": options.network, "--figure": options.figure, "--better": options.better,
            "--check": options.check, "--time-limit": options.time_limit_s,
        }  # fmt: skip
        for option in (name for name, value in given.items() if value):
            raise UsageError(
                f"{option} belongs to a command of yours",
                why="--pi-command was not given",
                fix='give it as in: --pi-command "python train.py --epochs 1"',
            )
        return None
    if options.better and not options.figure:
        raise UsageError(
            "--better says which figures are better, and there is no figure",
            why="without --figure the time is compared, of which less is better",
            fix="add it as in: --figure 'accuracy: ([0-9.e-]+)'",
        )
    path = key_path(paths.knowledge)
    return program_call(
        replace(options, time_limit_s=options.time_limit_s or budget_s),
        environ,
        key=lambda: stored_key(path, dry_run=dry_run),
        besides=own_files(paths.knowledge, paths.cache),
    )


def program_call(
    options: ProgramOptions,
    environ: Mapping[str, str],
    *,
    key: Callable[[], bytes],
    besides: Collection[Path] = (),
) -> IndicatorCall:
    """Return what is measured, with everything in its arguments that may change what it does.

    Args:
        options: name a command and a time limit.
        key: returns the secret that values of variables are digested with; it is called only where
            there are any.
        besides: what is no part of a project, wherever it lies; see ``own_files``.

    Raises:
        UsageError: there is no such command, folder or variable, or the figure is no regex with
            one group.
    """
    if options.command is None:
        raise ValueError("options that name no command")
    project = _project(options.project or Path())
    program = Program(
        command=_words(options.command, project),
        project=str(project),
        data=tuple(str(_data_folder(each)) for each in options.data),
        variables=_variables(options.variables, environ),
        figure=_figure(options.figure),
        better=(options.better or Better.LOWER).value,
        check=_check(options.check),
        network=options.network,
    )
    arguments = {
        "command": shlex.join(program.command),
        "project": project_digest(_manifest(program, besides)),
        "figure": program.figure,
        "better": program.better if program.figure else "",
        "check": program.check,
        # Where a folder lies is private: its name and what is in it identify it.
        "data": ",".join(f"{Path(p).name}:{data_digest(Path(p))}" for p in sorted(program.data)),
        "env": _digested(program.variables, key),
        "network": "yes" if program.network else "",
    }
    values = tuple(sorted((name, value) for name, value in arguments.items() if value))
    indicator = replace(_indicator(), timeout_s=options.time_limit_s or DEFAULT_TIMEOUT_S)
    return IndicatorCall(indicator=indicator, arguments=values, program=program)


def own_files(knowledge: Path, cache: Path) -> tuple[Path, ...]:
    """Return what stackgen itself writes while it measures, for where that is in a project.

    Our own output is often sent into a file there; the system knows which one.
    """
    ends = ("", "-wal", "-shm", "-journal", ".key")
    stored = (knowledge, state_path(knowledge))
    found = [cache, *(each.with_name(each.name + end) for each in stored for end in ends)]
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/self/fd/{stream}").resolve(strict=True))
    return tuple(path.resolve() for path in found)


@dataclass(slots=True)
class Watching:
    """An executor that runs no command whose files are no longer those that are being measured.

    besides: as of ``program_call``.
    """

    executor: Executor
    besides: Collection[Path] = ()
    _begun: Mapping[str, str] | None = None

    def inspect(self, plans: Iterable[InspectionPlan]) -> Iterator[Inspection]:
        """Yield what the executor yields.

        Raises:
            MeasurementError: the project was changed meanwhile.
        """
        for plan in plans:
            if plan.call.program is not None:
                self._refuse_changed(plan.call.program, dict(plan.call.arguments)["project"])
            yield from self.executor.inspect([plan])

    def _refuse_changed(self, program: Program, digest: str) -> None:
        now = _manifest(program, self.besides)
        if project_digest(now) == digest:
            self._begun = now
            return
        before = now if self._begun is None else self._begun
        changed = sorted({name for name, _ in set(now.items()) ^ set(before.items())})
        raise MeasurementError(
            f"{program.project} was changed while it was measured",
            why=f"what is measured before and after must not be mixed ({', '.join(changed[:3])})"
            if changed
            else "what is measured before and after must not be mixed",
            fix="run the same command again: it measures the project as it is now; what is written "
            "meanwhile belongs into another folder",
        )


def stored_key(path: Path, *, dry_run: bool) -> bytes:
    """Return the key beside a knowledge base, made where there is none; a dry run keeps none.

    Raises:
        StorageError: it cannot be read or written.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        key = secrets.token_bytes(_KEY_BYTES)
        if dry_run:
            return key
        mine = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        mine.touch(0o600, exist_ok=False)
        mine.write_bytes(key)
        try:
            os.link(mine, path)  # of two that make one at once, the first one's counts
        except FileExistsError:
            key = path.read_bytes()
        finally:
            mine.unlink()
    except OSError as error:
        raise StorageError(
            f"cannot keep a key in {path}",
            why=error.strerror or str(error),
            fix="make the folder writable, name another one with --kb, or leave out --env",
        ) from error
    return key


def key_path(knowledge: Path) -> Path:
    """Return where the key of a knowledge base is stored."""
    return knowledge.with_name(f"{knowledge.name}.key")


def _indicator() -> Indicator:
    """Return what runs programs; digests of what they consist of are arguments of their calls."""
    pis = shipped_folder("pis")
    driver, harness = ((pis / name).read_text("utf-8") for name in ("program.py", "harness.py"))
    return Indicator(
        name=PROGRAM,
        component=PROGRAM,
        summary="a command of the user's own",
        sha256=hashlib.sha256(f"{driver}\0{harness}".encode()).hexdigest(),
        path=str(pis / "program.py"),
        one_shot=True,
        parameters=(THREADS,),
        revision=literal_revision(driver, "REVISION"),
        protocol=literal_revision(harness, "PROTOCOL_REVISION"),
    )


def _manifest(program: Program, besides: Collection[Path]) -> dict[str, str]:
    project = Path(program.project)
    result = [project / program.check] if program.check else []
    return manifest(project, (*besides, *result))


def _words(command: str, project: Path) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        why = f"in the manner of a shell, it has {str(error).lower()}"
        raise _refused(f"cannot read the command {command!r}", why) from error
    if not words or not words[0]:
        raise _refused("there is no command to measure", "--pi-command is empty")
    script = next(_scripts(words), "")
    if script and not (project / script).is_file():
        raise UsageError(
            f"there is no {script} in {project}",
            why="the command runs in a copy of the project's folder",
            fix=f"name the folder that has it: --project DIR{_pipes(words)}",
        )
    return words


def _scripts(words: Sequence[str]) -> Iterator[str]:
    """Yield the file of the project that a command starts, where that is plain to see."""
    if "/" in words[0] and not words[0].startswith("/"):
        yield words[0]
    interpreted = re.fullmatch(r"python[\d.]*|sh|bash", words[0])
    if interpreted and len(words) > 1 and re.fullmatch(r"[^-/].*\.(py|sh)", words[1]):
        yield words[1]


def _pipes(words: Sequence[str]) -> str:
    several = any(word in ("|", "&&", ";", ">", "||") for word in words)
    return "; what needs a shell is written as in: --pi-command \"sh -c '...'\"" * several


def _project(given: Path) -> Path:
    found = given.resolve()
    why = ""
    if not found.is_dir():
        why = "it is a file" if found.exists() else "there is no such folder"
    elif found == Path("/") or any(found.is_relative_to(tree) for tree in _KERNELS):
        why = "it is a folder of the system, and each run gets a copy"
    if why:
        raise UsageError(
            f"cannot take {given} for the project", why=why, fix="name a folder: --project DIR"
        )
    return found


def _data_folder(given: Path) -> Path:
    # Not resolved: programs find it by the name that the user gave it.
    found = Path(os.path.normpath(given.absolute()))
    if not found.is_dir():
        raise UsageError(
            f"there is no folder {given}",
            why="--data names folders that the command reads",
            fix="check the path",
        )
    for each in (found, found.resolve()):
        below = any(each.is_relative_to(tree) for tree in _SYSTEM_TREES)
        if below or each in _SYSTEM_ROOTS:
            raise UsageError(
                f"{given} is a folder of the system",
                why="in a container it would hide what the stack itself needs there",
                fix="name a folder with your data alone",
            )
    return found


def _variables(given: Sequence[str], environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"cannot read --env {name}",
                why="it does not begin with a variable's name",
                fix="give it as in: --env NAME, or --env NAME=VALUE",
            )
        if _OURS.fullmatch(name):
            raise UsageError(
                f"{name} cannot be given to a command",
                why="stackgen sets it: each run has folders and a python of its own",
                fix=f"leave out --env {name}, or set it in the command: sh -c '{name}=... ...'",
            )
        if not separator and name not in environ:
            raise UsageError(
                f"there is no variable {name}",
                why="--env NAME takes it from your own environment, where it is not set",
                fix=f"set it first, or give it as in: --env {name}=VALUE",
            )
        found[name] = value if separator else environ[name]
    return tuple(sorted(found.items()))


def _figure(regex: str) -> str:
    if not regex:
        return ""
    example = "as in: --figure 'accuracy: ([0-9.e-]+)'"
    try:
        groups = re.compile(regex).groups
    except re.error as error:
        raise UsageError(
            f"--figure {regex!r} is no regular expression",
            why=str(error),
            fix=f"write it {example}",
        ) from error
    if groups != 1:
        raise UsageError(
            f"--figure {regex!r} has {groups} groups",
            why="one pair of parentheses says where the number is; (?:...) groups nothing",
            fix=f"write it {example}",
        )
    return regex


def _check(name: str) -> str:
    if name and (Path(name).is_absolute() or ".." in Path(name).parts):
        raise UsageError(
            f"cannot check {name}",
            why="a result is written into the copy of the project",
            fix="name it from the project's folder on, as in: --check result.json",
        )
    return name


def _digested(variables: Sequence[tuple[str, str]], key: Callable[[], bytes]) -> str:
    """Return names with a keyed digest of each value: without the key no value can be tried."""
    if not variables:
        return ""
    secret = key()
    return ",".join(
        f"{name}:{hashlib.blake2b(os.fsencode(value), key=secret, digest_size=8).hexdigest()}"
        for name, value in variables
    )


def _refused(what: str, why: str) -> UsageError:
    return UsageError(what, why=why, fix='as in: --pi-command "python train.py --epochs 1"')
