"""What an index's page says, as artifacts."""

import json
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timezone
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.index.cache import IndexCache
from stackgen.index.config import IndexLocation
from stackgen.model.files import COLUMNS, Coded, Files
from stackgen.model.packages import Artifact
from stackgen.resolve.candidates import moment
from stackgen.storage.files import file_sha256, path_of

if TYPE_CHECKING:
    from msgspec import ValidationError


# Where a page says that there is no metadata file, or that there is one of unknown digest.
NO_METADATA, SOME_METADATA = "-", "+"

_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL_PARTS = (5, 6)
_API = 1  # The major version of indexes' pages.
_PIECE = 1 << 20  # Characters of HTML that are parsed at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of an index.

    announced: what the page says of each file's metadata: its SHA-256, or one of NO_METADATA
        and SOME_METADATA; "" where it says nothing.
    listed: how many files the page names, of whatever format.
    skipped: how many wheels and sdists were left out because their name or version is malformed.
    packed_facts: what ``facts`` unpacks; empty where there are none.
    """

    files: Files
    announced: Sequence[str]
    listed: int
    skipped: int = 0
    packed_facts: bytes = b""

    @property
    def facts(self) -> "PageFacts":
        """Return what the page says besides files.

        Raises:
            ValueError: what was cached is damaged.
        """
        return PageFacts.unpacked(self.packed_facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """Facts of a page that resolution does not need, unpacked only on access.

    status, reason: of the project (PEP 792); "" where the page states none.
    attested: where the attestations of a file are (PEP 740), by filename.
    others: SHA-256 of files that are no candidates (eggs, malformed names), by filename.
    """

    status: str = ""
    reason: str = ""
    attested: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def packed(self) -> bytes:
        """Return them in the form in which they are cached; empty where there are none."""
        if self == PageFacts():
            return b""
        urls = {name: url.replace(name, "\0") for name, url in self.attested.items()}
        row = [self.status, self.reason, urls, dict(self.others)]
        return zlib.compress(json.dumps(row).encode(), _LEVEL)

    @classmethod
    def unpacked(cls, content: bytes) -> "PageFacts":
        """Return what was packed.

        Raises:
            ValueError: it is not what `packed` returned.
        """
        if not content:
            return cls()
        try:
            status, reason, urls, others = json.loads(zlib.decompress(content))
            attested = {name: url.replace("\0", name) for name, url in urls.items()}
        except (zlib.error, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a page: {error}") from error
        return cls(status=status, reason=reason, attested=attested, others=others)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A file as the page lists it, before its name was understood."""

    filename: str
    url: str
    sha256: str
    size: int | None
    requires_python: str | None
    uploaded: str | None
    yanked: str | None
    announced: str
    attested: str | None


@dataclass(slots=True, kw_only=True)
class _Described:
    """A file as a PEP 691 page describes it; the keys of the page have dashes."""

    filename: str
    url: str
    hashes: dict[str, str]
    requires_python: str | None = None
    core_metadata: bool | dict[str, str] | None = None
    yanked: bool | str = False
    size: int | None = None
    upload_time: str | None = None
    provenance: str | None = None


@dataclass(slots=True)
class _ProjectStatus:
    """The status of the project, which is known once the whole page is read."""

    status: str = ""
    reason: str = ""


def parse_html(text: str, *, url: str, name: str, index: str) -> Page:
    """Read a PEP 503 page, or any page of links where `name` is empty.

    url: where the page came from; relative links and what they may point to depend on it.
    """
    status = _ProjectStatus()
    return _page(_linked(text, url, status), status, base=url, name=name, index=index)


def parse_json(content: bytes, *, url: str, name: str, index: str) -> Page:
    """Read a PEP 691 page.

    Raises:
        ValueError: it is not such a page, or one of a later major version; it says in words why.
    """
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    status = _ProjectStatus()
    entries = _described(document, url, status)
    return _page(entries, status, base=url, name=name, index=index)


