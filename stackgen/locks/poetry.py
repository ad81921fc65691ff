"""poetry.lock of Poetry 1 and 2, with the pyproject.toml beside it.

Poetry 2 writes the groups and markers of each package. Poetry 1 does not: there they follow from
walking the graph from what pyproject.toml requires (or, without it, from what nothing needs). Where
it holds several versions of a package, Poetry 1 installs one that all dependents admit whose
markers hold, and whose own python-versions does: so each version has a marker under which
something that admits it requires it, and one under which something requires it that does not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from stackgen.locks import fields
from stackgen.locks.direct import FILE, REPOSITORY
from stackgen.locks.fields import Table, name_of, reach
from stackgen.locks.pyproject import poetry_marker, specifier, stated_requirements
from stackgen.model.packages import LockedPackage, LockFile

_FILES = ("file", "directory", "url")
_Node = tuple[str, str, str]  # a package, its version, and one of its extras or ""
_Key = tuple[str, str]  # a package and its version


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """When a package is installed: its group, its marker, and when another version is instead."""

    group: str
    marker: str = ""
    unless: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """What requires a package: one of its extras or "", and versions by Poetry's constraint."""

    name: str
    constraint: str
    marker: str
    extra: str = ""


# What an optional dependency says of the extra it belongs to: once that is required, it is true.
_EXTRA_TERM = re.compile(r"""extra\s*==\s*("[^"]*"|'[^']*')""")
_ALWAYS = 'python_version >= "0"'
_NAME = re.compile(r"[\w.-]+")


