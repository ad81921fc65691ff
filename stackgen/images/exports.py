"""Folders that hold an image, or what makes one, for other people's tools."""

import contextlib
import errno
import gzip
import hashlib
import json
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from stackgen.errors import EngineError, StorageError, UsageError
from stackgen.images.engine import Engine, explained
from stackgen.images.layers import (
    LAYOUT_FILE,
    PREFIX,
    Blob,
    ImageConfig,
    blob_of,
    image_index,
    image_manifest,
    read_config,
)
from stackgen.storage.files import stream_sha256

_CHUNK = 1 << 20
_BLOBS = Path("blobs", "sha256")


def write_layout(
    engine: Engine, image_id: str, folder: Path, *, name: str, needed_bytes: int = 0
) -> int:
    """Write an image as an OCI image layout, as skopeo and podman read it; return its bytes.

    The same image gives the same bytes. Layers stay as they are in the engine: what copies the
    layout to a registry compresses them.

    Args:
        engine: that holds the image.
        image_id: of the image.
        folder: appears whole or not at all.
        name: of the image within the layout.
        needed_bytes: of disk space; 0 if unknown.

    Raises:
        UsageError: the folder is there and holds something.
        EngineError: the engine does not hand the image out, or in an unknown form.
        StorageError: the disk is full, or cannot be written.
    """
    with appearing(folder, needed_bytes=needed_bytes) as place:
        (place / _BLOBS).mkdir(parents=True)
        with explained(f"the engine does not hand out the image {image_id[:19]}"):
            members = _unpacked(engine.api.get_image(image_id), place)
        config_blob, layers = _described(members, place)
        config = read_config(_path(place, config_blob).read_bytes())
        layers = _checked(config, layers, place)
        manifest = image_manifest(config, config_blob, layers)
        (place / _BLOBS / blob_of(manifest).digest.partition(":")[2]).write_bytes(manifest)
        (place / "index.json").write_bytes(image_index(config, manifest, name=name))
        (place / "oci-layout").write_bytes(LAYOUT_FILE)
        wanted = {each.digest for each in (config_blob, *layers, blob_of(manifest))}
        for path in (place / _BLOBS).iterdir():
            if f"sha256:{path.name}" not in wanted:
                path.unlink()
        return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


@contextlib.contextmanager
def appearing(folder: Path, *, needed_bytes: int = 0) -> Iterator[Path]:
    """Yield an empty folder that is moved to its place at the end of the context.

    Args:
        folder: to be made.
        needed_bytes: of disk space, for the message where the disk is full; 0 if unknown.

    Raises:
        UsageError: the folder is there and holds something.
        StorageError: it cannot be written.
    """
    refuse_occupied(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}-", ignore_cleanup_errors=True
        ) as temporary:
            place = Path(temporary, "folder")
            place.mkdir(mode=0o755)
            yield place
            place.rename(folder)  # an empty folder of that name gives way
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and folder.parent.is_dir():
            raise _occupied(folder) from error
        raise _unwritable(folder, error, needed_bytes=needed_bytes) from error


def _unpacked(chunks: Iterable[bytes], place: Path) -> Mapping[str, Blob]:
    """Write each file of an engine's archive under its digest; return their blobs by name."""
    found: dict[str, Blob] = {}
    links: dict[str, str] = {}
    with tarfile.open(
        fileobj=cast("IO[bytes]", _Pipe(chunks)), mode="r|", bufsize=_CHUNK
    ) as archive:
        for member in archive:
            name = posixpath.normpath(member.name)
            if member.isreg() and (source := archive.extractfile(member)):
                found[name] = _written(source, place)
            elif member.issym():
                links[name] = posixpath.normpath(
                    posixpath.join(posixpath.dirname(name), member.linkname)
                )
            elif member.islnk():
                links[name] = posixpath.normpath(member.linkname)
    found.update({name: found[target] for name, target in links.items() if target in found})
    return found


class _Pipe:
    """What an engine sends, as a file that is read once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return so many bytes; fewer only at the end."""
        parts: list[memoryview] = []
        while size and (self._rest or self._more()):
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _more(self) -> bool:
        self._rest = memoryview(next(self._chunks, b""))
        return len(self._rest) > 0


