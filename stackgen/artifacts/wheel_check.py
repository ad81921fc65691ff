"""Is this file a wheel that may be unpacked? Looked at once, before anything of it is used."""

import base64
import copy
import csv
import errno
import hashlib
import io
import lzma
import posixpath
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path

from stackgen.errors import BuildError

_CHUNK = 1 << 20
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_DRIVE = re.compile(r"[A-Za-z]:")
# The skeleton of an environment: a wheel that replaced these would choose the interpreter.
_OWN = re.compile(r"pyvenv\.cfg|bin/(python|pypy)[0-9.]*", re.IGNORECASE)
_DATA = re.compile(r"^[^/]+\.data/(data|scripts)/")
_PARTS = ("purelib", "platlib", "scripts", "headers", "data")
_PLACES = {"data": "", "scripts": "bin/"}
_ALGORITHMS = ("sha256", "sha384", "sha512")
_LARGEST_RECORD = 64 << 20
_SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")  # of the files listed, so not listed itself
MOST_UNPACKED, MOST_RATIO, SMALL_UNPACKED = 32 << 30, 100, 256 << 20
"""A wheel may unpack to 32 GiB, and to 100 times its size where that is more than 256 MiB.

Of a thousand wheels of an index, none unpacks to more than 18 times its size; the largest, PyTorch
with its CUDA libraries, to some gigabytes and 4 times.
"""
# What zipfile raises over bytes that are no zip archive, or a broken one.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError),
    *(RuntimeError, ValueError, KeyError, IndexError, struct.error, OverflowError, MemoryError),
)


