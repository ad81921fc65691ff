"""A lock file's artifacts compared with what indexes offer. Pure: pages come in, findings go out.

Attestations are compared by the publisher that the index states; signatures are not verified.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from packaging.version import Version

from stackgen.index import IndexLocation
from stackgen.index.pages import Page
from stackgen.locks.fields import MalformedError, checked_hash
from stackgen.locks.sources import StatedFile, StatedPackage, StatedSources
from stackgen.model.packages import Artifact
from stackgen.model.reports.provenance import FindingCode, ProvenanceFinding, Severity

Identity = tuple[tuple[str, str], ...]
"""A publisher (PEP 740) as sorted pairs."""
Pages = Mapping[IndexLocation, Mapping[str, Page]]

_NAMES = 4
_OF_ANOTHER_INDEX = "a local version comes from another index: name that with --extra-index-url"
_RELOCK = "lock again, and compare the change of the hashes with the project's release"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """What a lock may name.

    allowed: addresses of indexes. links: those of find-links, whose files belong to any index.
    """

    allowed: frozenset[str]
    links: tuple[IndexLocation, ...] = ()


@dataclass(slots=True, kw_only=True)
class Checked:
    """What a check collects: findings, what could not be checked, and how many files agree."""

    findings: list[ProvenanceFinding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    artifacts: int = 0

    def add(
        self,
        code: FindingCode,
        severity: Severity,
        about: str,
        message: str,
        remedy: str,
        artifacts: Iterable[str] = (),
        ids: tuple[str, ...] = (),
    ) -> None:
        """Add a finding."""
        self.findings.append(
            ProvenanceFinding(
                code=code,
                severity=severity,
                package=about,
                message=message,
                remedy=remedy,
                artifacts=tuple(sorted(artifacts)),
                ids=ids,
            )
        )


def check_sources(stated: StatedSources, pages: Pages, policy: IndexPolicy) -> Checked:
    """Compare a lock with the pages of all indexes that were searched."""
    result = Checked()
    _check_indexes(stated, pages, policy, result)
    # pip refuses a package without hash where another one has any.
    wants_hashes = stated.format == "requirements" and any(each.files for each in stated.packages)
    for package in stated.packages:
        if package.elsewhere or not package.version:
            why = package.elsewhere or "the lock pins no version"
            result.unchecked.append(f"{package.name}: {why}")
            continue
        _PinnedRelease.of(package, pages, policy, result).check(wants_hashes=wants_hashes)
    return result


def normal_address(url: str) -> str:
    """Return an index's address in the form in which two are compared."""
    parts = urlsplit(url)
    return parts._replace(
        scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=parts.path.rstrip("/")
    ).geturl()


def pin_of(package: StatedPackage) -> str:
    """Return what reports call a package."""
    return f"{package.name}=={package.version}"


# The whole lock: indexes and addresses


def _check_indexes(
    stated: StatedSources, pages: Pages, policy: IndexPolicy, result: Checked
) -> None:
    for index in stated.indexes:
        shown = f"{index.name} ({index.url})" if index.name else index.url
        users = sum(each.index == index.url for each in stated.packages)
        whose = f", for {users} package{'s' * (users > 1)}" if users else ""
        if "${" in index.url:
            result.unchecked.append(f"index {shown}: its address holds a variable")
        elif index.verified and normal_address(index.url) not in policy.allowed:
            result.add(
                FindingCode.INDEX_NOT_ALLOWED,
                Severity.ERROR,
                "",
                f"the lock names the index {shown}{whose}, which is not allowed",
                "lock again without it, or allow it: --allow-index URL",
            )
        if not index.verified or index.url.lower().startswith("http:"):
            why = "plain HTTP" if index.verified else "a server whose certificate is not verified"
            result.add(
                FindingCode.INSECURE_TRANSPORT,
                Severity.WARNING,
                "",
                f"the lock uses {why}: {shown}",
                "use the https address of the index, and verify its certificate",
            )
    _check_addresses(stated, pages, result)


