"""Refuse stacks in which one wheel replaces the code of another: what runs is not what is locked.

Which of the two files stays depends on the order of installation, which differs between tools and
between images and virtualenvs. Wheels that share a folder which bears the name of neither
(``tests``, ``cv2``, ``google``) are common, and are left alone.
"""

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from packaging.utils import canonicalize_name

from stackgen.errors import BuildError
from stackgen.model.packages import Artifact

_PURE = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_KNOWN = 512  # wheels, a few names each
_UNREADABLE = (zipfile.BadZipFile, OSError, ValueError, KeyError)


def refuse_overwriting(artifacts: Sequence[Artifact], wheels: Mapping[str, Path]) -> None:
    """Refuse a stack where a wheel holds a file of the package that another wheel is named after.

    Files of equal contents are no matter. What cannot be read is for those who unpack it to refuse.

    Args:
        artifacts: of the stack.
        wheels: where they lie, by their sha256.

    Raises:
        BuildError: it is so; both wheels and a file are named.
    """
    paths = {each: wheels[each.sha256] for each in artifacts if each.sha256 in wheels}
    for owner, path in paths.items():
        name = _module(owner.name)
        for other, other_path in paths.items():
            if other is owner or name not in _top_level(other_path, other.sha256):
                continue
            theirs, own = _files(other_path, name), _files(path, name)
            replaced = sorted(
                file for file in theirs.keys() & own.keys() if theirs[file] != own[file]
            )
            if replaced:
                raise _refusal(owner, other, replaced)


def _module(name: str) -> str:
    return canonicalize_name(name).replace("-", "_")


@lru_cache(maxsize=_KNOWN)
def _top_level(wheel: Path, _sha256: str) -> frozenset[str]:
    """Return the names of the modules and packages at the top of a wheel, in lower case."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = (_PURE.sub("", name).split("/", 1)[0] for name in archive.namelist())
            return frozenset(name.split(".", 1)[0].lower() for name in names)
    except _UNREADABLE:
        return frozenset()


def _files(wheel: Path, name: str) -> dict[str, str]:
    """Return the digests that RECORD states for the files of a package, by their places."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            record = next(each for each in archive.namelist() if _RECORD.fullmatch(each))
            text = archive.read(record).decode("utf-8", errors="replace")
    except (*_UNREADABLE, StopIteration):
        return {}
    rows = ((_PURE.sub("", row[0]), row[1]) for row in csv.reader(io.StringIO(text)) if row[1:])
    return {
        file: digest
        for file, digest in rows
        if digest
        and not file.endswith(".pyc")
        and re.split(r"[/.]", file, maxsplit=1)[0].lower() == name
    }


def _refusal(owner: Artifact, other: Artifact, replaced: Sequence[str]) -> BuildError:
    more = f" and {len(replaced) - 1} more files" if len(replaced) > 1 else ""
    return BuildError(
        f"{other.name} {other.version} would replace files of {owner.name} {owner.version}",
        why=f"both hold {replaced[0]}{more}, with different contents: which one runs depends on "
        "the order of installation",
        fix=f"leave out one of them, such as: {other.name}!={other.version}",
    )
