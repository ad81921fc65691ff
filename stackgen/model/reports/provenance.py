"""Report of ``stackgen provenance``: a lock compared with its indexes and with advisories."""

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """Whether a finding fails a check in CI."""

    ERROR = "error"
    WARNING = "warning"


class FindingCode(str, Enum):
    """What is wrong. The codes are stable: ``--ignore`` takes them."""

    INVALID_HASH = "invalid-hash"
    WRONG_HASH = "wrong-hash"
    NO_HASH = "no-hash"
    MISSING_PACKAGE = "missing-package"
    MISSING_RELEASE = "missing-release"
    MISSING_FILE = "missing-file"
    OTHER_INDEX = "other-index"
    DIFFERENT_ARTIFACTS = "different-artifacts"
    INDEX_NOT_ALLOWED = "index-not-allowed"
    INSECURE_TRANSPORT = "insecure-transport"
    YANKED = "yanked"
    ATTESTATION_CHANGED = "attestation-changed"
    ATTESTATION_MISSING = "attestation-missing"
    ARCHIVED = "archived"
    DEPRECATED = "deprecated"
    QUARANTINED = "quarantined"
    VULNERABLE = "vulnerable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceFinding:
    """One finding.

    package: as ``name==version``; "" where it concerns the whole lock.
    artifacts: files or hashes that it concerns, sorted.
    ids: of a vulnerability, the preferred one first.
    """

    code: FindingCode
    severity: Severity
    package: str
    message: str
    remedy: str
    artifacts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VulnerabilityCheck:
    """How much was checked for known vulnerabilities.

    source: what was searched; "" where nothing was.
    checked: how many releases were. not_checked: why the others were not; "" where all were.
    requested: whether the user named a source.
    """

    source: str
    checked: int
    not_checked: str
    requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceReport:
    """A lock compared with its indexes.

    indexes: those that were searched, by name.
    packages: how many releases the lock pins.
    artifacts: how many of their files or hashes were found on an index as the lock states them.
    ignored: how many findings ``--ignore`` removed.
    unchecked: what could not be checked, and why, in words.
    """

    path: str
    format: str
    indexes: tuple[str, ...]
    packages: int
    artifacts: int
    findings: tuple[ProvenanceFinding, ...]
    vulnerabilities: VulnerabilityCheck
    ignored: int = 0
    unchecked: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code of ``provenance``."""
        if any(each.severity is Severity.ERROR for each in self.findings):
            return FINDINGS
        wanted = self.vulnerabilities
        return UNDECIDED if wanted.requested and wanted.not_checked else 0


FINDINGS, UNDECIDED = 7, 3
"""Exit codes: there is an error; a check that was requested could not be made."""
