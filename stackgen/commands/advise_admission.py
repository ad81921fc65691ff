"""Whether the rest of a lock admits changes to it, by the resolver."""

import platform
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from stackgen.campaign.candidates import pin
from stackgen.commands.advise_security import Security
from stackgen.commands.lock_changes import index_requirements
from stackgen.errors import IndexUnavailableError, ResolutionError, UsageError
from stackgen.images.targets import stated_target
from stackgen.index import PackageIndex
from stackgen.index.closure import resolve
from stackgen.knowledge.equivalence import is_pure
from stackgen.locks.reading import in_target
from stackgen.model.choices import Prereleases
from stackgen.model.evidence import Change
from stackgen.model.packages import Artifact, LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.stacks import BaseFacts, Stack
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements


@dataclass(slots=True, kw_only=True)
class Admission:
    """Whether the rest of a lock admits changes to it, as far as metadata tells."""

    index: PackageIndex
    progress: Progress
    security: Security | None = None
    _unavailable: str = field(default="", init=False)
    _builds: dict[tuple[str, ...], bool] = field(default_factory=dict, init=False)

    def refusal(
        self, lockfile: LockFile, changes: Sequence[Change], facts: BaseFacts
    ) -> str | None:
        """Return why the rest of a lock does not admit changes on a base; None where it does.

        An index that cannot be reached is a reason, too, and is not tried again.
        """
        if self._unavailable:
            return self._unavailable
        try:
            found = self._refusal(lockfile, changes, _target(facts))
            return found or (self.security.refusal(changes) if self.security else None)
        except IndexUnavailableError as error:
            self._unavailable = (
                f"whether the rest of the lock admits it is not known: {error.what} ({error.why})"
            )
            return self._unavailable
        except (ResolutionError, UsageError) as error:
            why = " ".join(error.why.split())
            return f"the rest of the lock does not admit it: {error.what}: {why}"

    def exists(self, pins: Sequence[tuple[str, str]], facts: BaseFacts) -> bool:
        """Return whether versions can be installed together on a base, as far as is known."""
        packages = [LockedPackage(name=name, version=version) for name, version in pins]
        try:
            return bool(self._installed(packages, (), _target(facts)))
        except (IndexUnavailableError, ResolutionError, UsageError):
            return False

    def other_build(self, stacks: Iterable[Stack]) -> str | None:
        """Return what was measured in another build than the index offers; None for nothing.

        Several indexes may have one version in several builds (of NumPy with another BLAS, say),
        and a lock or an installer would take the one that was not measured.
        """
        for stack in stacks:
            compiled = [each for each in stack.lock.artifacts if each.sha256 and not is_pure(each)]
            unknown = [each for each in compiled if _build(each) not in self._builds]
            try:
                tags = frozenset(_target(stack.facts).tags)
                offered = self.index.candidates_many(each.name for each in unknown)
            except (IndexUnavailableError, UsageError):
                continue  # nothing is known against it
            for each in unknown:
                files = [one for one in offered[each.name] or () if one.version == each.version]
                self._builds[_build(each)] = _is_other_build(each, files, tags)
            other = [each for each in compiled if self._builds.get(_build(each))]
            if other:
                return (
                    f"{other[0].name} {other[0].version} was measured in another build than the "
                    "index offers"
                )
        return None

    def _refusal(self, lockfile: LockFile, changes: Sequence[Change], target: Target) -> str | None:
        locked = {canonicalize_name(each.name): each for each in in_target(lockfile, target)}
        removed = {each.name for each in changes if each.recommended is None}
        changed = dict(locked)
        for each in changes:
            if each.recommended is None:
                changed.pop(canonicalize_name(each.name), None)
            else:
                package = locked.get(canonicalize_name(each.name)) or LockedPackage(
                    name=each.name, version=each.recommended
                )
                changed[canonicalize_name(each.name)] = replace(package, version=each.recommended)
        needed = self._installed(changed.values(), index_requirements(lockfile), target)
        if still := sorted(removed & needed):
            return f"the rest of the lock requires {still[0]}"
        if not removed:
            return None
        rest = [each for name, each in locked.items() if name not in removed]
        if own := sorted(removed - self._installed(rest, (), target)):
            return f"it has no {own[0]}, which no other package of the lock brings"
        return None

    def _installed(
        self,
        packages: Iterable[LockedPackage],
        requirements: Sequence[Requirement],
        target: Target,
    ) -> frozenset[str]:
        """Return all that these packages bring, in just these versions.

        Raises:
            ResolutionError: they exclude each other, or a file is not there.
        """
        pins = [parse_requirement(pin(each)) for each in packages]
        names = frozenset(str(canonicalize_name(each.name)) for each in pins)
        request = Requirements(
            requirements=(*pins, *requirements),
            policy=Policy(prereleases=Prereleases.ALLOW, allow_build=names),
        )
        lock = resolve(self.index, request, target, progress=self.progress).newest()
        return frozenset(lock.versions) if lock is not None else frozenset()


def _build(artifact: Artifact) -> tuple[str, ...]:
    return artifact.name, artifact.version, artifact.filename, artifact.sha256


def _is_other_build(measured: Artifact, offered: Sequence[Artifact], tags: Container[str]) -> bool:
    """Return whether an index offers other files of a release in place of the one measured.

    A wheel that was built from a source distribution has no file to be compared with.
    """
    same = [each for each in offered if each.filename == measured.filename]
    if same:
        return all(each.sha256 not in ("", measured.sha256) for each in same)
    return any(
        str(tag) in tags
        for each in offered
        if each.is_wheel
        for tag in parse_wheel_filename(each.filename)[3]
    )


def _target(facts: BaseFacts) -> Target:
    """Return the target that a base was; its machine is taken to be of our own kind.

    Raises:
        UsageError: its Python or C library is none that can be stated.
    """
    libc = re.fullmatch(r"(glibc|musl) (\d+)\.(\d+).*", facts.libc)
    if libc is None:
        raise UsageError(
            f"what fits {facts.distribution} is not known",
            why=f"{facts.libc!r} is neither glibc nor musl",
            fix="measure on another base",
        )
    kind = "manylinux" if libc[1] == "glibc" else "musllinux"
    return stated_target(
        python=facts.python.split()[-1],
        platform=f"{kind}_{libc[2]}_{libc[3]}_{platform.machine()}",
    )
