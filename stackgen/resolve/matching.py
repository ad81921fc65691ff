"""Which of a package's versions a specifier admits, as a bit mask, without trying each of them.

Popular packages have thousands of versions and thousands of distinct specifiers. What a clause of
PEP 440 admits is mostly an unbroken stretch of the sorted versions, so its ends are found by
bisection; packaging still decides on every version that is looked at.
"""

from collections.abc import Callable, Sequence

from packaging.specifiers import Specifier
from packaging.version import Version

from stackgen.resolve.dependencies import parsed_version, specifier_set


class Versions:
    """Versions of one package, newest first; bit 0 of a mask is the newest."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._versions = tuple(parsed_version(text) for text in texts)
        self._all = (1 << len(texts)) - 1
        self._known: dict[str, int] = {"": self._all}
        self._clauses: dict[Specifier, int] = {}

    def mask(self, specifier: str) -> int:
        """Return the versions that a specifier admits, whatever the policy on prereleases."""
        known = self._known.get(specifier)
        if known is None:
            known = self._all
            for clause in specifier_set(specifier):
                known &= self._admitted(clause)
            self._known[specifier] = known
        return known

    def _admitted(self, clause: Specifier) -> int:
        known = self._clauses.get(clause)
        if known is None:
            self._clauses[clause] = known = self._stretch(clause)
        return known

    def _stretch(self, clause: Specifier) -> int:
        def admits(place: int) -> bool:
            return clause.contains(self._versions[place], prereleases=True)

        size = len(self._versions)
        operator, text = clause.operator, clause.version
        if operator == "!=":
            return self._all & ~self._admitted(Specifier(f"=={text}"))
        if operator == ">=" or (operator == ">" and _is_plain(text)):
            return (1 << _first(lambda place: not admits(place), 0, size)) - 1
        if operator == "<=" or (operator == "<" and _is_plain(text)):
            return self._all & -(1 << _first(admits, 0, size))
        if operator in ("==", "~="):
            # The oldest that a wildcard can admit is a development release.
            wild = text.endswith(".*")
            floor = Version(f"{text[:-2]}.dev0" if wild else text)
            end = _first(lambda place: self._versions[place] < floor, 0, size)
            return ((1 << end) - 1) & -(1 << _first(admits, 0, end))
        return sum(1 << place for place in range(size) if admits(place))


def _is_plain(text: str) -> bool:
    """Return whether a version is final: what < and > admit near any other is no stretch."""
    version = parsed_version(text)
    return not (version.is_prerelease or version.is_postrelease or version.local)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place where something holds that goes on to hold; `high` where none is."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
