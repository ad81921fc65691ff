"""Lists for the smaller commands."""

from collections.abc import Sequence

from stackgen.knowledge import FailureGroup, Trait
from stackgen.render.explore import report_text
from stackgen.values import NightlyReport, Outcome


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
    lines += [f"Not decided: {each}" for each in report.undecided]
    if report.postponed:
        lines.append(f"Not measured, the budget is spent: {', '.join(report.postponed)}")
    pending = len(report.undecided) + len(report.postponed)
    if pending:
        total = sum(len(versions) for _, versions in report.new)
        lines.append(f"{pending} of {total} new releases stay new for the next night.")
    if report.findings:
        lines += ["", "Findings (each shown by two campaigns):"]
    elif not pending:
        lines += ["", "No findings."]
    return "\n".join([*lines, *(f"  {each}" for each in report.findings)]).strip()


_MOST_SHOWN = 6


def failures_text(groups: Sequence[FailureGroup], *, kb_option: str = "") -> str:
    """Return each group of failures, what its members share, and what to do next.

    Args:
        groups: of stacks that failed alike.
        kb_option: what the proposed command needs to find the same knowledge base.
    """
    if not groups:
        return "Nothing failed."
    machines = {each.machine_id for each in groups}
    lines: list[str] = []
    for group in groups:
        where = f" on machine {group.machine_id[:12]}" if len(machines) > 1 else ""
        lines.append(f"{_counted(group)}{where}: {group.outcome.value}: {group.reason}")
        lines += [f"  {each}" for each in _reasons(group)]
        log = [each for each in group.log.splitlines() if each.strip() != group.reason]
        lines += ["  the end of the latest log:"] * bool(log) + [f"    {each}" for each in log]
        query = f"stackgen kb query pins stack={group.stacks[0][:12]}{kb_option}"
        lines += [f"  all of its versions: {query}", ""]
    return "\n".join(lines).rstrip()


def _counted(group: FailureGroup) -> str:
    stacks = _number(len(group.stacks), "stack")
    return f"{stacks}, {_number(group.runs, 'run')}"


def _number(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _reasons(group: FailureGroup) -> list[str]:
    """Return what may be to blame, in sentences."""
    if group.sometimes:
        return ["now and then only: the same stacks also ran, so their versions are not to blame"]
    one, did = len(group.stacks) == 1, _did(group)
    whose = "it has" if one else "all of them have"
    if not group.running:
        none = "no stack ran this here" if did == "ran" else "no stack is known to compute it right"
        return [f"{none}, so nothing can be ruled out: {whose} {_some(group)}"]
    others = f"none of the {_number(group.running, 'stack')} that {did}"
    lines = [f"{whose}, and {others} has: {_some(group)}"] if group.shared else []
    if group.pairs:
        told = [f"{_trait(a)} with {_trait(b)}" for a, b in group.pairs[:_MOST_SHOWN]]
        lines.append(f"{whose} together, and {others} has: {_listed(told, len(group.pairs))}")
    lines += [
        f"{f'with {_trait(each.given)}, ' if each.given else ''}{each.name} is "
        f"{', '.join(each.failing)} here, and {', '.join(each.running)} in those that {did}"
        for each in group.apart[:_MOST_SHOWN]
    ]
    packages = [each for each in group.shared if each.kind == "package"]
    if len(packages) == 1 and len(group.shared) == 1:
        only = packages[0]
        lines.append(f'to leave it out: stackgen explore ... "{only.name}!={only.value}"')
    others = f"the {_number(group.running, 'stack')} that {did} here"
    return lines or [f"nothing tells them from {others}"]


def _did(group: FailureGroup) -> str:
    return "ran" if isinstance(group.outcome, Outcome) else "computed the same"


def _some(group: FailureGroup) -> str:
    told = [_trait(each) for each in group.shared[:_MOST_SHOWN]]
    return _listed(told, len(group.shared)) or "nothing in common"


def _listed(told: Sequence[str], count: int) -> str:
    more = [f"{count - len(told)} more (--json has all)"] if count > len(told) else []
    return ", ".join([*told, *more])


def _trait(trait: Trait) -> str:
    if trait.kind == "setting":
        return f"{trait.name}={trait.value}"
    return trait.value if trait.name == "Python" else f"{trait.name} {trait.value}"
