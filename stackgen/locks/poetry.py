"""poetry.lock of Poetry 1 and 2, with the pyproject.toml beside it.

Poetry 2 writes the groups and markers of each package. Poetry 1 does not: there they follow from
walking the graph from what pyproject.toml asks for (or, without it, from what nothing needs).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.conditions import reach
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.pyproject import asked, dev_names
from stackgen.values import LockedPackage, LockFile

_Node = tuple[str, str]  # a package, and one of its extras or ""
_EXTRA_TERM = re.compile(r"""extra\\s*==\\s*("[^"]*"|'[^']*')""".replace("\\\\", "\\"))


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
    indexed = [entry for entry in entries if not _elsewhere(entry)]
    return LockFile(
        path=path,
        format="poetry",
        packages=tuple(_packages(indexed, metadata, requirements, dev_names(project))),
        requirements=requirements,
        requires_python=_python(metadata),
        skipped=tuple(
            f"{_name(entry)}: {_elsewhere(entry)}" for entry in entries if _elsewhere(entry)
        )
        + unclear,
    )


def _packages(
    entries: Iterable[Table],
    metadata: Table,
    requirements: Iterable[str],
    dev: frozenset[str],
) -> Iterator[LockedPackage]:
    entries = tuple(entries)
    direct = fields.names_of(requirements)
    knows_groups = all("groups" in entry for entry in entries)
    walked = {} if knows_groups else _walk(entries, direct=direct, dev=dev)
    old_files = fields.table(metadata.get("files"), "metadata.files")
    for entry in entries:
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
    entries: Iterable[Table], *, direct: frozenset[str], dev: frozenset[str]
) -> Mapping[str, tuple[str, str]]:
    """Return (group, marker) of each package, as Poetry 1 leaves us to find out."""
    known = {canonicalize_name(_name(entry)): entry for entry in entries}
    needed = {target[0] for name in known for target, _ in _edges(known, (name, ""))}
    roots = direct & known.keys() or known.keys() - needed - dev
    # Which extras the project asks for does not change what is pinned: take those the lock has.
    asked_for = [(node, "") for name in sorted(roots) for node in _with_extras(known, name)]
    reached = reach(asked_for, lambda node: _edges(known, node))
    return {
        _name(entry): _placed(entry, reached, direct | dev)
        for entry in known.values()
    }
