"""Locks as text: decoding, detection of the format, and what is installed on a target.

Each format is read by its module; files of other tools are named.
"""

import codecs
import re
from collections.abc import Container, Iterator
from functools import cache
from itertools import product
from typing import Protocol

from packaging.markers import Marker
from packaging.pylock import Package, Pylock, PylockValidationError
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from stackgen.errors import UsageError
from stackgen.locks import conda, fields, pdm, pipfile, poetry, requirements, uv
from stackgen.locks.direct import FILE, REPOSITORY
from stackgen.locks.fields import MalformedError, Table
from stackgen.model.packages import LockedPackage, LockFile, Target

# UTF-32 first: its mark begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ENDLESS = re.compile(r"\d{1000}")  # Python converts up to 4,300 digits
_DECLARED = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263


def decode_text(content: bytes) -> str:
    """Return a text by its byte order mark, by a comment that names its encoding, or as UTF-8.

    Raises:
        ValueError: it is in another encoding; the message says how to convert it.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decoded(content[len(mark) :], encoding)
    declared = filter(None, map(_DECLARED.match, content.split(b"\n", 2)[:2]))
    return _decoded(content, next((found[1].decode("ascii") for found in declared), "utf-8"))


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise ValueError(
            f"it is not in the encoding {encoding}; convert it: iconv -f ENCODING -t UTF-8 FILE"
        ) from error


def filename(path: str) -> str:
    """Return the last part of a path or a URL."""
    return re.split(r"[/\\]", path)[-1]


def beginning(text: str) -> str:
    """Return a text without what it may begin with and does not mean.

    Raises:
        MalformedError: it is empty, or nothing that a person wrote.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise MalformedError("it is empty")
    if start.startswith("<"):
        raise MalformedError("it seems to be HTML or XML (a download that went wrong?)")
    if "\0" in start:
        raise MalformedError("it is a binary file")
    if _ENDLESS.search(start):
        raise MalformedError("a number in it has a thousand digits or more, as no version has")
    return start


def conda_format(name: str, start: str) -> str:
    """Return ``pixi`` or ``conda-lock`` where a text is such a lock; "" elsewhere."""
    if name == "pixi.lock" or (
        re.search(r"\Aversion: \d+\s*$", start, re.MULTILINE)
        and re.search(r"^environments:\s*$", start, re.MULTILINE)
    ):
        return "pixi"
    has_hash = re.search(r"^\s*content_hash:", start, re.MULTILINE)
    if re.fullmatch(r"(.*[.-])?conda-lock\.ya?ml", name) or (has_hash and "package:" in start):
        return "conda-lock"
    return ""


def other_format(name: str, start: str) -> str:
    """Return what a text file of another tool seems to be; "" where nothing speaks for one."""
    if found := conda_format(name, start):
        return f"the lock of {found}"
    if re.search(r"^channels:|^dependencies:\s*$", start, re.MULTILINE):
        return "the environment.yml of conda"
    if re.search(r"^@EXPLICIT", start, re.MULTILINE):
        return "an explicit list of conda"
    if re.search(r"^lockfileVersion:|^# yarn lockfile", start, re.MULTILINE):
        return "the lock of a JavaScript tool"
    if name in ("go.sum", "Gemfile.lock"):
        return f"the {name} of another language"
    if name.endswith((".yml", ".yaml")):
        return "YAML, which no lock of ours is written in"
    if name.endswith(".py"):
        return "Python code"
    return ""


ACCEPTED = (
    "Pipfile.lock, poetry.lock, uv.lock, pdm.lock, pylock.toml, or a requirements.txt with == pins"
)


_OF_CONDA = "run inside the environment: pip list --format=freeze > requirements.txt"


class _Reader(Protocol):
    def __call__(self, text: str, *, path: str, companion: str | None) -> LockFile: ...


