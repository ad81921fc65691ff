"""All releases that could be part of a stack, found in rounds, so that I/O stays outside.

The closure says what it needs next (index pages, metadata); the caller reads it, in any
order and in any parts, until nothing is missing. Never needed: versions that no requirement
admits, and packages required only by releases that no stack can hold (see `Anchor`).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from packaging.utils import canonicalize_name

from stackgen.errors import ResolutionError
from stackgen.model.packages import Artifact, Exclusion, Metadata, Release, Target
from stackgen.resolve.candidates import EARLY, Selector, VersionCandidate
from stackgen.resolve.dependencies import (
    Dependency,
    DependencyReader,
    Versions,
    base_name,
    bits,
    defect,
    parsed_version,
    pins_exactly,
    plain_url,
    python_admits,
)
from stackgen.resolve.requirements import Requirements


class Offers:
    """The versions of one package, and which of them are candidates.

    fits: those of which the target takes an artifact and that the limits admit.
    """

    def __init__(
        self,
        name: str,
        candidates: Sequence[VersionCandidate],
        *,
        limits: Sequence[str],
        pins: Sequence[str],
        locked: str | None = None,
        all_prereleases: bool = False,
    ) -> None:
        """Take the versions of a package, newest first.

        limits: specifiers that every version must satisfy.
        pins: specifiers of the user; one that names a single version lets it in, though it was
            yanked.
        locked: the one version that there is, if any; it lets nothing in, and admits no other
            local version.
        all_prereleases: fallbacks are candidates like all others.
        """
        self.name = name
        self._candidates = candidates
        self._versions = Versions([each.version for each in candidates])
        # Places, not masks: a mask of the last of 100,000 versions takes 13 kB.
        self._places = {each.label: bit for bit, each in enumerate(candidates)}
        self._shut = sum(
            1 << bit
            for bit, each in enumerate(candidates)
            if each.barred and not any(pins_exactly(pin, each.version) for pin in pins)
        )
        self._fallbacks = sum(
            1 << bit
            for bit, each in enumerate(candidates)
            if each.is_fallback and not all_prereleases
        )
        self.fits = self._takeable = sum(
            1 << bit for bit, each in enumerate(candidates) if isinstance(each.found, Artifact)
        )
        self._masks = {"": self._takeable}
        for specifier in limits:
            self.fits &= self.mask(specifier)
        if locked is not None:
            wanted = parsed_version(locked)
            same = [parsed_version(each.version) == wanted for each in candidates]
            self.fits &= sum(1 << bit for bit, is_same in enumerate(same) if is_same)

    @property
    def open(self) -> int:
        """Return what fits, without what only a pin of the user would let in, and fallbacks."""
        return self.fits & ~self._shut & ~self._fallbacks

    @property
    def fallbacks(self) -> int:
        """Return the prereleases that are candidates where no final release will do."""
        return self.fits & ~self._shut & self._fallbacks

    def artifact(self, bit: int) -> Artifact:
        """Return the artifact of a version that fits."""
        found = self._candidates[bit].found
        assert isinstance(found, Artifact)  # noqa: S101
        return found

    def label(self, bit: int) -> str:
        """Return the label of a version."""
        return self._candidates[bit].label

    def mask(self, specifier: str) -> int:
        """Return the versions that a specifier admits, of those that the target takes."""
        if specifier not in self._masks:
            exact = self._places.get(specifier[3:]) if specifier.startswith("===") else None
            self._masks[specifier] = self._matching(specifier) if exact is None else 1 << exact
        return self._masks[specifier]

    def admitted(self, specifier: str) -> int:
        """Return the candidates that a specifier admits; fallbacks where there are no others."""
        mask = self.mask(specifier)
        return mask & self.open or mask & self.fallbacks

    def excluded(self, offered: int) -> Iterator[Exclusion]:
        """Yield each version that is no candidate on this target, newest first, with the reason.

        offered: the fallbacks that were candidates nevertheless.
        """
        for bit, each in enumerate(self._candidates):
            reason = each.barred if self._shut >> bit & 1 else each.found
            if self._fallbacks & self._takeable & ~self._shut & ~offered & 1 << bit:
                reason = EARLY
            if isinstance(reason, str):
                yield Exclusion(name=self.name, version=each.version, reason=reason)

    def _matching(self, specifier: str) -> int:
        if specifier.startswith("@"):
            urls = ((bit, plain_url(self.artifact(bit).url)) for bit in bits(self._takeable))
            return sum(1 << bit for bit, url in urls if url == specifier[2:])
        return self._takeable & self._versions.mask(specifier)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Versions of the anchor that say the same of a package: which of its versions may be taken."""

    anchors: int
    versions: int


