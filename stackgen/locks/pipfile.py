"""Pipenv: a Pipfile.lock, and the Pipfile with what the user requires and its sources."""

from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from stackgen.locks import direct, fields
from stackgen.locks.direct import Skipped, elsewhere
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.requirements import chosen, expanded
from stackgen.model.packages import FileIndexes, LockedPackage, LockFile, RequirementsFile

_GROUPS = {"default": "default", "develop": "dev"}  # other sections keep their names
# A Pipfile may give a marker by its own name: os_name = "== 'nt'".
_MARKERS = (
    *("os_name", "sys_platform", "platform_machine", "platform_python_implementation"),
    *("platform_release", "platform_system", "platform_version", "python_version"),
    *("python_full_version", "implementation_name", "implementation_version"),
)


def read_lock(text: str, *, path: str, companion: str | None) -> LockFile:
    """Read a Pipfile.lock.

    Raises:
        MalformedError: it is not one.
    """
    content = fields.table(fields.parse_json(text), "the file")
    project = fields.parse_toml(companion) if companion else {}
    requirements = tuple(
        line(name, entry) for name, entry in entries(project, "packages") if not elsewhere(entry)
    )
    named = fields.names_of(requirements)
    sections = [name for name in content if name != "_meta"]
    locked = [
        (section, name, fields.table(entry, name))
        for section in sections
        for name, entry in fields.table(content[section], section).items()
    ]
    return LockFile(
        path=path,
        format="pipfile",
        packages=tuple(
            _package(section, name, entry, named)
            for section, name, entry in locked
            if not elsewhere(entry)
        ),
        requirements=requirements,
        requires_python=requires_python(fields.table(content.get("_meta"), "_meta")),
        skipped=tuple(
            f"{name}: {elsewhere(entry)}" for _, name, entry in locked if elsewhere(entry)
        ),
    )


def _package(section: str, name: str, entry: Table, named: frozenset[str]) -> LockedPackage:
    version = fields.text(entry.get("version"), f"the version of {name}")
    if not version.startswith("=="):
        raise MalformedError(f"{name} is not pinned: {version!r}")
    group = _GROUPS.get(section, section)
    return fields.package(
        name=name,
        version=version.lstrip("="),
        hashes=fields.texts(entry.get("hashes"), f"the hashes of {name}"),
        marker=fields.text(entry.get("markers"), f"the markers of {name}"),
        extras=fields.texts(entry.get("extras"), f"the extras of {name}"),
        direct=group == "default" and canonicalize_name(name) in named,
        group=group,
    )


def requires_python(content: Table) -> str:
    """Return what ``requires`` says of Python, as a specifier; "" where it says nothing.

    Raises:
        MalformedError: it is no table of texts.
    """
    requires = fields.table(content.get("requires"), "requires")
    if full := fields.text(requires.get("python_full_version"), "python_full_version"):
        return f"=={full}"
    minor = fields.text(requires.get("python_version"), "python_version")
    return f"=={minor}.*" if minor else ""


def entries(content: Table, section: str) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) of a Pipfile's section; an absent one has none.

    Raises:
        MalformedError: it is no such section.
    """
    for name, wanted in fields.table(content.get(section), section).items():
        yield name, {"version": wanted} if isinstance(wanted, str) else fields.table(wanted, name)


def line(name: str, entry: Table) -> str:
    """Return what a Pipfile wants of a package as a PEP 508 line.

    Raises:
        MalformedError: there is none.
    """
    bare = fields.requirement(
        name,
        specifier=_specifier(fields.text(entry.get("version"), name)),
        extras=fields.texts(entry.get("extras"), name),
    )
    return fields.with_marker(bare, marker(name, entry))


def marker(name: str, entry: Table) -> str:
    """Return the condition of an entry: ``markers``, and one marker by its own name each."""
    stated = [fields.text(entry.get("markers"), f"the markers of {name}")]
    named = [(key, fields.text(entry.get(key), f"the {key} of {name}")) for key in _MARKERS]
    stated += [f"{key} {condition}" for key, condition in named if condition]
    found = [each for each in stated if each]
    return found[0] if len(found) == 1 else " and ".join(f"({each})" for each in found)


def _specifier(wanted: str) -> str:
    if wanted in ("", "*"):
        return ""
    return wanted if wanted[0] in "=<>!~" else f"=={wanted}"


_MAIN = "packages"
_SETTINGS = frozenset(("source", "requires", "scripts", "pipenv", "pipfile", _MAIN))


def read_file(
    text: str, *, path: str, folder: str, groups: Sequence[str], environ: Mapping[str, str]
) -> RequirementsFile:
    """Read a Pipfile.

    folder: that it lies in, absolute, or "" where that is not known.
    groups: to be added: ``dev``, and what other categories it has, by their names.
    environ: for ``${NAME}`` in the addresses of its sources.

    Raises:
        MalformedError: it is not one.
        UsageError: it has no such group.
    """
    content = fields.parse_toml(text)
    sections: dict[str, str] = {
        canonicalize_name("dev" if name == "dev-packages" else name): name
        for name in content
        if name not in _SETTINGS
    }
    wanted = chosen("group", groups, known=sections, path=path)
    chosen_sections = [_MAIN, *(sections[group] for group in wanted)]
    found = tuple(_of_sections(content, chosen_sections, folder))
    return RequirementsFile(
        requirements=tuple(dict.fromkeys(each for each in found if isinstance(each, str))),
        requires_python=requires_python(content),
        index_options=_index_options(content, environ),
        skipped=tuple(dict.fromkeys(each.words for each in found if isinstance(each, Skipped))),
    )


def _of_sections(content: Table, sections: Sequence[str], folder: str) -> Iterator[str | Skipped]:
    for section in sections:
        for name, entry in entries(content, section):
            if elsewhere(entry):
                condition = marker(name, entry)
                yield direct.from_table(name, entry, folder=folder, marker=condition)
                continue
            if "index" in entry:
                yield Skipped(f"{name}: the index that it is tied to is not followed")
            yield line(name, entry)


def _index_options(content: Table, environ: Mapping[str, str]) -> FileIndexes:
    """Return the first source as the default index, the others after it."""
    sources = fields.tables(content.get("source"), "source")
    urls = [
        expanded(fields.text(each.get("url"), "the url of a source"), environ) for each in sources
    ]
    settings = fields.table(content.get("pipenv"), "pipenv")
    return FileIndexes(
        index_url=urls[0] if urls else None,
        extra_index_urls=tuple(urls[1:]),
        prereleases=settings.get("allow_prereleases") is True,
    )
