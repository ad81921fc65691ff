"""What an index offers of one package, as bit masks: the lowest bit is the newest version."""

from collections.abc import Iterator, Sequence

from stackgen.resolve.bits import bits
from stackgen.resolve.candidates import EARLY, Candidate
from stackgen.resolve.dependencies import parsed_version, pins_exactly, plain_url
from stackgen.resolve.matching import Versions
from stackgen.values import Artifact, Exclusion


class Offers:
    """The versions of one package, and which of them are candidates.

    fits: those of which the target takes an artifact and that the limits admit.
    """

    def __init__(
        self,
        name: str,
        candidates: Sequence[Candidate],
        *,
        limits: Sequence[str],
        pins: Sequence[str],
        held: str | None = None,
        all_prereleases: bool = False,
    ) -> None:
        """Take what there is.

        Args:
            name: of the package.
            candidates: its versions, newest first.
            limits: specifiers that every version must satisfy.
            pins: specifiers of the user; one that names a single version lets it in, though it
                was yanked.
            held: the one version that there is, if any; it lets nothing in, and admits no other
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
        if held is not None:
            wanted = parsed_version(held)
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
        """Return what tells a version apart."""
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
