"""Edits of pylock.toml, poetry.lock, uv.lock and pdm.lock: one entry of an array for each package.

In an entry that changes, version, files, Python and what it requires are written anew; what only
describes it (summary, list of extras) stays.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.toml_text import Block, blocks, key_span, quoted, table_span, with_key
from stackgen.locks.writing import utc_time
from stackgen.model.packages import Artifact, LockChange

_EXTRA = re.compile(r"\bextra\b")
_EXTRA_TERM = re.compile(r"""\s*(?:\band\b)?\s*extra\s*==\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """A lock in its text and as it was parsed, with all that is to change."""

    array: str
    entries: tuple[Table, ...]
    changes: Mapping[str, LockChange]

    @property
    def names(self) -> frozenset[str]:
        """Return the packages that it holds after the change."""
        locked = {_name(each) for each in self.entries} - self.changes.keys()
        return frozenset(locked | {name for name, each in self.changes.items() if each.version})

    def requirers(self, name: str) -> Iterator[tuple[Table, Requirement]]:
        """Yield the entries that require a new package after the change, and by what."""
        for entry in self.entries:
            change = self.changes.get(_name(entry))
            for line in change.requires_dist if change and change.version else ():
                wanted = Requirement(line)
                if canonicalize_name(wanted.name) == name and not _extra(wanted):
                    yield entry, wanted


_Changed = Callable[[str, Table, LockChange, _Document], str]
_New = Callable[[LockChange, _Document], str]