def _check_addresses(stated: StatedSources, pages: Pages, result: Checked) -> None:
    """Report servers of files that no searched index links to, once for each server."""
    servers: dict[str, list[str]] = {}
    for package in stated.packages:
        for file in () if package.elsewhere else package.files:
            if file.url and "://" in file.url:
                servers.setdefault(_server(file.url), []).append(file.filename)
    for server, names in servers.items():
        if not _is_linked(server, pages):
            result.add(
                FindingCode.INDEX_NOT_ALLOWED,
                Severity.ERROR,
                "",
                f"the lock takes {_counted(names)} from {server}, to which no searched index links",
                "lock again with your indexes; tools download from the address that a lock states",
                names,
            )
        if server.startswith("http:"):
            result.add(
                FindingCode.INSECURE_TRANSPORT,
                Severity.WARNING,
                "",
                f"the lock takes {_counted(names)} over plain HTTP from {server}",
                "use the https address of the index, and lock again",
                names,
            )


def _is_linked(server: str, pages: Pages) -> bool:
    """Return whether a page links to a file on a server; most first links do, so it is quick."""
    return any(
        _server(url) == server
        for found in pages.values()
        for page in found.values()
        for url in page.files.column("url")
    )


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2].lower()}"


def _counted(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files"


# One release


@dataclass(frozen=True, slots=True, kw_only=True)
class _PinnedRelease:
    """A pinned release and the pages that may have it.

    pages: of the indexes that have the project, in their order.
    own: the index that it is to come from: the one that the lock names, or the first that has it.
    """

    package: StatedPackage
    pages: Mapping[IndexLocation, Page]
    own: IndexLocation | None
    links: tuple[IndexLocation, ...]
    result: Checked

    @classmethod
    def of(
        cls, package: StatedPackage, pages: Pages, policy: IndexPolicy, result: Checked
    ) -> "_PinnedRelease":
        found = {place: each[package.name] for place, each in pages.items() if package.name in each}
        named = normal_address(package.index) if package.index else ""
        own = next((place for place in pages if normal_address(place.url) == named), None)
        if own is None and not named:
            own = next((place for place in found if place not in policy.links), None)
        return cls(package=package, pages=found, own=own, links=policy.links, result=result)

    def check(self, *, wants_hashes: bool) -> None:
        if not any(each.hashes for each in self.package.files):
            self._add(
                FindingCode.NO_HASH,
                Severity.ERROR if wants_hashes else Severity.WARNING,
                "the lock states no hash of it"
                + (", and others have one: pip refuses that" if wants_hashes else ""),
                "lock with hashes, as in: pip-compile --generate-hashes",
            )
        if not self.pages:
            self._add(
                FindingCode.MISSING_PACKAGE,
                Severity.ERROR,
                "no searched index has this project",
                "check its name (it may be another one's); name the index that has it",
            )
            return
        self._check_status()
        files = {place: self._files(page) for place, page in self.pages.items()}
        valid = self._valid_files()
        known = self._known()
        found = [each for each in valid if _sha256(each) in known]
        if not any(files.values()) and not found:
            self._add(
                FindingCode.MISSING_RELEASE,
                Severity.ERROR,
                f"{self._names(self.pages)} {'has' if len(self.pages) == 1 else 'have'} the "
                "project, and not this release",
                _OF_ANOTHER_INDEX
                if Version(self.package.version).local
                else "it was deleted, or comes from another index: lock again",
            )
            return
        self._check_known(found, known)
        self._check_unknown([each for each in valid if each not in found], files)
        self._check_clashes(files)
        self._check_yanked(files)

    def _add(
        self,
        code: FindingCode,
        severity: Severity,
        message: str,
        remedy: str,
        artifacts: Iterable[str] = (),
    ) -> None:
        self.result.add(code, severity, pin_of(self.package), message, remedy, artifacts)

    def _files(self, page: Page) -> list[Artifact]:
        wanted = Version(self.package.version)
        versions = {x for x in set(page.files.column("version")) if Version(x) == wanted}
        rows = enumerate(page.files.column("version"))
        return [page.files[row] for row, version in rows if version in versions]

    def _known(self) -> Mapping[str, Mapping[IndexLocation, str]]:
        """Return, by SHA-256, where a file of the project is, and the version that it is of.

        The version of a file that is no candidate (an egg, say) is not known: "".
        """
        found: dict[str, dict[IndexLocation, str]] = {}
        for place, page in self.pages.items():
            for digest in page.facts.others.values():
                found.setdefault(digest, {})[place] = ""
            columns = page.files.column("sha256"), page.files.column("version")
            for digest, version in zip(*columns, strict=True):
                if digest:
                    found.setdefault(digest, {})[place] = version
        return found

    def _names(self, places: Iterable[IndexLocation]) -> str:
        return " and ".join(dict.fromkeys(each.name for each in places))

    def _check_status(self) -> None:
        for place, page in self.pages.items():
            facts = page.facts
            code = _STATUS.get(facts.status)
            if code is not None:
                severe = code is FindingCode.QUARANTINED
                reason = f": {facts.reason}" if facts.reason else ""
                self._add(
                    code,
                    Severity.ERROR if severe else Severity.WARNING,
                    f"the project is {facts.status} on {place.name}{reason}",
                    "do not install it; it may be malicious"
                    if severe
                    else "it gets no fixes: plan its replacement",
                )

    def _valid_files(self) -> list[StatedFile]:
        """Return the files with a usable hash; report the other ones."""
        valid, bad = [], []
        for each in self.package.files:
            usable = [text for text in each.hashes if _is_digest(text)]
            bad += [text for text in each.hashes if text not in usable and not _is_weak(text)]
            bad += [] if usable else [text for text in each.hashes if _is_weak(text)]
            if usable:
                valid.append(each)
        if bad:
            self._add(
                FindingCode.INVALID_HASH,
                Severity.ERROR,
                f"{len(bad)} of its hashes cannot be used: {_shown(bad)}",
                "lock again: a hash is sha256, sha384 or sha512 with all its hexadecimal digits",
                bad,
            )
        return valid

    def _check_known(
        self, found: Sequence[StatedFile], known: Mapping[str, Mapping[IndexLocation, str]]
    ) -> None:
        wanted = Version(self.package.version)
        elsewhere: dict[IndexLocation, list[str]] = {}
        for each in found:
            places = known[_sha256(each)]
            versions = set(places.values())
            if not any(not text or Version(text) == wanted for text in versions):
                self._add(
                    FindingCode.WRONG_HASH,
                    Severity.ERROR,
                    f"a hash is that of another release, {min(versions)}",
                    _RELOCK,
                    [_label(each)],
                )
                continue
            self.result.artifacts += 1
            if self.own not in places and not any(place in self.links for place in places):
                elsewhere.setdefault(next(iter(places)), []).append(_label(each))
        for place, labels in elsewhere.items():
            own = self.own.name if self.own else self.package.index
            self._add(
                FindingCode.OTHER_INDEX,
                Severity.ERROR if self.package.index else Severity.WARNING,
                f"only {place.name} has {_counted(labels)}, and {own} has not",
                "name the index of the package in the lock's tool, and lock again",
                labels,
            )

    def _check_unknown(
        self, unknown: Sequence[StatedFile], files: Mapping[IndexLocation, Sequence[Artifact]]
    ) -> None:
        """Report what no index has under its hash: changed, removed, or not to be decided."""
        offered: dict[str, list[str]] = {}
        for artifact in (each for found in files.values() for each in found):
            offered.setdefault(artifact.filename, []).append(artifact.sha256)
        changed, missing, undecided = [], [], []
        for each in unknown:
            digests = offered.get(each.filename) if each.filename else None
            if not _sha256(each) or (digests and "" in digests):
                undecided.append(_label(each))
            elif each.filename and digests is None:
                missing.append(_label(each))
            elif not each.filename and any("" in found for found in offered.values()):
                undecided.append(_label(each))
            else:
                changed.append(_label(each))
        if changed:
            self._add(
                FindingCode.WRONG_HASH,
                Severity.ERROR,
                f"{self._names(self.pages)} has no file of it with {_hashes(changed)}: "
                "a file was replaced or removed, or the lock was changed",
                _RELOCK,
                changed,
            )
        if missing:
            self._add(
                FindingCode.MISSING_FILE,
                Severity.ERROR,
                f"{self._names(self.pages)} has no {_shown(missing)}",
                "it was deleted, or comes from another index: lock again",
                missing,
            )
        if undecided:
            pin = pin_of(self.package)
            self.result.unchecked.append(f"{pin}: no SHA-256 to compare {_hashes(undecided)} with")

    def _check_clashes(self, files: Mapping[IndexLocation, Sequence[Artifact]]) -> None:
        digests: dict[str, set[str]] = {}
        for artifact in (each for found in files.values() for each in found if each.sha256):
            digests.setdefault(artifact.filename, set()).add(artifact.sha256)
        clashes = [name for name, found in digests.items() if len(found) > 1]
        hashed = any(each.hashes for each in self.package.files)
        places = [place for place, found in files.items() if found]
        sets = {frozenset(each.sha256 for each in files[place]) for place in places}
        if clashes or (not hashed and not self.package.index and len(sets) > 1):
            self._add(
                FindingCode.DIFFERENT_ARTIFACTS,
                Severity.WARNING if hashed else Severity.ERROR,
                f"{self._names(places)} have different files of this release"
                + ("" if hashed else ", and no hash says which one is meant"),
                "name one index for the package, and lock it with hashes",
                clashes,
            )

    def _check_yanked(self, files: Mapping[IndexLocation, Sequence[Artifact]]) -> None:
        admitted = {_sha256(each) for each in self.package.files} - {""}
        found = [
            each
            for artifacts in files.values()
            for each in artifacts
            if each.yanked is not None and (not admitted or each.sha256 in admitted)
        ]
        if found:
            reason = next((f": {each.yanked}" for each in found if each.yanked), "")
            self._add(
                FindingCode.YANKED,
                Severity.WARNING,
                f"its maintainers have yanked it{reason}",
                "take another release: stackgen resolve, or your lock's tool",
                {each.filename for each in found},
            )


_STATUS = {
    "archived": FindingCode.ARCHIVED,
    "deprecated": FindingCode.DEPRECATED,
    "quarantined": FindingCode.QUARANTINED,
}


def _is_digest(text: str) -> bool:
    try:
        return bool(checked_hash(text))
    except MalformedError:
        return False


def _is_weak(text: str) -> bool:
    """Return whether an algorithm is one that tools accept only beside a better one."""
    return text.partition(":")[0] in ("md5", "sha1", "blake2b", "sha224")


def _sha256(file: StatedFile) -> str:
    """Return the SHA-256 of a file; "" where the lock states none that is valid."""
    valid = (text for text in file.hashes if text.startswith("sha256:") and _is_digest(text))
    return next(valid, "").removeprefix("sha256:").lower()


def _label(file: StatedFile) -> str:
    return file.filename or next(iter(file.hashes), "")


def _hashes(labels: Sequence[str]) -> str:
    if any(":" not in each for each in labels):
        return f"the hash of {_shown(labels)}" if len(labels) == 1 else f"{len(labels)} hashes"
    return f"the hash {_shown(labels)}" if len(labels) == 1 else f"{len(labels)} hashes"


def _shown(texts: Sequence[str]) -> str:
    cut = [text if len(text) <= 80 else f"{text[:80]}..." for text in texts[:_NAMES]]
    return ", ".join(cut) + (f" and {len(texts) - _NAMES} more" if len(texts) > _NAMES else "")


# Attestations (PEP 740)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestedRelease:
    """The attestations of a pinned release and of the newest attested one before it.

    address, before: of the attestations of one of its files; "" for none.
    without: files that the lock admits and that have none.
    """

    package: StatedPackage
    address: str
    before: str
    before_version: str
    without: tuple[str, ...]


def attested_releases(stated: StatedSources, pages: Pages) -> Iterator[AttestedRelease]:
    """Yield each pinned release of a project that has attestations, or should have."""
    for package in stated.packages:
        page = next((each[package.name] for each in pages.values() if package.name in each), None)
        if page is None or not package.version:
            continue
        if page.facts.attested or package.identities:
            pinned, earlier = _attestations_of(package, page)
            newest = max(earlier, default=None)
            if pinned and (earlier or package.identities or any(pinned.values())):
                yield AttestedRelease(
                    package=package,
                    address=next(filter(None, pinned.values()), ""),
                    before=earlier[newest] if newest else "",
                    before_version=str(newest or ""),
                    without=tuple(sorted(name for name, address in pinned.items() if not address)),
                )


def _attestations_of(
    package: StatedPackage, page: Page
) -> tuple[dict[str, str], dict[Version, str]]:
    """Return where attestations are: of each pinned file ("" for none), of each release before."""
    wanted, admitted = Version(package.version), {_sha256(each) for each in package.files} - {""}
    pinned: dict[str, str] = {}
    earlier: dict[Version, str] = {}
    columns = [page.files.column(each) for each in ("version", "stem", "tail", "sha256")]
    for text, stem, tail, sha256 in zip(*columns, strict=True):
        address, version = page.facts.attested.get(stem + tail, ""), Version(text)
        if version == wanted and (not admitted or sha256 in admitted):
            pinned[stem + tail] = address
        elif version < wanted and not version.is_prerelease and address:
            earlier[version] = address
    return pinned, earlier


def check_attestations(
    releases: Iterable[AttestedRelease],
    publishers: Callable[[str], frozenset[Identity] | None],
    result: Checked,
) -> None:
    """Compare who published releases with what the lock states, and with the release before.

    publishers: of the attestations at an address; None where they could not be read.
    """
    for each in releases:
        pin = pin_of(each.package)
        before = f", as {each.before_version} has" if each.before else ""
        if each.without:
            result.add(
                FindingCode.ATTESTATION_MISSING,
                Severity.ERROR if each.package.identities else Severity.WARNING,
                pin,
                f"no attestation of {_shown(each.without)}"
                + (", as other files of the release have" if each.address else before),
                "compare the release with the project's repository before you install it",
                each.without,
            )
        if each.address:
            _check_publishers(each, publishers, result)


def _check_publishers(
    release: AttestedRelease,
    publishers: Callable[[str], frozenset[Identity] | None],
    result: Checked,
) -> None:
    """Compare who published a release with what the lock states, or with the release before."""
    pin, now = pin_of(release.package), publishers(release.address)
    then = publishers(release.before) if release.before else None
    if now is None or (release.before and then is None):
        result.unchecked.append(f"{pin}: its attestations could not be read")
    if now is None:
        return
    stated = frozenset(release.package.identities)
    if stated and not any(set(want) <= set(have) for want in stated for have in now):
        _add_changed(result, pin, Severity.ERROR, now, stated, "the lock states")
    elif not stated and then and not {_lasting(x) for x in now} & {_lasting(x) for x in then}:
        words = f"{release.before_version} came from"
        _add_changed(result, pin, Severity.WARNING, now, then, words)


def _add_changed(
    result: Checked,
    pin: str,
    severity: Severity,
    now: frozenset[Identity],
    then: frozenset[Identity],
    words: str,
) -> None:
    message = f"it was published by {_identities(now)}; {words} {_identities(then)}"
    remedy = "ask the project whether it moved; if so, lock again"
    result.add(FindingCode.ATTESTATION_CHANGED, severity, pin, message, remedy)


def _lasting(identity: Identity) -> Identity:
    """Return what stays when only the workflow of the same publisher changes."""
    return tuple(pair for pair in identity if pair[0] not in ("workflow", "environment"))


def _identities(found: Iterable[Identity]) -> str:
    words = (" ".join(value for _, value in sorted(_lasting(each))) for each in found)
    return " and ".join(sorted(words)) or "no publisher"