def _described(document: object, url: str, status: _ProjectStatus) -> Iterator[_Entry]:
    """Yield the files of a PEP 691 document, one after the other: as objects, all are large.

    Raises:
        ValueError: it is none.
    """
    from msgspec import ValidationError, convert

    match document:
        case {"meta": {"api-version": str(version)}, "files": list(files), **others}:
            _check_version(version)
        case _:
            raise ValueError('its JSON lacks "files" or "meta", which PEP 691 demands')
    match others.get("project-status"):
        case {"status": str(state), **rest}:
            status.status, status.reason = state, str(rest.get("reason") or "")
    for number, each in enumerate(files):
        plain = each
        if isinstance(each, dict):
            plain = {key.replace("-", "_"): value for key, value in each.items()}
        try:
            yield _from_description(convert(plain, _Described), url)
        except ValidationError as error:
            raise ValueError(_misfit(error, f"files[{number}]")) from error


def _misfit(error: "ValidationError", where: str) -> str:
    """Return what a JSON page has in the wrong place, without the words of the library."""
    missing = re.search(r"missing required field `(\w+)`", str(error))
    place = re.search(r"`\$([^`]*)`$", str(error))
    path = where + (place[1] if place else "") + (f".{missing[1]}" if missing else "")
    problem = "is missing" if missing else "has the wrong type or form"
    return f"its JSON does not follow PEP 691: {path.replace('_', '-')} {problem}"


def _from_description(file: _Described, base: str) -> _Entry:
    return _Entry(
        filename=file.filename,
        url=_joined(base, file.url),
        sha256=_sha256(file.hashes.get("sha256", "")),
        size=file.size,
        requires_python=file.requires_python,
        uploaded=_utc(file.upload_time),
        yanked=file.yanked if isinstance(file.yanked, str) else "" if file.yanked else None,
        announced=_announcement(file.core_metadata),
        attested=file.provenance,
    )


def name_and_version(filename: str, project: str) -> tuple[str, str] | None:
    """Return normalised name and version of a wheel or an sdist.

    Args:
        filename: such as ``numpy-1.24.3.tar.gz``.
        project: the page that lists it; "" where files of any project may appear.

    Returns:
        None where the filename follows no rule that anybody reads today.
    """
    if not _FILENAME.fullmatch(filename):
        return None
    if filename.endswith(".whl"):
        parts = filename[:-4].split("-")
        if len(parts) not in _WHEEL_PARTS or (len(parts) > 5 and not parts[2][:1].isdigit()):
            return None
        pairs = [(parts[0], parts[1])]
    else:
        stem = filename.removesuffix(".zip").removesuffix(".tar.gz")
        pairs = list(_sdist_splits(stem)) if project else [_halves(stem)]
    for name, version in ((canonicalize_name(n), _version(v)) for n, v in pairs):
        if version and project in ("", name):
            return name, version
    return None


def is_artifact(filename: str) -> bool:
    """Return whether this is a wheel or an sdist in a format that is still allowed."""
    return filename.endswith((".whl", ".tar.gz", ".zip"))


def _page(
    entries: Iterable[_Entry], status: _ProjectStatus, *, base: str, name: str, index: str
) -> Page:
    known: set[tuple[str, str]] = set()
    announced: list[str] = []
    attested: dict[str, str] = {}
    others: dict[str, str] = {}
    listed = skipped = 0

    def artifacts() -> Iterator[Artifact]:
        nonlocal listed, skipped
        for entry in entries:
            listed += 1
            if not is_artifact(entry.filename):
                others[entry.filename] = entry.sha256
                continue
            if entry.attested and (address := _safe_url(entry.attested, base)):
                attested[entry.filename] = address
            artifact = _artifact(entry, base=base, name=name, index=index)
            if artifact is None:
                others[entry.filename] = entry.sha256
                skipped += 1
            elif (artifact.filename, artifact.sha256) not in known:
                known.add((artifact.filename, artifact.sha256))
                announced.append(entry.announced)
                yield artifact

    files = Files.of(artifacts())  # one after the other: a page may name a hundred thousand
    facts = PageFacts(
        status=_one_line(status.status) or "",
        reason=_one_line(status.reason) or "",
        attested=attested,
        others={filename: sha256 for filename, sha256 in others.items() if sha256},
    )
    return Page(
        files=files,
        announced=announced,
        listed=listed,
        skipped=skipped,
        packed_facts=facts.packed(),
    )


