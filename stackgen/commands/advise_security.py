"""Known vulnerabilities and project status in an advice: what must not be recommended, and why."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from stackgen.commands.options import VulnerabilityOptions
from stackgen.index import PackageIndex
from stackgen.knowledge.allowed import is_older, listed
from stackgen.model.evidence import Advice, Answer, Change
from stackgen.model.packages import Lock, LockFile
from stackgen.model.vulnerabilities import KnownVulnerabilities, Pin, Vulnerability
from stackgen.provenance.vulnerabilities import OsvRecords, find_vulnerabilities


@dataclass(kw_only=True)
class Security:
    """Says what is known against releases; each release is searched once.

    names: of the projects that an advice will probably change or bring; of others the records are
        read when they are searched for.
    allow_vulnerable: recommend releases with known vulnerabilities as well.
    """

    options: VulnerabilityOptions
    environ: Mapping[str, str]
    index: PackageIndex
    lockfile: LockFile
    names: frozenset[str]
    allow_vulnerable: bool = False
    _found: dict[Pin, tuple[Vulnerability, ...] | None] = field(default_factory=dict, init=False)
    _not_checked: str = field(default=KnownVulnerabilities().not_checked, init=False)
    _source: str = field(default="", init=False)
    _records: OsvRecords | None = field(default=None, init=False)

    def of(self, name: str, version: str) -> tuple[Vulnerability, ...] | None:
        """Return the known vulnerabilities of a release; None where it was not checked.

        The first search includes the releases of the lock, so that pip-audit runs once for them.
        """
        pin = str(canonicalize_name(name)), version
        self._search([pin])
        return self._found[pin]

    def _search(self, wanted: Collection[Pin]) -> None:
        pins = {pin for pin in wanted if pin not in self._found}
        if not pins:
            return
        pins.update([] if self._found else self._locked())
        given = self.options
        names = {name for name, _ in pins}
        if given.osv is not None and (self._records is None or not names <= self._records.names):
            self.names |= names
            self._records = OsvRecords(given.osv, self.names)
        known = find_vulnerabilities(
            pins, self.environ, osv=self._records, service=given.audit, osv_url=given.osv_url
        )
        self._source = known.source
        self._not_checked = known.not_checked or self._not_checked
        self._found |= {pin: known.of(*pin) for pin in pins}

    def _locked(self) -> list[Pin]:
        return [(str(canonicalize_name(x.name)), x.version) for x in self.lockfile.packages]

    def refusal(self, changes: Sequence[Change]) -> str | None:
        """Return why changes are not recommended; None where nothing is known against them.

        A release with a known vulnerability is refused, an older one also where it could not be
        checked, and one of a quarantined project always.
        """
        for each in changes:
            if each.recommended is None:
                continue
            release = f"{each.name} {each.recommended}"
            if self._status(each.name) == "quarantined":
                return f"its index has quarantined the project {each.name}"
            found = self.of(each.name, each.recommended)
            if found and not self.allow_vulnerable:
                return f"{release} has {_named(found)}; --allow-vulnerable recommends it"
            if found is None and is_older(each):
                return (
                    f"{release} is older, and was not checked for known vulnerabilities: "
                    f"{self._not_checked}"
                )
        return None

    def excluded(self, lock: Lock) -> list[str]:
        """Return requirements that exclude what a lock would move to a known vulnerability."""
        kept = {*self._locked()}
        if self.allow_vulnerable:
            return []
        moved = [pin for pin in lock.versions.items() if pin not in kept]
        self._search(moved)
        return [f"{name}!={version}" for name, version in moved if self.of(name, version)]

    def added(self, changes: Sequence[Change]) -> int | None:
        """Return how many known vulnerabilities changes add; None where that was not checked."""
        before, after = self._ids(changes)
        return None if before is None or after is None else len(after) - len(before)

    def _ids(self, changes: Sequence[Change]) -> tuple[set[str] | None, set[str] | None]:
        """Return the vulnerabilities before and after, each by a release and its preferred id."""
        both: list[set[str] | None] = []
        for versions in ([c.current for c in changes], [c.recommended for c in changes]):
            pins = [(c.name, v) for c, v in zip(changes, versions, strict=True) if v is not None]
            found = [(name, self.of(name, version)) for name, version in pins]
            checked = [(name, each) for name, each in found if each is not None]
            complete = len(checked) == len(found)
            ids = {f"{name} {one.id}" for name, each in checked for one in each}
            both.append(ids if complete else None)
        return both[0], both[1]

    def caveats(self, advice: Advice) -> Iterator[str]:
        """Yield what must be known of the releases that an advice changes or keeps."""
        if not self.options.requested and advice.answer is not Answer.UNKNOWN:
            yield "known vulnerabilities were not checked"
        if not advice.changes:
            return
        before, after = self._ids(advice.changes)
        if self.options.requested and after is None:
            yield f"known vulnerabilities of its releases were not checked: {self._not_checked}"
        if after == set():
            yield f"no known vulnerability of the releases that it changes: {self._source}"
        for each in advice.changes:
            found = each.recommended and self.of(each.name, each.recommended)
            if found:
                yield f"{each.name} {each.recommended} has {_named(found)}"
        if before and after is not None and before - after:
            yield f"it removes known vulnerabilities: {listed(sorted(before - after))}"
        changed = {canonicalize_name(each.name) for each in advice.changes}
        kept = [pin for pin in self._locked() if pin[0] not in changed]
        bad = [f"{name} {version}" for name, version in kept if self.of(name, version)]
        if bad:
            yield f"what it keeps has known vulnerabilities: {listed(bad)} (stackgen provenance)"
        for name in sorted(changed):
            if status := self._status(name):
                yield f"the project {name} is {status} on its index"

    def _status(self, name: str) -> str:
        facts = self.index.statuses.get(str(canonicalize_name(name)))
        return facts.status if facts is not None else ""


def _named(found: Sequence[Vulnerability]) -> str:
    kind = "the known vulnerability" if len(found) == 1 else "known vulnerabilities"
    return f"{kind} {listed([each.id for each in found])}"
