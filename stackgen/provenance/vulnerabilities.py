"""Known vulnerabilities: from a folder of OSV records, or from pip-audit.

pip-audit runs in a process of its own: its modules are private, its JSON output is documented.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from stackgen.errors import UsageError
from stackgen.model.choices import AuditService
from stackgen.model.vulnerabilities import NOT_CHECKED, KnownVulnerabilities, Pin, Vulnerability

LIMIT_S = 300.0
MOST_BYTES = 16 << 20
"""The largest record that is read, uncompressed; real ones are below 1 MB."""


def find_vulnerabilities(
    pins: Collection[Pin],
    environ: Mapping[str, str],
    *,
    osv: "OsvRecords | None" = None,
    service: AuditService = AuditService.NONE,
    osv_url: str = "",
) -> KnownVulnerabilities:
    """Return the known vulnerabilities of releases; a service that fails checks nothing.

    A release counts as checked where each source that was given has checked it.

    service: of pip-audit. osv_url: another server for its service OSV; "" for its own.
    """
    results = []
    if osv is not None:
        results.append(osv.search(pins))
    if service is not AuditService.NONE:
        results.append(run_pip_audit(pins, service, osv_url, environ))
    if not results:
        return NOT_CHECKED
    checked = set.intersection(*(set(each.found) for each in results))
    return KnownVulnerabilities(
        source=" and ".join(each.source for each in results),
        found={
            pin: distinct(one for each in results for one in each.found[pin])
            for pin in sorted(checked)
        },
        not_checked="; ".join(each.not_checked for each in results if each.not_checked),
    )


def distinct(found: Iterable[Vulnerability]) -> tuple[Vulnerability, ...]:
    """Join records of the same vulnerability: those that share an id."""
    joined: list[Vulnerability] = []
    for each in found:
        same = [other for other in joined if other.ids & each.ids]
        joined = [other for other in joined if other not in same]
        merged = [*same, each]
        joined.append(
            _vulnerability(
                {name for other in merged for name in other.ids},
                {text for other in merged for text in other.fixed_in},
                next((other.summary for other in merged if other.summary), ""),
            )
        )
    return tuple(sorted(joined, key=lambda each: each.id))


def _vulnerability(ids: Iterable[str], fixed: Iterable[str], summary: str) -> Vulnerability:
    first, *others = sorted(ids, key=_rank)
    return Vulnerability(
        id=first,
        aliases=tuple(sorted(others)),
        fixed_in=tuple(sorted(fixed, key=Version)),
        summary=" ".join(summary.split())[:200],
    )


def _rank(name: str) -> tuple[int, str]:
    kinds = ("PYSEC-", "CVE-")
    return next((n for n, kind in enumerate(kinds) if name.startswith(kind)), len(kinds)), name


# OSV records


class OsvRecords:
    """The records of some projects, in a folder or in a zip of it as OSV publishes it.

    Args:
        place: of the folder or zip.
        names: of the projects, normalised; releases of others are not checked.

    Raises:
        UsageError: there is no such folder, or it holds no OSV records of PyPI.
    """

    def __init__(self, place: Path, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self._records: dict[str, list[Mapping[str, object]]] = {}
        self._damaged: set[str] = set()
        count, newest, is_python = 0, "", False
        mentions = _mentions(self.names)
        for content in _contents(place):
            count += 1
            is_python = is_python or b'"PyPI"' in content
            modified = _MODIFIED.search(content)
            newest = max(newest, modified[1].decode() if modified else "")
            if found := mentions.findall(content):
                self._add(content, found)
        if not is_python:
            raise UsageError(
                f"{place} holds no OSV records of Python projects",
                why=f"of its {count} .json files, none names the ecosystem PyPI",
                fix=_FIX,
            )
        self.source = f"{count} OSV records in {place.name}"
        self.source += f", the newest of {newest}" if newest else ""

    def _add(self, content: bytes, mentioned: Iterable[bytes]) -> None:
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            self._damaged |= {str(canonicalize_name(each.decode())) for each in mentioned}
            return
        for name in {str(canonicalize_name(name)) for name, _ in _parts(record)} & self.names:
            self._records.setdefault(name, []).append(record)

    def search(self, pins: Collection[Pin]) -> KnownVulnerabilities:
        """Return the known vulnerabilities of releases.

        A release is not checked where a record of its project cannot be evaluated for it.
        """
        found: dict[Pin, tuple[Vulnerability, ...]] = {}
        unclear: list[str] = []
        for name, version in pins:
            try:
                if name in self._damaged or name not in self.names:
                    raise UnclearRecordError("damaged" if name in self._damaged else "not read")
                hits = [affected(each, name, version) for each in self._records.get(name, ())]
            except UnclearRecordError as error:
                unclear.append(f"{name} {version} ({error})")
                continue
            found[name, version] = distinct(hit for hit in hits if hit is not None)
        why = f"records that cannot be evaluated: {', '.join(unclear)}" if unclear else ""
        return KnownVulnerabilities(source=self.source, found=found, not_checked=why)


_FIX = "give a folder or zip of the OSV records of the PyPI ecosystem"
_MODIFIED = re.compile(rb'"modified":\s*"(\d{4}-\d\d-\d\d)')


def refuse_no_records(place: Path) -> None:
    """Refuse what can hold no OSV records, without reading any.

    Raises:
        UsageError: it is neither a zip nor a folder with ``.json`` files.
    """
    if place.is_dir():
        why = "" if next(place.rglob("*.json"), None) else "it is a folder without .json files"
    else:
        why = "it is neither a folder nor a zip" if place.exists() else "it does not exist"
        why = "" if zipfile.is_zipfile(place) else why
    if why:
        raise UsageError(f"{place} holds no OSV records", why=why, fix=_FIX)


def _contents(place: Path) -> Iterator[bytes]:
    try:
        if place.is_dir():
            for path in sorted(place.rglob("*.json")):
                _refuse_large(path.name, path.stat().st_size, _FIX)
                yield path.read_bytes()
            return
        with zipfile.ZipFile(place) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".json"):
                    _refuse_large(member.filename, member.file_size, _FIX)
                    yield archive.read(member)
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {place}", why=why, fix=_FIX) from error


def _refuse_large(name: str, size: int, fix: str) -> None:
    if size > MOST_BYTES:
        why = f"it has {size:,} bytes, and no OSV record is larger than {MOST_BYTES:,}"
        raise UsageError(f"{name} is not read", why=why, fix=fix)


def _mentions(names: Iterable[str]) -> "re.Pattern[bytes]":
    """Return what finds the projects that a record may be of, without parsing it."""
    patterns = ["[-_.]+".join(map(re.escape, name.split("-"))) for name in sorted(names)]
    return re.compile(rf'"({"|".join(patterns) or "(?!)"})"'.encode(), re.IGNORECASE)


def _parts(record: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield (project, what of it is affected) of a record that is not withdrawn."""
    match record:
        case {"withdrawn": str()}:
            return
        case {"affected": list(parts)}:
            for part in parts:
                match part:
                    case {"package": {"name": str(name), "ecosystem": "PyPI"}}:
                        yield name, part


