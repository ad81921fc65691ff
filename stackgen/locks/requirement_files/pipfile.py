"""A Pipfile: its requirements, with its sources as index options."""

from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from stackgen.locks import direct, fields, pipfile
from stackgen.locks.direct import Skipped, elsewhere
from stackgen.locks.fields import Table
from stackgen.locks.requirement_files.requirements import chosen, expanded
from stackgen.model.packages import IndexOptions, RequirementsFile

_MAIN = "packages"
_SETTINGS = frozenset(("source", "requires", "scripts", "pipenv", "pipfile", _MAIN))


def read(
    text: str, *, path: str, folder: str, groups: Sequence[str], environ: Mapping[str, str]
) -> RequirementsFile:
    """Read a Pipfile.

    Args:
        text: what the file holds.
        path: of the file, for messages.
        folder: that it lies in, absolute, or "" where that is not known.
        groups: to be added: ``dev``, and what other categories it has, by their names.
        environ: for ``${NAME}`` in the addresses of its sources.

    Raises:
        MalformedError: it is not one.
        UsageError: it has no such group.
    """
    content = fields.parse_toml(text)
    sections = {_group(name): name for name in content if name not in _SETTINGS}
    wanted = chosen("group", groups, known=sections, path=path)
    found = tuple(_requirements(content, [_MAIN, *(sections[group] for group in wanted)], folder))
    return RequirementsFile(
        requirements=tuple(dict.fromkeys(each for each in found if isinstance(each, str))),
        requires_python=pipfile.requires_python(content),
        index_options=_index_options(content, environ),
        skipped=tuple(dict.fromkeys(each.words for each in found if isinstance(each, Skipped))),
    )


def _group(section: str) -> str:
    return canonicalize_name("dev" if section == "dev-packages" else section)


def _requirements(content: Table, sections: Sequence[str], folder: str) -> Iterator[str | Skipped]:
    for section in sections:
        for name, entry in pipfile.entries(content, section):
            if elsewhere(entry):
                marker = pipfile.marker(name, entry)
                yield direct.from_table(name, entry, folder=folder, marker=marker)
                continue
            if "index" in entry:
                yield Skipped(f"{name}: the index that it is tied to is not followed")
            yield pipfile.line(name, entry)


def _index_options(content: Table, environ: Mapping[str, str]) -> IndexOptions:
    """Return the first source as the default index, the others after it."""
    sources = fields.tables(content.get("source"), "source")
    urls = [
        expanded(fields.text(each.get("url"), "the url of a source"), environ) for each in sources
    ]
    settings = fields.table(content.get("pipenv"), "pipenv")
    return IndexOptions(
        index_url=urls[0] if urls else None,
        extra_index_urls=tuple(urls[1:]),
        prereleases=settings.get("allow_prereleases") is True,
    )
