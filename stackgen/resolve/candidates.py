"""Candidates: the versions of a package that fit the target, and why the others do not."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import takewhile

from packaging.tags import parse_tag

from stackgen.model.choices import Prereleases
from stackgen.model.files import DIRECT, Files
from stackgen.model.packages import Artifact, Target
from stackgen.resolve.dependencies import (
    malformed_python,
    names_prerelease,
    parsed_version,
    read_specifier,
)

EARLY = "a prerelease, taken only where no final release will do (--pre admits all)"
DISALLOWED = {
    Prereleases.DISALLOW: "a prerelease (--prerelease disallow)",
    Prereleases.EXPLICIT: "a prerelease, and you name none of it (--prerelease explicit)",
}
EVERY_PACKAGE = ":all:"
"""What ``--allow-build`` takes in place of a name."""

_TAIL = re.compile(r"(?:(?P<number>\d+)(?P<suffix>[^-]*)-)?(?P<tags>[^-]+-[^-]+-[^-]+)\.whl")
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(?:[Zz]|([+-])(\d\d):?(\d\d))?"
)


@dataclass(frozen=True, slots=True)
class VersionCandidate:
    """One version that an index offers.

    label: identifies a candidate of a package: the version, or ``version@index`` for a
        file of an index that is compared with the official one.
    found: the artifact that the target would take, or why it takes none.
    barred: why only an exact pin of the user lets it in; "" where nothing speaks against it.
    is_fallback: whether it is taken only where no final release will do.
    """

    version: str
    label: str
    found: Artifact | str
    barred: str
    is_fallback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What decides whether unusual versions are candidates.

    prereleases: which prereleases are candidates (``--prerelease``). Where final releases are
        preferred, versions are decided dependents first, and a stack holds a prerelease only if
        no final release completes what was decided before it. A prerelease is looked at where
        some requirement (together with the user's own) admits no final release that fits, or
        where there is no stack at all without.
    newest_upload: ISO 8601; artifacts uploaded later are no candidates (``--exclude-newer``). A
        date without a time means its last moment, one without a zone is in UTC.
    hashes: by package, the only SHA-256 digests that a user's lock admits; what is named so
        exactly is a candidate though it was yanked (PEP 592).
    allow_build: packages whose sdist will do where no wheel does (``--allow-build``), or ":all:".
    compared: names of indexes whose files are candidates beside those of the official one.
    """

    prereleases: Prereleases = Prereleases.IF_NECESSARY
    newest_upload: str | None = None
    hashes: tuple[tuple[str, frozenset[str]], ...] = ()
    allow_build: frozenset[str] = frozenset()
    compared: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.newest_upload is not None and moment(self.newest_upload) is None:
            raise ValueError(f"not a date: {self.newest_upload!r}")

    def builds(self, name: str) -> bool:
        """Return whether sdists of a package will do."""
        return name in self.allow_build or EVERY_PACKAGE in self.allow_build


@dataclass(slots=True)
class _Group:
    """The files of one version from one source, by what they are.

    source: the compared index that they come from; "" for the official one.
    fitting: rows of the wheels whose tags the target takes.
    others: rows of the other wheels.
    sdists: rows of the source distributions.
    """

    version: str
    source: str
    fitting: list[int]
    others: list[int]
    sdists: list[int]