def check_wheel(path: Path, *, name: str = "") -> None:
    """Check a wheel: a sound zip, no member outside its prefix, all of it as its RECORD says.

    name: what errors call it, where the file has another name as yet.
    It reads and hashes every member: about a second for 100 MB of wheel.

    Raises:
        BuildError: it is not such a wheel; the error names file and member.
    """
    shown = name or path.name
    try:
        with zipfile.ZipFile(path) as wheel:
            _check_size(shown, path.stat().st_size, wheel.infolist())
            _check_names(shown, wheel.infolist())
            recorded = _recorded(shown, wheel)
            for member in wheel.infolist():
                algorithm, digest = recorded.get(member.filename, ("", b""))
                if _digest(shown, wheel, member, algorithm) != digest:
                    raise _refusal(shown, f"{member.filename} differs from what its RECORD says")
    except _UNREADABLE as error:
        raise _refusal(shown, f"it is not a readable zip file: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
        raise _refusal(shown, f"it is not a readable zip file: {error}") from error


def misplaced(name: str) -> str:
    """Return why a member of that name cannot be laid out; "" where it can."""
    is_rooted = name.startswith("/") or _DRIVE.match(name) is not None
    if is_rooted or "\\" in name or "\0" in name or ".." in name.split("/"):
        return "would be written outside the prefix"
    plain = name.removesuffix("/")
    if "\n" in name or posixpath.normpath(plain) != plain or plain == ".":
        return "is no plain path"
    return ""


def is_special(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is anything but a file or a folder: a link, a device, a pipe."""
    return stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR)


def unplaced(name: str, data_dir: str) -> bool:
    """Return whether a member below a wheel's data folder belongs to no part of an environment.

    installer 1.1 never comes back from a file that bears the name of that folder.
    """
    head, *rest = name.split("/")
    return head == data_dir and not name.endswith("/") and (len(rest) < 2 or rest[0] not in _PARTS)


def is_usual(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is packed as wheels are: others may ask for gigabytes of memory."""
    encrypted = member.flag_bits & 0x1
    return member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not encrypted


def replaces_interpreter(place: str) -> bool:
    """Return whether a file, relative to the environment that it is installed in, is its own."""
    return _OWN.fullmatch(place) is not None


def _check_size(shown: str, size: int, members: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(member.file_size for member in members)
    most = min(MOST_UNPACKED, max(SMALL_UNPACKED, MOST_RATIO * size))
    if unpacked > most:
        raise _refusal(
            shown,
            f"its {_megabytes(size)} would unpack to {_megabytes(unpacked)}; a wheel of this size "
            f"may unpack to {_megabytes(most)}",
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _check_names(shown: str, members: list[zipfile.ZipInfo]) -> None:
    seen: dict[str, int] = {}
    for member in members:
        # ZipInfo cuts at a NUL and turns separators of this system into slashes.
        name = member.orig_filename
        if wrong := misplaced(name):
            raise _refusal(shown, f"its member {name!r} {wrong}")
        if not is_usual(member):
            raise _refusal(shown, f"its member {name!r} is packed in an unusual way")
        if is_special(member):
            raise _refusal(shown, f"its member {name!r} is a link or a device")
        if replaces_interpreter(_DATA.sub(lambda found: _PLACES[found[1]], name)):
            raise _refusal(shown, f"its member {name!r} would replace the interpreter")
        if seen.setdefault(name, member.CRC) != member.CRC:
            raise _refusal(shown, f"it holds {name!r} twice, with different contents")


def _recorded(shown: str, wheel: zipfile.ZipFile) -> dict[str, tuple[str, bytes]]:
    """Return algorithm and digest of each member, all of which RECORD has to list with one."""
    records = [x for x in wheel.infolist() if _RECORD.fullmatch(x.filename)]
    if len(records) != 1 or records[0].file_size > _LARGEST_RECORD:
        raise _refusal(shown, f"it holds {len(records)} RECORD files; a wheel has one")
    infos = {head for x in wheel.namelist() if (head := x.split("/")[0]).endswith(".dist-info")}
    if len(infos) != 1:
        raise _refusal(shown, f"it speaks for {len(infos)} packages: {', '.join(sorted(infos))}")
    present = {member.filename for member in wheel.infolist() if not member.is_dir()}
    text = wheel.read(records[0]).decode("utf-8", errors="replace")
    found: dict[str, tuple[str, bytes]] = {}
    for row in csv.reader(io.StringIO(text)):
        name, stated = (*row, "", "")[:2]
        algorithm, _, encoded = stated.partition("=")
        # Lines without a file are harmless: wheels are known to list byte code that they lack.
        if name in present and algorithm in _ALGORITHMS:
            found[name] = (algorithm, _decoded(encoded))
    (info,) = infos
    data_dir = f"{info.removesuffix('.dist-info')}.data"
    for name in sorted(present):
        if unplaced(name, data_dir):
            raise _refusal(shown, f"its member {name!r} belongs to no part of an environment")
    unlisted = present - found.keys() - {f"{info}/{name}" for name in _SIGNATURES}
    if unlisted:
        raise _refusal(shown, f"its RECORD states no digest of {min(unlisted)}")
    return found


def _decoded(encoded: str) -> bytes:
    """Return a digest from URL-safe base64 without padding; empty where it is none."""
    bare = encoded.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        return b""


def _digest(shown: str, wheel: zipfile.ZipFile, member: zipfile.ZipInfo, algorithm: str) -> bytes:
    """Return the digest of a member; empty where no algorithm is stated for it.

    Unpacking tools write all that a member holds, whatever size it declares: zipfile would stop
    there, so one byte more is asked for.
    """
    digest = hashlib.new(algorithm or "sha256")
    longer = copy.copy(member)
    longer.file_size += 1
    size = 0
    with wheel.open(longer) as content:
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    if size > member.file_size:
        declared = f"the {member.file_size} bytes that it declares"
        raise _refusal(shown, f"its member {member.filename!r} unpacks to more than {declared}")
    return digest.digest() if algorithm else b""


def _refusal(shown: str, why: str) -> BuildError:
    return BuildError(
        f"the wheel {shown} is not safe to unpack",
        why=why,
        fix="exclude this release, and tell its authors",
    )
