"""Wheels and pages that lie on this machine: file: indexes and folders of find-links."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from stackgen.index.cache import IndexCache
from stackgen.index.config import IndexLocation
from stackgen.index.pages import Page, is_artifact, name_and_version, parse_html
from stackgen.values import Artifact
from stackgen.values.files import Files


def path_of(url: str) -> Path | None:
    """Return the path that a file: URL names; None for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    text = unquote(parts.path)
    is_drive = len(text) > 2 and text[0] == "/" and text[2] == ":"
    return Path(text[1:] if is_drive else text)


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


def hashed(artifact: Artifact, cache: IndexCache) -> Artifact:
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
        digest = sha256_of(path)
        cache.keep_file_hash(path, size=size, modified=modified, sha256=digest)
    return replace(artifact, sha256=digest, size=size)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return digest_of(file)


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of all that an open file holds."""
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _html(path: Path, *, name: str, index: str) -> Page:
    text = path.read_text(encoding="utf-8", errors="replace")
    return parse_html(text, url=path.absolute().as_uri(), name=name, index=index)