def read_lock(
    text: str, *, path: str, companion: str | None = None, partial: bool = False
) -> LockFile:
    """Read the lock file of any tool that we know.

    Args:
        text: what the file holds.
        path: as the user gave it, for messages; the format follows from the content.
        companion: what the file beside it holds that holds the requirements: the Pipfile of a
            Pipfile.lock, the pyproject.toml of a poetry.lock, the requirements.in of a
            requirements.txt. Other formats need none.
        partial: accept what does not say all that is installed: a requirements.txt of which some
            lines pin no version (``unpinned``), and locks of conda environments (``conda``).

    Raises:
        UsageError: empty, broken, unpinned, or of a tool that we don't know; it says which.
    """
    try:
        lock = _READERS[lock_format(text, path)](text, path=path, companion=companion)
        if not partial:
            _refuse_partial(lock)
    except MalformedError as error:
        raise UsageError(
            f"cannot read {path} as a lock file",
            why=str(error),
            fix=f"give a {ACCEPTED}",
        ) from error
    if not (lock.packages or lock.unpinned or lock.conda):
        raise UsageError(
            f"{path} locks no package",
            why="; ".join((*lock.skipped, *lock.notes)) or "the file names none",
            fix=f"give a {ACCEPTED}, made after the packages were added",
        )
    return lock


def _refuse_partial(lock: LockFile) -> None:
    if lock.unpinned:
        number, line = lock.unpinned[0]
        raise MalformedError(f"line {number} pins no version: {line!r}")
    if lock.format in ("pixi", "conda-lock"):
        raise MalformedError(
            f"it seems to be the lock of {lock.format}, which installs conda's packages, too; "
            f"{_OF_CONDA}"
        )


def lock_format(text: str, path: str) -> str:
    """Return the name of the format.

    Raises:
        MalformedError: it is none of ours; the reason names what it seems to be.
    """
    name, start = filename(path), beginning(text)
    if start.startswith("{"):
        return _of_json(start)
    if name == "Pipfile.lock":
        return "pipfile"  # its reader says what is wrong with it
    if found := conda_format(name, start):
        return found
    if name == "pdm.lock":
        return "pdm"  # the oldest ones have no other mark
    if other := other_format(name, start):
        advice = f"; {_OF_CONDA}" if "conda" in other else ""
        raise MalformedError(f"it seems to be {other}{advice}")
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


def _of_toml(content: Table) -> str:
    # In this order: a later test would also take what an earlier one knows.
    if "lock-version" in content and "packages" in content:
        return "pylock"
    metadata = fields.table(content.get("metadata"), "metadata")
    if "lock-version" in metadata or "content-hash" in metadata:
        return "poetry"
    if "lock_version" in metadata:
        return "pdm"
    listed = content.get("package")
    packages = [p for p in (listed if isinstance(listed, list) else []) if isinstance(p, dict)]
    if any("checksum" in p or isinstance(p.get("source"), str) for p in packages):
        raise MalformedError("it seems to be the Cargo.lock of Rust")
    if "project" in content or "tool" in content:
        raise MalformedError("it seems to be a pyproject.toml, which is no lock; run: uv lock")
    if "packages" in content or "source" in content:
        raise MalformedError("it seems to be a Pipfile, which is no lock; run: pipenv lock")
    if "requires-python" in content or any(isinstance(p.get("source"), dict) for p in packages):
        return "uv"
    raise MalformedError("it is TOML, and not that of a lock file")


# pylock.toml (PEP 751), read through packaging's own reader

_GROUP = re.compile(r"""["']([^"']+)["']\s+in\s+dependency_groups""")


def read_pylock(text: str, *, path: str, companion: str | None) -> LockFile:  # noqa: ARG001 one signature
    """Read a pylock.toml; the format does not hold the requirements.

    Raises:
        MalformedError: it is not one.
    """
    try:
        lock = Pylock.from_dict(_as_the_format_wants(fields.parse_toml(text)))
    except PylockValidationError as error:
        raise MalformedError(f"it breaks the format: {error}") from error
    default_groups = frozenset(lock.default_groups or ())
    return LockFile(
        path=path,
        format="pylock",
        packages=tuple(
            _package(package, default_groups)
            for package in lock.packages
            if not package.is_direct and package.version is not None
        ),
        requires_python=str(lock.requires_python or ""),
        skipped=tuple(_skipped(lock)),
    )


