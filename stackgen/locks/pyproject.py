"""pyproject.toml: PEP 621 with its extras, dependency groups (PEP 735), and Poetry's own tables."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from packaging.dependency_groups import DependencyGroupResolver
from packaging.errors import ExceptionGroup
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.errors import UsageError
from stackgen.locks import direct, fields
from stackgen.locks.direct import Skipped, elsewhere
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.requirements import chosen
from stackgen.model.packages import RequirementsFile

_SHORT = re.compile(r"([\^~])\s*v?(\d+(?:\.\d+)*)(\S*)")


def stated_requirements(project: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (requirements as PEP 508 lines, in words what PEP 508 cannot say)."""
    standard = fields.table(project.get("project"), "project").get("dependencies")
    lines = [fields.checked_requirement(line) for line in fields.texts(standard, "dependencies")]
    tool = fields.table(project.get("tool"), "tool")
    poetry = fields.table(tool.get("poetry"), "tool.poetry")
    stated = fields.names_of(lines)
    unclear: list[str] = []
    for name, details in poetry_entries(poetry.get("dependencies"), but=stated):
        if details.get("optional") is True or elsewhere(details):
            continue  # not required by default, or not on an index
        if line := poetry_line(name, details):
            lines.append(line)
        else:
            unclear.append(unsayable(name))
    return tuple(lines), tuple(unclear)


def poetry_entries(section: object, *, but: Container[str] = ()) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) of a table of Poetry's, one for each alternative.

    Args:
        section: such as ``tool.poetry.dependencies``; may be absent.
        but: normalised names that PEP 621 states: there Poetry's table only says where from.

    Raises:
        MalformedError: it is no such table.
    """
    for name, wanted in fields.table(section, "dependencies").items():
        if name == "python" or canonicalize_name(name) in but:
            continue
        for entry in wanted if isinstance(wanted, list) else [wanted]:
            yield name, {"version": entry} if isinstance(entry, str) else fields.table(entry, name)


def unsayable(name: str) -> str:
    """Return in words that a requirement of Poetry's has no PEP 508 form."""
    return f"{name}: PEP 508 cannot say what pyproject.toml requires of it"


def specifier(constraint: str) -> str | None:
    """Return a constraint of Poetry's as a PEP 440 specifier; None where there is none.

    ``^1.2`` allows what keeps the first number that is not 0, ``~1.2`` what keeps the second;
    ``||`` has no equal.
    """
    text = constraint.strip()
    if text in ("", "*"):
        return ""
    if "|" in text:
        return None
    # As Poetry does, a comma at the end is ignored.
    parts = [_part(part) for part in re.split(r"\s*,\s*|\s+(?=[\^~<>=!])", text.rstrip(", "))]
    try:
        return str(SpecifierSet(",".join(parts)))
    except InvalidSpecifier:
        return None


def _part(part: str) -> str:
    if part.startswith("~="):
        return part
    if short := _SHORT.fullmatch(part):
        sign, numbers, rest = short.groups()
        floor = numbers + rest
        return f">={floor},<{_ceiling([int(n) for n in numbers.split('.')], sign)}"
    return part if part.startswith(("<", ">", "=", "!")) else f"=={part}"


def _ceiling(numbers: list[int], sign: str) -> str:
    if sign == "~":
        leading = min(1, len(numbers) - 1)
    else:
        leading = next((i for i, n in enumerate(numbers) if n), len(numbers) - 1)
    return ".".join(str(n) for n in [*numbers[:leading], numbers[leading] + 1])


def poetry_line(name: str, details: Table) -> str | None:
    """Return what Poetry wants of a package as a PEP 508 line; None where there is none.

    Raises:
        MalformedError: it is nothing that Poetry understands.
    """
    found = specifier(fields.text(details.get("version"), name))
    if found is None:
        return None
    line = fields.requirement(
        name, specifier=found, extras=fields.texts(details.get("extras"), name)
    )
    return fields.with_marker(line, poetry_marker(name, details))


def poetry_marker(name: str, details: Table) -> str:
    """Return the condition under which Poetry wants a package; "" for always."""
    return " and ".join(_markers(name, details))


