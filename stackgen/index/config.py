"""Which indexes to ask, in which order: command line, environment, pip's and uv's own files."""

import configparser
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from stackgen.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
class IndexConfig:
    """Where to look for packages.

    indexes: the first that has a package wins.
    find_links: folders or pages whose files join the candidates of whatever index.
    ca_bundle: a file of certificates, or None for those that requests brings.
    connect_timeout_s, read_timeout_s: of one attempt; read is the time without a byte.
    offline: answer from the cache (and from local files) alone.
    """

    indexes: tuple[IndexLocation, ...]
    find_links: tuple[IndexLocation, ...] = ()
    ca_bundle: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0
    offline: bool = False

    def location_of(self, url: str) -> IndexLocation | None:
        """Return the configured location that lives on the same host as this URL."""
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        same = (x for x in (*self.indexes, *self.find_links) if x.origin == origin)
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
    no_index: bool = False,
    offline: bool = False,
) -> IndexConfig:
    """Collect the indexes: command line, then environment, then configuration files.

    The default index comes first, extra ones after it in the order given. A variable of pip's
    replaces the same setting of pip's files, as in pip itself.

    Raises:
        UsageError: a configuration file or an address cannot be understood.
    """
    pip, uv = _pip_settings(environ), _uv_settings(environ)
    ignore = no_index or any(
        environ.get(name, "").lower() in ("1", "true", "yes", "on")
        for name in ("PIP_NO_INDEX", "UV_NO_INDEX")
    )
    main = _first(index_url, _environment_index(environ), uv.default, pip.get("index-url"))
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
    return IndexConfig(
        indexes=() if ignore else _distinct([_main_location(main), *map(_named, extras)]),
        find_links=_distinct(map(_named, links)),
        ca_bundle=_ca_bundle(environ, pip),
        read_timeout_s=_timeout(environ, pip),
        offline=offline,
    )


def _first(*values: str | None) -> str:
    return next((value for value in values if value), "")


def _environment_index(environ: Mapping[str, str]) -> str:
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    return _first(*(environ.get(name) for name in names))


def _main_location(url: str) -> IndexLocation:
    if not url or url.rstrip("/") == PYPI_SIMPLE_ENDPOINT.rstrip("/"):
        return location(PYPI_SIMPLE_ENDPOINT, name=DEFAULT_NAME)
    return _named(url)


def _named(text: str) -> IndexLocation:
    """Parse ``name=url`` (uv's way) or a bare address."""
    name, equals, url = text.partition("=")
    if equals and name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return location(url, name=name)
    return location(text)


def _label(url: str) -> str:
    if url.rstrip("/") == PYPI_SIMPLE_ENDPOINT.rstrip("/"):
        return DEFAULT_NAME
    return urlunsplit((*urlsplit(url)[:3], "", ""))


def _distinct(locations: Iterable[IndexLocation]) -> tuple[IndexLocation, ...]:
    seen: dict[str, IndexLocation] = {}
    for each in locations:
        seen.setdefault(each.url.rstrip("/"), each)
    return tuple(seen.values())


def _ca_bundle(environ: Mapping[str, str], pip: Mapping[str, str]) -> str | None:
    names = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
    return _first(*(environ.get(name) for name in names), pip.get("cert")) or None


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
    for path in _pip_files(environ):
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
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
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
