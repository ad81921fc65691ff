"""Lists for the smaller commands."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from stackgen.knowledge.failures import FailureGroup, Trait
from stackgen.model.inspections import Indicator, Outcome, Parameter
from stackgen.model.reports.locks import Validation, Validity, Verification
from stackgen.model.stacks import BaseContent, BaseEntry, BasesReport, Readiness
from stackgen.report.tables import columns, counted

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
        runs = f"{counted(len(group.stacks), 'stack')}, {counted(group.runs, 'run')}"
        lines.append(f"{runs}{where}: {group.outcome.value}: {group.reason}")
        lines += [f"  {each}" for each in _reasons(group)]
        log = [each for each in group.log.splitlines() if each.strip() != group.reason]
        lines += ["  the end of the latest log:"] * bool(log) + [f"    {each}" for each in log]
        query = f"stackgen kb query pins stack={group.stacks[0][:12]}{kb_option}"
        lines += [f"  all of its versions: {query}", ""]
    return "\n".join(lines).rstrip()


def _reasons(group: FailureGroup) -> list[str]:
    """Return what may be to blame, in sentences."""
    if group.sometimes:
        return ["now and then only: the same stacks also ran, so their versions are not to blame"]
    one, did = len(group.stacks) == 1, _did(group)
    whose = "it has" if one else "all of them have"
    if not group.running:
        none = "no stack ran this here" if did == "ran" else "no stack is known to compute it right"
        return [f"{none}, so nothing can be ruled out: {whose} {_some(group)}"]
    others = f"none of the {counted(group.running, 'stack')} that {did}"
    lines = [f"{whose}, and {others} has: {_some(group)}"] if group.shared else []
    if group.pairs:
        shown = [f"{_trait(a)} with {_trait(b)}" for a, b in group.pairs[:_MOST_SHOWN]]
        lines.append(f"{whose} together, and {others} has: {_listed(shown, len(group.pairs))}")
    lines += [
        f"{f'with {_trait(each.given)}, ' if each.given else ''}{each.name} is "
        f"{', '.join(each.failing)} here, and {', '.join(each.running)} in those that {did}"
        for each in group.separations[:_MOST_SHOWN]
    ]
    packages = [each for each in group.shared if each.kind == "package"]
    if len(packages) == 1 and len(group.shared) == 1:
        only = packages[0]
        lines.append(f'to leave it out: stackgen explore ... "{only.name}!={only.value}"')
    others = f"the {counted(group.running, 'stack')} that {did} here"
    return lines or [f"nothing distinguishes them from {others}"]


def _did(group: FailureGroup) -> str:
    return "ran" if isinstance(group.outcome, Outcome) else "computed the same"


def _some(group: FailureGroup) -> str:
    shown = [_trait(each) for each in group.shared[:_MOST_SHOWN]]
    return _listed(shown, len(group.shared)) or "nothing in common"


def _listed(shown: Sequence[str], count: int) -> str:
    more = [f"{count - len(shown)} more (--json has all)"] if count > len(shown) else []
    return ", ".join([*shown, *more])


def _trait(trait: Trait) -> str:
    if trait.kind == "setting":
        return f"{trait.name}={trait.value}"
    return trait.value if trait.name == "Python" else f"{trait.name} {trait.value}"


# Validation of a lock


def verification_text(found: Verification) -> str:
    """Return one line per validator, and its reasons below."""
    width = max(len(each.validator) for each in found.validations)
    lines = [f"{found.path} on {found.target}: {counted(len(found.pins), 'package')}"]
    for each in found.validations:
        lines += _validation_lines(each, width)
    lines += [f"Left out: {each}" for each in found.skipped]
    if found.superfluous_unknown and any(
        each.validity is Validity.HOLDS for each in found.validations
    ):
        lines += [f"Superfluous packages are unknown: {found.superfluous_unknown}."]
    return "\n".join(lines)


def _validation_lines(each: Validation, width: int) -> Iterator[str]:
    known = each.validity is not Validity.UNKNOWN
    why = "" if known else f": {'; '.join(each.reasons)}"
    yield f"  {each.validator.ljust(width)}  {each.validity.value}{why}"
    indent = " " * (width + 6)
    if each.missing:
        yield f"{indent}missing: {', '.join(each.missing)}"
    if each.superfluous:
        yield f"{indent}superfluous: {', '.join(each.superfluous)}"
    if known:
        yield from (f"{indent}{line}" for line in each.reasons)


# The bases that can be named, and what each of them is


def bases_text(report: BasesReport) -> str:
    """Return each base with what it is, or what is in its way."""
    lines = [line for entry in report.bases for line in _lines(entry)]
    if any(entry.state is Readiness.POSSIBLE for entry in report.bases):
        lines.append("To make what can be made: stackgen images bases --make [NAME]")
    if any(entry.state is Readiness.READY for entry in report.bases):
        lines.append("To measure on one: stackgen explore REQUIREMENT --base NAME")
    return "\n".join(lines).rstrip("\n")


def _lines(entry: BaseEntry) -> Iterator[str]:
    yield f"{entry.name}: {entry.summary}"
    if entry.content is not None:
        yield from _content_lines(entry.content)
    else:
        yield from _why_lines(entry)
        yield f"  fix: {entry.fix}" if entry.fix else f"  by {', or '.join(entry.ways)}"
    if entry.packages:
        yield f"  with the Debian packages {', '.join(entry.packages)}"
    yield ""


def _why_lines(entry: BaseEntry) -> Iterator[str]:
    reasons = [line.strip() for line in entry.why.splitlines()]
    if len(reasons) < 2:
        yield f"  {': '.join([entry.state.value, *reasons])}"
        return
    yield f"  {entry.state.value}:"
    yield from (f"    {reason}" for reason in reasons)


def _content_lines(content: BaseContent) -> Iterator[str]:
    size = f"{content.size / 1e6:.0f} MB"
    system = f"{content.distribution}, {content.libc}, {content.machine}"
    yield f"  ready: {content.python}, {system}; {size}, by {content.origin}"
    yield f"  takes {content.tags} kinds of wheels, {content.first_tag} first"
    blas = ", ".join(f"{name} {version}" for name, version in content.blas)
    yield f"  BLAS of the system: {blas or 'none; wheels bring their own'}"


# The indicators: all of them a line each, or one with everything that it takes

_COUNTS = {"FLOP": "counts floating-point operations", "byte": "counts bytes moved"}


def indicators_text(indicators: Sequence[Indicator]) -> str:
    """Return one line for each indicator, by the package whose speed it shows."""
    lines: list[str] = []
    for component, members in groupby(
        sorted(indicators, key=lambda each: (each.component, each.name)),
        key=lambda each: each.component,
    ):
        rows = [(each.name, each.summary) for each in members]
        lines += [component, *columns(rows), ""]
    lines += [
        "What one of them takes: stackgen pis NAME. Measure one here and now: stackgen pi run NAME."
    ]
    return "\n".join(lines)


def indicator_text(indicator: Indicator) -> str:
    """Return everything that an indicator declares, and how to run it."""
    once = "; it can happen once in a process only" if indicator.one_shot else ""
    rows = [
        ("parameter", "default", "meaning"),
        *((f"--{each.name}", each.default, _meaning(each)) for each in indicator.parameters),
    ]
    return "\n".join(
        [
            f"{indicator.name}: {indicator.summary}",
            f"  shows the speed of {indicator.component}, "
            f"{_COUNTS.get(indicator.unit, 'gives times only')}{once}",
            f"  a process may take {indicator.timeout_s:g} s",
            f"  {indicator.path}",
            "",
            *columns(rows),
            "",
            *(f"  {line}" for line in _examples(indicator)),
        ]
    )


def _meaning(parameter: Parameter) -> str:
    kind = {"int": "a whole number", "float": "a number", "str": "a text"}[parameter.type]
    values = f"one of {', '.join(parameter.allowed)}" if parameter.allowed else kind
    return f"{parameter.help} ({values})" if parameter.help else values


def _examples(indicator: Indicator) -> list[str]:
    """Return commands that can be typed as they stand."""
    shown = indicator.parameters[0]
    values = _values(shown)
    by_path = "/" not in indicator.name and not indicator.operation  # a file of the user's
    name = shlex.quote(indicator.path) if by_path else indicator.name
    lines = [f"stackgen pi run {name} --{shown.name} {','.join(values)}"]
    if indicator.component != "python":
        given = "" if shown.name == "threads" else f" --param {shown.name}={values[-1]}"
        lines.append(f"stackgen explore {indicator.component} --pi {name}{given}")
    if indicator.own_sha256:  # by hand it would have to find the harness
        return lines
    command = " ".join(filter(None, ("python", indicator.path, indicator.operation)))
    return [*lines, f"{command} --{shown.name} {values[-1]}"]


def _values(parameter: Parameter) -> list[str]:
    """Return two values that a parameter takes, its default among them where there is a choice."""
    if parameter.allowed:
        return list(parameter.allowed[:2])
    if parameter.type == "int" and parameter.default.isdigit():
        return [parameter.default, str(int(parameter.default) * 2)]
    return ["1", "2"] if parameter.name == "threads" else [parameter.default]