def _artifact(entry: _Entry, *, base: str, name: str, index: str) -> Artifact | None:
    known = name_and_version(entry.filename, name)
    url = _safe_url(entry.url, base)
    if known is None or url is None:
        return None
    return Artifact(
        name=known[0],
        version=known[1],
        filename=entry.filename,
        sha256=entry.sha256,
        url=url,
        index=index,
        size=entry.size,
        requires_python=_one_line(entry.requires_python),
        uploaded=_one_line(entry.uploaded),
        yanked=None if entry.yanked is None else (_one_line(entry.yanked) or ""),
    )


def _safe_url(url: str, base: str) -> str | None:
    """Return the URL without credentials; None where a page points where it must not.

    A page from the network never makes us read a local file.
    """
    if "@" not in url and url.startswith("https://"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no address, say
        return None
    local = urlsplit(base).scheme == "file"
    if parts.scheme not in (("http", "https", "file") if local else ("http", "https")):
        return None
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _Links(HTMLParser):
    """Collects the links of a page as entries. Their texts do not count, so none is collected."""

    def __init__(self, base: str, status: _ProjectStatus) -> None:
        super().__init__()
        self.found: list[_Entry] = []
        self._status = status
        self._base = base
        self._is_based = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take links, the base of relative ones, and the version of the page's format."""
        if tag not in ("a", "base", "meta"):
            return
        values = {key: value or "" for key, value in attrs}
        if tag == "meta" and values.get("name") == "pypi:repository-version":
            _check_version(values.get("content", ""))
        elif tag == "meta" and values.get("name") == "pypi:project-status":
            self._status.status = values.get("content", "")
        elif tag == "meta" and values.get("name") == "pypi:project-status-reason":
            self._status.reason = values.get("content", "")
        elif tag == "base" and "href" in values and not self._is_based:
            self._base, self._is_based = _joined(self._base, values["href"]), True
        elif tag == "a" and "href" in values:
            self.found.append(_from_link(_joined(self._base, values["href"]), values))


def _linked(text: str, base: str, status: _ProjectStatus) -> Iterator[_Entry]:
    """Yield the links of an HTML page.

    Raises:
        ValueError: it has a later major version than we know.
    """
    parser = _Links(base, status)
    for start in range(0, len(text), _PIECE):
        parser.feed(text[start : start + _PIECE])
        yield from parser.found
        parser.found.clear()
    parser.close()
    yield from parser.found


def _joined(base: str, link: str) -> str:
    """Return where a link leads; as it is where it is no address."""
    if link.startswith("https://"):  # as on most pages, a thousand times
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _check_version(text: str) -> None:
    """Refuse pages of a later major version (PEP 629).

    Raises:
        ValueError: it is one.
    """
    major = text.partition(".")[0]
    if major.isdigit() and int(major) > _API:
        raise ValueError(f"its pages are of version {text[:20]}, and {_API}.x is what can be read")


def _from_link(link: str, attributes: Mapping[str, str]) -> _Entry:
    url, _, fragment = link.partition("#")
    algorithm, _, digest = fragment.partition("=")
    announced = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
    return _Entry(
        # Not the link's text: old folder listings cut long names short.
        filename=unquote(url.partition("?")[0].rpartition("/")[2]),
        url=url,
        sha256=_sha256(digest) if algorithm == "sha256" else "",
        size=None,
        requires_python=attributes.get("data-requires-python"),
        uploaded=attributes.get("data-upload-time"),
        yanked=attributes.get("data-yanked"),
        announced=_html_announcement(announced),
        attested=attributes.get("data-provenance"),
    )


def _html_announcement(value: str | None) -> str:
    if value is None:
        return ""
    algorithm, _, digest = value.partition("=")
    return _announcement({algorithm: digest} if digest else value.lower() != "false")


def _announcement(metadata: bool | Mapping[str, str] | None) -> str:
    """Return what is announced of a metadata file, as in ``Page.announced``."""
    if isinstance(metadata, Mapping):
        return _sha256(metadata.get("sha256", "")) or SOME_METADATA
    return "" if metadata is None else SOME_METADATA if metadata else NO_METADATA


def _sha256(text: str) -> str:
    digest = text.lower()
    return digest if _SHA256.fullmatch(digest) else ""


def _utc(text: str | None) -> str | None:
    """Return a moment as indexes write it in HTML: UTC, ending in Z; another text as it is."""
    when = moment(text) if text else None
    return text if when is None else when.astimezone(timezone.utc).isoformat()[:-6] + "Z"


def _one_line(text: str | None) -> str | None:
    """Return the text on one line, for messages."""
    return " ".join(text.split()) if text else None


def _halves(stem: str) -> tuple[str, str]:
    name, _, version = stem.rpartition("-")
    return name, version


def _sdist_splits(stem: str) -> Iterator[tuple[str, str]]:
    """Yield each way to read ``name-version``: either of them may hold a dash."""
    for match in re.finditer("-", stem):
        yield stem[: match.start()], stem[match.end() :]


@lru_cache(maxsize=65536)
def _version(text: str) -> str:
    try:
        return str(Version(text))
    except ValueError:  # also a number of too many digits
        return ""


_LEVEL = 1  # Deflate: the fastest takes most of it.
_SIZE = 4
_WASTE = 4  # Rows of one width may take so many times the space of their texts.
_NARROW = 1 << 16
# Begins an address that does not end in the file's name; any other is stored without that name.
_WHOLE = "\0"
_STORED = tuple(name for name in COLUMNS if name not in ("index", "url"))


class _Column(Sequence[str]):
    """A column whose rows are unpacked when they are read.

    text: returns one row.
    """

    __slots__ = ("_count", "_text")

    def __init__(self, count: int, text: Callable[[int], str]) -> None:
        self._count = count
        self._text = text

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        found = range(self._count)[row]
        return self._text(found) if isinstance(found, int) else [self._text(x) for x in found]

    def __iter__(self) -> Iterator[str]:
        return map(self._text, range(self._count))

    def __len__(self) -> int:
        return self._count


def _rows(count: int, content: memoryview, width: int) -> _Column:
    """Return a column whose rows take the same number of bytes, filled up with zeros."""

    def text(row: int) -> str:
        packed = bytes(content[row * width : (row + 1) * width])
        return packed.rstrip(b"\0").decode("utf-8", "surrogatepass")

    return _Column(count, text)


def _urls(heads: Sequence[str], stems: Sequence[str], tails: Sequence[str]) -> _Column:
    """Return a column of addresses, most of which end in the name of the file."""

    def text(row: int) -> str:
        head = heads[row]
        return head[1:] if head.startswith(_WHOLE) else head + stems[row] + tails[row]

    return _Column(len(heads), text)


def encode(page: Page, *, source: str = "") -> bytes:
    """Return a page in the form in which it is cached.

    source: a digest of what the page was read from.
    """
    heads = list(_heads(page.files))
    columns = [heads, page.announced, *map(page.files.column, _STORED)]
    described: list[tuple[int, Sequence[str]]] = []
    numbers, rows = bytearray(), bytearray()
    for column in columns:
        coded = Coded.of(column)
        width = _width(column, coded.values)
        described.append((width, [] if width else coded.values))
        if width:
            rows += b"".join(_bytes(text).ljust(width, b"\0") for text in column)
        else:
            numbers += _packed(coded)
    counts = (len(heads), page.listed, page.skipped)
    head = json.dumps([counts, described, source, len(rows)]).encode() + b"\n" + numbers
    packed = zlib.compress(head, _LEVEL)
    return len(packed).to_bytes(_SIZE, "little") + packed + rows + page.packed_facts


def decode(content: bytes, *, index: str) -> Page:
    """Return what was encoded.

    Raises:
        ValueError: it is not what `encode` wrote.
    """
    try:
        return _decode(content, index)
    except (zlib.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not a page: {error}") from error


def source_of(content: bytes) -> str:
    """Return the digest that `encode` stored."""
    return str(_head(content)[0][2])


# JSON holds values of any type; the caller checks them.
def _head(content: bytes) -> tuple[Any, bytes, int]:
    """Return the head, the packed numbers behind it, and where the rows begin."""
    start = _SIZE + int.from_bytes(content[:_SIZE], "little")
    text, _, numbers = zlib.decompress(content[_SIZE:start]).partition(b"\n")
    found: list[Any] = json.loads(text)
    counts, described, source, size = found
    return (counts, described, source, start + size), numbers, start


def _decode(content: bytes, index: str) -> Page:
    ((count, listed, skipped), described, _, end), numbers, start = _head(content)
    columns = list(_columns(described, count, numbers, memoryview(content)[start:]))
    heads, announced, *stored = columns
    found: dict[str, Sequence[str]] = dict(zip(_STORED, stored, strict=True))
    found["index"] = Coded((index,), [0] * count)
    found["url"] = _urls(heads, found["stem"], found["tail"])
    return Page(
        files=Files(found),
        announced=announced,
        listed=listed,
        skipped=skipped,
        packed_facts=content[end:],
    )


def _columns(
    described: list[Any], count: int, numbers: bytes, rows: memoryview
) -> Iterator[Sequence[str]]:
    number = row = 0
    for width, values in described:
        if width:
            yield _rows(count, rows[row : row + width * count], width)
            row += width * count
        else:
            codes = array(_type(len(values)))
            size = codes.itemsize * count
            codes.frombytes(numbers[number : number + size])
            if sys.byteorder == "big":
                codes.byteswap()
            yield Coded(values, codes)
            number += size


def _packed(column: Coded) -> bytes:
    codes = array(_type(len(column.values)), column.codes)
    if sys.byteorder == "big":
        codes.byteswap()
    return codes.tobytes()


def _type(values: int) -> str:
    return "H" if values < _NARROW else "I"


def _width(column: Sequence[str], values: Sequence[str]) -> int:
    """Return how wide rows must be, bytes; 0 where the column is better numbered."""
    if 2 * len(values) <= len(column):
        return 0
    sizes = [len(_bytes(text)) for text in column]
    width = max(sizes, default=0)
    return width if width * len(sizes) <= _WASTE * sum(sizes) else 0


def _heads(files: Files) -> Iterator[str]:
    """Yield each address without the file's name at its end."""
    names = map(str.__add__, files.column("stem"), files.column("tail"))
    for url, name in zip(files.column("url"), names, strict=True):
        yield url[: -len(name)] if name and url.endswith(name) else f"{_WHOLE}{url}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def project_page(location: IndexLocation, root: Path, name: str) -> Page | None:
    """Read a project's page of an index in a folder; None where it has no such project.

    Raises:
        OSError: the folder is not there, or the page cannot be read.
    """
    path = root / name / "index.html"
    if not path.is_file():
        root.stat()  # A folder that is gone is a fault, not an index without packages.
        return None
    return _html(path, name=name, index=location.name)


def links(location: IndexLocation, place: Path) -> Page:
    """Read a folder of wheels and sdists, a page of links, or a single file.

    Raises:
        OSError: there is no such thing.
    """
    if place.suffix in (".html", ".htm"):
        return _html(place, name="", index=location.name)
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    wanted = [(path, path.stat()) for path in files if is_artifact(path.name)]
    known = [(p, s, name_and_version(p.name, "")) for p, s in wanted]
    artifacts = tuple(
        Artifact(
            name=names[0],
            version=names[1],
            filename=path.name,
            sha256="",
            url=path.as_uri(),
            index=location.name,
            size=status.st_size,
        )
        for path, status, names in known
        if names
    )
    return Page(
        files=Files.of(artifacts),
        announced=[""] * len(artifacts),
        listed=len(files),
        skipped=len(wanted) - len(artifacts),
    )


def with_local_hash(artifact: Artifact, cache: IndexCache) -> Artifact:
    """Return a local artifact with its SHA-256 and size; computed once while it stays as it is.

    Any other artifact, and one that is not there, comes back unchanged.
    """
    path = path_of(artifact.url)
    if path is None or artifact.sha256 or not path.is_file():
        return artifact
    status = path.stat()
    size, modified = status.st_size, status.st_mtime_ns
    digest = cache.file_hash(path, size=size, modified=modified)
    if digest is None:
        digest = file_sha256(path)
        cache.keep_file_hash(path, size=size, modified=modified, sha256=digest)
    return replace(artifact, sha256=digest, size=size)


def _html(path: Path, *, name: str, index: str) -> Page:
    text = path.read_text(encoding="utf-8", errors="replace")
    return parse_html(text, url=path.absolute().as_uri(), name=name, index=index)
