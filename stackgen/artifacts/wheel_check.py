"""Is this file a wheel that may be unpacked? Looked at once, before anything of it is used."""

import base64
import csv
import hashlib
import io
import re
import zipfile
import zlib
from pathlib import Path

from stackgen.errors import BuildError

_CHUNK = 1 << 20
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_DRIVE = re.compile(r"[A-Za-z]:")
_ALGORITHMS = ("sha256", "sha384", "sha512")
_LARGEST_RECORD = 64 << 20


def check_wheel(path: Path, *, name: str = "") -> None:
    """Check a wheel: a sound zip, no member outside its prefix, contents as its RECORD says.

    name: what errors call it, where the file has another name as yet.
    It reads and hashes every member: about a second for 100 MB of wheel.

    Raises:
        BuildError: it is not such a wheel; the error names file and member.
    """
    shown = name or path.name
    try:
        with zipfile.ZipFile(path) as wheel:
            _check_names(shown, wheel.infolist())
            for member, (algorithm, digest) in _recorded(shown, wheel).items():
                if _digest(wheel, member, algorithm) != digest:
                    raise _refusal(shown, f"{member} differs from what its RECORD says")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refusal(shown, f"it is not a readable zip file: {error}") from error


def _check_names(shown: str, members: list[zipfile.ZipInfo]) -> None:
    seen: dict[str, int] = {}
    for member in members:
        # ZipInfo cuts at a NUL and turns separators of this system into slashes.
        name = member.orig_filename
        if _escapes(name):
            raise _refusal(shown, f"its member {name!r} would be written outside the prefix")
        if seen.setdefault(name, member.CRC) != member.CRC:
            raise _refusal(shown, f"it holds {name!r} twice, with different contents")


def _escapes(name: str) -> bool:
    is_rooted = name.startswith("/") or _DRIVE.match(name) is not None
    return is_rooted or "\\" in name or "\0" in name or ".." in name.split("/")


def _recorded(shown: str, wheel: zipfile.ZipFile) -> dict[str, tuple[str, bytes]]:
    """Return algorithm and digest of each member that RECORD lists with one."""
    records = [x for x in wheel.infolist() if _RECORD.fullmatch(x.filename)]
    if len(records) != 1 or records[0].file_size > _LARGEST_RECORD:
        raise _refusal(shown, f"it holds {len(records)} RECORD files; a wheel has one")
    present = {member.filename for member in wheel.infolist()}
    text = wheel.read(records[0]).decode("utf-8", errors="replace")
    found: dict[str, tuple[str, bytes]] = {}
    for row in csv.reader(io.StringIO(text)):
        name, stated = (*row, "", "")[:2]
        algorithm, _, encoded = stated.partition("=")
        # Lines without a file are harmless: wheels are known to list byte code that they lack.
        if name in present and algorithm in _ALGORITHMS:
            found[name] = (algorithm, _decoded(encoded))
    return found


def _decoded(encoded: str) -> bytes:
    """Return a digest from URL-safe base64 without padding; empty where it is none."""
    bare = encoded.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        return b""


def _digest(wheel: zipfile.ZipFile, name: str, algorithm: str) -> bytes:
    digest = hashlib.new(algorithm)
    with wheel.open(name) as member:
        while chunk := member.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()


def _refusal(shown: str, why: str) -> BuildError:
    return BuildError(
        f"the wheel {shown} is not safe to unpack",
        why=why,
        fix="exclude this release, and tell its authors",
    )
