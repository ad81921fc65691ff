"""What the packages of a lock require that the lock does not hold."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.index.wheel_metadata import UnusableMetadataError, read_wheel
from stackgen.values import Artifact, Lock, Target


def lacking(lock: Lock, target: Target, wheels: Mapping[str, Path]) -> tuple[str, ...]:
    """Return a line for each requirement that the lock does not satisfy, sorted.

    Requirements of extras do not count: a lock does not say which extras were asked for.

    Args:
        lock: what is installed, nothing else.
        target: says which markers hold.
        wheels: of the lock by their sha256; those that are not here say nothing.
    """
    found = (
        line
        for artifact in lock.artifacts
        for requirement in _required(artifact, target, wheels.get(artifact.sha256))
        if (line := _lacks(artifact, requirement, lock))
    )
    return tuple(sorted(found))


def _lacks(artifact: Artifact, requirement: Requirement, lock: Lock) -> str:
    version = lock.versions.get(canonicalize_name(requirement.name))
    if version is None:
        return f"{artifact.name} {artifact.version} requires {requirement}, which the lock lacks"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{artifact.name} {artifact.version} requires {requirement}, and the lock has {version}"


def _required(artifact: Artifact, target: Target, wheel: Path | None) -> Iterator[Requirement]:
    if wheel is None or not artifact.is_wheel:
        return
    try:
        with wheel.open("rb") as file:
            lines = read_wheel(file, name=artifact.name).requires_dist
    except (OSError, UnusableMetadataError):
        return
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({**target.environment, "extra": ""}):
            yield requirement
