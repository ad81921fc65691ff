"""A lock's provenance, for a terminal."""

from collections.abc import Iterator
from itertools import groupby

from stackgen.model.reports.provenance import ProvenanceFinding, ProvenanceReport, Severity


def provenance_text(report: ProvenanceReport) -> str:
    """Return the findings by code, what was not checked, and a conclusion."""
    return "\n".join([_head(report), *_findings(report), *_unchecked(report), "", _end(report)])


def _head(report: ProvenanceReport) -> str:
    places = ", ".join(report.indexes) or "no index"
    return (
        f"{report.path} ({report.format}): {report.packages} releases compared with {places}; "
        f"{report.artifacts} artifacts agree"
    )


def _findings(report: ProvenanceReport) -> Iterator[str]:
    for (severity, code), group in groupby(report.findings, lambda x: (x.severity, x.code)):
        found = list(group)
        yield ""
        yield f"{severity.value} {code.value}"
        yield from (_line(each) for each in found)
        if len({each.remedy for each in found}) == 1:
            yield f"  fix: {found[0].remedy}"
        else:
            yield from dict.fromkeys(f"  fix {each.package}: {each.remedy}" for each in found)


def _line(finding: ProvenanceFinding) -> str:
    return f"  {finding.package}: {finding.message}" if finding.package else f"  {finding.message}"


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