class Anchor:
    """The needs of each version of the anchor.

    needs: of each version that is a candidate, by bit.
    pages: of the anchor and of everything that a version of it needs; None where unknown.
    every: all of these versions.
    """

    def __init__(
        self,
        name: str,
        needs: Mapping[int, Sequence[Dependency]],
        pages: Mapping[str, Offers | None],
    ) -> None:
        self.every = sum(1 << bit for bit in needs)
        self._pages = pages
        self._bounds: dict[str, tuple[Bounds, ...]] = {
            name: tuple(Bounds(1 << bit, 1 << bit) for bit in needs)
        }
        self._possible: dict[tuple[str, str], int] = {}
        for package in {base_name(each.package) for found in needs.values() for each in found}:
            self._bounds.setdefault(package, self._bounds_of(package, needs))

    @classmethod
    def of_everything(cls) -> "Anchor":
        """Return an anchor that rules nothing out: of one version that needs nothing."""
        return cls("", {0: ()}, {})

    def bounds(self, name: str) -> tuple[Bounds, ...]:
        """Return what each version of the anchor says of a package; together, they are all."""
        return self._bounds.get(name) or (Bounds(self.every, -1),)

    def possible(self, dependency: Dependency) -> int:
        """Return the versions of the anchor that leave a version for a dependency."""
        name = base_name(dependency.package)
        if name not in self._bounds:
            return self.every
        key = (name, dependency.specifier)
        if key not in self._possible:
            page = self._pages[name]
            mask = page.mask(dependency.specifier) & page.fits if page else 0
            self._possible[key] = sum(
                each.anchors for each in self._bounds[name] if each.versions & mask
            )
        return self._possible[key]

    def _bounds_of(
        self, package: str, needs: Mapping[int, Sequence[Dependency]]
    ) -> tuple[Bounds, ...]:
        page = self._pages[package]
        found: dict[int, int] = {}
        for bit, each in needs.items():
            versions = -1
            for dependency in each:
                if base_name(dependency.package) == package:
                    versions &= page.mask(dependency.specifier) if page else 0
            found[versions] = found.get(versions, 0) | 1 << bit
        return tuple(Bounds(anchors, versions) for versions, anchors in found.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the closure lacks: names of packages, and artifacts whose metadata are wanted."""

    pages: tuple[str, ...]
    metadata: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Roles filled in one way.

    chosen: by role, which of its packages.
    roots: what is then required.
    barred: the packages that then may not be part of a stack.
    """

    chosen: tuple[int, ...]
    roots: tuple[Dependency, ...]
    barred: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Universe:
    """All releases that a stack may hold, with their dependencies on the target.

    roots: what the user requires.
    releases: by package (``name`` or ``name[extra]``), newest first.
    needs: by package, one entry per release: its dependencies.
    excluded: by package, the versions left out, and why.
    unknown: packages that something requires and no index has.
    fitting: packages of which the target takes a version that the user's requirements admit.
    limits: what constraints admit of packages, if a stack holds them.
    prefers_final: whether a prerelease is taken only where no final release will do.
    has_more: whether prereleases that fit were left out: no requirement needs them.
    roles: what roles there are, as ``tensorflow|tensorflow-cpu``; mostly none.
    filled: the ways to fill them.
    """

    roots: tuple[Dependency, ...]
    releases: Mapping[str, tuple[Release, ...]]
    needs: Mapping[str, tuple[tuple[Dependency, ...], ...]]
    excluded: Mapping[str, tuple[Exclusion, ...]]
    unknown: frozenset[str]
    fitting: frozenset[str]
    limits: tuple[Dependency, ...] = ()
    prefers_final: bool = False
    has_more: bool = False
    roles: tuple[str, ...] = ()
    filled: tuple[Filled, ...] = ()


_MasksByVersion = defaultdict[int, int]
_Key = tuple[str, str, str]


class Closure:
    """The growing closure of some requirements on a target.

    What reaches a release is offered to it together with the versions of the anchor for which it
    does; it passes on what its own dependencies leave of them.
    """

    def __init__(
        self,
        request: Requirements,
        target: Target,
        *,
        barred: Collection[str] = (),
        pruned: bool = True,
        all_prereleases: bool = False,
    ) -> None:
        """Begin with nothing known.

        request: what stacks must satisfy; its roles filled already.
        barred: packages that no stack may hold.
        pruned: leave out what no version of the anchor can share a stack with. An empty space can
            only be explained by what is not pruned, prereleases included.
        all_prereleases: look at each prerelease that the policy admits, not only at those that
            some requirement needs.
        """
        self._reader = DependencyReader(
            target, overrides=request.overrides, excluded=request.excluded
        )
        self._selector = Selector(target, request.policy)
        self._python = target.python
        self._barred = barred
        self._pruned = pruned
        self._all_prereleases = all_prereleases or not pruned
        self._prefers_final = request.policy.prereleases.prefers_final
        applicable = [each for each in request.requirements if self._reader.applies(each)]
        self._roots = tuple(each for one in applicable for each in self._reader.adjusted(one))
        self._limits = tuple(
            Dependency(canonicalize_name(each.name), str(each.specifier))
            for each in request.constraints
            if self._reader.applies(each)
        )
        self._locked = dict(request.locked)
        self._user = self._specifiers()
        self._pages: dict[str, Offers | None] = {}
        self._metadata: dict[_Key, Metadata] = {}
        self._defects: dict[_Key, str] = {}
        self._lacking_pages: dict[str, None] = dict.fromkeys(
            base_name(root.package) for root in self._roots
        )
        self._lacking_metadata: dict[_Key, Artifact] = {}
        self._waiting: dict[object, list[Callable[[], None]]] = defaultdict(list)
        self._todo: deque[Callable[[], None]] = deque()
        self._needs: dict[tuple[str, str], tuple[Dependency, ...]] = {}
        self._name = base_name(self._roots[0].package) if self._roots else ""
        self._others = [each for each in self._roots if base_name(each.package) != self._name]
        self._anchor: Anchor | None = None
        self._anchor_fallbacks = 0
        self._requested = {root.package for root in self._roots}
        self._offered: dict[str, _MasksByVersion] = defaultdict(lambda: defaultdict(int))
        self._live: dict[str, _MasksByVersion] = defaultdict(lambda: defaultdict(int))
        self._unjudged: dict[tuple[str, int], int] = {}
        self._required: dict[Dependency, int] = {}
        if self._roots:
            self._todo.append(self._settle_anchor if pruned else self._follow_all)

    def _specifiers(self) -> Mapping[str, Sequence[str]]:
        """Return, by package, the specifiers that the user gave."""
        found: dict[str, list[str]] = {}
        for each in (*self._roots, *self._reader.overriding(), *self._limits):
            found.setdefault(base_name(each.package), []).append(each.specifier)
        return found

    @property
    def names(self) -> Collection[str]:
        """Return the packages whose pages were given."""
        return self._pages.keys()

    def give_pages(self, pages: Mapping[str, Sequence[Artifact] | None]) -> None:
        """Take what the index offers of each package; None where no index has it."""
        for name, artifacts in pages.items():
            self._pages[name] = None if artifacts is None else self._offers(name, artifacts)
            self._lacking_pages.pop(name, None)
            self._todo.extend(self._waiting.pop(name, ()))

    def _offers(self, name: str, artifacts: Sequence[Artifact]) -> Offers:
        user = self._user.get(name, ())
        found = self._selector.select(() if name in self._barred else artifacts, user)
        # Each requirement may be a part of a conflict, so what is not pruned heeds none of them.
        limits = user if self._pruned else ()
        return Offers(
            name,
            found,
            limits=limits,
            pins=user,
            locked=self._locked.get(name),
            all_prereleases=self._all_prereleases,
        )

    def give_metadata(
        self, metadata: Mapping[Artifact, Metadata], defects: Mapping[Artifact, str] | None = None
    ) -> None:
        """Take the metadata of artifacts that were requested, or why there are none."""
        for artifact, found in metadata.items():
            needed = found.requires_python
            if why := defect(found):
                self._defects[_key(artifact)] = why
            elif needed and not python_admits(needed, self._python):
                self._defects[_key(artifact)] = f"requires Python {needed}, this is {self._python}"
            else:
                self._metadata[_key(artifact)] = found
        self._defects.update((_key(artifact), why) for artifact, why in (defects or {}).items())
        for artifact in (*metadata, *(defects or ())):
            self._lacking_metadata.pop(_key(artifact), None)
            self._todo.extend(self._waiting.pop(_key(artifact), ()))

    def need(self) -> Need:
        """Follow everything known, and return what is missing; nothing missing means complete."""
        while self._todo or self._required:
            if self._todo:
                self._todo.popleft()()
            else:
                first = next(iter(self._required))
                self._admit(first, self._required.pop(first))
        return Need(
            pages=tuple(self._lacking_pages), metadata=tuple(self._lacking_metadata.values())
        )

    def universe(self) -> Universe:
        """Return the complete closure.

        Raises:
            ResolutionError: the user requires a package that no index has.
        """
        self._refuse_unknown_roots()
        names = sorted({base_name(package) for package in self._requested})
        found = {
            package: tuple(self._living(package)) for package in sorted({*names, *self._requested})
        }
        return Universe(
            roots=self._roots,
            releases={package: tuple(r for r, _ in pairs) for package, pairs in found.items()},
            needs={package: tuple(n for _, n in pairs) for package, pairs in found.items()},
            excluded={name: tuple(self._excluded(name)) for name in names},
            prefers_final=self._prefers_final,
            has_more=any(
                page.fallbacks & ~self._fallbacks_offered(name)
                for name, page in self._pages.items()
                if page
            ),
            unknown=frozenset(name for name, page in self._pages.items() if page is None),
            fitting=frozenset(
                name for name, page in self._pages.items() if page and page.admitted("")
            ),
            limits=self._limits,
        )

    def _follow_all(self) -> None:
        """Follow all roots, without limits by an anchor."""
        self._anchor = Anchor.of_everything()
        self._required.update(dict.fromkeys(self._roots, self._anchor.every))

    def _settle_anchor(self) -> None:
        """Learn all of the anchor, and the pages that its needs speak of; then follow the roots."""
        page = self._page(self._name, self._settle_anchor)
        if page is None:
            return
        for root in self._roots:
            if base_name(root.package) == self._name:
                self._anchor_fallbacks |= page.admitted(root.specifier) & page.fallbacks
        candidates = page.open | self._anchor_fallbacks
        artifacts = {bit: page.artifact(bit) for bit in bits(candidates)}
        if not self._have_metadata(tuple(artifacts.values()), self._settle_anchor):
            return
        needs = {
            bit: self._needed(self._name, page, bit)
            for bit, each in artifacts.items()
            if _key(each) in self._metadata
        }
        spoken_of = {base_name(each.package) for found in needs.values() for each in found}
        spoken_of |= {base_name(root.package) for root in self._roots}
        lacking = sorted(spoken_of - self._pages.keys())
        self._lacking_pages.update(dict.fromkeys(lacking))
        if lacking:
            self._waiting[lacking[0]].append(self._settle_anchor)
            return
        self._anchor = Anchor(self._name, needs, self._pages)
        for root in self._roots:
            if base_name(root.package) == self._name:
                self._required[root] = self._anchor.every

    def _admit(self, dependency: Dependency, anchors: int) -> None:
        """Offer what a dependency admits, for some versions of the anchor."""
        package, specifier = dependency.package, dependency.specifier
        self._requested.add(package)
        page = self._page(base_name(package), partial(self._admit, dependency, anchors))
        if page is None or self._anchor is None:
            return
        admitted = page.admitted(specifier)
        if page.name == self._name:
            admitted |= page.mask(specifier) & self._anchor_fallbacks
        for bounds in self._anchor.bounds(page.name):
            if common := bounds.anchors & anchors:
                self._offer(page, package, admitted & bounds.versions, common)

    def _offer(self, page: Offers, package: str, versions: int, anchors: int) -> None:
        offered = self._offered[package]
        for bit in bits(versions):
            if fresh := anchors & ~offered[bit]:
                offered[bit] |= fresh
                waiting = self._unjudged.get((package, bit), 0)
                self._unjudged[package, bit] = waiting | fresh
                if not waiting:
                    self._consider(page, package, bit)

    def _consider(self, page: Offers, package: str, bit: int) -> None:
        """Pass on what a release needs, for the versions of the anchor that it can go with."""
        artifact = page.artifact(bit)
        if not self._have_metadata((artifact,), partial(self._consider, page, package, bit)):
            return
        anchors = self._unjudged.pop((package, bit))
        if _key(artifact) not in self._metadata:
            return
        needs = self._needed(package, page, bit)
        self._widen_anchor(needs)
        live = self._live[package]
        fresh = self._possible(needs, anchors) & ~live[bit]
        if not fresh:
            return
        live[bit] |= fresh
        for each in (*needs, *(self._others if package == self._name else ())):
            self._required[each] = self._required.get(each, 0) | fresh

    def _widen_anchor(self, needs: Iterable[Dependency]) -> None:
        """Take prereleases of the anchor into it where a release needs one."""
        page = self._pages.get(self._name) if self._pruned else None
        for each in needs if page else ():
            if page and base_name(each.package) == self._name:
                fresh = page.admitted(each.specifier) & page.fallbacks & ~self._anchor_fallbacks
                if fresh:
                    self._anchor_fallbacks |= fresh
                    self._todo.append(self._settle_anchor)

    def _possible(self, needs: Iterable[Dependency], anchors: int) -> int:
        for each in needs:
            anchors &= self._anchor.possible(each) if self._anchor else 0
        return anchors

    def _needed(self, package: str, page: Offers, bit: int) -> tuple[Dependency, ...]:
        key = (package, page.label(bit))
        if key not in self._needs:
            artifact = page.artifact(bit)
            extra = package[len(artifact.name) + 1 : -1]
            lines = self._metadata[_key(artifact)].requires_dist
            same = (Dependency(artifact.name, f"==={page.label(bit)}"),) if extra else ()
            self._needs[key] = (*same, *self._reader.needed(lines, extra))
        return self._needs[key]

    def _page(self, name: str, then: Callable[[], None]) -> Offers | None:
        """Return what there is of a package; where that is not known yet, go on when it is."""
        if name not in self._pages:
            self._lacking_pages[name] = None
            self._waiting[name].append(then)
        return self._pages.get(name)

    def _have_metadata(self, artifacts: Sequence[Artifact], then: Callable[[], None]) -> bool:
        """Return whether all metadata were given, if only as defects; else go on when they are."""
        keys = {_key(each): each for each in artifacts}
        lacking = [key for key in keys if key not in self._metadata and key not in self._defects]
        for key in lacking:
            self._lacking_metadata[key] = keys[key]
        if lacking:
            self._waiting[lacking[0]].append(then)
        return not lacking

    def _living(self, package: str) -> Iterator[tuple[Release, tuple[Dependency, ...]]]:
        """Yield each release that may be part of a stack with its needs, newest first."""
        page = self._pages.get(base_name(package))
        for bit, anchors in sorted(self._live[package].items()):
            if page and anchors:
                artifact = page.artifact(bit)
                lines = self._metadata[_key(artifact)].requires_dist
                release = Release(artifact=artifact, requires_dist=lines, label=page.label(bit))
                yield release, self._needed(package, page, bit)

    def _excluded(self, name: str) -> Iterator[Exclusion]:
        page = self._pages.get(name)
        yield from page.excluded(self._fallbacks_offered(name)) if page else ()
        for (known, version, _), why in self._defects.items():
            if known == name:
                yield Exclusion(name=name, version=version, reason=why)

    def _fallbacks_offered(self, name: str) -> int:
        """Return the prereleases that some requirement needs; with an extra, of the package too."""
        return sum(1 << bit for bit in self._offered[name]) if name in self._offered else 0

    def _refuse_unknown_roots(self) -> None:
        for root in self._roots:
            name = base_name(root.package)
            if name in self._pages and self._pages[name] is None:
                raise ResolutionError(
                    f"there is no package named {name}",
                    why="none of the configured package indexes has it",
                    fix="check its spelling, or add its index with --extra-index-url",
                )


def _key(artifact: Artifact) -> _Key:
    """Return what identifies an artifact here: one is selected of each version and index."""
    return artifact.name, artifact.version, artifact.index
