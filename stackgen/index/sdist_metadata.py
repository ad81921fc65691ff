"""Read what a source distribution requires, where it says so without being built."""

import re
import zlib
from typing import IO

from stackgen.index.wheel_metadata import UnusableMetadataError, parse_headers, requirements
from stackgen.values import Metadata

_LARGEST = 16 << 20
_FARTHEST = 1 << 30  # So much is unpacked in search of PKG-INFO, and no more.
_MEMBER = re.compile(r"[^/]+/PKG-INFO")
_STATIC = (2, 2)  # From this version of the metadata on, what is not called dynamic is final.

UNSAID = (
    "this source distribution says what it requires only when it is built, "
    "and stackgen builds nothing while it resolves"
)


class SilentSdistError(UnusableMetadataError):
    """A source distribution is sound, and does not say what it requires."""


def read_sdist(file: IO[bytes], *, filename: str, name: str) -> Metadata:
    """Read the PKG-INFO of a source distribution (PEP 643).

    Raises:
        SilentSdistError: it may require anything: only building it would tell.
        UnusableMetadataError: it cannot be read, or belongs to another project.
    """
    import tarfile
    import zipfile

    try:
        file.seek(0)
        content = _of_zip(file) if filename.endswith(".zip") else _of_tar(file)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UnusableMetadataError(f"it is not a readable archive: {error}") from error
    message = parse_headers(content, name=name)
    dynamic = {str(field).strip().lower() for field in message.get_all("Dynamic", [])}
    if _version(str(message["Metadata-Version"])) < _STATIC or "requires-dist" in dynamic:
        raise SilentSdistError(UNSAID)
    return requirements(message)


def _of_tar(file: IO[bytes]) -> bytes:
    import tarfile

    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in archive:
            if member.offset > _FARTHEST:
                break
            if member.isfile() and member.size <= _LARGEST and _MEMBER.fullmatch(member.name):
                content = archive.extractfile(member)
                return b"" if content is None else content.read()
    raise SilentSdistError(UNSAID)


def _of_zip(file: IO[bytes]) -> bytes:
    import zipfile

    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.file_size <= _LARGEST and _MEMBER.fullmatch(member.filename):
                return archive.read(member)
    raise SilentSdistError(UNSAID)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