def _written(source: IO[bytes], place: Path) -> Blob:
    digest, size = hashlib.sha256(), 0
    partial = place / "partial"
    with partial.open("wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    blob = Blob(digest=f"sha256:{digest.hexdigest()}", size=size)
    partial.replace(_path(place, blob))
    return blob


def _described(members: Mapping[str, Blob], place: Path) -> tuple[Blob, list[Blob]]:
    """Return the blobs of configuration and layers, as the archive's own manifest names them."""
    try:
        (entry,) = json.loads(_path(place, members["manifest.json"]).read_bytes())
        names = [posixpath.normpath(each) for each in (entry["Config"], *entry["Layers"])]
        config, *found = (members[name] for name in names)
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown_form(f"its archive cannot be read: {error!r}") from error
    return config, found


def _checked(config: ImageConfig, found: Sequence[Blob], place: Path) -> list[Blob]:
    """Compare the layers with the configuration; return them, those marked that are compressed."""
    if len(found) != len(config.diff_ids):
        raise _unknown_form(f"{len(found)} layers, and {len(config.diff_ids)} were promised")
    checked = []
    for blob, diff_id in zip(found, config.diff_ids, strict=True):
        zipped = blob.digest != diff_id
        if zipped and _unzipped_digest(_path(place, blob)) != diff_id:
            raise _unknown_form(f"layer {diff_id[:19]} is not what was promised")
        checked.append(replace(blob, zipped=zipped))
    return checked


def _unzipped_digest(path: Path) -> str:
    try:
        with gzip.open(path) as file:
            return f"sha256:{stream_sha256(cast('IO[bytes]', file))}"
    except (gzip.BadGzipFile, EOFError):
        return ""


def _path(place: Path, blob: Blob) -> Path:
    return place / _BLOBS / blob.digest.partition(":")[2]


def refuse_occupied(folder: Path) -> None:
    """Refuse a folder that cannot be created, before anything is built for it.

    Raises:
        UsageError: the folder is there and holds something.
        StorageError: the folder cannot be read.
    """
    try:
        occupied = folder.is_symlink() or (
            folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        )
    except OSError as error:
        raise _unwritable(folder, error, needed_bytes=0) from error
    if occupied:
        raise _occupied(folder)


def _unwritable(folder: Path, error: OSError, *, needed_bytes: int) -> StorageError:
    needed = f" (about {needed_bytes / 1e6:.0f} MB are needed)" if needed_bytes else ""
    why = (error.strerror or str(error)) + needed * (error.errno == errno.ENOSPC)
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        why = f"{folder.parent} is no folder"
    return StorageError(
        f"cannot write the folder {folder}",
        why=why,
        fix="name a folder that can be written, on a disk with enough free space",
    )


def _occupied(folder: Path) -> UsageError:
    return UsageError(
        f"{folder} is there already",
        why="it is no empty folder, and nothing of yours is overwritten",
        fix="name another folder, or remove that one",
    )


def _unknown_form(why: str) -> EngineError:
    return EngineError(
        "the engine hands out an image in an unknown form",
        why=why,
        fix="run: stackgen doctor; if the engine is fine, please report this",
    )


# Dockerfile

_TEMPLATE = """\
# {packages} of {lock}, for Python {python} ({base}).
# Written by stackgen {version}; it needs Docker and an index, and no stackgen:
#   docker build -t NAME .
# Where no container registry can be reached, name an image of yours and its interpreter:
#   docker build -t NAME --build-arg BASE=IMAGE --build-arg PYTHON=/usr/bin/python3 .
ARG BASE={image}
ARG PYTHON={interpreter}

# Nothing of this stage ends up in the image but {prefix}: not this folder, and no argument.
FROM ${{BASE}} AS build
ARG PYTHON
USER 0
# For another index, or an authority of your own (put certificates.pem into this folder):
#   --build-arg PIP_INDEX_URL=... --build-arg PIP_CERT=/context/certificates.pem
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
COPY . /context/
# pip works from the virtualenv beside it, so that the stack holds its own packages alone.
RUN "${{PYTHON}}" -m venv /pip && "${{PYTHON}}" -m venv --without-pip {prefix}
RUN PYTHONPATH="$(echo /pip/lib/python*/site-packages)" {prefix}/bin/python -m pip install \\
    --require-hashes --no-deps --only-binary=:all: --ignore-installed --no-cache-dir \\
    {options}-r /context/requirements.txt

FROM ${{BASE}}
COPY --from=build {prefix} {prefix}
ENV PATH="{prefix}/bin:${{PATH}}" VIRTUAL_ENV="{prefix}"
WORKDIR /
CMD ["{prefix}/bin/python"]
"""


def dockerfile(
    *,
    image: str,
    interpreter: str,
    base: str,
    python: str,
    packages: int,
    lock: str,
    version: str,
    wheels: bool,
    index: bool,
) -> str:
    """Return the text of a Dockerfile; beside it lies a requirements.txt with hashes.

    Args:
        image: what it starts from, as an engine finds it.
        interpreter: within that image.
        base: what stackgen calls the base.
        python: its version.
        packages: how many are installed.
        lock: name of the lock file.
        version: of stackgen.
        wheels: whether some wheels lie in the folder ``wheels`` beside it.
        index: whether anything has to come from an index.
    """
    options = "--find-links=/context/wheels " * wheels + "--no-index " * (not index)
    return _TEMPLATE.format(
        image=image,
        interpreter=interpreter,
        base=base,
        python=python,
        packages=f"The {packages} packages" if packages > 1 else "The package",
        lock=" ".join(lock.split()),
        version=version,
        prefix=PREFIX,
        options=options,
    )


def index_options(*, urls: Sequence[str], pages: Sequence[str], default: bool) -> str:
    """Return the head of a requirements.txt that names indexes other than the default one.

    Args:
        urls: of these indexes, without credentials.
        pages: of links to files, without credentials.
        default: whether the default index is used, too.
    """
    named = [("--extra-index-url" if default or at else "--index-url", url)
             for at, url in enumerate(urls)]  # fmt: skip
    lines: list[str] = []
    for option, url in [*named, *(("--find-links", page) for page in pages)]:
        lines.append(f"{option} {url}\n")
        if url.startswith("http://"):  # pip passes over a plain connection otherwise
            host = url.split("/")[2]
            lines.append(f"--trusted-host {host}\n")
    return "".join(lines)