def _as_the_format_wants(content: Table) -> Table:
    """Return a document without what pipenv is known to write against the format.

    Names that are not normalised, and upload times that are texts.
    """
    packages = content.get("packages")
    if not isinstance(packages, list) or content.get("created-by") != "pipenv":
        return content
    return {**content, "packages": [_normal_entry(each) for each in packages]}


def _normal_entry(entry: object) -> object:
    if not isinstance(entry, dict):
        return entry
    found = dict(entry)
    if isinstance(found.get("name"), str):
        found["name"] = canonicalize_name(found["name"])
    for key in ("wheels", "sdist"):
        files = found.get(key)
        if isinstance(files, list):
            found[key] = [_without_time(each) for each in files]
        else:
            found |= {key: _without_time(files)} if key in found else {}
    return found


def _without_time(file: object) -> object:
    if isinstance(file, dict) and isinstance(file.get("upload-time"), str):
        return {key: value for key, value in file.items() if key != "upload-time"}
    return file


def _package(package: Package, default_groups: frozenset[str]) -> LockedPackage:
    files = [*(package.wheels or ()), *([package.sdist] if package.sdist else ())]
    marker = str(package.marker or "")
    return fields.package(
        name=package.name,
        version=str(package.version),
        hashes=[f"sha256:{f.hashes['sha256']}" for f in files if "sha256" in f.hashes],
        wheels=[each.filename for each in package.wheels or ()],
        marker=marker,
        group=_group(marker, default_groups),
    )


def _group(marker: str, default_groups: frozenset[str]) -> str:
    """Return "default" where the package is in a group that is installed by default, or in none."""
    groups = groups_in(marker)
    return "default" if not groups or groups & default_groups else min(groups)


def groups_in(marker: str) -> frozenset[str]:
    """Return the dependency groups that a marker names."""
    return frozenset(_GROUP.findall(marker))


def _skipped(lock: Pylock) -> Iterator[str]:
    for package in lock.packages:
        if package.is_direct:
            yield f"{package.name}: {REPOSITORY if package.vcs else FILE}"
        elif package.version is None:
            yield f"{package.name}: the lock states no version"


_READERS: dict[str, _Reader] = {
    "pipfile": pipfile.read_lock,
    "poetry": poetry.read,
    "uv": uv.read,
    "pdm": pdm.read,
    "conda-lock": conda.read_conda_lock,
    "pixi": conda.read_pixi,
    "pylock": read_pylock,
    "requirements": requirements.read_lock,
}


_PATCH_LEVELS = 30  # more than any minor version has had
_SYSTEM = re.compile(r"\b(sys_platform|platform_system|platform_machine|os_name)\b")
_UNKNOWN = re.compile(r"\b(platform_(release|version|python_implementation)|implementation_\w+)\b")
_SYSTEMS = (("Linux", "linux", "posix"), ("Darwin", "darwin", "posix"), ("Windows", "win32", "nt"))
_ARCHITECTURES = ("x86_64", "aarch64", "arm64", "AMD64")


def admits_python(lockfile: LockFile, python: str) -> bool:
    """Return whether a lock admits a Python, patch levels aside; without a range, it does.

    One whose packages are all for other Pythons does not, whatever its range says. Whatever system
    markers name as well, they say which Python it is for; one that names the implementation decides
    nothing here.
    """
    markers = dict.fromkeys(each.marker for each in lockfile.packages)
    if markers and not any(_holds_somewhere(each, python) for each in markers):
        return False
    try:
        specifier = SpecifierSet(lockfile.requires_python)
    except InvalidSpecifier:
        return True
    minor = ".".join(python.split(".")[:2])
    versions = [python, minor]
    if minor in lockfile.requires_python:  # as in ">=3.13.5": some patch levels, and not others
        versions += [f"{minor}.{patch}" for patch in range(_PATCH_LEVELS)]
    return any(specifier.contains(each, prereleases=True) for each in versions)


