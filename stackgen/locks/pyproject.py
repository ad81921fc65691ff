"""What a pyproject.toml asks for, in Poetry's own words or in those of PEP 621."""

import re
from collections.abc import Container, Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from stackgen.locks import fields
from stackgen.locks.direct import elsewhere
from stackgen.locks.fields import Table

_SHORT = re.compile(r"([\^~])\s*v?(\d+(?:\.\d+)*)(\S*)")


def stated_requirements(project: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (requirements as PEP 508 lines, in words what PEP 508 cannot say)."""
    standard = fields.table(project.get("project"), "project").get("dependencies")
    lines = [fields.checked_requirement(line) for line in fields.texts(standard, "dependencies")]
    tool = fields.table(project.get("tool"), "tool")
    poetry = fields.table(tool.get("poetry"), "tool.poetry")
    stated = fields.names_of(lines)
    unclear: list[str] = []
    for name, details in poetry_entries(poetry.get("dependencies"), but=stated):
        if details.get("optional") is True or elsewhere(details):
            continue  # not asked for by default, or not to be had from an index
        if line := poetry_line(name, details):
            lines.append(line)
        else:
            unclear.append(unsayable(name))
    return tuple(lines), tuple(unclear)


def poetry_entries(section: object, *, but: Container[str] = ()) -> Iterator[tuple[str, Table]]:
    """Yield (name, what is wanted of it) of a table of Poetry's, one for each alternative.

    Args:
        section: such as ``tool.poetry.dependencies``; may be absent.
        but: normalised names that PEP 621 states: there Poetry's table only says where from.

    Raises:
        MalformedError: it is no such table.
    """
    for name, wanted in fields.table(section, "dependencies").items():
        if name == "python" or canonicalize_name(name) in but:
            continue
        for entry in wanted if isinstance(wanted, list) else [wanted]:
            yield name, {"version": entry} if isinstance(entry, str) else fields.table(entry, name)


def unsayable(name: str) -> str:
    """Return in words that a requirement of Poetry's has no PEP 508 form."""
    return f"{name}: PEP 508 cannot say what pyproject.toml asks of it"


def specifier(constraint: str) -> str | None:
    """Return a constraint of Poetry's as a PEP 440 specifier; None where there is none.

    ``^1.2`` allows what keeps the first number that is not 0, ``~1.2`` what keeps the second;
    ``||`` has no equal.
    """
    text = constraint.strip()
    if text in ("", "*"):
        return ""
    if "|" in text:
        return None
    parts = [_part(part) for part in re.split(r"\s*,\s*|\s+(?=[\^~<>=!])", text)]
    try:
        return str(SpecifierSet(",".join(parts)))
    except InvalidSpecifier:
        return None


def _part(part: str) -> str:
    if part.startswith("~="):
        return part
    if short := _SHORT.fullmatch(part):
        sign, numbers, rest = short.groups()
        floor = numbers + rest
        return f">={floor},<{_ceiling([int(n) for n in numbers.split('.')], sign)}"
    return part if part[0] in "<>=!" else f"=={part}"


def _ceiling(numbers: list[int], sign: str) -> str:
    if sign == "~":
        leading = min(1, len(numbers) - 1)
    else:
        leading = next((i for i, n in enumerate(numbers) if n), len(numbers) - 1)
    return ".".join(str(n) for n in [*numbers[:leading], numbers[leading] + 1])


def poetry_line(name: str, details: Table) -> str | None:
    """Return what Poetry wants of a package as a PEP 508 line; None where there is none.

    Raises:
        MalformedError: it is nothing that Poetry understands.
    """
    found = specifier(fields.text(details.get("version"), name))
    if found is None:
        return None
    line = fields.requirement(
        name, specifier=found, extras=fields.texts(details.get("extras"), name)
    )
    return fields.with_marker(line, poetry_marker(name, details))


def poetry_marker(name: str, details: Table) -> str:
    """Return the condition under which Poetry wants a package; "" for always."""
    return " and ".join(_markers(name, details))


def _markers(name: str, details: Table) -> Iterator[str]:
    if marker := fields.text(details.get("markers"), f"the markers of {name}"):
        yield f"({marker})"
    if platform := fields.text(details.get("platform"), f"the platform of {name}"):
        yield f'sys_platform == "{platform}"'
    python = specifier(fields.text(details.get("python"), f"the Python of {name}")) or ""
    for each in sorted(filter(None, python.split(","))):
        sign = re.match(r"[<>=!~]+", each)
        if sign:
            yield f'python_full_version {sign.group()} "{each[sign.end() :]}"'
