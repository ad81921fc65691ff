"""A lock's provenance, for a terminal."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from stackgen.model.reports.provenance import ProvenanceFinding, ProvenanceReport, Severity
from stackgen.report.tables import counted

_MOST_LINES = 5


def provenance_text(report: ProvenanceReport) -> str:
    """Return the findings by code, what was not checked, and a conclusion."""
    return "\n".join([_head(report), *_findings(report), *_unchecked(report), "", _end(report)])


def _head(report: ProvenanceReport) -> str:
    places = ", ".join(report.indexes) or "no index"
    return (
        f"{report.path} ({report.format}): {counted(report.packages, 'release')} compared with "
        f"{places}; {counted(report.artifacts, 'artifact')} "
        f"{'agrees' if report.artifacts == 1 else 'agree'}"
    )


def _findings(report: ProvenanceReport) -> Iterator[str]:
    for (severity, code), group in groupby(report.findings, lambda x: (x.severity, x.code)):
        found = list(group)
        yield ""
        yield f"{severity.value} {code.value}"
        yield from _lines(found)
        if len({each.remedy for each in found}) == 1:
            yield f"  fix: {found[0].remedy}"
        else:
            yield from dict.fromkeys(f"  fix {each.package}: {each.remedy}" for each in found)


def _lines(findings: Iterable[ProvenanceFinding]) -> Iterator[str]:
    """Yield a line for each finding; where many releases share one message, one for all."""
    packages: dict[str, list[str]] = {}
    for each in findings:
        packages.setdefault(each.message, []).append(each.package)
    for message, named in packages.items():
        if len(named) > _MOST_LINES:
            yield f"  {counted(len(named), 'release')}: {message}:"
            listed = textwrap.wrap(", ".join(named), 96, break_on_hyphens=False)
            yield from (f"    {line}" for line in listed)
        else:
            yield from (f"  {each}: {message}" if each else f"  {message}" for each in named)


def _unchecked(report: ProvenanceReport) -> Iterator[str]:
    if report.unchecked:
        yield ""
        yield "not checked"
        yield from (f"  {each}" for each in report.unchecked)


def _end(report: ProvenanceReport) -> str:
    severe = sum(each.severity is Severity.ERROR for each in report.findings)
    mild = len(report.findings) - severe
    counts = f"{severe} error{'s' * (severe != 1)}, {mild} warning{'s' * (mild != 1)}"
    ignored = f", {report.ignored} ignored" if report.ignored else ""
    return f"{counts}{ignored}. {_vulnerabilities(report)}"


def _vulnerabilities(report: ProvenanceReport) -> str:
    check = report.vulnerabilities
    if not check.checked:
        return f"Known vulnerabilities: not checked: {check.not_checked}."
    found = len({i.ids[0] for i in report.findings if i.ids})
    rest = f"; not checked: {check.not_checked}" if check.not_checked else ""
    return (
        f"Known vulnerabilities: {found} in {check.checked} of {report.packages} releases "
        f"({check.source}){rest}."
    )