def _markers(name: str, details: Table) -> Iterator[str]:
    if marker := fields.text(details.get("markers"), f"the markers of {name}"):
        yield f"({marker})"
    if platform := fields.text(details.get("platform"), f"the platform of {name}"):
        yield f'sys_platform == "{platform}"'
    python = specifier(fields.text(details.get("python"), f"the Python of {name}")) or ""
    for each in sorted(filter(None, python.split(","))):
        sign = re.match(r"[<>=!~]+", each)
        if sign:
            yield f'python_full_version {sign.group()} "{each[sign.end() :]}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PoetryTables:
    """The tables below ``tool.poetry``; names of groups and extras are normalised.

    main: the dependencies.
    groups: each with its ``dependencies`` and ``include-groups``.
    extras: the names of optional dependencies that each adds.
    """

    main: Table
    groups: Mapping[str, Table]
    extras: Mapping[str, frozenset[str]]

    def requirements(self, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what is required by default; ``but`` holds names that PEP 621 states."""
        for name, details in poetry_entries(self.main, but=but):
            if details.get("optional") is not True:
                yield _found(name, details, folder)

    def of_extra(self, extra: str, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what an extra adds; nothing where only PEP 621 knows it."""
        added = self.extras.get(extra, frozenset())
        for name, details in poetry_entries(self.main, but=but):
            if canonicalize_name(name) in added:
                yield _found(name, details, folder)

    def of_group(self, group: str, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what a group adds, with the groups that it includes.

        Raises:
            MalformedError: it includes itself, or one that is not there.
        """
        if group in self.groups:
            for name, details in self._entries(group, but, ()):
                yield _found(name, details, folder)

    def _entries(
        self, group: str, but: Container[str], above: tuple[str, ...]
    ) -> Iterator[tuple[str, Table]]:
        if group in above:
            chain = " -> ".join((*above[above.index(group) :], group))
            raise MalformedError(f"the group {group} includes itself: {chain}")
        if group not in self.groups:
            raise MalformedError(f"the group {above[-1]} includes {group}, which is not there")
        found = self.groups[group]
        yield from poetry_entries(found.get("dependencies"), but=but)
        for other in fields.texts(found.get("include-groups"), f"include-groups of {group}"):
            yield from self._entries(canonicalize_name(other), but, (*above, group))

    def rerouted(self) -> Iterator[tuple[str, Table]]:
        """Yield (normalised name, entry) for what comes from a repository or a file."""
        for name, details in poetry_entries(self.main):
            if elsewhere(details):
                yield canonicalize_name(name), details

    def requires_python(self) -> str:
        """Return Poetry's constraint on Python as a specifier; "" where PEP 440 has none."""
        return specifier(fields.text(self.main.get("python"), "python")) or ""


def poetry_tables(tool: Table) -> PoetryTables:
    """Take Poetry's tables out of the ``tool`` table; all are empty where it has none.

    Raises:
        MalformedError: they are not what Poetry writes.
    """
    poetry = fields.table(tool.get("poetry"), "tool.poetry")
    groups: dict[str, Table] = {
        canonicalize_name(name): fields.table(group, f"the group {name}")
        for name, group in fields.table(poetry.get("group"), "tool.poetry.group").items()
    }
    if "dev-dependencies" in poetry:  # before Poetry 1.2
        groups.setdefault("dev", {"dependencies": poetry["dev-dependencies"]})
    extras = fields.table(poetry.get("extras"), "tool.poetry.extras")
    return PoetryTables(
        main=fields.table(poetry.get("dependencies"), "tool.poetry.dependencies"),
        groups=groups,
        extras={
            canonicalize_name(extra): frozenset(
                canonicalize_name(name) for name in fields.texts(names, f"the extra {extra}")
            )
            for extra, names in extras.items()
        },
    )


def _found(name: str, details: Table, folder: str) -> str | Skipped:
    if elsewhere(details):
        marker = poetry_marker(name, details)
        return direct.from_table(name, details, folder=folder, marker=marker)
    return poetry_line(name, details) or Skipped(unsayable(name))


def read_file(
    text: str, *, path: str, folder: str, extras: Sequence[str], groups: Sequence[str]
) -> RequirementsFile:
    """Read what a project needs, with some of its extras and groups.

    Where Poetry's or uv's tables say that a package comes from a repository or a folder, no index
    is used for it; an index that they tie it to is not followed. Both are reported as skipped.

    Args:
        text: what the file holds.
        path: of the file, for messages.
        folder: that it lies in, absolute, or "" where that is not known.
        extras: to be added; an extra may name others of the project itself.
        groups: of PEP 735 or of Poetry, to be added.

    Raises:
        MalformedError: it is not one.
        UsageError: it has no such extra or group, or leaves its dependencies to a build.
    """
    content = fields.parse_toml(text)
    _check_stated(content, path, extras=bool(extras), groups=bool(groups))
    project = _parsed(content)
    wanted_extras = chosen("extra", extras, known=project.known_extras(), path=path)
    wanted_groups = chosen("group", groups, known=project.known_groups(), path=path)
    found = tuple(project.requirements(wanted_extras, wanted_groups, folder))
    return RequirementsFile(
        requirements=tuple(dict.fromkeys(each for each in found if isinstance(each, str))),
        requires_python=project.requires_python,
        skipped=tuple(dict.fromkeys(each.words for each in found if isinstance(each, Skipped))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Project:
    """A pyproject.toml, its names normalised.

    sources: what other tables than PEP 621's say of where a package comes from.
    """

    name: str
    dependencies: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    groups: DependencyGroupResolver
    requires_python: str
    poetry: PoetryTables
    sources: Mapping[str, tuple[Table, ...]]

    def known_extras(self) -> frozenset[str]:
        return frozenset((*self.extras, *self.poetry.extras))

    def known_groups(self) -> frozenset[str]:
        return frozenset((*self.groups.dependency_groups, *self.poetry.groups))

    def requirements(
        self, extras: Iterable[str], groups: Iterable[str], folder: str
    ) -> Iterator[str | Skipped]:
        """Yield what is required by default, then by each extra, then by each group."""
        everything = (
            *self.dependencies,
            *(line for found in self.extras.values() for line in found),
        )
        stated = fields.names_of(everything)
        yield from self._standard(self.dependencies, folder)
        yield from self.poetry.requirements(but=stated, folder=folder)
        for extra in extras:
            yield from self._standard(self.extras.get(extra, ()), folder, (extra,))
            yield from self.poetry.of_extra(extra, but=stated, folder=folder)
        for group in groups:
            lines = self._group(group)
            yield from self._standard(lines, folder)
            but = fields.names_of(lines)
            yield from self.poetry.of_group(group, but=but, folder=folder)

    def _group(self, group: str) -> tuple[str, ...]:
        if group not in self.groups.dependency_groups:
            return ()
        try:
            return tuple(str(each) for each in self.groups.resolve(group))
        except (ExceptionGroup, InvalidRequirement) as error:  # packaging 26.1 raises the latter
            raise _in_words(error) from error

    def _standard(
        self, lines: Iterable[str], folder: str, above: tuple[str, ...] = ()
    ) -> Iterator[str | Skipped]:
        for line in self._expanded(lines, above):
            yield from _routed(line, self.sources, folder)

    def _expanded(self, lines: Iterable[str], above: tuple[str, ...]) -> Iterator[str]:
        """Replace what names the project itself by what its extras hold."""
        for line in lines:
            wanted = Requirement(line)
            if not self.name or canonicalize_name(wanted.name) != self.name:
                yield line
                continue
            for extra in sorted(canonicalize_name(each) for each in wanted.extras):
                if extra not in self.extras:
                    raise MalformedError(f"{line!r} names an extra that the project lacks")
                if extra not in above:  # else it leads back to where it came from and adds nothing
                    inner = self._expanded(self.extras[extra], (*above, extra))
                    yield from (_narrowed(each, wanted.marker) for each in inner)


def _check_stated(content: Table, path: str, *, extras: bool, groups: bool) -> None:
    """Refuse a file that does not say by itself what is needed."""
    project = fields.table(content.get("project"), "project")
    tool = fields.table(content.get("tool"), "tool")
    poetry = fields.table(tool.get("poetry"), "tool.poetry")
    dynamic = fields.texts(project.get("dynamic"), "dynamic")
    left_open = "dependencies" in dynamic and "dependencies" not in poetry
    if extras and "optional-dependencies" in dynamic and "extras" not in poetry:
        left_open = True
    if left_open:
        raise UsageError(
            f"{path} does not say what the project needs",
            why="its dependencies are dynamic: only a build shows them",
            fix=f"run: uv pip compile {path} -o requirements.txt; then give that file",
        )
    standard = "project" in content or (groups and "dependency-groups" in content)
    if not standard and "poetry" not in tool:
        raise UsageError(
            f"{path} requires nothing",
            why="it has no [project] table (PEP 621) and none of Poetry's",
            fix="run: uv add PACKAGE; or give the requirements themselves",
        )


def _parsed(content: Table) -> _Project:
    project = fields.table(content.get("project"), "project")
    tool = fields.table(content.get("tool"), "tool")
    poetry = poetry_tables(tool)
    optional = fields.table(project.get("optional-dependencies"), "optional-dependencies")
    return _Project(
        name=canonicalize_name(fields.text(project.get("name"), "the name of the project")),
        dependencies=_lines(project.get("dependencies"), "dependencies"),
        extras={
            canonicalize_name(extra): _lines(lines, f"the extra {extra}")
            for extra, lines in optional.items()
        },
        groups=_dependency_groups(content),
        requires_python=_requires_python(project) or poetry.requires_python(),
        poetry=poetry,
        sources=_sources(tool, poetry),
    )


def _lines(value: object, where: str) -> tuple[str, ...]:
    return tuple(fields.checked_requirement(line) for line in fields.texts(value, where))


def _dependency_groups(content: Table) -> DependencyGroupResolver:
    found = fields.table(content.get("dependency-groups"), "dependency-groups")
    for name, group in found.items():
        if not isinstance(group, list):
            raise MalformedError(f"the group {name} is not a list")
    try:
        # The resolver itself judges what the lists hold.
        return DependencyGroupResolver(cast("Mapping[str, Sequence[str]]", found))
    except ExceptionGroup as error:
        raise _in_words(error) from error


def _in_words(error: Exception) -> MalformedError:
    causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    return MalformedError("; ".join(" ".join(str(each).split()) for each in causes))


def _requires_python(project: Table) -> str:
    stated = fields.text(project.get("requires-python"), "requires-python")
    try:
        return str(SpecifierSet(stated))
    except InvalidSpecifier as error:
        raise MalformedError(f"requires-python is no version specifier: {stated!r}") from error


def _sources(tool: Table, poetry: PoetryTables) -> Mapping[str, tuple[Table, ...]]:
    uv = fields.table(tool.get("uv"), "tool.uv")
    found: dict[str, tuple[Table, ...]] = {}
    for name, source in fields.table(uv.get("sources"), "tool.uv.sources").items():
        entries = source if isinstance(source, list) else [source]
        found[canonicalize_name(name)] = fields.tables(entries, f"the source of {name}")
    for name, entry in poetry.rerouted():
        found[name] = (*found.get(name, ()), entry)
    return found


def _routed(
    line: str, sources: Mapping[str, tuple[Table, ...]], folder: str
) -> Iterator[str | Skipped]:
    """Yield a line as what its source makes of it: a wheel, words, or still a line for an index."""
    wanted = Requirement(line)
    entries = sources.get(canonicalize_name(wanted.name), ())
    for entry in entries:
        if elsewhere(entry):
            place = {**entry, "extras": sorted(wanted.extras)}
            marker = str(wanted.marker or "")
            yield direct.from_table(wanted.name, place, folder=folder, marker=marker)
            return
        if "workspace" in entry:
            yield Skipped(f"{wanted.name}: is another project of the workspace, not from an index")
            return
    if entries:
        yield Skipped(f"{wanted.name}: the index that it is tied to is not followed")
    yield direct.checked(line, folder=folder)


def _narrowed(line: str, marker: Marker | None) -> str:
    """Return a line under one more condition."""
    wanted = Requirement(line)
    if marker is not None:
        both = f"({wanted.marker}) and ({marker})" if wanted.marker else str(marker)
        wanted.marker = Marker(both)
    return str(wanted)
