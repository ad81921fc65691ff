"""Everything that could ever be part of a stack: found in rounds, so that reading stays outside.

The closure says what it needs next (index pages, metadata); whoever does I/O brings it, until
nothing is missing. A package's versions that no requirement admits are never asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from stackgen.errors import ResolutionError
from stackgen.resolve.candidates import Policy, Selector
from stackgen.resolve.dependencies import (
    Dependency,
    Reader,
    base_name,
    dependencies,
    parsed_version,
    specifier_set,
)
from stackgen.values import Artifact, Exclusion, Metadata, Release, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the closure lacks: names of packages, and artifacts whose metadata are wanted."""

    pages: tuple[str, ...]
    metadata: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Universe:
    """All candidate releases with their dependencies on the target.

    roots: what the user requires.
    releases: by package (``name`` or ``name[extra]``), newest first; the same versions for a
        package and for its extras.
    needs: by package, one entry per release: its dependencies.
    excluded: by package, the versions left out, and why.
    unknown: packages that something requires and no index has.
    """

    roots: tuple[Dependency, ...]
    releases: Mapping[str, tuple[Release, ...]]
    needs: Mapping[str, tuple[tuple[Dependency, ...], ...]]
    excluded: Mapping[str, tuple[Exclusion, ...]]
    unknown: frozenset[str]


class Closure:
    """The growing closure of some requirements on a target."""

    def __init__(
        self, requirements: Sequence[Requirement], target: Target, policy: Policy | None = None
    ) -> None:
        self._reader = Reader(target)
        self._selector = Selector(target, policy or Policy())
        held = [each for each in requirements if self._reader.applies(each)]
        self._roots = tuple(each for requirement in held for each in dependencies(requirement))
        self._user: dict[str, list[str]] = {}
        for root in self._roots:
            self._user.setdefault(base_name(root.package), []).append(root.specifier)
        self._pages: dict[str, tuple[Artifact, ...] | None] = {}
        self._metadata: dict[Artifact, Metadata] = {}
        self._defects: dict[Artifact, str] = {}
        self._specifiers: dict[str, set[str]] = {}
        self._extras: dict[str, set[str]] = {}
        self._chosen: dict[str, tuple[Artifact, ...]] = {}
        self._excluded: dict[str, tuple[Exclusion, ...]] = {}
        self._read: set[tuple[str, Artifact]] = set()
        for root in self._roots:
            self._require(root)

    def give_pages(self, pages: Mapping[str, tuple[Artifact, ...] | None]) -> None:
        """Take what the index offers of each package; None where no index has it."""
        self._pages.update(pages)
        for name in pages:
            self._chosen.pop(name, None)

    def give_metadata(
        self, metadata: Mapping[Artifact, Metadata], defects: Mapping[Artifact, str] | None = None
    ) -> None:
        """Take the metadata of artifacts that were asked for, or why there are none."""
        self._metadata.update(metadata)
        for artifact, why in (defects or {}).items():
            self._defects[artifact] = why
            self._chosen.pop(artifact.name, None)

    def need(self) -> Need:
        """Follow everything known, and return what is missing; nothing missing means complete."""
        while self._follow():
            pass
        pages = tuple(sorted(self._specifiers.keys() - self._pages.keys()))
        wanted = [
            artifact
            for name in sorted(self._specifiers)
            for artifact in self._admitted(name)
            if artifact not in self._metadata
        ]
        return Need(pages=pages, metadata=tuple(wanted))

    def universe(self) -> Universe:
        """Return the complete closure.

        Raises:
            ResolutionError: the user requires a package that no index has.
        """
        self._refuse_unknown_roots()
        releases: dict[str, tuple[Release, ...]] = {}
        needs: dict[str, tuple[tuple[Dependency, ...], ...]] = {}
        for name in sorted(self._specifiers):
            found = tuple(
                Release(artifact=each, requires_dist=self._metadata[each].requires_dist)
                for each in self._admitted(name)
            )
            releases[name] = found
            needs[name] = tuple(self._reader.needed(each.requires_dist) for each in found)
            for extra in sorted(self._extras.get(name, ())):
                package = f"{name}[{extra}]"
                releases[package] = found
                needs[package] = tuple(self._extra_needs(name, extra, each) for each in found)
        return Universe(
            roots=self._roots,
            releases=releases,
            needs=needs,
            excluded={name: self._excluded.get(name, ()) for name in self._specifiers},
            unknown=frozenset(name for name, page in self._pages.items() if page is None),
        )

    def _extra_needs(self, name: str, extra: str, release: Release) -> tuple[Dependency, ...]:
        same = Dependency(name, f"==={release.version}")
        return (same, *self._reader.needed(release.requires_dist, extra))

    def _require(self, dependency: Dependency) -> bool:
        """Note a dependency; return whether it tells anything new."""
        name = base_name(dependency.package)
        specifiers = self._specifiers.setdefault(name, set())
        extras = self._extras.setdefault(name, set())
        extra = dependency.package[len(name) + 1 : -1]
        news = dependency.specifier not in specifiers or bool(extra and extra not in extras)
        if dependency.specifier not in specifiers:
            specifiers.add(dependency.specifier)
            self._chosen.pop(name, None)
        if extra:
            extras.add(extra)
        return news

    def _follow(self) -> bool:
        """Follow the dependencies of every release that is known and not followed yet."""
        news = False
        for name in sorted(self._specifiers):
            for artifact in self._admitted(name):
                if artifact in self._metadata:
                    for extra in ("", *sorted(self._extras[name])):
                        news |= self._follow_one(artifact, extra)
        return news

    def _follow_one(self, artifact: Artifact, extra: str) -> bool:
        if (extra, artifact) in self._read:
            return False
        self._read.add((extra, artifact))
        lines = self._metadata[artifact].requires_dist
        found = [self._require(each) for each in self._reader.needed(lines, extra)]
        return any(found)

    def _admitted(self, name: str) -> tuple[Artifact, ...]:
        """Return the candidates that at least one requirement admits, newest first."""
        if name not in self._chosen:
            user = self._user.get(name, [])
            candidates = self._selector.select(
                self._pages.get(name) or (), user=user, others=sorted(self._specifiers[name])
            )
            usable = [each for each in candidates.artifacts if each not in self._defects]
            self._excluded[name] = (*candidates.excluded, *self._defective(candidates.artifacts))
            self._chosen[name] = tuple(self._wanted(name, usable, user))
        return self._chosen[name]

    def _defective(self, artifacts: Iterable[Artifact]) -> Iterable[Exclusion]:
        for each in artifacts:
            if each in self._defects:
                reason = f"unreadable metadata: {self._defects[each]}"
                yield Exclusion(name=each.name, version=each.version, reason=reason)

    def _wanted(
        self, name: str, artifacts: Iterable[Artifact], user: Sequence[str]
    ) -> Iterable[Artifact]:
        """Yield what the user's own requirements allow and any requirement at all admits."""
        every = [specifier_set(each) for each in user]
        some = [specifier_set(each) for each in sorted(self._specifiers[name])]
        for artifact in artifacts:
            version = parsed_version(artifact.version)
            if all(each.contains(version) for each in every) and any(
                each.contains(version) for each in some
            ):
                yield artifact

    def _refuse_unknown_roots(self) -> None:
        for root in self._roots:
            name = base_name(root.package)
            if self._pages.get(name, ()) is None:
                raise ResolutionError(
                    f"there is no package named {name}",
                    why="none of the configured package indexes has it",
                    fix="check its spelling, or add its index with --extra-index-url",
                )
