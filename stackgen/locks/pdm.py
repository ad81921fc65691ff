"""pdm.lock (PDM), with the pyproject.toml beside it.

Since lock_version 4.4.1 the file states group and marker of each package where its strategy is
``inherit_metadata``. Elsewhere they follow from walking the dependencies from what pyproject.toml
requires or, without it, from what nothing needs. Each set of extras of a package is an entry of its
own. Before lock_version 4.4 the files stand in ``metadata.files`` under "name version", and before
PDM 1.0 there is no lock_version, and groups are called sections.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.direct import elsewhere
from stackgen.locks.fields import Table, name_of, reach
from stackgen.locks.pyproject import specifier, stated_requirements
from stackgen.model.packages import LockedPackage, LockFile

_Node = tuple[str, str]  # a package, and one of its extras or ""
_Place = tuple[str, str]  # a group and a marker


def read(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a pdm.lock.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.parse_toml(text)
    metadata = fields.table(content.get("metadata"), "metadata")
    entries = fields.tables(content.get("package"), "package")
    project = fields.parse_toml(companion) if companion else {}
    requirements, unclear = stated_requirements(project)
    indexed = [entry for entry in entries if not elsewhere(entry)]
    places = _places(indexed, metadata, requirements, bool(companion))
    files = fields.table(metadata.get("files"), "metadata.files")
    return LockFile(
        path=path,
        format="pdm",
        packages=_merged(_package(e, places, files, requirements) for e in indexed),
        requirements=requirements,
        requires_python=_python(metadata, project),
        skipped=(
            *dict.fromkeys(f"{name_of(e)}: {elsewhere(e)}" for e in entries if elsewhere(e)),
            *unclear,
        ),
        notes=tuple(_notes(metadata, indexed)),
    )


def _notes(metadata: Table, entries: Sequence[Table]) -> Iterator[str]:
    if not metadata.get("lock_version"):
        yield "it has no lock_version: a PDM before 1.0 made it; lock again with a newer one"
    if not _states_groups(entries):
        yield "it does not state the groups of its packages; they follow from their dependencies"


def _states_groups(entries: Sequence[Table]) -> bool:
    return all("groups" in entry or "sections" in entry for entry in entries)


def _places(
    entries: Sequence[Table], metadata: Table, requirements: Sequence[str], has_project: bool
) -> Mapping[_Node, _Place]:
    """Return group and marker of each entry."""
    strategy = fields.texts(metadata.get("strategy"), "the strategy")
    stated = _states_groups(entries)
    walked: Mapping[_Node, str] = {}
    if not stated or "inherit_metadata" not in strategy:
        walked = _walk(entries, requirements)
    found = {}
    for entry in entries:
        for node in _nodes(entry):
            group = _group(entry) if stated else "default"
            if not stated and has_project and node not in walked:
                group = "dev"
            marker = fields.text(entry.get("marker"), f"the marker of {node[0]}")
            found[node] = group, marker or walked.get(node, "")
    return found


def _group(entry: Table) -> str:
    groups = fields.texts(entry.get("groups", entry.get("sections")), f"groups of {name_of(entry)}")
    return "default" if not groups or "default" in groups else min(groups)


def _walk(entries: Sequence[Table], requirements: Sequence[str]) -> Mapping[_Node, str]:
    edges: dict[_Node, list[tuple[_Node, str]]] = {}
    for entry in entries:
        for node in _nodes(entry):
            edges[node] = [edge for wanted in _dependencies(entry) for edge in _edges(wanted)]
    roots = [edge for line in requirements for edge in _edges(Requirement(line))]
    if not roots:
        needed = {target for targets in edges.values() for target, _ in targets}
        roots = [(node, "") for node in edges if node not in needed]
    known = [edge for edge in roots if edge[0] in edges]
    return reach(known, lambda node: [each for each in edges[node] if each[0] in edges])


def _edges(wanted: Requirement) -> Iterator[tuple[_Node, str]]:
    for extra in ("", *sorted(wanted.extras)):
        yield (canonicalize_name(wanted.name), extra), str(wanted.marker or "")


def _dependencies(entry: Table) -> Iterator[Requirement]:
    """Yield what a package requires: PEP 508 lines, or a table of specifiers in the oldest ones."""
    found = entry.get("dependencies")
    if not isinstance(found, dict):
        for line in fields.texts(found, f"the dependencies of {name_of(entry)}"):
            yield Requirement(fields.checked_requirement(line))
        return
    for name, wanted in found.items():
        details = wanted if isinstance(wanted, dict) else {}
        extras = fields.texts(details.get("extras"), f"the extras of {name}")
        line = fields.requirement(name, extras=extras)
        marker = fields.text(details.get("marker"), f"the marker of {name}")
        yield Requirement(fields.with_marker(line, marker))


def _nodes(entry: Table) -> Iterator[_Node]:
    name = canonicalize_name(name_of(entry))
    yield from ((name, extra) for extra in _extras(entry) or ("",))


def _extras(entry: Table) -> tuple[str, ...]:
    return fields.texts(entry.get("extras"), f"the extras of {name_of(entry)}")


def _package(
    entry: Table, places: Mapping[_Node, _Place], old_files: Table, requirements: Sequence[str]
) -> LockedPackage:
    name = name_of(entry)
    version = fields.text(entry.get("version"), f"the version of {name}")
    files = entry.get("files") or old_files.get(f"{name} {version}")
    group, marker = places[next(_nodes(entry))]
    return fields.package(
        name=name,
        version=version,
        hashes=fields.hashes_of(files, name),
        wheels=fields.wheels_of(files, name),
        marker=marker,
        extras=_extras(entry),
        direct=group == "default" and canonicalize_name(name) in fields.names_of(requirements),
        group=group,
    )


def _merged(packages: Iterable[LockedPackage]) -> tuple[LockedPackage, ...]:
    """Join the entries that a package has for itself and for each set of extras."""
    found: dict[tuple[str, str], LockedPackage] = {}
    for each in packages:
        key = each.name, each.version
        other = found.setdefault(key, each)
        if other is each:
            continue
        markers = [other.marker, each.marker]
        found[key] = replace(
            other,
            marker=" or ".join(f"({m})" for m in dict.fromkeys(markers)) if all(markers) else "",
            extras=tuple(sorted({*other.extras, *each.extras})),
            group="default" if "default" in (other.group, each.group) else other.group,
            direct=other.direct or each.direct,
        )
    return tuple(found.values())


def _python(metadata: Table, project: Table) -> str:
    """Return the Python that is locked for: of its targets, or of the project."""
    targets = fields.tables(metadata.get("targets"), "metadata.targets")
    stated = {fields.text(each.get("requires_python"), "requires_python") for each in targets}
    if len(stated) == 1:
        return specifier(stated.pop()) or ""
    own = fields.table(project.get("project"), "project").get("requires-python")
    return specifier(fields.text(own, "requires-python")) or ""