def _edit(
    text: str, changes: Sequence[LockChange], *, array: str, changed: _Changed, new: _New
) -> str:
    """Return a text in which each entry that changes is changed, added or taken out."""
    found = blocks(text, array)
    content = fields.parse_toml(text)
    entries = fields.tables(content.get(array), array)
    if len(entries) != len(found):
        raise MalformedError(f"it does not begin each [[{array}]] on a line of its own")
    document = _Document(
        array=array, entries=entries, changes={each.name: each for each in changes}
    )
    locked = {_name(each) for each in entries}
    edits = []
    for block, entry in zip(found, entries, strict=True):
        change = document.changes.get(_name(entry))
        if change is not None:
            with_change = changed(block.text, entry, change, document) if change.version else ""
            edits.append((block.start, block.end, with_change))
    for change in changes:
        if change.name not in locked and change.version:
            place = _place(found, entries, change.name, text)
            edits.append((place, place, new(change, document)))
    for start, end, replacement in sorted(edits, key=lambda each: each[:2], reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _place(found: Sequence[Block], entries: Sequence[Table], name: str, text: str) -> int:
    for block, entry in zip(found, entries, strict=True):
        if _name(entry) > name:
            return block.start
    return found[-1].end if found else len(text)


def _name(entry: Table) -> str:
    return canonicalize_name(fields.name_of(entry))


def _extra(wanted: Requirement) -> str:
    """Return whose extra a requirement belongs to; "" where it always counts."""
    found = _EXTRA_TERM.search(str(wanted.marker or ""))
    return found[1] if found else "an extra" * bool(_EXTRA.search(str(wanted.marker or "")))


def _required(change: LockChange, names: Collection[str]) -> list[Requirement]:
    """Return what a release requires by default, of what a lock holds."""
    found = [Requirement(line) for line in change.requires_dist]
    return [each for each in found if canonicalize_name(each.name) in names and not _extra(each)]


def _wheels(change: LockChange) -> list[Artifact]:
    return sorted((a for a in change.artifacts if a.is_wheel), key=lambda each: each.filename)


def _sdist(change: LockChange) -> Artifact | None:
    found = [each for each in change.artifacts if not each.is_wheel]
    return min(found, key=lambda each: each.filename.endswith(".zip"), default=None)


def _files_of(entry: Table) -> list[Table]:
    """Return wheels and sdist of an entry of uv.lock or pylock.toml."""
    found = [*fields.tables(entry.get("wheels"), "wheels")]
    return [*found, *([fields.table(entry["sdist"], "sdist")] if "sdist" in entry else [])]


def _keys(files: Iterable[Table]) -> frozenset[str]:
    """Return what a lock states of files: its style."""
    return frozenset(key for each in files for key in each)


def _hash(artifact: Artifact) -> str:
    if not artifact.sha256:
        raise MalformedError(f"no index states the hash of {artifact.filename}")
    return artifact.sha256


def _head(change: LockChange, document: _Document) -> list[str]:
    """Return the first lines of a new entry."""
    name, version = quoted(change.name), quoted(change.version)
    return [f"[[{document.array}]]", f"name = {name}", f"version = {version}"]


def _listed(items: Iterable[str]) -> str:
    lines = "".join(f"    {each},\n" for each in items)
    return f"[\n{lines}]" if lines else "[]"


# uv.lock


def edit_uv(text: str, changes: Sequence[LockChange]) -> str:
    """Return an uv.lock with other entries.

    Raises:
        MalformedError: an entry is not of a registry that serves files by URL, or what it requires
            is locked in several versions, or what remains requires what is taken out.
    """
    _refuse_dangling(text, changes)
    stated = fields.text(fields.parse_toml(text).get("requires-python"), "requires-python")
    fitting = [
        replace(each, artifacts=tuple(a for a in each.artifacts if _takes(stated, a)))
        for each in changes
    ]
    return _edit(text, fitting, array="package", changed=_uv_changed, new=_uv_new)


_PYTHON_TAG = re.compile(r"-(?:cp|pp)3(\d+)-(?!abi3)[^-]+-[^-]+\.whl")


def _takes(requires_python: str, artifact: Artifact) -> bool:
    """Return whether a wheel is for a Python that a lock is for; uv leaves out the others."""
    found = _PYTHON_TAG.search(artifact.filename)
    stated = SpecifierSet(requires_python)
    return found is None or any(f"3.{found[1]}.{patch}" in stated for patch in (0, 99))


def _refuse_dangling(text: str, changes: Sequence[LockChange]) -> None:
    dropped = {each.name for each in changes if not each.version}
    changed = {each.name for each in changes}
    for entry in fields.tables(fields.parse_toml(text).get("package"), "package"):
        if _name(entry) in changed:
            continue
        for edge in fields.tables(entry.get("dependencies"), "dependencies"):
            if fields.text(edge.get("name"), "a name") in dropped:
                raise MalformedError(f"{_name(entry)} still requires {edge['name']}")


def _uv_changed(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    style = _uv_style(entry)
    block = with_key(block, "version", quoted(change.version), after=("name",))
    block = _uv_dependencies(block, entry, change, document)
    return _uv_files(block, change, style)


def _uv_style(entry: Table) -> frozenset[str]:
    files = _files_of(entry)
    source = fields.table(entry.get("source"), "source")
    if "registry" not in source or not files or any("url" not in each for each in files):
        raise MalformedError(f"{_name(entry)} is not of an index that serves files by URL")
    return _keys(files)


def _uv_files(block: str, change: LockChange, style: Collection[str]) -> str:
    after = ("dependencies", "source")
    sdist, wheels = _sdist(change), _wheels(change)
    block = with_key(block, "sdist", _uv_file(sdist, style) if sdist else None, after=after)
    files = [_uv_file(each, style) for each in wheels]
    return with_key(block, "wheels", _listed(files) if files else None, after=("sdist", *after))


def _uv_file(artifact: Artifact, style: Collection[str]) -> str:
    parts = [f"url = {quoted(artifact.url)}", f'hash = "sha256:{_hash(artifact)}"']
    if "size" in style and artifact.size is not None:
        parts.append(f"size = {artifact.size}")
    if "upload-time" in style and artifact.uploaded:
        parts.append(f"upload-time = {quoted(_milliseconds(artifact.uploaded))}")
    return f"{{ {', '.join(parts)} }}"


def _milliseconds(uploaded: str) -> str:
    """Return a time as uv writes it: to a millisecond, without zeros at the end."""
    cut = re.sub(r"(\.\d{3})\d+", r"\1", uploaded)
    return re.sub(r"\.?0*(?=Z|$)", "", cut, count=1) if "." in cut else cut


def _uv_dependencies(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    """Change the edges of an entry where it requires other packages than before."""
    old = fields.tables(entry.get("dependencies"), "dependencies")
    before = {fields.text(each.get("name"), "a name") for each in old}
    wanted = _required(change, document.names)
    now = {str(canonicalize_name(each.name)) for each in wanted}
    if before == now:
        return block
    lines = [line for line in _uv_edges(block) if _edge_name(line) in now]
    lines += [
        _uv_edge(each, document) for each in wanted if canonicalize_name(each.name) not in before
    ]
    lines = sorted(dict.fromkeys(lines))
    return with_key(
        block, "dependencies", _listed(lines) if lines else None, after=("source", "version")
    )


def _uv_edges(block: str) -> list[str]:
    span = key_span(block, "dependencies")
    inner = block[slice(*span)].partition("=")[2] if span else ""
    return re.findall(r"\{ name = .*? \}(?=,|\n|\]|$)", inner)


def _edge_name(line: str) -> str:
    found = re.match(r'\{ name = "([^"]+)"', line)
    return found[1] if found else ""


def _uv_edge(wanted: Requirement, document: _Document) -> str:
    name = str(canonicalize_name(wanted.name))
    if sum(_name(each) == name for each in document.entries) > 1:
        raise MalformedError(f"{name} is locked in several versions")
    parts = [f"name = {quoted(name)}"]
    if wanted.extras:
        parts.append(f"extra = [{', '.join(map(quoted, sorted(wanted.extras)))}]")
    if wanted.marker:
        single = str(wanted.marker).replace('"', "'")
        parts.append(f"marker = {quoted(single)}")
    return f"{{ {', '.join(parts)} }}"


def _uv_new(change: LockChange, document: _Document) -> str:
    sources = [(each, fields.table(each.get("source"), "source")) for each in document.entries]
    model, source = next((pair for pair in sources if "registry" in pair[1]), (None, {}))
    if model is None:
        raise MalformedError("none of its packages is of an index")
    registry = fields.text(source["registry"], "registry")
    lines = [*_head(change, document), f"source = {{ registry = {quoted(registry)} }}", ""]
    block = _uv_dependencies("\n".join(lines), {}, change, document)
    return _uv_files(block, change, _uv_style(model)) + "\n"


# poetry.lock


def edit_poetry(text: str, changes: Sequence[LockChange]) -> str:
    """Return a poetry.lock with other entries; its content-hash stays, for the project does.

    Raises:
        MalformedError: it is not laid out as Poetry does, or a file has no hash.
    """
    changed = _edit(text, changes, array="package", changed=_poetry_changed, new=_poetry_new)
    return _old_poetry_files(changed, changes)


def _poetry_changed(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    block = with_key(block, "version", quoted(change.version), after=("name",))
    python = quoted(change.requires_python or "*")
    block = with_key(block, "python-versions", python, after=("optional", "version"))
    block = _widened(block, "markers", entry, change, document)
    if "files" in entry:
        block = with_key(block, "files", _file_list(change, {}), after=("python-versions",))
    return _poetry_dependencies(block, entry, change, document)


def _file_list(change: LockChange, model: Table) -> str:
    """Return the files of a release, by their addresses where an entry (of PDM) has these."""
    by_url = any("url" in each for each in fields.tables(model.get("files"), "files"))
    places = [
        (f"url = {quoted(a.url)}" if by_url else f"file = {quoted(a.filename)}", _hash(a))
        for a in sorted(change.artifacts, key=lambda each: each.filename)
    ]
    return _listed(f'{{{place}, hash = "sha256:{digest}"}}' for place, digest in places)


def _poetry_dependencies(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    old = fields.table(entry.get("dependencies"), "dependencies")
    wanted: dict[str, list[str]] = {}
    for each in map(Requirement, change.requires_dist):
        name = str(canonicalize_name(each.name))
        known = {canonicalize_name(key) for key in old}
        if name in document.names and (not _extra(each) or name in known):
            wanted.setdefault(each.name, []).append(_poetry_constraint(each))
    lines = [
        f"{_key(name)} = {found[0] if len(found) == 1 else _listed(map(_as_table, found))}\n"
        for name, found in sorted(wanted.items())
    ]
    table = "[package.dependencies]\n" + "".join(lines) + "\n" if lines else ""
    span = table_span(block, "package.dependencies")
    if span:
        return block[: span[0]] + table + block[span[1] :]
    first = re.search(r"^\[package\.", block, re.MULTILINE)
    place = first.start() if first else len(block)
    gap = "" if block[:place].endswith("\n\n") or not table else "\n"
    return block[:place] + gap + table + block[place:]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else quoted(name)


def _as_table(constraint: str) -> str:
    return constraint if constraint.startswith("{") else f"{{version = {constraint}}}"


_ORDER = (">=", ">", "~=", "==", "===", "!=", "<=", "<")


def _poetry_constraint(wanted: Requirement) -> str:
    parts = sorted(wanted.specifier, key=lambda each: (_ORDER.index(each.operator), str(each)))
    version = quoted(",".join(map(str, parts)) or "*")
    if not wanted.marker and not wanted.extras:
        return version
    stated = [f"version = {version}"]
    if wanted.extras:
        stated.append(f"extras = [{', '.join(map(quoted, sorted(wanted.extras)))}]")
    stated += ["optional = true"] if _extra(wanted) else []
    stated += [f"markers = {quoted(str(wanted.marker))}"] if wanted.marker else []
    return f"{{{', '.join(stated)}}}"


def _poetry_new(change: LockChange, document: _Document) -> str:
    requirers = list(document.requirers(change.name))
    parts = [
        *_head(change, document),
        'description = ""',
        "optional = false",
        f"python-versions = {quoted(change.requires_python or '*')}",
    ]
    model = requirers[0][0] if requirers else next(iter(document.entries), {})
    if "category" in model:
        parts.append('category = "main"')
    if "groups" in model:
        parts.append(f"groups = {_inline_list(model, 'groups')}")
        marker = _joined_marker(requirers, "markers")
        parts += [f"markers = {quoted(marker)}"] if marker else []
    if "files" in model:
        parts.append(f"files = {_file_list(change, {})}")
    block = "\n".join(parts) + "\n\n"
    block = _poetry_dependencies(block, {}, change, document)
    source = fields.table(model.get("source"), "source")
    if source:
        lines = [f"{key} = {quoted(str(value))}\n" for key, value in source.items()]
        block += "[package.source]\n" + "".join(lines) + "\n"
    return block


def _inline_list(entry: Table, key: str) -> str:
    return f"[{', '.join(map(quoted, fields.texts(entry.get(key), key)))}]"


def _joined_marker(requirers: Sequence[tuple[Table, Requirement]], key: str) -> str:
    """Return when a new package is installed: where any that requires it is, and its own marker."""
    ways = []
    for entry, wanted in requirers:
        own = entry.get(key)
        stated = [own if isinstance(own, str) else "", str(wanted.marker or "")]
        markers = list(dict.fromkeys(each for each in stated if each))
        ways.append(markers[0] if len(markers) == 1 else " and ".join(f"({m})" for m in markers))
    if not ways or not all(ways):
        return ""
    ways = list(dict.fromkeys(ways))
    return ways[0] if len(ways) == 1 else " or ".join(f"({way})" for way in ways)


def _widened(block: str, key: str, entry: Table, change: LockChange, document: _Document) -> str:
    """Let the marker of an entry hold, too, where what now requires it is installed."""
    old = entry.get(key)
    if not change.widened or not old:
        return block
    new = _joined_marker(list(document.requirers(change.name)), key)
    marker = f"({old}) or ({new})" if new and isinstance(old, str) else ""
    return with_key(block, key, quoted(marker) if marker else None, after=())


def _old_poetry_files(text: str, changes: Sequence[LockChange]) -> str:
    """Change the files in ``metadata.files``, where Poetry before 1.3 has them all."""
    for change in changes:
        span = table_span(text, "metadata.files")
        if span is None:
            return text
        table = text[slice(*span)]
        keys = re.findall(r"^([\w.\"-]+) = \[", table, re.MULTILINE)
        key = next((k for k in keys if canonicalize_name(k.strip('"')) == change.name), "")
        if key:
            value = _file_list(change, {}) if change.version else None
            table = with_key(table, key, value, after=())
        elif change.version:
            earlier = [k for k in keys if canonicalize_name(k.strip('"')) < change.name]
            if not earlier:
                raise MalformedError("its metadata.files has no place for a new package")
            files = _file_list(change, {})
            table = with_key(table, _key(change.name), files, after=(earlier[-1],))
        text = text[: span[0]] + table + text[span[1] :]
    return text


# pdm.lock


def edit_pdm(text: str, changes: Sequence[LockChange]) -> str:
    """Return a pdm.lock with other entries; its content_hash stays, for the project does.

    Raises:
        MalformedError: it is of a PDM that keeps the files apart, or a file has no hash.
    """
    metadata = fields.table(fields.parse_toml(text).get("metadata"), "metadata")
    if "files" in metadata:
        raise MalformedError("a PDM before 2.8 made it; run pdm lock with a newer one first")
    return _edit(text, changes, array="package", changed=_pdm_changed, new=_pdm_new)


def _pdm_changed(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    block = with_key(block, "version", quoted(change.version), after=("name",))
    block = _widened(block, "marker", entry, change, document)
    python = quoted(change.requires_python) if change.requires_python else None
    block = with_key(block, "requires_python", python, after=("extras", "version"))
    lines = _pdm_lines(entry, change)
    last = ("marker", "groups", "summary", "requires_python", "extras", "version")
    block = with_key(
        block, "dependencies", _listed(map(quoted, lines)) if lines else None, after=last
    )
    return with_key(block, "files", _file_list(change, entry), after=("dependencies", *last))


def _pdm_lines(entry: Table, change: LockChange) -> list[str]:
    """Return what an entry requires: a package, or one for a set of its extras."""
    extras = {canonicalize_name(e) for e in fields.texts(entry.get("extras"), "extras")}
    found = [f"{change.name}=={change.version}"] if extras else []
    for wanted in map(Requirement, change.requires_dist):
        extra = _extra(wanted)
        if not extra and not extras:
            found.append(_pdm_line(wanted, str(wanted.marker or "")))
        elif canonicalize_name(extra) in extras:
            found.append(_pdm_line(wanted, _EXTRA_TERM.sub("", str(wanted.marker))))
    return sorted(dict.fromkeys(found))


def _pdm_line(wanted: Requirement, marker: str) -> str:
    extras = f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""
    line = f"{wanted.name}{extras}{wanted.specifier}"
    return fields.with_marker(line, marker.strip()).replace(" ; ", "; ")


def _pdm_new(change: LockChange, document: _Document) -> str:
    requirers = list(document.requirers(change.name))
    model = requirers[0][0] if requirers else next(iter(document.entries), {})
    parts = _head(change, document)
    if change.requires_python:
        parts.append(f"requires_python = {quoted(change.requires_python)}")
    parts.append('summary = ""')
    if "groups" in model:
        parts.append(f"groups = {_inline_list(model, 'groups')}")
    marker = _joined_marker(requirers, "marker")
    parts += [f"marker = {quoted(marker)}"] if marker else []
    lines = _pdm_lines({}, change)
    parts += [f"dependencies = {_listed(map(quoted, lines))}"] if lines else []
    return "\n".join([*parts, f"files = {_file_list(change, model)}", "", ""])


# pylock.toml


def edit_pylock(text: str, changes: Sequence[LockChange]) -> str:
    """Return a pylock.toml with other entries.

    A lock of which each package has one file is of one target, and gets the file of that target.

    Raises:
        MalformedError: it is not laid out as its tools do, or a file has no hash.
    """
    return _edit(text, changes, array="packages", changed=_pylock_changed, new=_pylock_new)


def _pylock_changed(block: str, entry: Table, change: LockChange, document: _Document) -> str:
    files = _files_of(entry)
    if not files:
        raise MalformedError(f"{change.name} has no files of an index in it")
    block = with_key(block, "version", quoted(change.version), after=("name",))
    block = _widened(block, "marker", entry, change, document)
    if "requires-python" in entry:
        python = quoted(change.requires_python) if change.requires_python else None
        block = with_key(block, "requires-python", python, after=("version",))
    inline = any(key_span(block, key) for key in ("wheels", "sdist"))
    if inline:
        after = ("index", "requires-python", "marker", "version")
        return _pylock_inline(_without_tables(block), files, change, document, after)
    tail = block[len(block.rstrip("\n")) :]
    bare = _without_tables(block).rstrip("\n")
    return bare + _pylock_tables(files, change, document) + tail


def _without_tables(block: str) -> str:
    """Take away the tables of files and of attestations: they are of the other release."""
    for name in ("wheels", "wheels.hashes", "sdist", "sdist.hashes", "attestation-identities"):
        while span := table_span(block, f"packages.{name}"):
            block = block[: span[0]] + block[span[1] :]
    return block


def _selected(change: LockChange, document: _Document) -> tuple[list[Artifact], Artifact | None]:
    """Return the wheels and the sdist that a lock takes."""
    single = all(len(_files_of(each)) <= 1 for each in document.entries)
    chosen = change.chosen
    if single and chosen is not None:
        return ([chosen], None) if chosen.is_wheel else ([], chosen)
    return _wheels(change), _sdist(change)


def _pylock_inline(
    block: str,
    files: Sequence[Table],
    change: LockChange,
    document: _Document,
    after: tuple[str, ...],
) -> str:
    style = _keys(files)
    wheels, sdist = _selected(change, document)
    block = with_key(block, "sdist", _pylock_file(sdist, style) if sdist else None, after=after)
    listed = [_pylock_file(each, style) for each in wheels]
    value = f"[{listed[0]}]" if len(listed) == 1 else _listed(listed) if listed else None
    return with_key(block, "wheels", value, after=("sdist", *after))


def _pylock_parts(artifact: Artifact, style: Collection[str]) -> Iterator[str]:
    if "name" in style:
        yield f"name = {quoted(artifact.filename)}"
    yield f"url = {quoted(artifact.url)}"
    if "upload-time" in style and (uploaded := utc_time(artifact.uploaded)):
        yield f"upload-time = {uploaded}"
    if "size" in style and artifact.size is not None:
        yield f"size = {artifact.size}"
    yield f"hashes = {{ sha256 = {quoted(_hash(artifact))} }}"


def _pylock_file(artifact: Artifact, style: Collection[str]) -> str:
    return f"{{ {', '.join(_pylock_parts(artifact, style))} }}"


def _pylock_tables(files: Sequence[Table], change: LockChange, document: _Document) -> str:
    style = _keys(files)
    wheels, sdist = _selected(change, document)
    tables = [("[[packages.wheels]]", each) for each in wheels]
    tables += [("[packages.sdist]", sdist)] if sdist else []
    return "".join(
        "\n\n" + "\n".join([header, *_pylock_parts(artifact, style)]) for header, artifact in tables
    )


def _pylock_new(change: LockChange, document: _Document) -> str:
    requirers = list(document.requirers(change.name))
    model = requirers[0][0] if requirers else next(iter(document.entries), {})
    parts = _head(change, document)
    marker = _joined_marker(requirers, "marker")
    parts += [f"marker = {quoted(marker)}"] if marker else []
    if "index" in model:
        parts.append(f"index = {quoted(fields.text(model['index'], 'index'))}")
    block = "\n".join(parts) + "\n"
    after = ("index", "marker", "version")
    return _pylock_inline(block, _files_of(model), change, document, after) + "\n"