class Selector:
    """Chooses artifacts for one target, by the order of its wheel tags."""

    def __init__(self, target: Target, policy: Policy) -> None:
        self._places = {tag: place for place, tag in enumerate(target.tags)}
        self._platforms = {tag.rpartition("-")[2] for tag in target.tags}
        self._python = parsed_version(target.python)
        self._target = target
        self._policy = policy
        self._newest = None if policy.newest_upload is None else moment(policy.newest_upload)
        self._hashes = dict(policy.hashes)
        self._ranks: dict[str, _Rank | None] = {}
        self._pythons: dict[str, str] = {"": ""}

    def select(
        self, artifacts: Sequence[Artifact], user: Sequence[str]
    ) -> tuple[VersionCandidate, ...]:
        """Return every version of one package, newest first; of one version the official first.

        user: the specifiers of it in the user's own requirements.
        """
        files = Files.of(artifacts)
        groups = self._grouped(files)
        early = self._early(user)
        # Sorting is stable: of one version, the official index stays first.
        groups.sort(key=lambda group: parsed_version(group.version), reverse=True)
        found: list[VersionCandidate] = []
        for group in groups:
            best = self._best(files, group)
            if not _is_known(best, found, group.version):
                found.append(self._candidate(group, best, early))
        return tuple(found)

    def _candidate(
        self, group: _Group, found: Artifact | str, early: str | None
    ) -> VersionCandidate:
        label = f"{group.version}@{group.source}" if group.source else group.version
        if isinstance(found, str) or found.index == DIRECT:
            return VersionCandidate(group.version, label, found, "")
        is_early = early is not None and parsed_version(group.version).is_prerelease
        is_named = found.sha256 in self._hashes.get(found.name, ())
        barred = ""
        if found.yanked is not None and not is_named:
            barred = f"yanked: {found.yanked or 'no reason given'}"
        if is_early and early and not barred:
            return VersionCandidate(group.version, label, early, "")
        return VersionCandidate(
            group.version, label, found, barred, is_fallback=is_early and not early
        )

    def _early(self, user: Sequence[str]) -> str | None:
        """Return why prereleases are no candidates, "" for fallbacks, None for candidates."""
        policy = self._policy.prereleases
        named = any(names_prerelease(each) for each in user if not each.startswith("@"))
        if policy is Prereleases.ALLOW:
            return None
        if policy is Prereleases.DISALLOW or (policy is Prereleases.EXPLICIT and not named):
            return DISALLOWED[policy]
        return ""

    def _grouped(self, files: Files) -> list[_Group]:
        """Sort rows by source, version and kind; the official source comes first."""
        versions, tails = files.coded("version"), files.coded("tail")
        kinds = [self._kind(tail) for tail in tails.values]
        groups: list[_Group] = []
        for source, rows in self._sources(files):
            made: dict[int, tuple[list[int], list[int], list[int]]] = {}
            for row in rows:
                code = versions.codes[row]
                if code not in made:
                    made[code] = ([], [], [])
                made[code][kinds[tails.codes[row]]].append(row)
            groups += (_Group(versions.values[code], source, *of) for code, of in made.items())
        return groups

    def _sources(self, files: Files) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield the rows of the official files, then those of each compared index.

        What only compared indexes have is theirs to offer: then the first of them is official.
        """
        indexes = files.coded("index")
        compared = [each for each in indexes.values if each in self._policy.compared]
        if len(compared) == len(indexes.values):
            compared = compared[1:]
        if not compared:
            yield "", range(len(files))
            return
        yield "", [row for row, index in enumerate(indexes) if index not in compared]
        for each in compared:
            yield each, [row for row, index in enumerate(indexes) if index == each]

    def _best(self, files: Files, group: _Group) -> Artifact | str:
        """Return the artifact of one version that pip would install, or why there is none."""
        rows, why = self._sound(files, group.fitting)
        if not rows and group.sdists and self._policy.builds(files.column("name")[0]):
            rows, of_sdists = self._sound(files, group.sdists)
            why = why or of_sdists
        if not rows:
            return why or self._without_wheel(group, files.column("name")[0])
        if len(rows) > 1:
            yanked, tails = files.column("yanked"), files.column("tail")
            rows = [row for row in rows if not yanked[row]] or rows
            return files[min(rows, key=lambda row: self._rank(tails[row]) or _NO_RANK)]
        return files[rows[0]]

    def _sound(self, files: Files, rows: Sequence[int]) -> tuple[Sequence[int], str]:
        """Return the rows that could be installed, or why there is none; a yank does not count."""
        for problem in (self._python_problem, self._time_problem, self._hash_problem):
            problems = [problem(files, row) for row in rows]
            sound = [row for row, why in zip(rows, problems, strict=True) if not why]
            if problems and not sound:
                return (), problems[0]
            rows = sound
        return rows, ""

    def _python_problem(self, files: Files, row: int) -> str:
        requires = files.column("requires_python")[row]
        if requires not in self._pythons:
            self._pythons[requires] = self._problem_of(requires)
        return self._pythons[requires]

    def _problem_of(self, requires: str) -> str:
        wanted = read_specifier(requires)
        if wanted is None:
            return malformed_python(requires)
        if wanted.contains(self._python):
            return ""
        return f"requires Python {requires}, this is {self._target.python}"

    def _time_problem(self, files: Files, row: int) -> str:
        # What the user names by its address is not looked for, so no cutoff hides it.
        if self._newest is None or files.column("index")[row] == DIRECT:
            return ""
        uploaded = moment(files.column("uploaded")[row])
        if uploaded is None:
            return "its index does not say when it was uploaded"
        return f"uploaded after {self._policy.newest_upload}" if uploaded > self._newest else ""

    def _hash_problem(self, files: Files, row: int) -> str:
        digest = files.column("sha256")[row]
        if not digest:
            return "its index states no SHA-256 of it"
        if self._hashes and digest not in self._hashes.get(files.column("name")[row], (digest,)):
            return "the lock file admits other files of it, none for this target"
        return ""

    def _without_wheel(self, group: _Group, name: str) -> str:
        found = "no wheel"
        if group.others:
            found += f" for Python {self._target.python_minor} on {self._target.platform}"
        if not group.sdists:
            return found
        return f"{found}, only a source distribution (--allow-build {name} admits it)"

    def _kind(self, tail: str) -> int:
        """Return which of a group's lists a file belongs to."""
        if not tail.endswith(".whl"):
            return 2
        return 0 if self._rank(tail) else 1

    def _rank(self, tail: str) -> "_Rank | None":
        """Return the sort key of a wheel that fits, best first; None where none of its tags does.

        The best tag decides, then the build number.
        """
        if tail not in self._ranks:
            match = _TAIL.fullmatch(tail)
            place = self._place(match["tags"]) if match else None
            number, suffix = (
                (int(match["number"] or 0), match["suffix"] or "") if match else (0, "")
            )
            self._ranks[tail] = None if place is None else (place, -number, suffix)
        return self._ranks[tail]

    def _place(self, tags: str) -> int | None:
        """Return the place of the best of these tags among the target's."""
        if self._platforms.isdisjoint(tags.rpartition("-")[2].lower().split(".")):
            return None  # Most wheels are for other platforms: no need to read their tags.
        try:
            found = [self._places.get(str(tag)) for tag in parse_tag(tags)]
        except ValueError:  # no tag at all, as in ``py36+-none-any``: nothing takes such a wheel
            return None
        return min((each for each in found if each is not None), default=None)


_Rank = tuple[int, int, str]
_NO_RANK: _Rank = (0, 0, "")


def _is_known(best: Artifact | str, found: Sequence[VersionCandidate], version: str) -> bool:
    """Return whether a candidate of that version is the very same file, from another index."""
    same = takewhile(lambda each: each.version == version, reversed(found))
    return isinstance(best, Artifact) and any(
        isinstance(each.found, Artifact) and each.found.sha256 == best.sha256 for each in same
    )


def moment(text: str) -> datetime | None:
    """Return the moment that an ISO 8601 text names, None where it is none.

    A date without a time means the last moment of that day; without a zone it is in UTC.
    """
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction, sign, *offset = match.groups()[6:]
    zone = timedelta(hours=int(offset[0] or 0), minutes=int(offset[1] or 0))
    try:
        found = datetime(
            year, month, day, hour, minute, second,
            microsecond=int((fraction or "")[:6].ljust(6, "0")),
            tzinfo=timezone(-zone if sign == "-" else zone),
        )  # fmt: skip
        whole_day = timedelta(days=1, microseconds=-1)
        return found if match[4] else found + whole_day
    except (ValueError, OverflowError):
        return None
