"""poetry.lock of Poetry 1 and 2, with the pyproject.toml beside it.

Poetry 2 writes the groups and markers of each package. Poetry 1 does not: there they follow from
walking the graph from what pyproject.toml asks for (or, without it, from what nothing needs).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.conditions import reach
from stackgen.locks.fields import Table
from stackgen.locks.pyproject import asked, specifier
from stackgen.values import LockedPackage, LockFile

_FILES = ("file", "directory", "url")
_Node = tuple[str, str]  # a package, and one of its extras or ""
# What an optional dependency says of the extra it belongs to: once that is asked for, it is true.
_EXTRA_TERM = re.compile(r"""extra\s*==\s*("[^"]*"|'[^']*')""")
_ALWAYS = 'python_version >= "0"'


def read(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a poetry.lock.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.parse_toml(text)
    metadata = fields.table(content.get("metadata"), "metadata")
    entries = fields.tables(content.get("package"), "package")
    project = fields.parse_toml(companion) if companion else {}
    requirements, unclear = asked(project)
    return LockFile(
        path=path,
        format="poetry",
        packages=tuple(_packages(entries, metadata, requirements, bool(companion))),
        requirements=requirements,
        requires_python=_python(metadata),
        skipped=tuple(
            f"{_name(entry)}: {_elsewhere(entry)}" for entry in entries if _elsewhere(entry)
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
        name = _name(entry)
        group, marker = _stated(entry) if knows_groups else walked[name]
        files = entry.get("files") or old_files.get(name)
        yield fields.package(
            name=name,
            version=fields.text(entry.get("version"), f"the version of {name}"),
            hashes=[
                fields.text(file.get("hash"), f"a hash of {name}")
                for file in fields.tables(files, f"the files of {name}")
            ],
            marker=marker,
            direct=group == "default" and canonicalize_name(name) in direct,
            group=group,
        )


def _stated(entry: Table) -> tuple[str, str]:
    """Return (group, marker) as Poetry 2 writes them: one marker, or one for each group."""
    groups = fields.texts(entry.get("groups"), "groups")
    own = "main" if "main" in groups else next(iter(groups), "main")
    markers = entry.get("markers")
    if isinstance(markers, dict):
        markers = markers.get(own)
    marker = fields.text(markers, f"the markers of {_name(entry)}")
    return ("default" if own == "main" else own), marker


def _walk(
    entries: Sequence[Table], requirements: Sequence[str], has_project: bool
) -> Mapping[str, tuple[str, str]]:
    """Return (group, marker) of each package, as Poetry 1 leaves us to find out."""
    known: dict[str, list[Table]] = {}
    for entry in entries:
        known.setdefault(canonicalize_name(_name(entry)), []).append(entry)
    # No requirement names what comes from elsewhere, and yet it is installed, with what it needs.
    roots: list[tuple[_Node, str]] = [
        ((canonicalize_name(_name(e)), ""), "") for e in entries if _elsewhere(e)
    ]
    roots += _asked_nodes(requirements) if has_project else _unneeded(known)
    reached = reach(
        [(node, marker) for node, marker in roots if node[0] in known],
        lambda node: _edges(known, node),
    )
    return {_name(entry): _placed(entry, reached, has_project) for entry in entries}


def _asked_nodes(requirements: Iterable[str]) -> Iterator[tuple[_Node, str]]:
    for line in requirements:
        wanted = Requirement(line)
        for extra in ("", *sorted(wanted.extras)):
            marker = str(wanted.marker) if wanted.marker else ""
            yield (canonicalize_name(wanted.name), canonicalize_name(extra)), marker


def _unneeded(known: Mapping[str, list[Table]]) -> Iterator[tuple[_Node, str]]:
    """Yield what nothing else needs: without pyproject.toml, that is what was asked for."""
    needed = {target[0] for name in known for target, _ in _edges(known, (name, ""))}
    for name in sorted(known.keys() - needed):
        yield (name, ""), ""


def _placed(entry: Table, reached: Mapping[_Node, str], has_project: bool) -> tuple[str, str]:
    node = (canonicalize_name(_name(entry)), "")
    category = fields.text(entry.get("category"), "a category")  # before Poetry 1.5
    if category and category != "main":
        return category, ""
    if entry.get("optional") is True:
        return "optional", ""
    if node in reached:
        return "default", reached[node]
    return ("dev" if has_project and not category else "default"), ""


def _edges(known: Mapping[str, list[Table]], node: _Node) -> Iterator[tuple[_Node, str]]:
    name, extra = node
    if extra:
        yield (name, ""), ""
    for entry in known[name]:
        optional = _names_in_extra(entry, extra)
        for target, wanted in _dependencies(entry):
            is_optional = wanted.get("optional") is True
            if target not in known or is_optional != bool(extra):
                continue
            if is_optional and target not in optional:
                continue
            marker = fields.text(wanted.get("markers"), f"the markers of {target}")
            marker = fields.checked_marker(target, _EXTRA_TERM.sub(_ALWAYS, marker))
            asked_extras = fields.texts(wanted.get("extras"), f"the extras of {target}")
            for each in ("", *asked_extras):
                yield (target, canonicalize_name(each)), marker


def _dependencies(entry: Table) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) for each dependency, however it is spelled."""
    found = fields.table(entry.get("dependencies"), f"the dependencies of {_name(entry)}")
    for name, wanted in found.items():
        for each in wanted if isinstance(wanted, list) else [wanted]:
            details = {} if isinstance(each, str) else fields.table(each, name)
            yield canonicalize_name(name), details


def _names_in_extra(entry: Table, extra: str) -> frozenset[str]:
    extras = fields.table(entry.get("extras"), f"the extras of {_name(entry)}")
    lines = [
        line
        for name, found in extras.items()
        if canonicalize_name(name) == extra
        for line in fields.texts(found, name)
    ]
    return fields.names_of(fields.checked_requirement(line) for line in lines)


def _elsewhere(entry: Table) -> str:
    kind = fields.text(fields.table(entry.get("source"), "a source").get("type"), "a source's type")
    if kind == "git":
        return "comes from a repository, not from an index"
    return "comes from a file, not from an index" if kind in _FILES else ""


def _name(entry: Table) -> str:
    return fields.text(entry.get("name"), "a package's name")


def _python(metadata: Table) -> str:
    """Return Poetry's Python constraint where it is a PEP 440 specifier as it stands."""
    stated = fields.text(metadata.get("python-versions"), "python-versions")
    return specifier(stated) or ""