class UnclearRecordError(ValueError):
    """A record whose ranges cannot be evaluated for a version; its text is the record's id."""


def affected(record: object, name: str, version: str) -> Vulnerability | None:
    """Return what a record says of a release; None where it is not affected.

    A local version counts as its public one: builds of one release share its vulnerabilities.

    Raises:
        UnclearRecordError: an event of its ranges is no PEP 440 version, and nothing else decides.
    """
    parts = [part for project, part in _parts(record) if canonicalize_name(project) == name]
    if not parts or not isinstance(record, dict):
        return None
    wanted = Version(Version(version).public)
    hit, unclear = False, False
    fixed: set[str] = set()
    for part in parts:
        ranges = [each for each in _items(part, "ranges") if each.get("type") != "GIT"]
        hit = hit or any(_readable(text) == wanted for text in _texts(part, "versions"))
        for each in ranges:
            events = _items(each, "events")
            fixed |= {str(x["fixed"]) for x in events if _readable(x.get("fixed")) is not None}
            inside = _is_inside(events, wanted)
            hit, unclear = hit or bool(inside), unclear or inside is None
    ident = str(record.get("id") or "without id")
    if unclear and not hit:
        raise UnclearRecordError(ident)
    if not hit:
        return None
    return _vulnerability(
        {ident, *_texts(record, "aliases")},
        {text for text in fixed if Version(text) > wanted},
        str(record.get("summary") or record.get("details") or ""),
    )


