"""Provenance: a lock's artifacts compared with the indexes, its releases with advisories."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from stackgen.campaign.candidates import read_text
from stackgen.campaign.options import IndexOptions
from stackgen.campaign.user_input import index_config
from stackgen.commands.options import VulnerabilityOptions
from stackgen.errors import UsageError
from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from stackgen.locks.sources import StatedSources, identity, read_sources
from stackgen.model.progress import Progress
from stackgen.model.reports.provenance import (
    FindingCode,
    ProvenanceFinding,
    ProvenanceReport,
    Severity,
    VulnerabilityCheck,
)
from stackgen.model.vulnerabilities import KnownVulnerabilities, Pin
from stackgen.provenance.checks import (
    Checked,
    Identity,
    IndexPolicy,
    Pages,
    attested_releases,
    check_attestations,
    check_sources,
    normal_address,
)
from stackgen.provenance.vulnerabilities import OsvRecords, find_vulnerabilities
from stackgen.storage.paths import Paths

_MOST_BYTES = 4 << 20
_IDENTIFIER = re.compile(r"[A-Z][A-Za-z0-9]*-[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceRequest:
    """What is checked, and what is left out.

    allowed: indexes that a lock may name, by address or name; empty: those that are searched.
    ignored: finding codes, and ids of vulnerabilities.
    """

    allowed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    vulnerabilities: VulnerabilityOptions = VulnerabilityOptions()


def provenance(
    path: Path,
    request: ProvenanceRequest,
    index_options: IndexOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
) -> ProvenanceReport:
    """Compare a lock with the configured indexes; no address of the lock itself is contacted.

    Raises:
        UsageError: it is no lock file, or a code to ignore is none.
        IndexUnavailableError: an index cannot be reached.
    """
    ignored = _ignored(request.ignored)
    stated = read_sources(read_text(path), path=str(path))
    releases = [each for each in stated.packages if each.version and not each.elsewhere]
    config = index_config(index_options, environ)
    policy = IndexPolicy(allowed=_allowed(request, config), links=config.find_links[:1])
    with PackageIndex(config, paths.cache) as index:
        progress.doing("reading the indexes")
        pages = index.every_page(each.name for each in releases)
        checked = check_sources(stated, pages, policy)
        _check_attestations(stated, pages, index, checked, offline=config.offline)
    if request.vulnerabilities.requested:
        progress.doing("searching known vulnerabilities")
    pins = [(each.name, each.version) for each in releases]
    known = vulnerabilities_of(pins, request.vulnerabilities, environ)
    for name, version in pins:
        _add_vulnerabilities(known, name, version, checked)
    kept = [x for x in checked.findings if not ignored & {x.code.value, *x.ids}]
    return ProvenanceReport(
        path=str(path),
        format=stated.format,
        indexes=tuple(each.name for each in config.locations),
        packages=len(releases),
        artifacts=checked.artifacts,
        findings=tuple(sorted(kept, key=_order)),
        vulnerabilities=VulnerabilityCheck(
            source=known.source,
            checked=len(known.found),
            not_checked=known.not_checked,
            requested=request.vulnerabilities.requested,
        ),
        ignored=len(checked.findings) - len(kept),
        unchecked=tuple(checked.unchecked),
    )


def vulnerabilities_of(
    pins: Collection[Pin], given: VulnerabilityOptions, environ: Mapping[str, str]
) -> KnownVulnerabilities:
    """Return the known vulnerabilities of releases, from the sources that the user named.

    Raises:
        UsageError: the folder of OSV records cannot be read.
    """
    records = OsvRecords(given.osv, {name for name, _ in pins}) if given.osv else None
    return find_vulnerabilities(
        pins, environ, osv=records, service=given.audit, osv_url=given.osv_url
    )


def _order(finding: ProvenanceFinding) -> tuple[bool, str, str, tuple[str, ...]]:
    severe = finding.severity is Severity.ERROR
    return not severe, finding.code.value, finding.package, finding.ids


def _ignored(given: tuple[str, ...]) -> frozenset[str]:
    codes = {each.value for each in FindingCode}
    for each in given:
        if each not in codes and not _IDENTIFIER.fullmatch(each):
            raise UsageError(
                f"there is no finding {each!r} to ignore",
                why=f"the codes are {', '.join(sorted(codes))}",
                fix="name one of them, or a vulnerability, as in: --ignore PYSEC-2021-857",
            )
    return frozenset(given)


def _allowed(request: ProvenanceRequest, config: IndexConfig) -> frozenset[str]:
    """Return the addresses of the indexes that a lock may name."""
    named = {each.name: each.url for each in config.locations}
    given = [named.get(text) or location(text).url for text in request.allowed]
    return frozenset(map(normal_address, given or [each.url for each in config.locations]))


def _check_attestations(
    stated: StatedSources, pages: Pages, index: PackageIndex, checked: Checked, *, offline: bool
) -> None:
    releases = list(attested_releases(stated, pages))
    if releases and offline:
        checked.unchecked.append(f"offline: attestations of {len(releases)} releases are not read")
        return
    urls = [url for each in releases for url in (each.address, each.before) if url]
    documents = index.documents(urls, most_bytes=_MOST_BYTES)
    check_attestations(releases, lambda url: _publishers(documents.get(url, b"")), checked)


def _publishers(content: bytes) -> frozenset[Identity] | None:
    """Return who published a file, by its provenance document (PEP 740); None where it is none."""
    try:
        found = json.loads(content)
        return frozenset(identity(each["publisher"]) for each in found["attestation_bundles"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _add_vulnerabilities(
    known: KnownVulnerabilities, name: str, version: str, checked: Checked
) -> None:
    for each in known.of(name, version) or ():
        others = f" ({', '.join(each.aliases)})" if each.aliases else ""
        checked.add(
            FindingCode.VULNERABLE,
            Severity.ERROR,
            f"{name}=={version}",
            f"{each.id}{others}: {each.summary or 'a known vulnerability'}",
            f"take {' or '.join(each.fixed_in)}" if each.fixed_in else "no release fixes it yet",
            ids=(each.id, *each.aliases),
        )
