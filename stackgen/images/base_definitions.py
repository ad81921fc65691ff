"""Definitions of bases and their sources, in ``images/*.toml``."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackgen.errors import UsageError
from stackgen.model import toml
from stackgen.model.identity import content_id
from stackgen.storage.paths import shipped_folder

OWN_FOLDER = "STACKGEN_IMAGES"
"""Variable with the folder of the user's own definitions."""

_REPOSITORY = "stackgen-base"
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_PYTHON = re.compile(r"3\.([7-9]|\d\d+)")  # older ones cannot byte-compile as layers need it
_FOLDER = re.compile(r"3\.\d+(\.\d+)?")
_PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")
_SUITE = re.compile(r"[a-z]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_USER = re.compile(r"[a-z_][a-z0-9_-]*|\d+(:\d+)?")
_KEYS = ("summary", "python", "packages", "user", "from")
_REGISTRY_KEYS = ("registry", "interpreter")
_DEBIAN_KEYS = ("debootstrap", "folder", "packages", "interpreter")


@dataclass(frozen=True, slots=True, kw_only=True)
class FromRegistry:
    """An image of a registry.

    reference: pinned by digest in definitions; any reference where the user names an image.
    """

    reference: str
    interpreter: str = "/usr/local/bin/python3"

    @property
    def label(self) -> str:
        """Return the source for messages."""
        name, _, digest = self.reference.partition("@")
        return f"registry image {name}" + (f"@{digest[:19]}" if digest else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FromDebian:
    """A Debian built by debootstrap.

    tag: of the image; it contains a digest of this definition.
    packages: Debian packages to add to the minimal system.
    folder: version of the local interpreter to copy, "" for Debian's own.
    user: default user of the image; "" for root.
    """

    tag: str
    suite: str
    packages: tuple[str, ...]
    folder: str
    interpreter: str
    user: str

    @property
    def label(self) -> str:
        """Return the source for messages."""
        copied = f" with a copy of this machine's Python {self.folder}" if self.folder else ""
        return f"debootstrap {self.suite}{copied}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDefinition:
    """A base with its sources.

    python: its minor version.
    packages: Debian packages that every source must have.
    ways: its sources, in the order in which they are tried.
    """

    name: str
    summary: str
    python: str
    packages: tuple[str, ...]
    ways: tuple[FromRegistry | FromDebian, ...]


def read_definitions(where: Path | None = None) -> tuple[BaseDefinition, ...]:
    """Read every base definition, sorted by name.

    Args:
        where: their folder; by default stackgen's own and the user's (``STACKGEN_IMAGES``), which
            takes precedence where both define a name.

    Raises:
        UsageError: a definition is invalid, or the user's folder does not exist.
    """
    found = {path.stem: path for path in (where or shipped_folder("images")).glob("*.toml")}
    own = os.environ.get(OWN_FOLDER, "")
    if where is None and own:
        if not Path(own).is_dir():
            raise UsageError(
                f"{own} is no folder",
                why=f"{OWN_FOLDER} names it as the folder of your own bases",
                fix=f"make it, or: unset {OWN_FOLDER}",
            )
        found |= {path.stem: path for path in Path(own).glob("*.toml")}
    return tuple(read_definition(found[name]) for name in sorted(found))


def read_definition(path: Path) -> BaseDefinition:
    """Read one definition; its name is that of the file.

    Raises:
        UsageError: it cannot be read, or is invalid.
    """
    try:
        return _definition(path.stem, toml.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(
            f"cannot read the base definition {path}",
            why=error.strerror or str(error),
            fix=f"make it a readable file, or remove it from the folder that {OWN_FOLDER} names",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"the base definition {path.name} is wrong",
            why=str(error),
            fix=f"correct {path}; {shipped_folder('images') / 'py37.toml'} shows every key",
        ) from error


def _definition(name: str, document: Mapping[str, object]) -> BaseDefinition:
    if not _NAME.fullmatch(name):
        raise ValueError(f"its file name {name!r} must be of a-z, 0-9 and single . _ - between")
    _known(document, _KEYS, "")
    python = _text(document, "python", _PYTHON, "a minor version of 3.7 or newer, such as 3.11")
    packages = _packages(document, "")
    user = _text(document, "user", _USER, "a name, or numbers such as 1000:1000", default="")
    tables = document.get("from")
    if not isinstance(tables, list) or not tables:
        raise ValueError("it has no [[from]]: each one is a way to the base")
    ways = []
    for table in tables:
        if not isinstance(table, dict):
            raise ValueError("from must be written as [[from]]")
        way = _debian(table, name, python, packages, user)
        ways.append(way or _registry(table, changed=bool(packages or user)))
    return BaseDefinition(
        name=name,
        summary=_text(document, "summary", re.compile(r".+"), "one line"),
        python=python,
        packages=packages,
        ways=tuple(ways),
    )


def _registry(table: Mapping[str, object], *, changed: bool) -> FromRegistry:
    where = " in a [[from]]"
    if "registry" not in table:
        raise ValueError("a [[from]] must have either registry or debootstrap")
    _known(table, _REGISTRY_KEYS, where)
    reference = _text(
        table, "registry", _PINNED, "NAME@sha256:DIGEST, since a tag names other bytes tomorrow"
    )
    if changed:
        raise ValueError(
            "packages and user cannot be added to an image of a registry: leave one of both out"
        )
    if "interpreter" not in table:
        return FromRegistry(reference=reference)
    return FromRegistry(reference=reference, interpreter=_interpreter(table, ""))


def _debian(
    table: Mapping[str, object], name: str, python: str, common: tuple[str, ...], user: str
) -> FromDebian | None:
    if "debootstrap" not in table:
        return None
    where = " in a [[from]]"
    _known(table, _DEBIAN_KEYS, where)
    suite = _text(table, "debootstrap", _SUITE, "the name of a Debian suite, such as bookworm")
    copied = _text(table, "folder", _FOLDER, "a version such as 3.7 or 3.7.16", default="")
    if copied and not f"{copied}.".startswith(f"{python}."):
        raise ValueError(f"folder = {copied!r}, but python = {python!r}")
    default = "/opt/python/bin/python3" if copied else "/usr/bin/python3"
    packages = tuple(sorted({*common, *_packages(table, where)}))
    interpreter = _interpreter(table, default)
    content = content_id("base", [suite, list(packages), copied, user])
    return FromDebian(
        tag=f"{_REPOSITORY}:{name}-{content[:8]}",
        suite=suite,
        packages=packages,
        folder=copied,
        interpreter=interpreter,
        user=user,
    )


def _interpreter(table: Mapping[str, object], default: str) -> str:
    return _text(table, "interpreter", re.compile(r"/\S+"), "a path inside", default=default)


def _known(table: Mapping[str, object], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(keys)}"
            raise ValueError(f"unknown key {key!r}{where}; {hint}")


def _text(
    table: Mapping[str, object],
    key: str,
    form: re.Pattern[str],
    wanted: str,
    *,
    default: str | None = None,
) -> str:
    value = table.get(key, default)
    if value is None:
        raise ValueError(f"it lacks {key}: {wanted}")
    if value != default and not (isinstance(value, str) and form.fullmatch(value)):
        raise ValueError(f"{key} = {value!r}, which should be {wanted}")
    return str(value)


def _packages(table: Mapping[str, object], where: str) -> tuple[str, ...]:
    given = table.get("packages", [])
    if not isinstance(given, list):
        raise ValueError(f"packages{where} = {given!r}, which should be a list")
    for package in given:
        if not isinstance(package, str) or not _PACKAGE.fullmatch(package):
            raise ValueError(f"packages{where} has {package!r}, which no Debian package is called")
    return tuple(sorted(set(given)))
