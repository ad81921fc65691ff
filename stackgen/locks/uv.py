"""uv.lock: one lock for all platforms, so what is installed follows from walking its graph."""

from collections.abc import Iterable, Iterator, Mapping

from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.direct import FILE, REPOSITORY
from stackgen.locks.fields import MalformedError, Table, name_of, reach
from stackgen.model.packages import LockedPackage, LockFile

# A package (name, version) as such, or with one of its extras.
_Node = tuple[str, str, str]
_ELSEWHERE = {"git", "url", "path", "directory", "editable", "virtual"}


def read(text: str, *, path: str, companion: str | None) -> LockFile:  # noqa: ARG001 one signature
    """Read an uv.lock; it holds the requirements itself.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.parse_toml(text)
    entries = fields.tables(content.get("package"), "package")
    graph = _Graph(entries)
    roots = [entry for entry in entries if _is_root(entry)] + _without_project(content)
    if not roots:
        raise MalformedError("no package in it is the project itself")
    requirements = tuple(line for root in roots for line in _requirements(root))
    direct = fields.names_of(requirements)
    groups = _groups(graph, roots)
    return LockFile(
        path=path,
        format="uv",
        packages=tuple(
            _package(entry, groups[_key(entry)], direct)
            for entry in entries
            if _key(entry) in groups and "registry" in _source(entry)
        ),
        requirements=requirements,
        requires_python=fields.text(content.get("requires-python"), "requires-python"),
        skipped=tuple(_skipped(entries, roots)),
    )


def _without_project(content: Table) -> list[Table]:
    """Return what a lock requires that is no project's: a script's (PEP 723), or a workspace's."""
    manifest = fields.table(content.get("manifest"), "manifest")
    wanted = fields.tables(manifest.get("requirements"), "the requirements of the manifest")
    groups = fields.table(manifest.get("dependency-groups"), "the groups of the manifest")
    if not (wanted or groups):
        return []
    root: Table = {
        "dependencies": _as_dependencies(wanted),
        "dev-dependencies": {
            group: _as_dependencies(fields.tables(lines, f"the group {group}"))
            for group, lines in groups.items()
        },
        "metadata": {"requires-dist": list(wanted)},
    }
    return [root]


def _as_dependencies(wanted: Iterable[Table]) -> list[Table]:
    return [{**each, "extra": each.get("extras")} for each in wanted]


class _Graph:
    """The dependencies of every entry, with the extras of each as nodes of their own."""

    def __init__(self, entries: Iterable[Table]) -> None:
        self._entries = {_key(entry): entry for entry in entries}

    def edges(self, node: _Node) -> Iterator[tuple[_Node, str]]:
        """Yield what a node leads to, and under which marker."""
        name, version, extra = node
        entry = self._entries[name, version]
        if not extra:
            yield from self.targets(entry.get("dependencies"))
            return
        optional = fields.table(entry.get("optional-dependencies"), f"the extras of {name}")
        yield (name, version, ""), ""
        yield from self.targets(optional.get(extra))

    def targets(self, dependencies: object) -> Iterator[tuple[_Node, str]]:
        """Yield the nodes that a list of dependencies names, each with its extras."""
        for dependency in fields.tables(dependencies, "dependencies"):
            name = fields.text(dependency.get("name"), "a dependency's name")
            marker = fields.text(dependency.get("marker"), f"the marker of {name}")
            fields.checked_marker(name, marker)
            for version, forks in self._versions(name, dependency):
                both = f"({marker}) and ({forks})" if marker and forks else marker or forks
                for extra in ("", *fields.texts(dependency.get("extra"), f"the extras of {name}")):
                    yield (name, version, extra), both

    def _versions(self, name: str, dependency: Table) -> Iterator[tuple[str, str]]:
        """Yield the versions that a dependency may mean, and the forks in which each is meant."""
        wanted = fields.text(dependency.get("version"), f"the version of {name}")
        found = [key for key in self._entries if key[0] == name and wanted in ("", key[1])]
        if not found:
            raise MalformedError(f"{name} is needed, and the lock does not hold it")
        for key in found:
            forks = fields.texts(self._entries[key].get("resolution-markers"), f"forks of {name}")
            yield key[1], " or ".join(f"({fork})" for fork in forks)


def _groups(graph: _Graph, roots: Iterable[Table]) -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return (group, marker) for each package; what is needed by default is in no other group."""
    groups: dict[tuple[str, str], tuple[str, str]] = {}
    for root in roots:
        sections = {"default": root.get("dependencies")}
        sections |= fields.table(root.get("dev-dependencies"), "dev-dependencies")
        sections |= fields.table(root.get("optional-dependencies"), "optional-dependencies")
        for group, dependencies in sections.items():
            for node, marker in reach(graph.targets(dependencies), graph.edges).items():
                if not node[2]:
                    groups.setdefault(node[:2], (group, marker))
    return groups


def _package(entry: Table, where: tuple[str, str], direct: frozenset[str]) -> LockedPackage:
    name, version = _key(entry)
    files = fields.tables(entry.get("wheels"), f"the wheels of {name}")
    sdist = fields.table(entry.get("sdist"), f"the sdist of {name}")
    group, marker = where
    return fields.package(
        name=name,
        version=version,
        hashes=[fields.text(file.get("hash"), f"a hash of {name}") for file in (*files, sdist)],
        wheels=fields.wheels_of(entry.get("wheels"), name),
        marker=marker,
        direct=group == "default" and canonicalize_name(name) in direct,
        group=group,
    )


def _requirements(root: Table) -> Iterator[str]:
    metadata = fields.table(root.get("metadata"), "metadata")
    for wanted in fields.tables(metadata.get("requires-dist"), "requires-dist"):
        name = fields.text(wanted.get("name"), "a requirement's name")
        marker = fields.text(wanted.get("marker"), f"the marker of {name}")
        if "extra ==" in marker or not _ELSEWHERE.isdisjoint(wanted):
            continue  # required by an extra of the project, or not on an index
        line = fields.requirement(
            name,
            specifier=fields.text(wanted.get("specifier"), f"the specifier of {name}"),
            extras=fields.texts(wanted.get("extras"), f"the extras of {name}"),
        )
        yield fields.with_marker(line, marker)


def _skipped(entries: Iterable[Table], roots: Iterable[Table]) -> Iterator[str]:
    own = [_key(root) for root in roots if "name" in root]
    for entry in entries:
        if "registry" not in _source(entry) and _key(entry) not in own:
            yield f"{_key(entry)[0]}: {REPOSITORY if 'git' in _source(entry) else FILE}"


def _is_root(entry: Table) -> bool:
    """Return whether an entry is the project (or a member of its workspace)."""
    source = _source(entry)
    return "virtual" in source or "editable" in source or source.get("directory") == "."


def _source(entry: Table) -> Table:
    return fields.table(entry.get("source"), "a source")


def _key(entry: Table) -> tuple[str, str]:
    name = name_of(entry)
    return name, fields.text(entry.get("version"), f"the version of {name}")
