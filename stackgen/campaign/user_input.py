"""From what the command line says, and the files that it names, to a request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.campaign.request import IndexOptions
from stackgen.errors import UsageError
from stackgen.index import IndexConfig, load_config
from stackgen.locks import (
    constraints_in,
    decode_text,
    from_place,
    read_lock,
    read_requirements_file,
)
from stackgen.locks.fields import MalformedError
from stackgen.model.choices import Prereleases
from stackgen.model.packages import RequirementsFile
from stackgen.resolve import Policy, Requirements, moment, parse_requirement, parse_requirements

_FILES = ("pyproject.toml", "Pipfile", "Pipfile.lock", "environment.yml", "setup.py", "setup.cfg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asks for, as text.

    requirements: PEP 508 lines, alternatives (``a|b>=1``), or paths of wheels.
    files: requirements files, pyproject.toml, Pipfile.
    around: a lock, or such a file of a project whose packages are in every stack.
    extras, groups: of these files, to be added.
    constraints: files of constraints.
    exclude_newer: a date or a moment, ISO 8601.
    """

    requirements: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    around: Path | None = None
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    constraints: tuple[Path, ...] = ()
    overrides: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    allow_build: tuple[str, ...] = ()
    prereleases: Prereleases = Prereleases.IF_NECESSARY
    exclude_newer: str | None = None
    index: IndexOptions = field(default_factory=IndexOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What is asked for.

    index: where to look, files included.
    lock: the file of ``Wishes.around`` where that is a lock.
    project: the packages that come from it where it is none.
    requires_python: a specifier, or "".
    left_out: what of the files no index can be asked for, in words.
    """

    request: Requirements
    index: IndexOptions
    requires_python: str = ""
    left_out: tuple[str, ...] = ()
    lock: Path | None = None
    project: tuple[str, ...] = ()


def understood(wishes: Wishes, environ: Mapping[str, str]) -> Understood:
    """Read the files that were named, and all that was asked for.

    Raises:
        UsageError: a file or a requirement cannot be read.
    """
    lock = wishes.around if wishes.around and _is_lock(wishes.around) else None
    if wishes.around and not lock:
        wishes = replace(wishes, files=(*wishes.files, wishes.around))
    if (wishes.extras or wishes.groups) and not wishes.files:
        raise UsageError(
            "--extra and --group belong to a file",
            why="no file was given that could have extras or dependency groups",
            fix='give it with -r, or write the extra behind the name: "package[extra]"',
        )
    files = [_file(path, wishes, environ) for path in wishes.files]
    given = parse_requirements(*(_line(each) for each in wishes.requirements))
    own = files[:-1] if wishes.around and not lock else files
    lines = [line for each in own for line in each.requirements]
    project = _beside(given, files[len(own) :])
    limits = [line for each in files for line in each.constraints]
    for path in wishes.constraints:
        limits += _limits(path, environ)
    request = replace(
        given,
        requirements=(*given.requirements, *map(parse_requirement, lines), *project),
        constraints=tuple(map(parse_requirement, limits)),
        overrides=tuple(map(parse_requirement, wishes.overrides)),
        excluded=wishes.excluded,
        policy=_policy(wishes, files),
    )
    return Understood(
        request=request,
        index=_index(wishes.index, files),
        requires_python=",".join(filter(None, (each.requires_python for each in files))),
        left_out=tuple(note for each in files for note in each.skipped),
        lock=lock,
        project=_names(project, without=given.names),
    )


def _is_lock(path: Path) -> bool:
    """Return whether a file says all versions; what may not is read as what a project asks for.

    Raises:
        UsageError: it cannot be read, or is a lock that is broken.
    """
    if path.name in ("pyproject.toml", "Pipfile"):
        return False
    text = _text(str(path))
    try:
        read_lock(text, path=str(path))
    except UsageError:
        if path.suffix not in (".txt", ".in"):
            raise
        return False
    return True


def _beside(given: Requirements, files: Sequence[RequirementsFile]) -> tuple[Requirement, ...]:
    """Return what a project requires; for what is named besides, that alone says the versions."""
    asked_for = (parse_requirement(line) for file in files for line in file.requirements)
    found = []
    for each in asked_for:
        if str(canonicalize_name(each.name)) not in given.names:
            found.append(each)
        elif each.extras:
            found.append(parse_requirement(f"{each.name}[{','.join(sorted(each.extras))}]"))
    return tuple(found)


def _names(requirements: Iterable[Requirement], *, without: Iterable[str]) -> tuple[str, ...]:
    names = (str(canonicalize_name(each.name)) for each in requirements)
    return tuple(dict.fromkeys(name for name in names if name not in set(without)))


def index_config(given: IndexOptions, environ: Mapping[str, str]) -> IndexConfig:
    """Return which indexes are asked: options first, then the user's configuration.

    Raises:
        UsageError: an address or a configuration file cannot be understood.
    """
    return load_config(
        environ=environ,
        index_url=given.index_url,
        extra_index_urls=given.extra_index_urls,
        find_links=given.find_links,
        compare=given.compared,
        no_index=given.no_index,
        offline=given.offline,
    )


def beside_compared(request: Requirements, config: IndexConfig) -> Requirements:
    """Return a request that takes the files of compared indexes beside those of the others."""
    compared = frozenset(each.name for each in config.compared)
    return replace(request, policy=replace(request.policy, compared=compared))


def _policy(wishes: Wishes, files: Sequence[RequirementsFile]) -> Policy:
    allowed = any(each.index_options.prereleases for each in files)
    return Policy(
        prereleases=Prereleases.ALLOW if allowed else wishes.prereleases,
        newest_upload=_moment(wishes.exclude_newer),
        allow_build=frozenset(str(canonicalize_name(name)) for name in wishes.allow_build),
    )


def _moment(text: str | None) -> str | None:
    if text is not None and moment(text) is None:
        raise UsageError(
            f"cannot read the date {text!r}",
            why="it is no ISO 8601 date or moment",
            fix="write it as in: --exclude-newer 2024-06-30, or 2024-06-30T12:00:00Z",
        )
    return text


def _index(given: IndexOptions, files: Sequence[RequirementsFile]) -> IndexOptions:
    """Return the command line's own options, and those of the files after them."""
    options = [each.index_options for each in files]
    return replace(
        given,
        index_url=given.index_url or next((o.index_url for o in options if o.index_url), None),
        extra_index_urls=(
            *given.extra_index_urls,
            *(url for each in options for url in each.extra_index_urls),
        ),
        find_links=(*given.find_links, *(url for each in options for url in each.find_links)),
        no_index=given.no_index or any(each.no_index for each in options),
    )


def _file(path: Path, wishes: Wishes, environ: Mapping[str, str]) -> RequirementsFile:
    """Read a file; extras and groups are for those of several files that can have some."""
    alone = len(wishes.files) == 1
    return read_requirements_file(
        _text(str(path)),
        path=str(path),
        extras=wishes.extras if alone or path.suffix == ".toml" else (),
        groups=wishes.groups if alone or path.suffix == ".toml" or path.name == "Pipfile" else (),
        read=_text,
        environ=environ,
        folder=str(Path.cwd()),
    )


def _limits(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    text = _text(str(path))
    return constraints_in(text, path=str(path), read=_text, environ=environ, folder=str(Path.cwd()))


def _line(text: str) -> str:
    """Return a requirement as PEP 508 says it; a path of a wheel becomes ``name @ URL``.

    Raises:
        UsageError: it is a file that names requirements, or no such wheel.
    """
    if Path(text).name in _FILES or text.endswith((".txt", ".toml", ".in")):
        raise UsageError(
            f"{text} is a file, and a requirement was expected",
            why="files of requirements have an option of their own",
            fix=f"give it as in: stackgen resolve -r {text}",
        )
    if not text.endswith(".whl") or "@" in text:
        return text
    try:
        found = from_place(text, folder=str(Path.cwd()))
    except MalformedError as error:
        raise UsageError(
            f"cannot take {text}", why=str(error), fix="check the name of the wheel"
        ) from error
    assert isinstance(found, str)  # noqa: S101 # it ends as a wheel does
    return found


def _text(path: str) -> str:
    try:
        return decode_text(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="give the path of a requirements file, a pyproject.toml or a Pipfile",
        ) from error
