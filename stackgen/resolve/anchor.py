"""What the anchor (the package that the user names first) leaves possible for all others.

Every stack holds one version of the anchor. Which of them a release can share a stack with is a bit
mask that shrinks on the way from the anchor to the release; where nothing is left of it, the
release is in no stack, and what it alone requires need not be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stackgen.resolve.dependencies import Dependency, base_name
from stackgen.resolve.offers import Offers


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