def read(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a poetry.lock.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.parse_toml(text)
    metadata = fields.table(content.get("metadata"), "metadata")
    entries = fields.tables(content.get("package"), "package")
    project = fields.parse_toml(companion) if companion else {}
    requirements, unclear = stated_requirements(project)
    return LockFile(
        path=path,
        format="poetry",
        packages=tuple(_packages(entries, metadata, requirements, bool(companion))),
        requirements=requirements,
        requires_python=specifier(fields.text(metadata.get("python-versions"), "python-versions"))
        or "",
        skipped=tuple(
            f"{name_of(entry)}: {_elsewhere(entry)}" for entry in entries if _elsewhere(entry)
        )
        + unclear,
    )


def _packages(
    entries: Sequence[Table],
    metadata: Table,
    requirements: Sequence[str],
    has_project: bool,
) -> Iterator[LockedPackage]:
    direct = fields.names_of(requirements)
    knows_groups = all("groups" in entry for entry in entries)
    walked = {} if knows_groups else _walk(entries, requirements, has_project)
    old_files = fields.table(metadata.get("files"), "metadata.files")
    for entry in entries:
        if _elsewhere(entry):
            continue
        name = name_of(entry)
        place = _stated(entry) if knows_groups else walked[_key(entry)]
        files = entry.get("files") or old_files.get(name)
        found = fields.package(
            name=name,
            version=fields.text(entry.get("version"), f"the version of {name}"),
            hashes=fields.hashes_of(files, name),
            wheels=fields.wheels_of(files, name),
            marker=place.marker,
            direct=place.group == "default" and canonicalize_name(name) in direct,
            group=place.group,
        )
        yield replace(found, unless=place.unless)


def _stated(entry: Table) -> _Place:
    """Return group and marker as Poetry 2 writes them: one marker, or one for each group."""
    groups = fields.texts(entry.get("groups"), "groups")
    own = "main" if "main" in groups else next(iter(groups), "main")
    markers = entry.get("markers")
    if isinstance(markers, dict):
        markers = markers.get(own)
    marker = fields.text(markers, f"the markers of {name_of(entry)}")
    return _Place(group="default" if own == "main" else own, marker=marker)


def _walk(
    entries: Sequence[Table], requirements: Sequence[str], has_project: bool
) -> Mapping[_Key, _Place]:
    """Return when each package is installed, as Poetry 1 leaves us to find out."""
    graph = _Graph(entries)
    # No requirement names what comes from elsewhere, and yet it is installed, with what it needs.
    roots = [_Edge(name=_key(e)[0], constraint="", marker="") for e in entries if _elsewhere(e)]
    roots += _root_edges(requirements) if has_project else graph.unneeded()
    reached = reach(
        [(node, edge.marker) for edge in roots for node in graph.targets(edge)], graph.nodes
    )
    unless = graph.refusals(roots, reached)
    return {
        _key(entry): _placed(entry, reached, has_project, unless.get(_key(entry)))
        for entry in entries
    }


class _Graph:
    """The packages of a lock, and what they require of each other."""

    def __init__(self, entries: Iterable[Table]) -> None:
        self._known: dict[str, list[Table]] = {}
        for entry in entries:
            self._known.setdefault(_key(entry)[0], []).append(entry)

    def targets(self, edge: _Edge) -> Iterator[_Node]:
        """Yield the locked versions that an edge admits; all, where it seems to admit none."""
        found = [_key(entry) for entry in self._known.get(edge.name, ())]
        admitted = [key for key in found if _admits(edge.constraint, key[1])] or found
        for name, version in admitted:
            yield name, version, edge.extra

    def nodes(self, node: _Node) -> Iterator[tuple[_Node, str]]:
        """Yield what a node leads to, and under which marker."""
        name, version, extra = node
        if extra:
            yield (name, version, ""), ""
        for edge in self._edges(node):
            for target in self.targets(edge):
                yield target, edge.marker

    def unneeded(self) -> Iterator[_Edge]:
        """Yield what nothing else needs: without pyproject.toml, that is what the user requires."""
        entries = [entry for each in self._known.values() for entry in each]
        needed = {edge.name for entry in entries for edge in self._edges((*_key(entry), ""))}
        for name in sorted(self._known.keys() - needed):
            yield _Edge(name=name, constraint="", marker="")

    def refusals(
        self, roots: Iterable[_Edge], reached: Mapping[_Node, str]
    ) -> Mapping[_Key, tuple[str, ...]]:
        """Return, of packages with several versions, when something requires another version."""
        found: dict[_Key, list[str]] = {
            _key(entry): [] for each in self._known.values() if len(each) > 1 for entry in each
        }
        edges = [("", edge) for edge in roots]
        edges += [(marker, edge) for node, marker in reached.items() for edge in self._edges(node)]
        for marker, edge in edges:
            admitted = {target[:2] for target in self.targets(edge)}
            condition = " and ".join(f"({each})" for each in (marker, edge.marker) if each)
            for entry in self._known.get(edge.name, ()):
                if _key(entry) in found and _key(entry) not in admitted:
                    found[_key(entry)].append(condition or _ALWAYS)
        return {key: tuple(dict.fromkeys(conditions)) for key, conditions in found.items()}

    def _edges(self, node: _Node) -> Iterator[_Edge]:
        name, version, extra = node
        for entry in self._known[name]:
            if _key(entry)[1] != version:
                continue
            optional = _names_in_extra(entry, extra)
            for target, wanted in _dependencies(entry):
                is_optional = wanted.get("optional") is True
                if target not in self._known or is_optional != bool(extra):
                    continue
                if is_optional and target not in optional:
                    continue
                marker = fields.text(wanted.get("markers"), f"the markers of {target}")
                marker = fields.checked_marker(target, _EXTRA_TERM.sub(_ALWAYS, marker))
                constraint = fields.text(wanted.get("version"), f"the version of {target}")
                requested = fields.texts(wanted.get("extras"), f"the extras of {target}")
                for each in ("", *map(canonicalize_name, requested)):
                    yield _Edge(name=target, constraint=constraint, marker=marker, extra=each)


def _admits(constraint: str, version: str) -> bool:
    """Return whether a constraint of Poetry's admits a version; what cannot be read admits all."""
    for part in constraint.split("||"):
        stated = specifier(part)
        try:
            if stated is None or SpecifierSet(stated).contains(version, prereleases=True):
                return True
        except InvalidVersion:
            return True
    return False


def _root_edges(requirements: Iterable[str]) -> Iterator[_Edge]:
    for line in requirements:
        wanted = Requirement(line)
        for extra in ("", *sorted(wanted.extras)):
            yield _Edge(
                name=canonicalize_name(wanted.name),
                constraint=str(wanted.specifier),
                marker=str(wanted.marker) if wanted.marker else "",
                extra=canonicalize_name(extra) if extra else "",
            )


def _placed(
    entry: Table,
    reached: Mapping[_Node, str],
    has_project: bool,
    refusals: Sequence[str] | None,
) -> _Place:
    """Return when a package is installed; refusals: None where it has one version alone."""
    category = fields.text(entry.get("category"), "a category")  # before Poetry 1.5
    if category and category != "main":
        return _Place(group=category)
    if entry.get("optional") is True:
        return _Place(group="optional")
    node = (*_key(entry), "")
    if node not in reached:
        return _Place(group="dev" if has_project and not category else "default")
    if refusals is None:
        return _Place(group="default", marker=reached[node])
    own = poetry_marker(node[0], {"python": entry.get("python-versions")})
    markers = [f"({each})" for each in (reached[node], own) if each]
    return _Place(
        group="default",
        marker=" and ".join(markers),
        unless=" or ".join(f"({each})" for each in refusals),
    )


def _dependencies(entry: Table) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) for each dependency, however it is spelled."""
    found = fields.table(entry.get("dependencies"), f"the dependencies of {name_of(entry)}")
    for name, wanted in found.items():
        for each in wanted if isinstance(wanted, list) else [wanted]:
            details = {"version": each} if isinstance(each, str) else fields.table(each, name)
            yield canonicalize_name(name), details


def _key(entry: Table) -> _Key:
    name = name_of(entry)
    return canonicalize_name(name), fields.text(entry.get("version"), f"the version of {name}")


def _names_in_extra(entry: Table, extra: str) -> frozenset[str]:
    extras = fields.table(entry.get("extras"), f"the extras of {name_of(entry)}")
    lines = [
        line
        for name, found in extras.items()
        if canonicalize_name(name) == extra
        for line in fields.texts(found, name)
    ]
    # Their constraints are Poetry's ("<2.0 || >=2.5,<3") and no PEP 508: only names matter here.
    return frozenset(canonicalize_name(found[0]) for found in map(_NAME.match, lines) if found)


def _elsewhere(entry: Table) -> str:
    kind = fields.text(fields.table(entry.get("source"), "a source").get("type"), "a source's type")
    if kind == "git":
        return REPOSITORY
    return FILE if kind in _FILES else ""
