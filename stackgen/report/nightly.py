"""Reports of nights, and of findings: text for a terminal, Markdown for files."""

from collections.abc import Iterator

from stackgen.model.findings import (
    Finding,
    FindingsReport,
    FindingState,
    FindingStatus,
    NightlyPlan,
    NightlyReport,
    NightReport,
)
from stackgen.report.tables import columns, counted


def nights_text(found: NightlyPlan | NightlyReport, *, markdown: bool = False) -> str:
    """Return what nights would do, or what they brought."""
    if isinstance(found, NightlyPlan):
        return plan_text(found)
    return nightly_markdown(found) if markdown else nightly_text(found)


def nightly_text(report: NightlyReport) -> str:
    """Return what the nights brought; the first line is the summary."""
    return "\n".join([report.summary, *(line for each in report.nights for line in _night(each))])


def _night(night: NightReport) -> Iterator[str]:
    if not (night.events or night.examined or night.undecided or night.findings or night.error):
        return
    yield ""
    yield f"{night.watch}{f' on {night.base}' if night.base else ''}"
    yield from (f"  {each}" for each in night.events)
    for each in night.examined:
        took = f"{each.blocks} blocks, {each.seconds:.0f} s"
        against = f"{each.package} {each.version} against {each.previous}"
        yield f"  {against}: {each.result} ({took})"
    yield from (f"  Not decided: {each}" for each in night.undecided)
    if night.undecided:
        yield "  The next night goes on with these; what was measured is kept."
    if night.error:
        yield f"  Error: {night.error}"
    if night.findings:
        yield "  Findings (each shown by two campaigns):"
        yield from (f"    {line}" for each in night.findings for line in _finding(each))


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.id}  {finding.title}"
    if finding.attribution is not None:
        yield f"  cause: {finding.attribution.answer}"
    if finding.command:
        yield f"  reproduce: {finding.command}"


def nightly_markdown(report: NightlyReport) -> str:
    """Return what the nights brought as Markdown; the first line is the summary."""
    lines = [f"**{report.summary}**", ""]
    for night in report.nights:
        lines += [f"## {night.watch}{f' on {night.base}' if night.base else ''}", ""]
        lines += [f"- {each}" for each in night.events]
        if night.examined:
            lines += ["", "| release | before | result | blocks |", "|---|---|---|---|"]
            lines += [
                f"| {e.package} {e.version} | {e.previous} | {e.result} | {e.blocks} |"
                for e in night.examined
            ]
        lines += [f"- Not decided: {each}" for each in night.undecided]
        lines += [f"- Error: {night.error}"] if night.error else []
        for each in night.findings:
            lines += ["", f"### {each.title}", ""]
            if each.attribution is not None:
                lines += [f"Cause: {each.attribution.answer}", ""]
            lines += ["```", each.command, f"stackgen findings ack {each.id}", "```"]
        lines.append("")
    return "\n".join(lines).rstrip()


def plan_text(plan: NightlyPlan) -> str:
    """Return what nights would do."""
    lines: list[str] = []
    for each in plan.plans:
        pages = ", ".join(f"{name} ({counted(count, 'release')})" for name, count in each.packages)
        stack = ", ".join(f"{name} {version}" for name, version in each.stack)
        lines += [
            f"{each.watch}{f' on {each.base}' if each.base else ''}",
            f"  watched: {pages}",
            f"  stack: {stack}",
            f"  indicators: {', '.join(each.indicators) or 'none'}",
            f"  to be measured now: {', '.join(each.new) or 'nothing new'}",
            f"  budget of a night: {each.budget_s / 60:.0f} min; at most {each.most_inspections} "
            "processes for each release",
        ]
        if each.new:
            lines.append(
                f"  to download: {each.download_bytes / 1e9:.2f} GB; on disk: about "
                f"{each.disk_bytes / 1e9:.1f} GB ({each.free_bytes / 1e9:.0f} GB free)"
            )
        lines += [f"  problem: {problem}" for problem in each.problems]
    return "\n".join(lines)


def findings_text(report: FindingsReport) -> str:
    """Return a table of findings."""
    if not report.findings:
        return "No findings."
    head = ("id", "status", "found", "watch", "finding")
    rows = [
        (
            each.finding.id,
            each.status.value,
            each.finding.found_at[:10],
            each.finding.watch,
            each.finding.title,
        )
        for each in report.findings
    ]
    return "\n".join(columns([head, *rows]))


def finding_text(found: FindingState) -> str:
    """Return everything about one finding."""
    finding = found.finding
    persists = {True: "yes", False: "no", None: "not measured again yet"}[found.persists]
    lines = [
        finding.title,
        f"  id: {finding.id}, found {finding.found_at}",
        f"  status: {found.status.value}"
        + (
            f" {'on' if found.status is FindingStatus.EXPIRED else 'until'} {found.until}"
            if found.until
            else ""
        )
        + (f" ({found.note})" if found.note else ""),
        f"  shown again by the next night: {persists}",
    ]
    lines += [f"  {finding.detail}"] if finding.detail else []
    if finding.attribution is not None:
        lines.append(f"  cause: {finding.attribution.answer}")
        lines += [f"    {p:.2f}  {what}" for what, p in finding.attribution.culprits]
    lines.append("  changed:")
    lines += [f"    {name}: {old or '-'} -> {new or '-'}" for name, old, new in finding.changes]
    return "\n".join([*lines, f"  reproduce: {finding.command}"])
