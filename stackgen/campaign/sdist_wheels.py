"""Source distributions become wheels: requirements are resolved, wheels built and checked."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from stackgen.campaign.backend import Build
from stackgen.errors import BuildError, ResolutionError, UsageError
from stackgen.images.sdists import Attempt, BuiltWheels, SdistBuilder
from stackgen.index import PackageIndex
from stackgen.index.closure import resolve
from stackgen.index.metadata import (
    SilentSdistError,
    UnusableMetadataError,
    read_build_system,
    read_sdist,
    requirements,
    wheel_headers,
)
from stackgen.model.identity import content_id
from stackgen.model.packages import (
    BUILT_HERE,
    Artifact,
    BuildRecord,
    BuildSystem,
    Lock,
    Metadata,
    Target,
)
from stackgen.model.progress import Progress
from stackgen.model.stacks import Base, Stack
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements
from stackgen.storage.files import file_sha256
from stackgen.storage.wheels import WheelStore

Turn = Callable[[], AbstractContextManager[None]]

_LAYOUT = "1"  # of how things are built; a change builds everything anew
_SHOWN_LINES, _SHOWN_WIDTH = 12, 300
_EXTRA = re.compile(r"extra == ['\"]([^'\"]+)['\"]")


@dataclass(slots=True, kw_only=True)
class SdistWheels:
    """Makes wheels of what a stack holds as source distributions.

    base: what stacks are installed on.
    build: makes the environments that wheels are built in.
    sdists: builds in them; None where there are no containers.
    policy: of the request; it decides on the requirements of builds, too.
    turn: is entered while something is built, never while something is downloaded.
    again: build once more what failed before.
    """

    base: Base
    build: Build
    sdists: SdistBuilder | None
    index: PackageIndex
    store: WheelStore
    built: BuiltWheels
    policy: Policy
    progress: Progress
    turn: Turn = nullcontext
    again: bool = False
    _locks: dict[tuple[str, ...], Lock] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)

    def installable(
        self, stack: Stack, files: Mapping[str, Path], *, within: tuple[str, ...] = ()
    ) -> tuple[Stack, dict[str, Path]]:
        """Return a stack with a wheel in place of each source distribution, and all its files.

        Args:
            files: a verified file for each of its artifacts, by sha256.
            within: the packages that this is needed to build.

        Raises:
            BuildError: a package cannot be built; the end of the log is in the error.
            UsageError: there is no container to build in.
            EngineError: the engine went away.
        """
        wheels = {
            each.name: self._wheel(each, files[each.sha256], within)
            for each in stack.lock.artifacts
            if not each.is_wheel
        }
        if not wheels:
            return stack, dict(files)
        replaced = tuple(wheels.get(each.name, each) for each in stack.lock.artifacts)
        made = self.store.fetch(wheels.values(), downloader=self.index)
        return replace(stack, lock=Lock(artifacts=replaced)), {**files, **made}

    def _wheel(self, sdist: Artifact, file: Path, within: tuple[str, ...]) -> Artifact:
        refuse_unbuildable([sdist], self.sdists)
        if sdist.name in within:
            raise _unbuildable(
                sdist,
                why=f"building it requires itself: {' requires '.join((*within, sdist.name))}",
                fix=f"take away --allow-build {sdist.name}, or name versions that have wheels",
            )
        system = _build_system(sdist, file)
        record, key = self._record(sdist, file, system, (), within)
        if record.requires:
            record, key = self._record(sdist, file, system, record.requires, within)
        if record.wheel is None:
            raise self._failure(sdist, record, key)
        return record.wheel

    def _record(
        self,
        sdist: Artifact,
        file: Path,
        system: BuildSystem,
        requires: tuple[str, ...],
        within: tuple[str, ...],
    ) -> tuple[BuildRecord, str]:
        """Return what became of a build, now or before, and the key that it is stored under."""
        builder = self.sdists
        assert builder is not None  # noqa: S101 # refused before
        lock = self._requirements(sdist, (*system.requires, *requires))
        content = [_LAYOUT, sdist.sha256, builder.identity(self.base), lock.id, *requires]
        key = content_id("build", content)
        if found := self._known(key):
            return found, key
        self.progress.doing(f"preparing to build {sdist.name} {sdist.version}")
        # Bases of equal facts may differ in what only building needs, such as a compiler.
        base = ("STACKGEN_BUILDS_ON", builder.identity(self.base)[:16])
        stack = Stack(lock=lock, facts=self.base.facts, settings=(base,))
        files = self.store.fetch(lock.artifacts, downloader=self.index)
        # Builds that this one needs come before its lock: no two processes wait for each other.
        ready, paths = self.installable(stack, files, within=(*within, sdist.name))
        with self.turn():
            environment = self.build(ready, paths, frozenset())
        with self.built.lock(key), self.built.folder(key) as folder:
            if found := self._known(key):
                return found, key
            self.progress.doing(f"building {sdist.name} {sdist.version} from its sources")
            with self.turn():
                attempt = builder.build(
                    environment, file, system, folder, complete=bool(requires), key=key
                )
            record = self._judged(sdist, file, attempt, folder)
            self.built.store(key, record, attempt.log)
            self._tried.add(key)
        if record.wheel:
            self.progress.note(f"{sdist.name} {sdist.version} was {BUILT_HERE} from its sources.")
        return record, key

    def _known(self, key: str) -> BuildRecord | None:
        """Return what is remembered, unless its wheel is gone or damaged, or it is tried again."""
        found = self.built.record(key)
        if found is None or (found.wheel and not self.store.is_whole(found.wheel)):
            return None
        return None if found.failure and self.again and key not in self._tried else found

    def _requirements(self, sdist: Artifact, lines: tuple[str, ...]) -> Lock:
        """Resolve what building requires, once in a run."""
        if lines not in self._locks:
            self._locks[lines] = self._resolved(sdist, lines)
        return self._locks[lines]

    def _resolved(self, sdist: Artifact, lines: tuple[str, ...]) -> Lock:
        target = self.base.target
        try:
            wanted = [parse_requirement(line) for line in lines]
            wanted = [w for w in wanted if not w.marker or w.marker.evaluate(dict(target.markers))]
            if not wanted:
                return Lock(artifacts=())
            request = Requirements(
                requirements=tuple(wanted), policy=replace(self.policy, hashes=())
            )
            lock = resolve(self.index, request, target, progress=self.progress).newest()
        except (ResolutionError, UsageError) as error:
            why = f"what building it requires cannot be had: {error.what}: {error.why}"
            raise _unbuildable(sdist, why=why, fix=error.fix) from error
        assert lock is not None  # noqa: S101 # resolve refuses an empty space
        return lock

    def _judged(self, sdist: Artifact, file: Path, attempt: Attempt, folder: Path) -> BuildRecord:
        """Keep the wheel of an attempt, unless it is not what the source distribution announced."""
        if attempt.requires or attempt.failure:
            return BuildRecord(requires=attempt.requires, failure=attempt.failure, fix=attempt.fix)
        path = folder / attempt.wheel
        lie = _lie(sdist, file, path, self.base.target)
        fix = f"leave out {sdist.name}=={sdist.version}, and report it to its authors"
        if lie:
            return BuildRecord(failure=lie, fix=fix)
        wheel = Artifact(
            name=sdist.name,
            version=sdist.version,
            filename=path.name,
            sha256=file_sha256(path),
            url=path.resolve().as_uri(),
            index=BUILT_HERE,
            size=path.stat().st_size,
        )
        try:
            self.store.fetch([wheel], downloader=self.index)
        except BuildError as error:
            return BuildRecord(failure=f"{error.what}: {error.why}", fix=fix)
        return BuildRecord(wheel=replace(wheel, url=""))

    def _failure(self, sdist: Artifact, record: BuildRecord, key: str) -> BuildError:
        place = self.built.log(key)
        before = "" if key in self._tried else " (remembered; --rebuild tries it again)"
        lines = [each[:_SHOWN_WIDTH] for each in _lines(place) if each.strip()][-_SHOWN_LINES:]
        why = "\n       ".join((*lines, f"{record.failure}{before}"))
        return _unbuildable(sdist, why=why, fix=f"{record.fix}; the whole log: {place}")


def refuse_unbuildable(artifacts: Iterable[Artifact], sdists: SdistBuilder | None) -> None:
    """Refuse source distributions where nothing can be built.

    Raises:
        UsageError: there is one, and stacks are no container images here.
    """
    sdist = next((each for each in artifacts if not each.is_wheel), None)
    if sdist is not None and sdists is None:
        raise UsageError(
            f"{sdist.name} {sdist.version} has no wheel here and would have to be built",
            why="building runs the package's own code, and that is done in containers alone",
            fix="give --executor docker (stackgen doctor shows what it needs), or take away "
            f"--allow-build {sdist.name}",
        )


def _build_system(sdist: Artifact, file: Path) -> BuildSystem:
    try:
        with file.open("rb") as archive:
            return read_build_system(archive, filename=sdist.filename)
    except UnusableMetadataError as error:
        fix = "take a version that has a wheel, or report it to the package's authors"
        raise _unbuildable(sdist, why=str(error), fix=fix) from error


def _lie(sdist: Artifact, file: Path, wheel: Path, target: Target) -> str:
    """Return in what a wheel differs from what its source distribution said; "" where it agrees."""
    try:
        name, version, _, tags = parse_wheel_filename(wheel.name)
        with wheel.open("rb") as built:
            message = wheel_headers(built, name=sdist.name)
        announced = _announced(sdist, file)
        stated = Version(str(message["Version"]))
        differences = announced and _differences(announced, requirements(message), target)
    except (InvalidWheelFilename, InvalidVersion, UnusableMetadataError) as error:
        return f"what it made is no usable wheel: {error}"
    except UsageError as error:
        return f"what it made is no usable wheel: {error.what}"
    if name != sdist.name or {version, stated} != {Version(sdist.version)}:
        return f"it made {wheel.name} of {stated}, not a wheel of {sdist.name} {sdist.version}"
    if not {str(tag) for tag in tags} & set(target.tags):
        return f"it made {wheel.name}, which this Python and system do not take"
    return f"its wheel differs from its announcement: {differences}" if differences else ""


def _announced(sdist: Artifact, file: Path) -> Metadata | None:
    """Return what a source distribution says that it requires; None where it says nothing.

    A lock may hold such a one: then the lock alone says what is installed.
    """
    try:
        with file.open("rb") as archive:
            return read_sdist(archive, filename=sdist.filename, name=sdist.name)
    except SilentSdistError:
        return None


def _differences(announced: Metadata, stated: Metadata, target: Target) -> str:
    promised, actual = _applying(announced, target), _applying(stated, target)
    parts = [f"it does not require {each}, as announced" for each in sorted(promised - actual)]
    parts += [f"it requires {each}, which was not announced" for each in sorted(actual - promised)]
    return "; ".join(parts)


def _applying(metadata: Metadata, target: Target) -> set[str]:
    """Return the requirements that count on a target, those of extras with the extra's name."""
    found, environment = set(), dict(target.markers)
    for requirement in map(parse_requirement, metadata.requires_dist):
        marker, requirement.marker = requirement.marker, None
        requirement.name = canonicalize_name(requirement.name)
        if marker is None or marker.evaluate({**environment, "extra": ""}):
            found.add(str(requirement))
            continue
        for extra in set(_EXTRA.findall(str(marker))):
            if marker.evaluate({**environment, "extra": extra}):
                found.add(f"{requirement} for the extra {canonicalize_name(extra)}")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _unbuildable(sdist: Artifact, *, why: str, fix: str) -> BuildError:
    what = f"{sdist.name} {sdist.version} cannot be built from its sources"
    return BuildError(what, why=why, fix=fix)
