"""Read what a source distribution requires, and how it is built, without building it."""

import re
import sys
import zlib
from typing import IO

from stackgen.index.wheel_metadata import (
    UnusableMetadataError,
    check_size,
    parse_headers,
    requirements,
)
from stackgen.values import Metadata
from stackgen.values.sources import BuildSystem

_FARTHEST = 1 << 30  # So much is unpacked in search of PKG-INFO, and no more.
_MEMBER = re.compile(r"(?:\./)?[^/]+/PKG-INFO")
_PYPROJECT = re.compile(r"(?:\./)?[^/]+/pyproject\.toml")
_STATIC = (2, 2)  # From this version of the metadata on, what is not called dynamic is final.

UNSAID = (
    "only a source distribution fits, and its metadata need a build: "
    "stackgen builds nothing while it resolves"
)


class SilentSdistError(UnusableMetadataError):
    """A source distribution is sound, and does not say what it requires."""


def read_sdist(file: IO[bytes], *, filename: str, name: str) -> Metadata:
    """Read the PKG-INFO of a source distribution (PEP 643).

    Raises:
        SilentSdistError: it may require anything: only building it would tell.
        UnusableMetadataError: it cannot be read, or belongs to another project.
    """
    content = _member(file, filename, _MEMBER)
    if content is None:
        raise SilentSdistError(UNSAID)
    message = parse_headers(content, name=name)
    dynamic = {str(field).strip().lower() for field in message.get_all("Dynamic", [])}
    if _version(str(message["Metadata-Version"])) < _STATIC or "requires-dist" in dynamic:
        raise SilentSdistError(UNSAID)
    return requirements(message)


def read_build_system(file: IO[bytes], *, filename: str) -> BuildSystem:
    """Read what a source distribution needs to be built (PEP 518); without a word, setuptools.

    Raises:
        UnusableMetadataError: its pyproject.toml cannot be read, or does not say it properly.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    content = _member(file, filename, _PYPROJECT)
    try:
        document = tomllib.loads((content or b"").decode("utf-8"))
    except ValueError as error:
        raise UnusableMetadataError(f"its pyproject.toml cannot be read: {error}") from error
    table = document.get("build-system")
    if table is None:
        return BuildSystem(requires=("setuptools>=40.8", "wheel"))
    if not isinstance(table, dict) or "requires" not in table:
        raise UnusableMetadataError("its pyproject.toml does not say what building it requires")
    backend = table.get("build-backend", "")
    if not isinstance(backend, str):
        raise UnusableMetadataError("its pyproject.toml names no readable build backend")
    return BuildSystem(
        requires=_texts(table["requires"]),
        backend=backend,
        backend_path=_texts(table.get("backend-path", [])),
    )


def _texts(found: object) -> tuple[str, ...]:
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        return tuple(found)
    raise UnusableMetadataError("its pyproject.toml does not list texts where it should")


def _member(file: IO[bytes], filename: str, wanted: re.Pattern[str]) -> bytes | None:
    """Return the first member of that name, or None where there is none.

    Raises:
        UnusableMetadataError: it is no archive that can be read.
    """
    import tarfile
    import zipfile

    try:
        file.seek(0)
        return _of_zip(file, wanted) if filename.endswith(".zip") else _of_tar(file, wanted)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UnusableMetadataError(f"it is not a readable archive: {error}") from error


def _of_tar(file: IO[bytes], wanted: re.Pattern[str]) -> bytes | None:
    import tarfile

    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in archive:
            if member.offset > _FARTHEST:
                break
            if member.isfile() and wanted.fullmatch(member.name):
                check_size(member.name, member.size)
                content = archive.extractfile(member)
                return b"" if content is None else content.read()
    return None


def _of_zip(file: IO[bytes], wanted: re.Pattern[str]) -> bytes | None:
    import zipfile

    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if wanted.fullmatch(member.filename):
                check_size(member.filename, member.file_size)
                return archive.read(member)
    return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
