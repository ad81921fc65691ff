"""Which versions of a package the target could take, and why it cannot take the others."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import parse_tag

from stackgen.resolve.dependencies import names_prerelease, parsed_version
from stackgen.values import Artifact, Target

_TAGS = 3
EARLY = "a prerelease (give --pre, or name one, to admit it)"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One version that an index offers.

    label: what tells candidates of one package apart: the version, or ``version@index`` for a
        file of an index that is compared with the official one.
    found: the artifact that the target would take, or why it takes none.
    barred: why only an exact pin lets it in; "" where nothing speaks against it.
    """

    version: str
    label: str
    found: Artifact | str
    barred: str


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
        self._known: dict[str, int | None] = {}
        self._pythons: dict[str, bool] = {}

    def select(self, artifacts: Iterable[Artifact], user: Sequence[str]) -> tuple[Candidate, ...]:
        """Return every version of one package, newest first.

        Args:
            artifacts: all that the index offers of it.
            user: the specifiers of it in the user's own requirements.
        """
        by_version: dict[str, list[Artifact]] = {}
        for artifact in artifacts:
            by_version.setdefault(artifact.version, []).append(artifact)
        order = sorted(by_version, key=parsed_version, reverse=True)
        named = any(names_prerelease(each) for each in user)
        admitted = self._policy.prereleases or named or _only_prereleases(order)
        return tuple(
            self._candidate(version, by_version[version], admitted=admitted) for version in order
        )

    def _candidate(self, version: str, files: Sequence[Artifact], *, admitted: bool) -> Candidate:
        found = self._best(files)
        barred = ""
        if isinstance(found, Artifact):
            if found.yanked is not None:
                barred = f"yanked: {found.yanked or 'no reason given'}"
            elif not admitted and parsed_version(version).is_prerelease:
                barred = EARLY
        return Candidate(version, version, found, barred)

    def _best(self, files: Sequence[Artifact]) -> Artifact | str:
        """Return the artifact of one version that pip would install, or why there is none."""
        wheels = [each for each in files if each.is_wheel]
        if not wheels:
            return "no wheel, only a source distribution"
        fitting = [each for each in wheels if self._tag_rank(each.filename) is not None]
        if not fitting:
            return f"no wheel for {self._place()}"
        admitted = [each for each in fitting if self._python_admits(each.requires_python)]
        if not admitted:
            return f"requires Python {fitting[0].requires_python}, this is {self._target.python}"
        sound = [each for each in admitted if each.yanked is None] or admitted
        hashed = [each for each in sound if each.sha256]
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
        return wheels[0] if len(wheels) == 1 else min(wheels, key=self._preference)

    def _preference(self, wheel: Artifact) -> tuple[int, tuple[int, str]]:
        """Return the sort key of a wheel that fits, best first: its tag, then its build number."""
        number, suffix = _build(wheel.filename)
        return self._tag_rank(wheel.filename) or 0, (-number, suffix)

    def _tag_rank(self, filename: str) -> int | None:
        """Return the place of a wheel's best tag among the target's; None where none fits."""
        name, *tags = filename.removesuffix(".whl").rsplit("-", 3)
        key = "-".join(tags)
        if key not in self._known:
            sound = name.count("-") in (1, 2) and len(tags) == _TAGS
            found = [self._ranks.get(str(tag)) for tag in parse_tag(key)] if sound else []
            self._known[key] = min((each for each in found if each is not None), default=None)
        return self._known[key]

    def _python_admits(self, requires: str | None) -> bool:
        if not requires:
            return True
        if requires not in self._pythons:
            try:
                wanted = SpecifierSet(requires)
            except InvalidSpecifier:
                wanted = SpecifierSet()  # pip, too, ignores what it cannot read
            self._pythons[requires] = wanted.contains(self._python, prereleases=True)
        return self._pythons[requires]

    def _place(self) -> str:
        best = self._target.tags[0] if self._target.tags else "an unknown target"
        return f"Python {self._target.python_minor} on {best.rpartition('-')[2]}"


def _build(filename: str) -> tuple[int, str]:
    """Return a wheel's build number and what follows it; (0, "") where it has none."""
    parts = filename.split("-")
    match = re.match(r"(\d+)(.*)", parts[2]) if len(parts) > _TAGS + 2 else None
    return (int(match[1]), match[2]) if match else (0, "")


def _only_prereleases(versions: Sequence[str]) -> bool:
    return all(parsed_version(version).is_prerelease for version in versions)
