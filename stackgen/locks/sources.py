"""Where a lock file says that its artifacts come from: indexes, files, hashes, attestations.

Everything is as the file states it, unchecked: ``stackgen.provenance`` compares it with indexes.
Addresses are without credentials, and nothing here contacts them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from stackgen.errors import UsageError
from stackgen.locks import conda, direct, fields, requirements
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.reading import ACCEPTED, lock_format


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFile:
    """A file that a lock admits.

    filename: "" where the format states hashes alone.
    url: its address; "" where the lock states none.
    hashes: ``algorithm:digest``, as the file spells them; alternatives of one file.
    """

    filename: str = ""
    url: str = ""
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedIndex:
    """An index that a lock names; verified: whether its certificate is to be checked."""

    url: str
    name: str = ""
    verified: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPackage:
    """A package of a lock.

    version: "" where none is pinned.
    index: the address of the index that it is to come from; "" where any may serve.
    identities: who must have published it (``attestation-identities`` of PEP 751).
    elsewhere: why no index has it; "" where one has.
    """

    name: str
    version: str = ""
    index: str = ""
    files: tuple[StatedFile, ...] = ()
    identities: tuple[tuple[tuple[str, str], ...], ...] = ()
    elsewhere: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSources:
    """What a lock file states of its sources; packages are distinct by name and version."""

    format: str
    indexes: tuple[StatedIndex, ...]
    packages: tuple[StatedPackage, ...]


_NO_REQUIREMENT = "is no requirement"
_Stated = Iterator[StatedIndex | StatedPackage]


def read_sources(text: str, *, path: str) -> StatedSources:
    """Read where the artifacts of a lock file come from, in any format that ``read_lock`` reads.

    Raises:
        UsageError: it is no such lock file.
    """
    try:
        found = lock_format(text, path)
        stated = list(_READERS[found](text))
    except MalformedError as error:
        raise UsageError(
            f"cannot read {path} as a lock file", why=str(error), fix=f"give a {ACCEPTED}"
        ) from error
    packages = [each for each in stated if isinstance(each, StatedPackage)]
    if packages and all(each.elsewhere == _NO_REQUIREMENT for each in packages):
        why = f"{fields.shortened(packages[0].name)!r} is no requirement, and no line of it is one"
        raise UsageError(f"{path} locks no package", why=why, fix=f"give a {ACCEPTED}")
    if not packages:
        raise UsageError(
            f"{path} locks no package", why="the file names none", fix=f"give a {ACCEPTED}"
        )
    named = [each for each in stated if isinstance(each, StatedIndex)]
    named += [StatedIndex(url=each.index) for each in packages if each.index]
    known: dict[str, StatedIndex] = {}
    for each in named:
        known.setdefault(each.url.rstrip("/"), each)
    return StatedSources(
        format=found, indexes=tuple(known.values()), packages=tuple(_merged(packages))
    )


def _merged(packages: Iterable[StatedPackage]) -> Iterator[StatedPackage]:
    """Join the entries of one release: of several groups, platforms or extras."""
    found: dict[tuple[str, str, str], StatedPackage] = {}
    for each in packages:
        key = each.name, each.version, each.elsewhere
        other = found.setdefault(key, each)
        files = tuple(dict.fromkeys((*other.files, *each.files)))
        found[key] = replace(other, files=files, index=other.index or each.index)
    yield from found.values()


def _package(name: str, version: str, **more: object) -> StatedPackage:
    try:
        normal = str(Version(version)) if version else ""
    except InvalidVersion as error:
        raise MalformedError(f"{name} has no valid version: {version!r}") from error
    try:
        stated = StatedPackage(name=canonicalize_name(name, validate=True), version=normal)
    except InvalidName as error:
        raise MalformedError(f"{fields.shortened(name)!r} is no name of a project") from error
    return replace(stated, **more)  # type: ignore[arg-type]


def _file(entry: Table, hashes: Iterable[str], name: str) -> StatedFile:
    """Return a file by its ``url``, ``file``, ``name`` or ``path``, whichever the format has."""
    stated = {
        key: fields.text(entry.get(key), f"a {key} of {name}")
        for key in ("name", "file", "path", "url")
    }
    place = _plain(next((value for value in stated.values() if value), ""))
    return StatedFile(
        filename=unquote(re.split(r"[/\\]", place.partition("?")[0])[-1]),
        url=_plain(stated["url"]),
        hashes=tuple(each for each in hashes if each),
    )


def _plain(url: str) -> str:
    """Return an address without credentials and fragment.

    Raises:
        MalformedError: it is none.
    """
    try:
        urlsplit(url)
    except ValueError as error:
        raise MalformedError(f"{fields.shortened(url)!r} is no address") from error
    return direct.USER_INFO.sub("//", url).partition("#")[0]


def _of_pipfile(text: str) -> _Stated:
    content = fields.table(fields.parse_json(text), "the file")
    meta = fields.table(content.get("_meta"), "_meta")
    sources = {}
    for source in fields.tables(meta.get("sources"), "sources"):
        url = _plain(fields.text(source.get("url"), "the url of a source"))
        name = fields.text(source.get("name"), "the name of a source")
        sources[name] = url
        yield StatedIndex(url=url, name=name, verified=source.get("verify_ssl") is not False)
    for section in (name for name in content if name != "_meta"):
        for name, value in fields.table(content[section], section).items():
            entry = fields.table(value, name)
            version = fields.text(entry.get("version"), f"the version of {name}").lstrip("=")
            hashes = fields.texts(entry.get("hashes"), f"the hashes of {name}")
            index = fields.text(entry.get("index"), f"the index of {name}")
            yield _package(
                name,
                "" if direct.elsewhere(entry) else version,
                index=sources.get(index, ""),
                files=tuple(StatedFile(hashes=(each,)) for each in hashes),
                elsewhere=direct.elsewhere(entry),
            )


_OPTION = re.compile(r"(-i|--index-url|--extra-index-url|--trusted-host)[ =]\s*(\S+)")


def _of_requirements(text: str) -> _Stated:
    for line in requirements.logical_lines(text):
        if option := _OPTION.match(line.text):
            trusted = option[1] == "--trusted-host"
            url = f"https://{option[2]}" if trusted else _plain(option[2])
            yield StatedIndex(url=url, verified=not trusted)
        if line.text.startswith(("-r", "--requirement")):
            yield StatedPackage(name=line.text, elsewhere="another file, which is not followed")
        if not line.text or (line.text.startswith("-") and not line.text.startswith("-e")):
            continue
        try:
            wanted = Requirement(requirements.without_options(line.text))
        except (InvalidRequirement, RecursionError):
            shown = direct.without_credentials(requirements.without_options(line.text))
            is_place = line.text.startswith("-e") or any(c in line.text for c in "/\\:")
            away = "is no pin of an index's release" if is_place else _NO_REQUIREMENT
            yield StatedPackage(name=shown, elsewhere=away)
            continue
        pin = requirements.pin(wanted)
        if pin and not fields.is_version(pin):
            yield StatedPackage(name=wanted.name, elsewhere="the lock pins no version of PEP 440")
            continue
        hashes = requirements.HASH.findall(line.text)
        yield _package(
            wanted.name,
            pin,
            files=tuple(StatedFile(hashes=(each,)) for each in hashes),
            elsewhere=direct.FILE if wanted.url else "" if pin else "the lock pins no version",
        )


def _entries(content: Table, array: str) -> Iterator[tuple[str, str, Table]]:
    """Yield (name, version, entry) of an array of tables."""
    for entry in fields.tables(content.get(array), array):
        name = fields.name_of(entry)
        yield name, fields.text(entry.get("version"), f"the version of {name}"), entry


def _old_files(content: Table) -> Table:
    """Return the files of all packages, where Poetry and PDM once had them."""
    metadata = fields.table(content.get("metadata"), "metadata")
    return fields.table(metadata.get("files"), "metadata.files")


def _of_poetry(text: str) -> _Stated:
    content = fields.parse_toml(text)
    old = _old_files(content)
    for name, version, entry in _entries(content, "package"):
        source = fields.table(entry.get("source"), f"the source of {name}")
        kind = fields.text(source.get("type"), f"the source of {name}")
        indexed = kind in ("", "legacy", "pypi")
        url = fields.text(source.get("url"), f"the source of {name}")
        yield _package(
            name,
            version,
            index=_plain(url) if indexed else "",
            files=_listed(entry.get("files") or old.get(name), name),
            elsewhere="" if indexed else direct.REPOSITORY if kind == "git" else direct.FILE,
        )


def _of_pdm(text: str) -> _Stated:
    content = fields.parse_toml(text)
    old = _old_files(content)
    for name, version, entry in _entries(content, "package"):
        files = _listed(entry.get("files") or old.get(f"{name} {version}"), name)
        yield _package(name, version, files=files, elsewhere=direct.elsewhere(entry))


def _of_uv(text: str) -> _Stated:
    for name, version, entry in _entries(fields.parse_toml(text), "package"):
        source = fields.table(entry.get("source"), f"the source of {name}")
        if {"virtual", "editable"} & source.keys():
            continue  # the project itself
        registry = fields.text(source.get("registry"), f"the source of {name}")
        yield _package(
            name,
            version,
            index=_plain(registry) if direct.is_url(registry) else "",
            files=_wheels_and_sdist(entry, name),
            elsewhere="" if registry else direct.REPOSITORY if "git" in source else direct.FILE,
        )


def _of_pylock(text: str) -> _Stated:
    for name, version, entry in _entries(fields.parse_toml(text), "packages"):
        away = direct.REPOSITORY if "vcs" in entry else ""
        away = direct.FILE if {"archive", "directory"} & entry.keys() else away
        identities = fields.tables(entry.get("attestation-identities"), f"identities of {name}")
        yield _package(
            name,
            version,
            index=_plain(fields.text(entry.get("index"), f"the index of {name}")),
            files=_wheels_and_sdist(entry, name),
            identities=tuple(identity(each) for each in identities),
            elsewhere=away,
        )


def identity(publisher: Table) -> tuple[tuple[str, str], ...]:
    """Return a publisher (PEP 740) as sorted pairs, without what it leaves open."""
    texts = ((key, value) for key, value in publisher.items() if isinstance(value, str) and value)
    return tuple(sorted(texts))


def _of_conda_lock(text: str) -> _Stated:
    content = fields.table(conda.parse_yaml(text), "the file")
    for name, version, entry in _entries(content, "package"):
        if entry.get("manager") == "pip":
            hashes = fields.table(entry.get("hash"), f"the hash of {name}")
            found = _file({**entry, "name": ""}, _digests(hashes, name), name)
            away = "" if hashes else direct.FILE
            yield _package(name, version, files=(found,), elsewhere=away)


def _of_pixi(text: str) -> _Stated:
    content = fields.table(conda.parse_yaml(text), "the file")
    for entry in fields.tables(content.get("packages"), "packages"):
        url = fields.text(entry.get("pypi"), "an address")
        if not url and entry.get("kind") != "pypi":
            continue
        url = url or fields.text(entry.get("url", entry.get("path")), "an address")
        known = fields.text(entry.get("name"), "a name"), fields.text(entry.get("version"), "it")
        name, version = known if all(known) else conda.name_and_version(url)
        digest = fields.text(entry.get("sha256"), f"the hash of {name}")
        found = _file({"url": url}, [f"sha256:{digest}"] if digest else [], name)
        away = "" if direct.is_url(url) and not url.startswith("git+") else direct.FILE
        yield _package(name or url[:80], version, files=(found,), elsewhere=away)


def _wheels_and_sdist(entry: Table, name: str) -> tuple[StatedFile, ...]:
    wheels = fields.tables(entry.get("wheels"), f"the wheels of {name}")
    return _listed([*wheels, *([entry["sdist"]] if "sdist" in entry else [])], name)


def _listed(entries: object, name: str) -> tuple[StatedFile, ...]:
    """Return files from tables with ``hash`` (a text) or ``hashes`` (a table of digests)."""
    return tuple(
        _file(
            each,
            [
                fields.text(each.get("hash"), f"a hash of {name}"),
                *_digests(fields.table(each.get("hashes"), f"the hashes of {name}"), name),
            ],
            name,
        )
        for each in fields.tables(entries, f"the files of {name}")
    )


def _digests(hashes: Table, name: str) -> Iterator[str]:
    for algorithm, digest in hashes.items():
        yield f"{algorithm}:{fields.text(digest, f'a hash of {name}')}"


_READERS: Mapping[str, Callable[[str], _Stated]] = {
    "pipfile": _of_pipfile,
    "poetry": _of_poetry,
    "uv": _of_uv,
    "pdm": _of_pdm,
    "conda-lock": _of_conda_lock,
    "pixi": _of_pixi,
    "pylock": _of_pylock,
    "requirements": _of_requirements,
}
