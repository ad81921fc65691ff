"""Requirements files: with pins alone as a lock, with anything else in pip's own grammar.

What stands in a requirements file and what pip makes of it: a path or URL of a wheel is relative to
the working folder, ``-r`` and ``-c`` are relative to the file that they stand in, ``${NAME}`` is
replaced where the environment has a value, and hashes are accepted and dropped: they belong to
files that a lock names, and what is resolved here may be newer.
"""

import optparse
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NoReturn
from urllib.parse import urljoin

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.errors import UsageError
from stackgen.locks import direct, fields
from stackgen.locks.direct import Skipped, is_url, without_credentials
from stackgen.locks.fields import MalformedError, check_versions_in, checked_hash
from stackgen.model.packages import FileIndexes, LockedPackage, LockFile, RequirementsFile

_COMMENT = re.compile(r"(^|\s+)#.*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A logical line.

    number: of its first physical line, from 1.
    text: without comment and surrounding spaces; may be "".
    comment: with its number sign, or "".
    direct: whether a comment says that the user requires it.
    """

    number: int
    text: str
    comment: str
    direct: bool = False


def logical_lines(text: str) -> Iterator[Line]:
    """Yield every logical line; a backslash joins, and a line of comment ends what was joined."""
    pending: list[str] = []
    first = 0
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        first = first or number
        is_comment = bool(_COMMENT.match(raw))
        # The space keeps a comment one, whatever it is joined to.
        pending.append(f" {raw}" if is_comment else raw.rstrip("\\"))
        if is_comment or not raw.endswith("\\"):
            yield _line(first, "".join(pending))
            pending, first = [], 0
    if pending:
        yield _line(first, "".join(pending))


def _line(number: int, joined: str) -> Line:
    comment = _COMMENT.search(joined)
    return Line(
        number=number,
        text=_COMMENT.sub("", joined).strip(),
        comment=comment.group().strip() if comment else "",
    )


HASH = re.compile(r"\s--hash[= ]\s*(\S+)")
_MADE_FOR = re.compile(r"#.*(?:with Python |--python-version[= ])(\d+\.\d+)")
_OPTIONS = re.compile(
    r"\s(--(hash|config-settings?|global-option|install-option)\b|-C\b).*", re.DOTALL
)
_EDITABLE = re.compile(r"-e|--editable")
_INCLUDES = re.compile(r"-r|-c|--requirement|--constraint")


def read_lock(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a requirements.txt, with the requirements.in that it was made from.

    Raises:
        MalformedError: a line is none that pip knows; it names the line.
    """
    lines = list(_lines(text))
    requirements = tuple(_requirements(companion)) if companion else ()
    named = fields.names_of(requirements)
    wanted = [line for line in lines if not line.text.startswith("-") or _elsewhere(line)]
    for line in lines:
        if _INCLUDES.match(line.text):
            raise MalformedError(
                f"line {line.number} includes another file: {line.text}; to lock all of them in "
                f"one file: uv pip compile {shlex.quote(path)} -o requirements.lock.txt"
            )
    stated = [(line, _parsed(line)) for line in wanted if not _elsewhere(line)]
    foreign = [line for line, each in stated if not fields.is_version(pin(each) or "0")]
    stated = [(line, each) for line, each in stated if fields.is_version(pin(each) or "0")]
    return LockFile(
        path=path,
        format="requirements",
        packages=tuple(_package(line, each, named) for line, each in stated if pin(each)),
        unpinned=tuple((line.number, str(each)) for line, each in stated if not pin(each)),
        requirements=requirements,
        requires_python=_made_for(text),
        skipped=(
            *(
                f"line {line.number}: {_shown(line)} is not from an index"
                for line in wanted
                if _elsewhere(line)
            ),
            *(f"line {line.number}: {_shown(line)} pins no version of PEP 440" for line in foreign),
        ),
    )


def without_options(text: str) -> str:
    """Return a line without the options that pip takes behind a requirement: hashes, settings."""
    return _OPTIONS.sub("", text).strip()


def _shown(line: Line) -> str:
    return without_credentials(without_options(line.text))


def pin(wanted: Requirement) -> str:
    """Return the version that a requirement pins; "" where it pins none."""
    pins = [each for each in wanted.specifier if each.operator in ("==", "===")]
    if len(pins) != 1 or len(wanted.specifier) != 1 or pins[0].version.endswith("*"):
        return ""
    return pins[0].version


def _package(line: Line, wanted: Requirement, named: frozenset[str]) -> LockedPackage:
    try:
        hashes = [fields.checked_hash(text) for text in HASH.findall(line.text)]
    except MalformedError as error:
        raise MalformedError(f"line {line.number}: {error}") from error
    found = fields.package(
        name=wanted.name,
        version=pin(wanted),
        hashes=hashes,
        marker=str(wanted.marker or ""),
        extras=wanted.extras,
    )
    return replace(found, direct=line.direct or found.name in named)


def _parsed(line: Line) -> Requirement:
    text = without_options(line.text)
    try:
        found = Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise MalformedError(f"line {line.number} is not a requirement: {text[:60]!r}") from error
    try:
        fields.check_versions_in(found.marker)
    except MalformedError as error:
        raise MalformedError(f"line {line.number}: {error}") from error
    return found


def _lines(text: str) -> Iterator[Line]:
    """Yield the lines that hold something, each with what the comments behind it say."""
    pending: Line | None = None
    for line in logical_lines(text):
        included = bool(re.search(r"-r\s", line.comment))
        if line.text:
            if pending:
                yield pending
            pending = replace(line, direct=included)
        elif pending and included:
            pending = replace(pending, direct=True)
    if pending:
        yield pending


def _elsewhere(line: Line) -> bool:
    """Return whether a line names a project, a file or a repository, in any way that pip takes."""
    text = without_options(line.text)
    if text.startswith("-"):
        return bool(_EDITABLE.match(text))
    place = text.partition(";")[0].strip()
    return is_url(text) or bool(_NAMED.match(text)) or _is_path(place)


def _requirements(companion: str) -> Iterator[str]:
    """Yield what requirements.in requires; options and what is in no index are left out."""
    for line in _lines(companion):
        if not line.text.startswith("-") and not _elsewhere(line):
            yield str(_parsed(line))


def _made_for(text: str) -> str:
    """Return the Python that the tool's own header names, as a specifier."""
    matches = filter(None, map(_MADE_FOR.search, text.splitlines()[:6]))
    return next((str(SpecifierSet(f"=={found[1]}.*")) for found in matches), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LineOptions:
    """What the options of one line say, each in the order given.

    unfollowed: in words, options that change what pip would install and that we do not follow.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    editables: tuple[str, ...]
    index: FileIndexes
    unfollowed: tuple[str, ...]


def _split_options(line: str) -> tuple[str, str]:
    """Return (what stands before the first option, the options)."""
    words = line.split(" ")
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return " ".join(words[:first]).strip(), " ".join(words[first:])


def _parse_options(text: str) -> _LineOptions:
    """Parse the options of a line.

    Hashes, hosts to be trusted, settings of builds and the like are accepted and dropped.

    Raises:
        MalformedError: pip knows no such option, or it lacks its value, or that is no hash.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise MalformedError(f"a quotation mark is never closed: {text!r}") from error
    found, _ = _parser().parse_args(words)
    for each in found.hashes or ():
        checked_hash(each)
    return _LineOptions(
        requirements=tuple(found.requirements or ()),
        constraints=tuple(found.constraints or ()),
        editables=tuple(found.editables or ()),
        index=FileIndexes(
            index_url=found.index_url,
            extra_index_urls=tuple(found.extra_index_urls or ()),
            find_links=tuple(found.find_links or ()),
            no_index=bool(found.no_index),
            prereleases=bool(found.pre) or ":all:" in (found.all_releases or ()),
        ),
        unfollowed=(
            *_unfollowed("--no-binary", found.no_binary, ":none:", "wheels are taken"),
            *_unfollowed("--all-releases", found.all_releases, ":all:", "see --pre"),
        ),
    )


def _unfollowed(
    option: str, values: Iterable[str] | None, harmless: str, reason: str
) -> Iterator[str]:
    for value in values or ():
        if value != harmless:
            yield f"{option} {value} is not followed: {reason}"


class _Parser(optparse.OptionParser):
    """A parser that neither prints nor ends the program."""

    def error(self, msg: str) -> NoReturn:
        """Raise what is wrong."""
        raise MalformedError(msg)


def _parser() -> _Parser:
    parser = _Parser(add_help_option=False)
    parser.add_option("-i", "--index-url", "--pypi-url", dest="index_url")
    for dest, names in (
        ("requirements", ("-r", "--requirement")),
        ("constraints", ("-c", "--constraint")),
        ("editables", ("-e", "--editable")),
        ("extra_index_urls", ("--extra-index-url",)),
        ("find_links", ("-f", "--find-links")),
        ("no_binary", ("--no-binary",)),
        ("all_releases", ("--all-releases",)),
        ("dropped", ("--only-binary",)),  # wheels and final releases are what we take by default
        ("dropped", ("--only-final",)),
        ("dropped", ("--trusted-host",)),
        ("dropped", ("--use-feature",)),
        ("hashes", ("--hash",)),
        ("dropped", ("-C", "--config-settings", "--config-setting")),
        ("dropped", ("--global-option",)),  # pip took these two until version 23
        ("dropped", ("--install-option",)),
    ):
        parser.add_option(*names, dest=dest, action="append")
    for dest, name in (("no_index", "--no-index"), ("pre", "--pre")):
        parser.add_option(name, dest=dest, action="store_true")
    for name in ("--prefer-binary", "--require-hashes", "--no-require-hashes"):
        parser.add_option(name, dest="harmless", action="store_true")
    return parser


_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_NAMED = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\])?\s*@")
_ARCHIVE = re.compile(r".*\.(whl|zip|tgz|tbz|txz|tlz|tar(\.\w+)?)\s*(\[[^\]]*\])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContext:
    """What a file's meaning depends on besides its text.

    read: returns the text of an included file, by a path or a URL.
    environ: for ``${NAME}``.
    folder: the working folder, absolute, or "" where it is not known.
    """

    read: Callable[[str], str]
    environ: Mapping[str, str]
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file under way: whether it is one of constraints, and the files that led to it."""

    path: str
    limits: bool
    above: tuple[str, ...] = ()


def read_file(
    text: str, *, path: str, context: FileContext, limits: bool = False
) -> RequirementsFile:
    """Read a requirements file with all that it includes.

    path: of the file; what it includes is relative to it.
    limits: whether it is a file of constraints.

    Raises:
        UsageError: a line that pip would refuse; it is named by file and number.
    """
    reading = _Reading(context)
    reading.read(text, _File(path=_normal(path), limits=limits))
    return RequirementsFile(
        requirements=_unique(reading.requirements),
        constraints=_unique(reading.constraints),
        index_options=_joined(reading.options),
        skipped=_unique(reading.skipped),
    )


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """Replace each ``${NAME}`` that the environment has a value for."""
    return _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], text)


def _joined(options: Sequence[FileIndexes]) -> FileIndexes:
    """Join the lines' options; of several default indexes the last one counts, as in pip."""
    return FileIndexes(
        index_url=next((o.index_url for o in reversed(options) if o.index_url), None),
        extra_index_urls=_unique(url for o in options for url in o.extra_index_urls),
        find_links=_unique(place for o in options for place in o.find_links),
        no_index=any(o.no_index for o in options),
        prereleases=any(o.prereleases for o in options),
    )


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


class _Reading:
    """What was read of a requirements file and of all that it includes, in their order."""

    def __init__(self, context: FileContext) -> None:
        self._context = context
        self.requirements: list[str] = []
        self.constraints: list[str] = []
        self.options: list[FileIndexes] = []
        self.skipped: list[str] = []

    def read(self, text: str, file: _File) -> None:
        """Add what a file says.

        Raises:
            UsageError: pip would refuse a line.
        """
        for line in logical_lines(text):
            try:
                if line.text:
                    expanded_text = expanded(line.text, self._context.environ)
                    self._add(expanded_text, file, f"{file.path}, line {line.number}: ")
            except MalformedError as error:
                raise UsageError(
                    f"cannot read line {line.number} of {file.path}",
                    why=without_credentials(str(error)),
                    fix="correct the line; pip judges it by: pip install --dry-run -r "
                    + (file.above[0] if file.above else file.path),
                ) from error

    def _add(self, text: str, file: _File, where: str) -> None:
        """Add what a line says: beside a requirement its options say nothing, as in pip."""
        wanted, rest = _split_options(text)
        options = _parse_options(rest)
        if wanted:
            self._add_requirement(wanted, file, where)
            return
        for place in options.editables:
            words = f"-e {without_credentials(place)} is a project to be built"
            self.skipped.append(where + words)
        self.skipped += [where + words for words in options.unfollowed]
        for place in options.requirements:
            # In pip, what a constraints file includes by -r is required.
            self._include(place, replace(file, limits=False))
        for place in options.constraints:
            self._include(place, replace(file, limits=True))
        links = tuple(_beside(file.path, place) for place in options.index.find_links)
        self.options.append(replace(options.index, find_links=links))

    def _add_requirement(self, text: str, file: _File, where: str) -> None:
        found = _requirement(text, self._context.folder)
        if isinstance(found, Skipped):
            self.skipped.append(where + found.words)
            return
        wanted = Requirement(found)
        check_versions_in(wanted.marker)
        if file.limits and wanted.extras:
            raise MalformedError(f"a constraint cannot have extras: {found!r}")
        (self.constraints if file.limits else self.requirements).append(found)

    def _include(self, place: str, by: _File) -> None:
        path = _beside(by.path, place)
        above = (*by.above, by.path)
        if path in above:
            chain = " -> ".join((*above[above.index(path) :], path))
            raise MalformedError(f"{path} includes itself: {chain}")
        try:
            text = self._context.read(path)
        except OSError as error:
            raise MalformedError(f"{path} cannot be read: {error.strerror or error}") from error
        self.read(text, replace(by, path=path, above=above))


def _requirement(text: str, folder: str) -> str | Skipped:
    """Return a requirement as PEP 508 spells it, whichever way the line does."""
    url = is_url(text)
    # A semicolon may be part of a URL, and only there.
    place, _, marker = (part.strip() for part in text.partition("; " if url else ";"))
    if not _NAMED.match(text) and (url or _is_path(place)):
        return direct.from_place(place, folder=folder, marker=marker)
    return direct.checked(text, folder=folder)


def _is_path(text: str) -> bool:
    """Return whether a text looks like a path; one with a space in it must begin or end as such."""
    if text.startswith((".", "/")) or _ARCHIVE.fullmatch(text):
        return True
    return not re.search(r"\s", text) and ("/" in text or "\\" in text)


def _beside(path: str, place: str) -> str:
    """Return a place that is relative to a file (or absolute) as it would be named by itself."""
    if is_url(place):
        return place
    return urljoin(path, place) if is_url(path) else _normal(str(PurePath(path).parent / place))


def _normal(path: str) -> str:
    """Return a path without detours, so that a file has one name."""
    return path if is_url(path) else os.path.normpath(path)


def chosen(kind: str, wanted: Sequence[str], *, known: Collection[str], path: str) -> list[str]:
    """Return the normalised names that were chosen, each once, in the order given.

    kind: what is chosen, "extra" or "group".
    wanted: names in any spelling.
    known: the normalised names that the file has.

    Raises:
        UsageError: the file has no such name; the error lists those that it has.
    """
    names: list[str] = list(dict.fromkeys(canonicalize_name(each) for each in wanted))
    for name in names:
        if name not in known:
            options = ", ".join(sorted(known))
            raise UsageError(
                f"{path} has no {kind} {name!r}",
                why=f"its {kind}s are: {options}" if options else f"it has no {kind}s at all",
                fix=f"give --{kind} with one of those names" if options else f"leave --{kind} out",
            )
    return names
