"""Tell lock formats apart, read each, and name what a foreign file seems to be."""

from collections.abc import Callable, Iterator
from typing import Protocol

from stackgen.errors import UsageError
from stackgen.locks import fields, pipfile, poetry, pylock, requirements, uv
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.foreign import beginning, filename, foreign_text
from stackgen.values import LockFile

ACCEPTED = "Pipfile.lock, poetry.lock, uv.lock, pylock.toml, or a requirements.txt with == pins"


class _Reader(Protocol):
    def __call__(self, text: str, *, path: str, companion: str | None) -> LockFile: ...


_READERS: dict[str, _Reader] = {
    "pipfile": pipfile.read,
    "poetry": poetry.read,
    "uv": uv.read,
    "pylock": pylock.read,
    "requirements": requirements.read,
}


def read_lock(text: str, *, path: str, companion: str | None = None) -> LockFile:
    """Read the lock file of any tool that we know.

    Args:
        text: what the file holds.
        path: as the user gave it, for messages; the format follows from the content.
        companion: what the file beside it holds that says what was asked for: the Pipfile of a
            Pipfile.lock, the pyproject.toml of a poetry.lock, the requirements.in of a
            requirements.txt. Other formats need none.

    Raises:
        UsageError: empty, broken, unpinned, or of a tool that we don't know; it says which.
    """
    try:
        lock = _READERS[_format(text, path)](text, path=path, companion=companion)
    except MalformedError as error:
        raise UsageError(
            f"cannot read {path} as a lock file",
            why=str(error),
            fix=f"give a {ACCEPTED}",
        ) from error
    if not lock.packages:
        raise UsageError(
            f"{path} locks no package",
            why="; ".join(lock.skipped) or "the file names none",
            fix=f"give a {ACCEPTED}, made after the packages were added",
        )
    return lock


def _format(text: str, path: str) -> str:
    """Return the name of the format.

    Raises:
        MalformedError: it is none of ours; the reason names what it seems to be.
    """
    name, start = filename(path), beginning(text)
    if start.startswith("{"):
        return _of_json(start)
    if name == "Pipfile.lock":
        return "pipfile"  # its reader says what is wrong with it
    if foreign := foreign_text(name, start):
        raise MalformedError(f"it seems to be {foreign}")
    if name.endswith((".toml", ".lock")) or name == "Pipfile" or "\n[[package" in f"\n{start}":
        return _of_toml(fields.parse_toml(text))
    return "requirements"


def _of_json(start: str) -> str:
    content = fields.parse_json(start)
    if not isinstance(content, dict):
        raise MalformedError("it is JSON, and not that of a lock file")
    if "_meta" in content:
        return "pipfile"
    if "lockfileVersion" in content:
        raise MalformedError("it seems to be the package-lock.json of JavaScript's npm")
    raise MalformedError("it is JSON, and not that of a Pipfile.lock")


_Judge = Callable[[Table], bool]


def _is_poetry(content: Table) -> bool:
    return "lock-version" in fields.table(
        content.get("metadata"), "metadata"
    ) or "content-hash" in (fields.table(content.get("metadata"), "metadata"))


def _is_uv(content: Table) -> bool:
    return "requires-python" in content or any(
        isinstance(package.get("source"), dict) for package in _packages(content)
    )


def _is_cargo(content: Table) -> bool:
    return any(
        "checksum" in package or isinstance(package.get("source"), str)
        for package in _packages(content)
    )


def _packages(content: Table) -> Iterator[Table]:
    found = content.get("package")
    yield from (p for p in (found if isinstance(found, list) else []) if isinstance(p, dict))


# In this order: a later judge would also take what an earlier one knows.
_TOML_LOCKS: tuple[tuple[str, _Judge], ...] = (
    ("pylock", lambda content: "lock-version" in content and "packages" in content),
    ("poetry", _is_poetry),
)
_TOML_FOREIGN: tuple[tuple[str, _Judge], ...] = (
    (
        "the pdm.lock of PDM, which is not read; run: pdm export -o requirements.txt",
        lambda content: "lock_version" in fields.table(content.get("metadata"), "metadata"),
    ),
    ("the Cargo.lock of Rust", _is_cargo),
    ("a pyproject.toml, which is no lock; run: uv lock", lambda c: "project" in c or "tool" in c),
    ("a Pipfile, which is no lock; run: pipenv lock", lambda c: "packages" in c or "source" in c),
)


def _of_toml(content: Table) -> str:
    for name, judge in _TOML_LOCKS:
        if judge(content):
            return name
    for what, judge in _TOML_FOREIGN:
        if judge(content):
            raise MalformedError(f"it seems to be {what}")
    if _is_uv(content):
        return "uv"
    raise MalformedError("it is TOML, and not that of a lock file")
