"""Which versions of a package the target could take, and why it cannot take the others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from stackgen.resolve.dependencies import names_prerelease, parsed_version, pins_exactly
from stackgen.values import Artifact, Exclusion, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The selected artifact of each version, newest first, and the versions left out."""

    artifacts: tuple[Artifact, ...]
    excluded: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What decides whether unusual versions are candidates.

    prereleases: admit every prerelease (``--pre``). Without it a package's prereleases are
        candidates only where one of the user's requirements names a prerelease of it, or an exact
        pin anywhere names that very version, or the package has nothing else.
    newest_upload: ISO 8601; artifacts uploaded later are no candidates (``--exclude-newer``).
    hashes: by package, the only SHA-256 digests that a user's lock admits.
    """

    prereleases: bool = False
    newest_upload: str | None = None
    hashes: tuple[tuple[str, frozenset[str]], ...] = ()


class Selector:
    """Chooses artifacts for one target, by the order of its wheel tags."""

    def __init__(self, target: Target, policy: Policy) -> None:
        self._ranks = {tag: rank for rank, tag in enumerate(target.tags)}
        self._python = parsed_version(target.python)
        self._target = target
        self._policy = policy
        self._hashes = dict(policy.hashes)

    def select(
        self, artifacts: Iterable[Artifact], *, user: Sequence[str], others: Iterable[str]
    ) -> Candidates:
        """Return the candidates of one package.

        Args:
            artifacts: all that the index offers of it.
            user: the specifiers of it in the user's own requirements.
            others: the specifiers of it that dependencies state.
        """
        by_version: dict[str, list[Artifact]] = {}
        for artifact in artifacts:
            by_version.setdefault(artifact.version, []).append(artifact)
        order = sorted(by_version, key=parsed_version, reverse=True)
        named = any(names_prerelease(each) for each in user)
        admitted = self._policy.prereleases or named or _only_prereleases(order)
        pins = [each for each in (*user, *others) if "==" in each]
        chosen: list[Artifact] = []
        excluded: list[Exclusion] = []
        for version in order:
            files = by_version[version]
            early = parsed_version(version).is_prerelease and not admitted
            if early and not any(pins_exactly(pin, version) for pin in pins):
                found: Artifact | str = "a prerelease (give --pre, or name one, to admit it)"
            else:
                found = self._best(files, pinned=any(pins_exactly(p, version) for p in user))
            if isinstance(found, str):
                excluded.append(Exclusion(name=files[0].name, version=version, reason=found))
            else:
                chosen.append(found)
        return Candidates(artifacts=tuple(chosen), excluded=tuple(excluded))

    def _best(self, files: Sequence[Artifact], *, pinned: bool) -> Artifact | str:
        """Return the artifact of one version that pip would install, or why there is none."""
        wheels = [each for each in files if each.is_wheel]
        if not wheels:
            return "no wheel, only a source distribution"
        fitting = [each for each in wheels if self._rank(each) is not None]
        if not fitting:
            return f"no wheel for {self._place()}"
        admitted = [each for each in fitting if self._python_admits(each)]
        if not admitted:
            return f"requires Python {fitting[0].requires_python}, this is {self._target.python}"
        if not pinned and all(each.yanked is not None for each in admitted):
            return f"yanked: {admitted[0].yanked or 'no reason given'}"
        if not pinned:
            admitted = [each for each in admitted if each.yanked is None]
        hashed = [each for each in admitted if each.sha256]
        return self._by_policy(hashed) if hashed else "its index states no SHA-256 of it"

    def _by_policy(self, wheels: Sequence[Artifact]) -> Artifact | str:
        newest = self._policy.newest_upload
        if newest is not None:
            wheels = [each for each in wheels if each.uploaded is None or each.uploaded <= newest]
            if not wheels:
                return f"uploaded after {newest}"
        hashes = self._hashes.get(wheels[0].name)
        if hashes is not None:
            wheels = [each for each in wheels if each.sha256 in hashes]
            if not wheels:
                return "the lock file admits other files of it, none for this target"
        return min(wheels, key=lambda each: self._rank(each) or (0, ()))

    def _rank(self, wheel: Artifact) -> tuple[int, tuple[int, str]] | None:
        """Return the sort key of a wheel, best first, or None where it does not fit."""
        try:
            _, _, build, tags = parse_wheel_filename(wheel.filename)
        except InvalidWheelFilename:
            return None
        ranks = [self._ranks[text] for tag in tags if (text := str(tag)) in self._ranks]
        number, suffix = build or (0, "")
        return (min(ranks), (-number, suffix)) if ranks else None

    def _python_admits(self, wheel: Artifact) -> bool:
        if not wheel.requires_python:
            return True
        try:
            return SpecifierSet(wheel.requires_python).contains(self._python, prereleases=True)
        except InvalidSpecifier:
            return True  # pip, too, ignores what it cannot read

    def _place(self) -> str:
        best = self._target.tags[0] if self._target.tags else "an unknown target"
        return f"Python {self._target.python_minor} on {best.rpartition('-')[2]}"


def _only_prereleases(versions: Sequence[str]) -> bool:
    return all(parsed_version(version).is_prerelease for version in versions)