def _is_inside(events: Iterable[Mapping[str, object]], version: Version) -> bool | None:
    """Evaluate the events of a range as OSV's schema says; None where one is no version.

    Events at the same version: a fix there takes effect, whatever else there is.
    """
    steps: list[tuple[Version, int, bool]] = []
    limits: list[Version] = []
    for event in events:
        for kind, text in event.items():
            at = Version("0.dev0") if (kind, text) == ("introduced", "0") else _readable(text)
            if kind == "limit" and text == "*":
                continue
            if at is None:
                return None
            if kind == "limit":
                limits.append(at)
            elif kind == "introduced":
                steps.append((at, 0, True))
            elif kind == "fixed":
                steps.append((at, 1, False))
            elif kind == "last_affected":
                steps.append((at, 2, False))
    inside = False
    for at, order, opens in sorted(steps):
        if at < version or (at == version and order < 2):
            inside = opens
    return inside and (not limits or any(version < at for at in limits))


def _readable(text: object) -> Version | None:
    try:
        return Version(text) if isinstance(text, str) else None
    except ValueError:  # also a number of too many digits
        return None


def _items(table: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    found = table.get(key)
    return [x for x in found if isinstance(x, dict)] if isinstance(found, list) else []


def _texts(table: Mapping[str, object], key: str) -> Sequence[str]:
    found = table.get(key)
    return [x for x in found if isinstance(x, str)] if isinstance(found, list) else []


# pip-audit


def run_pip_audit(
    pins: Collection[Pin], service: AuditService, osv_url: str, environ: Mapping[str, str]
) -> KnownVulnerabilities:
    """Let pip-audit look up releases with its service; where it cannot, nothing is checked.

    It gets names and versions alone, and neither resolves nor installs. It refuses two versions of
    one project in one run, so those are looked up in further runs.
    """
    source = f"pip-audit ({service.value})"
    if find_spec("pip_audit") is None:
        why = f"{source} is not installed: pip install 'stackgen[audit]'"
        return KnownVulnerabilities(source=source, not_checked=why)
    found: dict[Pin, tuple[Vulnerability, ...]] = {}
    left = set(pins)
    while left:
        part = set({name: (name, version) for name, version in sorted(left)}.values())
        left -= part
        try:
            found |= _audited(_pip_audit(part, service, osv_url, environ), part)
        except (OSError, ValueError, LookupError, TypeError, subprocess.SubprocessError) as error:
            why = _ADDRESS.sub("...", str(error))[:_SHOWN]
            why = "its service cannot be reached" if "ConnectionError" in why else why
            return KnownVulnerabilities(source=source, not_checked=f"{source} failed: {why}")
    unknown = len(set(pins) - found.keys())
    return KnownVulnerabilities(
        source=source,
        found=found,
        not_checked=f"{source} does not know {unknown} of {len(pins)} releases" if unknown else "",
    )


_ADDRESS = re.compile(r"\S*(?:://|host=)\S+")
_SHOWN = 200


def _pip_audit(
    pins: Collection[Pin], service: AuditService, osv_url: str, environ: Mapping[str, str]
) -> Any:
    """Return the document that pip-audit prints.

    Raises:
        ValueError: it prints none; its last line says why.
    """
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "-f", "json"]
    command += ["--progress-spinner", "off", "-s", service.value, "-r", "requirements.txt"]
    command += ["--osv-url", osv_url] if osv_url else []
    with tempfile.TemporaryDirectory(prefix="stackgen-audit-") as folder:
        text = "".join(f"{name}=={version}\n" for name, version in sorted(pins))
        Path(folder, "requirements.txt").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*command, "--cache-dir", str(Path(folder, "cache"))],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    if not done.stdout.lstrip().startswith("{"):
        raise ValueError((done.stderr.strip() or "it prints nothing").splitlines()[-1])
    return json.loads(done.stdout)


def _audited(document: Any, pins: Iterable[Pin]) -> dict[Pin, tuple[Vulnerability, ...]]:
    """Return what pip-audit found for each release that it checked; a skipped one has no list."""
    found = {}
    by_version = {(name, Version(version)): (name, version) for name, version in pins}
    for each in document["dependencies"]:
        if "vulns" in each:
            key = str(canonicalize_name(each["name"])), Version(each["version"])
            found[by_version[key]] = distinct(
                _vulnerability(
                    {one["id"], *one["aliases"]}, one["fix_versions"], one.get("description") or ""
                )
                for one in each["vulns"]
            )
    return found
