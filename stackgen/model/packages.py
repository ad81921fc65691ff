"""What an index offers, what a target takes, and one complete resolution of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stackgen.model.identity import LockId, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What decides which artifacts fit: read off a base, never guessed.

    python: the full version, such as ``3.11.2``.
    markers: the PEP 508 environment as sorted (name, value) pairs.
    tags: the wheel tags that fit, most preferred first (``cp311-cp311-manylinux_2_36_x86_64``).
    """

    python: str
    markers: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]

    @property
    def python_minor(self) -> str:
        """Return the version without its patch level, such as ``3.11``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def platform(self) -> str:
        """Return the wheel platform that fits best, such as ``manylinux_2_36_x86_64``."""
        platforms = (tag.rpartition("-")[2] for tag in self.tags)
        portable = (each for each in platforms if not each.startswith("linux_"))
        return next(portable, "an unknown platform")

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the PEP 508 environment as a mapping."""
        return MappingProxyType(dict(self.markers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of a release: a wheel or an sdist.

    name: PEP 503 normalised.
    version: PEP 440 normalised, with a local part where there is one.
    sha256: 64 hexadecimal digits; "" where an index states none (then it cannot be locked).
    url: where to get it, without credentials; ``file:`` URLs are allowed.
    index: the name under which the index was configured, without credentials.
    size: bytes, or None where the index does not say.
    uploaded: ISO 8601, or None where the index does not say.
    yanked: None, or the reason given (perhaps "").
    """

    name: str
    version: str
    filename: str
    sha256: str
    url: str
    index: str
    size: int | None = None
    requires_python: str | None = None
    uploaded: str | None = None
    yanked: str | None = None

    @property
    def is_wheel(self) -> bool:
        """Return whether this is a wheel (anything else is an sdist)."""
        return self.filename.endswith(".whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The part of a wheel's METADATA that resolution needs (raw PEP 508 lines)."""

    requires_dist: tuple[str, ...]
    requires_python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a package, with the artifact that the target would select.

    label: its name in reports: its version, or ``version@index`` where the same version of two
        indexes is compared.
    """

    artifact: Artifact
    requires_dist: tuple[str, ...]
    label: str

    @property
    def name(self) -> str:
        """Return the normalised name of the package."""
        return self.artifact.name

    @property
    def version(self) -> str:
        """Return the normalised version."""
        return self.artifact.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A version that an index has and the target cannot take, and why, in plain words."""

    name: str
    version: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One complete resolution: every package pinned and hashed, sorted by name."""

    artifacts: tuple[Artifact, ...]

    def __post_init__(self) -> None:
        names = [artifact.name for artifact in self.artifacts]
        if names != sorted(set(names)):
            raise ValueError("a lock contains each package once, sorted by name")

    @property
    def id(self) -> LockId:
        """Return the digest of names, versions and hashes."""
        pins = [[a.name, a.version, a.sha256] for a in self.artifacts]
        return LockId(content_id("lock", pins))

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the pinned version of each package."""
        return MappingProxyType({a.name: a.version for a in self.artifacts})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """A package as a user's lock file states it.

    hashes: SHA-256 digests of every artifact that the lock admits; may be empty.
    marker: a PEP 508 marker, or "".
    unless: a PEP 508 marker under which another version of the lock takes its place, or "".
    direct: whether the user requires it (False where the lock does not say).
    group: "default", "dev", or the name of another dependency group.
    wheels: file names of its wheels, where the lock names files.
    """

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    marker: str = ""
    unless: str = ""
    extras: tuple[str, ...] = ()
    direct: bool = False
    group: str = "default"
    wheels: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFile:
    """A user's lock file, of any tool.

    path: as the user gave it, for messages.
    format: ``pipfile``, ``poetry``, ``uv``, ``pdm``, ``pylock``, ``requirements``, ``conda-lock``,
        ``pixi`` or ``environment`` (what is installed in one).
    requirements: what the user requires as PEP 508 lines, where that is known.
    requires_python: a version specifier, or "" where the lock does not say.
    skipped: entries that cannot be pinned to an index release (VCS, paths), in words.
    unpinned: (number, PEP 508 line) of the lines of a requirements.txt that pin no version.
    conda: (name, version) of the packages that conda installs beside those of an index.
    notes: what the reader must know of how the file was understood, in words.
    """

    path: str
    format: str
    packages: tuple[LockedPackage, ...]
    requirements: tuple[str, ...] = ()
    requires_python: str = ""
    skipped: tuple[str, ...] = ()
    unpinned: tuple[tuple[int, str], ...] = ()
    conda: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChange:
    """What a lock file is to hold of one package.

    version: "" where the package is taken out.
    artifacts: every file of the release that a lock for all platforms admits.
    chosen: the file among them that the target takes, for locks of one target.
    requires_dist: of the release, as PEP 508 lines.
    requires_python: of the release, or "".
    widened: whether the lock has it for other environments alone, and it is needed here now.
    """

    name: str
    version: str
    artifacts: tuple[Artifact, ...] = ()
    chosen: Artifact | None = None
    requires_dist: tuple[str, ...] = ()
    requires_python: str = ""
    widened: bool = False


BUILT_HERE = "built here"
"""The index of a wheel that was built from its source distribution on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSystem:
    """How a source distribution is built (PEP 518).

    requires: PEP 508 lines.
    backend: an object reference; "" means setuptools the old way.
    backend_path: folders within the sources that the backend lies in; empty where it is installed.
    """

    requires: tuple[str, ...]
    backend: str = ""
    backend_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """What became of building a source distribution; exactly one of its three parts is set.

    wheel: what was made, of the index "built here".
    requires: what its backend wants besides, as PEP 508 lines, before it builds.
    failure: why there is no wheel; fix: what may help.
    """

    wheel: Artifact | None = None
    requires: tuple[str, ...] = ()
    failure: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.wheel is not None) + bool(self.requires) + bool(self.failure) != 1:
            raise ValueError("a build gives a wheel, or further requirements, or fails")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexes:
    """Where a file says to look for packages, in its own order.

    Addresses are as the file spells them and may hold credentials, so they stay out of the repr.

    index_url: the default index, or None where the file leaves it to the user's configuration.
    find_links: URLs, and paths (relative ones relative to the working folder).
    """

    index_url: str | None = field(default=None, repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    prereleases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsFile:
    """Requirements that a file states, in any format.

    requirements: PEP 508 lines; one that names a wheel by its place has the form ``name @ URL``.
    constraints: PEP 508 lines that limit a package without asking for it.
    requires_python: a version specifier, or "" where the file does not say.
    skipped: what is left out or not followed (projects to be built, repositories), in words.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    requires_python: str = ""
    index_options: FileIndexes = FileIndexes()
    skipped: tuple[str, ...] = ()
