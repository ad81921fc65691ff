"""The indicators: all of them a line each, or one with everything that it takes."""

import shlex
from collections.abc import Sequence
from itertools import groupby

from stackgen.render.tables import columns
from stackgen.values import Indicator, Parameter

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
            f"{_COUNTS.get(indicator.unit, 'tells times alone')}{once}",
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
    own = "/" not in indicator.name  # a file of the user's is known by its path
    name = shlex.quote(indicator.path) if own else indicator.name
    lines = [f"stackgen pi run {name} --{shown.name} {','.join(values)}"]
    if indicator.component != "python":
        given = "" if shown.name == "threads" else f" --param {shown.name}={values[-1]}"
        lines.append(f"stackgen explore {indicator.component} --pi {name}{given}")
    if own:  # by hand it would have to find the harness
        return lines
    return [*lines, f"python {indicator.path} --{shown.name} {values[-1]}"]


def _values(parameter: Parameter) -> list[str]:
    """Return two values that a parameter takes, its default among them where there is a choice."""
    if parameter.allowed:
        return list(parameter.allowed[:2])
    if parameter.type == "int" and parameter.default.isdigit():
        return [parameter.default, str(int(parameter.default) * 2)]
    return ["1", "2"] if parameter.name == "threads" else [parameter.default]
