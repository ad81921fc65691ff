"""Which indexes are used, in which order: command line, environment, pip's and uv's own files."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from stackgen.errors import UsageError


@lru_cache(maxsize=1)
def default_index() -> str:
    """Return the address of PyPI, which is used where no index is configured: pypi-simple knows it.

    To import that library takes a fifth of a second; the address stands in plain text in its
    source.
    """
    spec = find_spec("pypi_simple")
    source = getattr(spec and spec.loader, "get_source", lambda _: "")("pypi_simple")
    found = re.search(r'^PYPI_SIMPLE_ENDPOINT\b.*= "(.+)"$', source or "", re.MULTILINE)
    if found:
        return found[1]
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return str(PYPI_SIMPLE_ENDPOINT)


DEFAULT_NAME = "PyPI"
_SCHEMES = ("http", "https", "file")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password; neither is ever printed or stored."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Credentials(***)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLocation:
    """One index, or one page or folder of links.

    name: what messages and locks call it.
    url: without credentials; those stand apart and stay out of the repr.
    """

    name: str
    url: str
    credentials: Credentials | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if "@" in urlsplit(self.url).netloc:
            raise ValueError("credentials stand apart from an index's URL")

    @property
    def origin(self) -> tuple[str, str]:
        """Return scheme and host: what its credentials are good for."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """What one response may take, so that no server stops a run for ever or fills the memory.

    response_s: total time for a page, a metadata file, or a part of a wheel, with all retries.
    page_bytes: the largest page, uncompressed.
    rate_bytes_s, rate_window_s: a connection that brings fewer bytes per second, on average over
        this time of waiting, is closed and opened again. This also limits downloads of wheels,
        which have no total time: they resume where they stopped.
    """

    response_s: float = 300.0
    page_bytes: int = 64 << 20
    rate_bytes_s: float = 1000.0
    rate_window_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexConfig:
    """Where to look for packages.

    indexes: the first that has a package wins.
    compared: indexes whose files stand beside those of the others: the same version of two
        indexes is then two candidates. They may be among `indexes` and win nothing there.
    find_links: folders or pages whose files join the candidates of any index.
    ca_bundle: a file of certificates, or None for those that requests brings.
    connect_timeout_s, read_timeout_s: of one attempt; read is the time without a byte.
    limits: of each response; a longer read timeout lengthens the times in them.
    offline: answer from the cache (and from local files) alone.
    """

    indexes: tuple[IndexLocation, ...]
    compared: tuple[IndexLocation, ...] = ()
    find_links: tuple[IndexLocation, ...] = ()
    ca_bundle: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0
    limits: TransferLimits = field(default_factory=TransferLimits)
    offline: bool = False

    @property
    def locations(self) -> tuple[IndexLocation, ...]:
        """Return all places where files are looked for, each once."""
        return tuple(dict.fromkeys((*self.indexes, *self.compared, *self.find_links)))

    def location_of(self, url: str) -> IndexLocation | None:
        """Return the configured location that lives on the same host as this URL."""
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        same = (x for x in self.locations if x.origin == origin)
        return next(same, None)


def location(text: str, *, name: str = "") -> IndexLocation:
    """Parse a URL or a path, with or without credentials.

    Raises:
        UsageError: a scheme that no index is reached by.
    """
    if "://" not in text:
        text = Path(text).expanduser().absolute().as_uri()
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES:
        raise UsageError(
            f"an index cannot be reached by {parts.scheme}://",
            why=f"only {', '.join(_SCHEMES)} addresses and plain paths are understood",
            fix="check the index URLs in your options, environment and pip configuration",
        )
    user_info, _, host = parts.netloc.rpartition("@")
    url = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    user, _, password = user_info.partition(":")
    credentials = Credentials(unquote(user), unquote(password)) if user_info else None
    return IndexLocation(name=name or _label(url), url=url, credentials=credentials)


def load_config(
    *,
    environ: Mapping[str, str],
    index_url: str | None = None,
    extra_index_urls: Iterable[str] = (),
    find_links: Iterable[str] = (),
    compare: Iterable[str] = (),
    no_index: bool = False,
    offline: bool = False,
) -> IndexConfig:
    """Collect the indexes: command line, then environment, then configuration files.

    The default index comes first, extra ones after it in the order given. A variable of pip's
    replaces the same setting of pip's files, as in pip itself.

    compare: indexes to compare with the others: the name or address of one of them, or a new one
        as ``name=url`` or an address.

    Raises:
        UsageError: a configuration file or an address cannot be understood, or `compare` names
            an unknown index.
    """
    pip, uv = _pip_settings(environ), _uv_settings(environ)
    ignore = no_index or any(
        environ.get(name, "").lower() in ("1", "true", "yes", "on")
        for name in ("PIP_NO_INDEX", "UV_NO_INDEX")
    )
    variables = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    main = _first(index_url, *map(environ.get, variables), uv.default, pip.get("index-url"))
    extras = [
        *extra_index_urls,
        *environ.get("UV_INDEX", "").split(),
        *environ.get("UV_EXTRA_INDEX_URL", "").split(),
        *_first(environ.get("PIP_EXTRA_INDEX_URL"), pip.get("extra-index-url")).split(),
        *uv.extras,
    ]
    links = [
        *find_links,
        *environ.get("UV_FIND_LINKS", "").replace(",", " ").split(),
        *_first(environ.get("PIP_FIND_LINKS"), pip.get("find-links")).split(),
        *uv.find_links,
    ]
    indexes = () if ignore else _distinct([_main_location(main), *map(_named, extras)])
    return IndexConfig(
        indexes=indexes,
        compared=_distinct(_compared(text, indexes) for text in compare),
        find_links=_distinct(map(_named, links)),
        ca_bundle=_ca_bundle(environ, pip),
        read_timeout_s=_timeout(environ, pip),
        offline=offline,
    )


def _first(*values: str | None) -> str:
    return next((value for value in values if value), "")


def _main_location(url: str) -> IndexLocation:
    if not url or url.rstrip("/") == default_index().rstrip("/"):
        return location(default_index(), name=DEFAULT_NAME)
    return _named(url)


def _named(text: str) -> IndexLocation:
    """Parse ``name=url`` (uv's way) or a bare address."""
    name, equals, url = text.partition("=")
    if equals and name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return location(url, name=name)
    return location(text)


def _compared(text: str, indexes: Sequence[IndexLocation]) -> IndexLocation:
    """Find an index by what it is called, or parse a new one."""
    for each in indexes:
        if text == each.name or text.rstrip("/") == each.url.rstrip("/"):
            return each
    if "/" not in text:
        known = ", ".join(each.name for each in indexes)
        raise UsageError(
            f"there is no index {text} to compare with",
            why=f"the indexes are called: {known or 'none is configured'}",
            fix="name one of them, or give a new one: --compare-index name=URL",
        )
    new = _named(text)
    taken = next((each for each in indexes if each.name == new.name and each.url != new.url), None)
    if taken is not None:
        raise UsageError(
            f"two indexes are called {new.name}",
            why="a version that is compared is identified by the name of its index",
            fix="give the new one another name: --compare-index name=URL",
        )
    # One that is configured already, under its own name and with its credentials.
    same = (each for each in indexes if each.url.rstrip("/") == new.url.rstrip("/"))
    return next(same, new)


def _label(url: str) -> str:
    if url.rstrip("/") == default_index().rstrip("/"):
        return DEFAULT_NAME
    return urlunsplit((*urlsplit(url)[:3], "", ""))


def _distinct(locations: Iterable[IndexLocation]) -> tuple[IndexLocation, ...]:
    seen: dict[str, IndexLocation] = {}
    for each in locations:
        seen.setdefault(each.url.rstrip("/"), each)
    return tuple(seen.values())


def _ca_bundle(environ: Mapping[str, str], pip: Mapping[str, str]) -> str | None:
    names = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
    return _first(*map(environ.get, names), pip.get("cert")) or None


def _timeout(environ: Mapping[str, str], pip: Mapping[str, str]) -> float:
    text = _first(
        environ.get("UV_HTTP_TIMEOUT"), environ.get("PIP_DEFAULT_TIMEOUT"), pip.get("timeout")
    )
    try:
        return max(1.0, float(text)) if text else IndexConfig(indexes=()).read_timeout_s
    except ValueError as error:
        raise UsageError(
            f"not a timeout: {text!r}",
            why="UV_HTTP_TIMEOUT and PIP_DEFAULT_TIMEOUT are numbers of seconds",
            fix="correct the variable, or unset it",
        ) from error


def _pip_files(environ: Mapping[str, str]) -> Sequence[Path]:
    """Return pip's configuration files, later ones override (pip: "Configuration Files")."""
    own = environ.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return ()
    shared = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [Path(folder, "pip/pip.conf") for folder in reversed(shared.split(":")) if folder]
    files.append(Path("/etc/pip.conf"))
    if home := environ.get("HOME"):
        config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        files.append(Path(home, ".pip/pip.conf"))
        files.append(Path(config, "pip/pip.conf"))
        files.append(Path(home, "Library/Application Support/pip/pip.conf"))
    if own:
        files.append(Path(own))
    return files


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of [global], overridden by those of [install]."""
    settings: dict[str, str] = {}
    for path in filter(Path.is_file, _pip_files(environ)):
        import configparser

        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        for section in ("global", "install"):
            if parser.has_section(section):
                pairs = parser.items(section)
                settings.update((key.replace("_", "-"), value) for key, value in pairs)
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _UvSettings:
    default: str = ""
    extras: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


def _uv_settings(environ: Mapping[str, str]) -> _UvSettings:
    """Read the first uv.toml that exists: named by UV_CONFIG_FILE, the user's, the system's."""
    if environ.get("UV_NO_CONFIG"):
        return _UvSettings()
    home = environ.get("HOME")
    config = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    places = [environ.get("UV_CONFIG_FILE"), f"{config}/uv/uv.toml" if config else None]
    for place in (*places, "/etc/uv/uv.toml"):
        if place and Path(place).is_file():
            return _parse_uv(Path(place))
    return _UvSettings()


def _parse_uv(path: Path) -> _UvSettings:
    from stackgen.model import toml

    try:
        document = toml.loads(path.read_text(encoding="utf-8"))
        entries = document.get("index", [])
        named = [(f"{x['name']}={x['url']}" if "name" in x else x["url"], x) for x in entries]
        defaults = [text for text, entry in named if entry.get("default")]
        extras = [text for text, entry in named if not entry.get("default")]
        return _UvSettings(
            default=_first(*defaults, document.get("index-url")),
            extras=(*extras, *document.get("extra-index-url", ())),
            find_links=tuple(document.get("find-links", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UsageError:
    return UsageError(
        f"cannot read {path}",
        why=f"{type(error).__name__}: {error}",
        fix="correct the file; PIP_CONFIG_FILE=/dev/null and UV_NO_CONFIG=1 leave such files out",
    )


def address_with_credentials(place: IndexLocation) -> str:
    """Return an index's URL with its credentials, for an environment and nothing else."""
    given, parts = place.credentials, urlsplit(place.url)
    if given is None:
        return place.url
    user, password = quote(given.user, safe=""), quote(given.password, safe="")
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))


def uv_variables(config: IndexConfig) -> dict[str, str]:
    """Return the environment that lets uv look where we look, in our order.

    uv takes its default index last, so the last of ours is given as that.
    """
    addresses = [address_with_credentials(each) for each in config.indexes]
    found = {
        "UV_NO_CONFIG": "1",
        "UV_HTTP_TIMEOUT": f"{config.read_timeout_s:.0f}",
        "UV_HTTP_RETRIES": "2",
        "UV_INDEX": " ".join(addresses[:-1]),
        "UV_DEFAULT_INDEX": "".join(addresses[-1:]),
        "UV_FIND_LINKS": ",".join(address_with_credentials(each) for each in config.find_links),
        "SSL_CERT_FILE": config.ca_bundle or "",
    }
    return {key: value for key, value in found.items() if value}
