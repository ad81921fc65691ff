"""Lists for the smaller commands."""

from collections.abc import Sequence

from stackgen.knowledge import FailureGroup
from stackgen.render.explore import report_text
from stackgen.render.tables import columns
from stackgen.values import Indicator, NightlyReport


def indicators_text(indicators: Sequence[Indicator]) -> str:
    """Return each indicator with its parameters, and where its script lies."""
    lines: list[str] = []
    for each in indicators:
        lines += [each.name, f"  {each.summary}", f"  {each.path}"]
        rows = [
            (f"--param {p.name}={p.default}", p.help + _allowed(p.allowed)) for p in each.parameters
        ]
        lines += [*columns(rows, indent="    "), ""]
    return "\n".join(lines).rstrip()


def _allowed(values: Sequence[str]) -> str:
    return f" ({', '.join(values)})" if values else ""


def nightly_text(report: NightlyReport) -> str:
    """Return what was new, what was measured of it, and what was found."""
    lines: list[str] = []
    for name, versions in report.new:
        lines.append(f"{name}: {', '.join(versions) or 'nothing new'}")
    told = "first night; what there is was noted, from now on new releases count"
    lines += [f"{name}: {told}" for name in report.noted]
    for explored in report.explored:
        lines += ["", report_text(explored)]
    lines += [f"Cannot run here: {each}" for each in report.cannot_run]
    lines += ["", "Findings (each shown by two campaigns):" if report.findings else "No findings."]
    return "\n".join([*lines, *(f"  {each}" for each in report.findings)]).strip()


def failures_text(groups: Sequence[FailureGroup]) -> str:
    """Return each group of failures, and what its members share."""
    if not groups:
        return "Nothing failed."
    lines: list[str] = []
    for group in groups:
        shared = ", ".join(f"{name} {version}" for name, version in group.shared)
        lines.append(f"{len(group.stacks)} stacks: {group.outcome.value}: {group.reason}")
        lines.append(f"  shared by all of them and by no stack that runs: {shared or 'nothing'}")
    return "\n".join(lines)
