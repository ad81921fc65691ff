"""What the knowledge base says of one thing: facts and tables."""

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with a title; each row has as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A stack, a campaign, a machine, or a version of a package.

    kind: which of them. facts: (name, value) pairs.
    """

    kind: str
    id: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
