"""What an indicator declares of itself, read without running it, and the values it is given."""

import ast
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache, partial

from stackgen.errors import UsageError
from stackgen.model.inspections import Indicator, IndicatorCall, Parameter

# Every indicator takes it, and the harness applies it; "auto" is what the plan's limits say.
THREADS = Parameter(
    name="threads", type="int", default="auto", help="threads of OpenMP, BLAS and the framework"
)
_RESERVED = {"threads", "samples", "loops", "output", "trace", "help"}
_TYPES = {"int": int, "float": float, "str": str}
_KEYS = {
    "summary", "component", "unit", "better", "one_shot", "latency", "timeout_s", "tolerance",
    "common", "parameters", "revision", "work",
}  # fmt: skip
_ROW_KEYS = _KEYS | {"setup", "constants"}
_ARITHMETIC = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.operator,
    ast.unaryop, ast.IfExp, ast.Compare, ast.cmpop, ast.Tuple,
)  # fmt: skip
_BETTER = ("lower", "higher")
_PARAMETER_KEYS = {"type", "default", "allowed", "help"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A file that declares indicators, and the text of all that it runs with.

    path: on this machine.
    harness: its source, whose literal COMMON holds the parameters that indicators share.
    shared: source of what else it runs with.
    own: it is a user's own file, whose every edit makes it another indicator.
    """

    text: str
    path: str
    harness: str
    shared: str = ""
    own: bool = False


def parse_indicator(script: Script, name: str) -> Indicator:
    """Read an indicator's literal ``INDICATOR = {...}``.

    Its revision (1 where it declares none) and the harness's PROTOCOL_REVISION are part of its
    identity. Each is raised when an edit may change timings: when ``stackgen pi run`` of both
    versions in turns (an A/A comparison) does not show them to be equivalent.

    name: such as ``numpy/matmul``.

    Raises:
        UsageError: it is missing, is not a literal, or declares nonsense.
    """
    with _refusing(script.path):
        declared = _literal(script.text, "INDICATOR")
        if declared is None:
            raise ValueError("it has no INDICATOR = {...} at its top level")
        return _indicator(_known_keys(declared, _KEYS, "INDICATOR"), script, name)


def parse_table(script: Script, group: str) -> tuple[Indicator, ...]:
    """Read all indicators of a module: each row of its literal ``INDICATORS = {...}``.

    What a literal ``FAMILY = {...}`` declares holds for every row; common and own parameters are
    added up.

    group: what the names of its indicators begin with, such as ``numpy``.

    Raises:
        UsageError: a declaration is missing, is not a literal, or is nonsense.
    """
    with _refusing(script.path):
        return tuple(
            replace(_indicator(declared, script, f"{group}/{operation}"), operation=operation)
            for operation, declared in _rows(script.text)
        )


def has_table(source: str) -> bool:
    """Return whether a module declares several indicators."""
    return "INDICATORS" in source and _literal(source, "INDICATORS") is not None


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, SyntaxError) as error:
        raise UsageError(
            f"{path} is not an indicator",
            why=f"{error.msg} (line {error.lineno})"
            if isinstance(error, SyntaxError)
            else str(error),
            fix="declare INDICATOR = {...} as docs/indicators.md shows",
        ) from error


def _indicator(declared: Mapping[str, object], read: Script, name: str) -> Indicator:
    _refuse_nonsense(declared)
    _refuse_wrong_work(declared)
    rows = _mapping(declared, "parameters") | _shared(declared, read.harness)
    parameters = tuple(_parameter(*row) for row in rows.items())
    return Indicator(
        name=name,
        component=_text(declared, "component"),
        summary=_text(declared, "summary"),
        sha256=hashlib.sha256(f"{read.text}\0{read.harness}{read.shared}".encode()).hexdigest(),
        path=read.path,
        unit=_text({"unit": "", **declared}, "unit"),
        one_shot=declared.get("one_shot") is True,
        timeout_s=_seconds(declared.get("timeout_s", 300.0)),
        parameters=(*parameters, THREADS),
        revision=_revision(declared.get("revision", 1), "revision"),
        protocol=literal_revision(read.harness, "PROTOCOL_REVISION"),
        own_sha256=hashlib.sha256(read.text.encode()).hexdigest() if read.own else "",
    )


def _rows(source: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield name and declaration of each row of a table, with what its family declares."""
    family = _known_keys(_literal(source, "FAMILY") or {}, _ROW_KEYS, "FAMILY")
    table = _literal(source, "INDICATORS")
    if not isinstance(table, dict) or not table:
        raise ValueError("INDICATORS must be a dictionary of indicators by name")
    functions = _module(source).functions
    for name, row in table.items():
        what = f"INDICATORS[{name!r}]"
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{what} needs a name of letters, digits and underscores")
        declared = family | _known_keys(row, _ROW_KEYS, what)
        for key in ("common", "parameters"):
            declared[key] = _mapping(family, key) | _mapping(row, key)
        setup = declared.get("setup", name)
        if setup not in functions:
            raise ValueError(f"{what} is set up by {setup!r}, and there is no such function")
        yield name, declared


def _refuse_wrong_work(declared: Mapping[str, object]) -> None:
    """Refuse a formula of other names than those of parameters and constants, or with calls."""
    if "work" not in declared:
        return
    keys = ("common", "parameters", "constants")
    known = {"threads"}.union(*(_mapping(declared, key) for key in keys))
    known |= {"itemsize"} if "dtype" in known else set()
    for node in ast.walk(ast.parse(_text(declared, "work"), mode="eval")):
        if not isinstance(node, _ARITHMETIC):
            raise ValueError(f"work may only calculate, not: {ast.unparse(node)}")
        if isinstance(node, ast.Name) and node.id not in known:
            raise ValueError(f"work is of parameters and constants, and {node.id!r} is neither")


@lru_cache(maxsize=4)
def literal_revision(source: str, name: str) -> int:
    """Return the revision that a module declares under a name, 1 where it declares none.

    Raises:
        ValueError: it is not a whole number from 1.
    """
    value = _literal(source, name)
    return 1 if value is None else _revision(value, name)


def _revision(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number from 1, not {value!r}")
    return value


def _refuse_nonsense(declared: Mapping[str, object]) -> None:
    if declared.get("better", "lower") not in _BETTER:
        raise ValueError(f"better must be lower or higher, not {declared['better']!r}")
    for key in ("one_shot", "latency"):
        if not isinstance(declared.get(key, False), bool):
            raise ValueError(f"{key} must be True or False, not {declared[key]!r}")
    tolerance = declared.get("tolerance", 0)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
        raise ValueError(f"tolerance must be a number, not {tolerance!r}")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance must be a ratio such as 1e-4, not {tolerance!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """What a module defines at its top level.

    assigned: the expression that a name is given first.
    functions: names of those that it defines.
    """

    assigned: Mapping[str, ast.expr]
    functions: frozenset[str]


@lru_cache(maxsize=64)  # all that one load reads: parsing takes nearly all of its time
def _module(source: str) -> _Module:
    body = ast.parse(source).body
    assigned: dict[str, ast.expr] = {}
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, statement.value)
    functions = frozenset(each.name for each in body if isinstance(each, ast.FunctionDef))
    return _Module(assigned=assigned, functions=functions)


def _literal(source: str, name: str) -> object:
    """Return the value that a module gives a name at its top level, None where it does not."""
    node = _module(source).assigned.get(name)
    return None if node is None else _evaluate(node, name)


def _shared(declared: Mapping[str, object], harness_source: str) -> dict[str, object]:
    """Return the common parameters that an indicator names, each with its own default."""
    wanted = _mapping(declared, "common")
    if not wanted:
        return {}
    common = _common(harness_source)
    if unknown := sorted(wanted.keys() - common.keys()):
        raise ValueError(
            f"there is no common parameter {unknown[0]!r}; there are {', '.join(sorted(common))}"
        )
    if twice := sorted(wanted.keys() & _mapping(declared, "parameters").keys()):
        raise ValueError(f"the parameter {twice[0]!r} is declared both as common and as its own")
    return {name: {**common[name], "default": default} for name, default in wanted.items()}


@lru_cache(maxsize=4)  # one harness is usual, and it is long
def _common(harness_source: str) -> dict[str, dict[str, object]]:
    common = _literal(harness_source, "COMMON")
    if not isinstance(common, dict):
        raise ValueError("the harness declares no common parameters")
    return common


def _evaluate(node: ast.expr, name: str) -> object:
    try:
        value: object = ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"{name} must be a literal, it is read without being run") from None
    return value


def _known_keys(value: object, known: set[str], what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a dictionary")
    if unknown := sorted(str(key) for key in value.keys() - known):
        raise ValueError(f"{what} has unknown keys: {', '.join(unknown)}")
    return value


def _mapping(declared: Mapping[str, object], key: str) -> dict[str, object]:
    value = declared.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{key} must be a dictionary by name")
    return value


def _text(declared: Mapping[str, object], key: str) -> str:
    value = declared.get(key)
    if not isinstance(value, str) or (not value and key != "unit"):
        raise ValueError(f"INDICATOR needs a text for {key!r}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"timeout_s must be a positive number of seconds, not {value!r}")
    return float(value)


def _parameter(name: str, declared: object) -> Parameter:
    what = f"parameter {name!r}"
    fields = _known_keys(declared, _PARAMETER_KEYS, what)
    if not name.isidentifier() or name in _RESERVED:
        raise ValueError(f"{what} cannot have that name: the harness has it, or it is no name")
    kind, allowed = fields.get("type"), fields.get("allowed", [])
    if kind not in _TYPES or "default" not in fields or not isinstance(allowed, list):
        raise ValueError(f"{what} needs a type (int, float or str), a default, allowed as a list")
    # Zero means something to few parameters: those that name it.
    plain = partial(_plain, str(kind), what=what, zero=0 in (fields["default"], *allowed))
    parameter = Parameter(
        name=name,
        type=str(kind),
        default=plain(str(fields["default"])),
        allowed=tuple(plain(str(value)) for value in allowed),
        help=str(fields.get("help", "")),
    )
    if parameter.allowed and parameter.default not in parameter.allowed:
        default, among = parameter.default, ", ".join(parameter.allowed)
        raise ValueError(
            f"the default of {what}, {default}, is not among its allowed values: {among}"
        )
    return parameter


def _plain(kind: str, text: str, *, what: str, zero: bool) -> str:
    """Return the one way to write a value, so that equal values give equal ids."""
    if kind == "str":
        return text
    try:
        value = _TYPES[kind](text)
    except ValueError:
        raise ValueError(f"{what} takes {_articles[kind]}, not {text!r}") from None
    if zero and value == 0:
        return str(abs(value))
    if not 0 < value < math.inf:
        least = "from zero on" if zero else "above zero"
        raise ValueError(f"{what} takes {_articles[kind]} {least}, not {text!r}")
    return str(value)


_articles = {"int": "a whole number", "float": "a number"}


def bind(indicator: Indicator, given: Mapping[str, str]) -> IndicatorCall:
    """Give an indicator its parameters; those that are not given keep their defaults.

    Raises:
        UsageError: a parameter that it does not have, or a value that it does not take.
    """
    known = {parameter.name: parameter for parameter in indicator.parameters}
    if unknown := sorted(given.keys() - known.keys()):
        raise UsageError(
            f"{indicator.name} has no parameter {unknown[0]!r}",
            why=f"it takes {', '.join(sorted(known))}",
            fix="see: stackgen pis",
        )
    values = {name: _value(indicator, known[name], given.get(name)) for name in known}
    return IndicatorCall(indicator=indicator, arguments=tuple(sorted(values.items())))


def _value(indicator: Indicator, parameter: Parameter, text: str | None) -> str:
    if text is None or text == parameter.default:
        return parameter.default
    try:
        what = f"parameter {parameter.name!r}"
        zero = not {"0", "0.0"}.isdisjoint((parameter.default, *parameter.allowed))
        value = _plain(parameter.type, text, what=what, zero=zero)
        if parameter.allowed and value not in parameter.allowed:
            raise ValueError(f"it takes {', '.join(parameter.allowed)}")
    except ValueError as error:
        raise UsageError(
            f"{indicator.name} does not take {parameter.name}={text}",
            why=str(error),
            fix=f"leave it out for {parameter.name}={parameter.default}, or see: stackgen pis",
        ) from error
    return value


def is_called(name: str, wanted: str) -> bool:
    """Return whether what a user wants is an indicator's name, or the end of it (``matmul``)."""
    return name == wanted or name.endswith(f"/{wanted}")


def find(indicators: Iterable[Indicator], wanted: str, component: str | None = None) -> Indicator:
    """Return the indicator of that name; ``matmul`` alone means the component's.

    Raises:
        UsageError: there is none, or several and no component to choose by.
    """
    known = {indicator.name: indicator for indicator in indicators}
    names = [name for name in known if is_called(name, wanted)]
    if component and f"{component}/{wanted}" in known:
        return known[f"{component}/{wanted}"]
    if len(names) == 1:
        return known[names[0]]
    ends = {name: name.rpartition("/")[2] for name in known}
    near = get_close_matches(wanted, sorted({*ends, *ends.values()}), n=3)
    if alike := names or [name for name in known if name in near or ends[name] in near]:
        listed = ", ".join(sorted(alike))
        why = f"there are {listed}" if names else f"the closest names are {listed}"
        fix = "give one of these names; stackgen pis says what each one measures"
    else:
        why, fix = f"there are {len(known)} others", "see what there is: stackgen pis"
    what = "several indicators are" if names else "no indicator is"
    raise UsageError(f"{what} called {wanted!r}", why=why, fix=fix)
