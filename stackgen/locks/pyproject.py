"""pyproject.toml: PEP 621 with its extras, dependency groups (PEP 735), and Poetry's own tables."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
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
    for name, details in _poetry_entries(poetry.get("dependencies"), but=stated):
        if details.get("optional") is True or elsewhere(details):
            continue  # not required by default, or not on an index
        if line := _poetry_line(name, details):
            lines.append(line)
        else:
            unclear.append(f"{name}: {_UNSAYABLE}")
    return tuple(lines), tuple(unclear)


def _poetry_entries(section: object, *, but: Container[str] = ()) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) of a table of Poetry's, one for each alternative.

    but: normalised names that PEP 621 states: there Poetry's table only says where from.
    """
    for name, wanted in fields.table(section, "dependencies").items():
        if name == "python" or canonicalize_name(name) in but:
            continue
        for entry in wanted if isinstance(wanted, list) else [wanted]:
            yield name, {"version": entry} if isinstance(entry, str) else fields.table(entry, name)


_UNSAYABLE = "PEP 508 cannot say what pyproject.toml requires of it"


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


def _poetry_line(name: str, details: Table) -> str | None:
    """Return what Poetry wants of a package as a PEP 508 line; None where there is none."""
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
class _PoetryTables:
    """The tables below ``tool.poetry``; names of groups and extras are normalised.

    main: the dependencies.
    groups: each with its ``dependencies`` and ``include-groups``.
    extras: the names of optional dependencies that each adds.
    """

    main: Table
    groups: Mapping[str, Table]
    extras: Mapping[str, frozenset[str]]

    def of_group(
        self, group: str, *, but: Container[str], above: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, Table]]:
        """Yield the entries that a group adds, with those of the groups that it includes.

        Raises:
            MalformedError: it includes itself, or one that is not there.
        """
        if group in above:
            circle = " -> ".join((*above[above.index(group) :], group))
            raise MalformedError(f"the group {group} includes itself: {circle}")
        if above and group not in self.groups:
            raise MalformedError(f"the group {above[-1]} includes {group}, which is not there")
        found = self.groups.get(group, {})
        yield from _poetry_entries(found.get("dependencies"), but=but)
        for other in fields.texts(found.get("include-groups"), f"include-groups of {group}"):
            yield from self.of_group(canonicalize_name(other), but=but, above=(*above, group))


def _poetry_tables(poetry: Table) -> _PoetryTables:
    groups: dict[str, Table] = {
        canonicalize_name(name): fields.table(group, f"the group {name}")
        for name, group in fields.table(poetry.get("group"), "tool.poetry.group").items()
    }
    if "dev-dependencies" in poetry:  # before Poetry 1.2
        groups.setdefault("dev", {"dependencies": poetry["dev-dependencies"]})
    extras = fields.table(poetry.get("extras"), "tool.poetry.extras")
    return _PoetryTables(
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
    return _poetry_line(name, details) or Skipped(f"{name}: {_UNSAYABLE}")


def read_file(
    text: str, *, path: str, folder: str, extras: Sequence[str], groups: Sequence[str]
) -> RequirementsFile:
    """Read what a project needs, with some of its extras and groups.

    Where Poetry's or uv's tables say that a package comes from a repository or a folder, no index
    is used for it; an index that they tie it to is not followed. Both are reported as skipped.

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
    known = {*project.extras, *project.poetry.extras}
    wanted_extras = chosen("extra", extras, known=known, path=path)
    known = {*project.groups.dependency_groups, *project.poetry.groups}
    wanted_groups = chosen("group", groups, known=known, path=path)
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
    poetry: _PoetryTables
    sources: Mapping[str, tuple[Table, ...]]

    def requirements(
        self, extras: Iterable[str], groups: Iterable[str], folder: str
    ) -> Iterator[str | Skipped]:
        """Yield what is required by default, then by each extra, then by each group."""
        stated = fields.names_of(chain(self.dependencies, *self.extras.values()))
        entries = list(_poetry_entries(self.poetry.main, but=stated))
        yield from self._standard(self.dependencies, folder)
        for name, details in entries:
            if details.get("optional") is not True:
                yield _found(name, details, folder)
        for extra in extras:
            yield from self._standard(self.extras.get(extra, ()), folder, (extra,))
            for name, details in entries:
                if canonicalize_name(name) in self.poetry.extras.get(extra, ()):
                    yield _found(name, details, folder)
        for group in groups:
            lines = self._group(group)
            yield from self._standard(lines, folder)
            for name, details in self.poetry.of_group(group, but=fields.names_of(lines)):
                yield _found(name, details, folder)

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
    poetry = _poetry_tables(fields.table(tool.get("poetry"), "tool.poetry"))
    optional = fields.table(project.get("optional-dependencies"), "optional-dependencies")
    return _Project(
        name=canonicalize_name(fields.text(project.get("name"), "the name of the project")),
        dependencies=_lines(project.get("dependencies"), "dependencies"),
        extras={
            canonicalize_name(extra): _lines(lines, f"the extra {extra}")
            for extra, lines in optional.items()
        },
        groups=_dependency_groups(content),
        requires_python=_requires_python(project)
        or specifier(fields.text(poetry.main.get("python"), "python"))
        or "",
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


def _sources(tool: Table, poetry: _PoetryTables) -> Mapping[str, tuple[Table, ...]]:
    uv = fields.table(tool.get("uv"), "tool.uv")
    found: dict[str, tuple[Table, ...]] = {}
    for name, source in fields.table(uv.get("sources"), "tool.uv.sources").items():
        entries = source if isinstance(source, list) else [source]
        found[canonicalize_name(name)] = fields.tables(entries, f"the source of {name}")
    for name, entry in _poetry_entries(poetry.main):
        if elsewhere(entry):
            normal = canonicalize_name(name)
            found[normal] = (*found.get(normal, ()), entry)
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