def _holds_somewhere(marker: str, python: str) -> bool:
    """Return whether a marker holds on any system of a Python, as far as is known."""
    target = _any_platform(python)
    if _UNKNOWN.search(marker):
        return True
    if not _SYSTEM.search(marker):
        return _holds(marker, target)
    for (system, platform, name), machine in product(_SYSTEMS, _ARCHITECTURES):
        own = (
            ("platform_system", system),
            ("sys_platform", platform),
            ("os_name", name),
            ("platform_machine", machine),
        )
        if _holds(marker, Target(python=python, markers=(*target.markers, *own), tags=())):
            return True
    return False


_PYTHONS = tuple(f"3.{minor}" for minor in range(6, 30))
"""Those that a wheel may be for."""


def _any_platform(python: str) -> Target:
    minor = ".".join(python.split(".")[:2])
    markers = (("python_full_version", python), ("python_version", minor))
    return Target(python=python, markers=markers, tags=())


def suits_python(lockfile: LockFile, python: str) -> bool:
    """Return whether a lock admits a Python, and has wheels for it of what it names wheels of.

    A lock for 3.12 and later admits a Python that came after its packages. What has no wheel for
    any Python that is admitted decides nothing: it has to be built on each of them.
    """
    if not admits_python(lockfile, python):
        return False
    target = _any_platform(python)
    lacking = [
        each
        for each in lockfile.packages
        if each.wheels and each.group == "default" and _holds(each.marker, target)
        if not _has_wheel(each, python)
    ]
    others = [other for other in _PYTHONS if lacking and admits_python(lockfile, other)]
    return not any(_has_wheel(each, other) for each in lacking for other in others)


def _has_wheel(package: LockedPackage, python: str) -> bool:
    fitting = _without_platforms(python)
    return any(_fits(wheel, fitting) for wheel in package.wheels)


@cache
def _without_platforms(python: str) -> frozenset[tuple[str, str]]:
    """Return what a version of CPython can load: interpreters and binary interfaces of wheels."""
    major, minor = map(int, python.split(".")[:2])
    own = f"cp{major}{minor}"
    tags = [
        *cpython_tags((major, minor), [own, f"{own}m"], ["any"]),
        *compatible_tags((major, minor), own, ["any"]),
    ]
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def _fits(wheel: str, fitting: Container[tuple[str, str]]) -> bool:
    try:
        _, _, _, tags = parse_wheel_filename(wheel)
    except InvalidWheelFilename:
        return True
    return any((tag.interpreter, tag.abi) in fitting for tag in tags)


def in_target(lockfile: LockFile, target: Target) -> tuple[LockedPackage, ...]:
    """Return the packages that the lock installs there by default, sorted by name.

    Other groups than the default one (dev, extras) are left out.

    Raises:
        UsageError: two versions of one package would be installed, or none of several: the lock
            cannot say which.
    """
    found: dict[str, LockedPackage] = {}
    replaced: dict[str, LockedPackage] = {}
    for package in lockfile.packages:
        if package.group != "default" or not _holds(package.marker, target):
            continue
        if package.unless and _holds(package.unless, target):
            replaced[package.name] = package
            continue
        other = found.setdefault(package.name, package)
        if other.version != package.version:
            raise UsageError(
                f"{lockfile.path} holds {package.name} {other.version} and {package.version}",
                why=f"both would be installed on Python {target.python}",
                fix="lock again for this Python, or export a requirements.txt for it",
            )
    for name in sorted(replaced.keys() - found.keys()):
        raise UsageError(
            f"{lockfile.path} holds several versions of {name}, and none is sure to be meant",
            why=f"no one of them is admitted by all that requires {name} on Python {target.python}",
            fix="lock again with a newer Poetry (2 or later), or run: poetry export",
        )
    return tuple(found[name] for name in sorted(found))


def _holds(marker: str, target: Target) -> bool:
    if not marker:
        return True
    # Groups were decided when the file was read (LockedPackage.group): here their terms are true.
    environment: dict[str, str | frozenset[str]] = {
        **target.environment,
        "dependency_groups": groups_in(marker),
        "extras": frozenset(),
        "extra": "",
    }
    return Marker(marker).evaluate(environment, context="lock_file")
