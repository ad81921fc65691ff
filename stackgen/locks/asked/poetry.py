"""What the tables of Poetry in a pyproject.toml ask for, by its groups and extras."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from stackgen.locks import direct, fields
from stackgen.locks.direct import Skipped, elsewhere
from stackgen.locks.fields import MalformedError, Table
from stackgen.locks.pyproject import (
    poetry_entries,
    poetry_line,
    poetry_marker,
    specifier,
    unsayable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoetryTables:
    """The tables below ``tool.poetry``; names of groups and extras are normalised.

    main: the dependencies.
    groups: each with its ``dependencies`` and ``include-groups``.
    extras: the names of optional dependencies that each adds.
    """

    main: Table
    groups: Mapping[str, Table]
    extras: Mapping[str, frozenset[str]]

    def asked(self, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what is asked for by default; ``but`` holds names that PEP 621 states."""
        for name, details in poetry_entries(self.main, but=but):
            if details.get("optional") is not True:
                yield _found(name, details, folder)

    def of_extra(self, extra: str, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what an extra adds; nothing where only PEP 621 knows it."""
        added = self.extras.get(extra, frozenset())
        for name, details in poetry_entries(self.main, but=but):
            if canonicalize_name(name) in added:
                yield _found(name, details, folder)

    def of_group(self, group: str, *, but: Container[str], folder: str) -> Iterator[str | Skipped]:
        """Yield what a group adds, with the groups that it includes.

        Raises:
            MalformedError: it includes itself, or one that is not there.
        """
        if group in self.groups:
            for name, details in self._entries(group, but, ()):
                yield _found(name, details, folder)

    def _entries(
        self, group: str, but: Container[str], above: tuple[str, ...]
    ) -> Iterator[tuple[str, Table]]:
        if group in above:
            chain = " -> ".join((*above[above.index(group) :], group))
            raise MalformedError(f"the group {group} includes itself: {chain}")
        if group not in self.groups:
            raise MalformedError(f"the group {above[-1]} includes {group}, which is not there")
        found = self.groups[group]
        yield from poetry_entries(found.get("dependencies"), but=but)
        for other in fields.texts(found.get("include-groups"), f"include-groups of {group}"):
            yield from self._entries(canonicalize_name(other), but, (*above, group))

    def rerouted(self) -> Iterator[tuple[str, Table]]:
        """Yield (normalised name, entry) for what comes from a repository or a file."""
        for name, details in poetry_entries(self.main):
            if elsewhere(details):
                yield canonicalize_name(name), details

    def requires_python(self) -> str:
        """Return Poetry's constraint on Python as a specifier; "" where PEP 440 has none."""
        return specifier(fields.text(self.main.get("python"), "python")) or ""


def poetry_tables(tool: Table) -> PoetryTables:
    """Take Poetry's tables out of the ``tool`` table; all are empty where it has none.

    Raises:
        MalformedError: they are not what Poetry writes.
    """
    poetry = fields.table(tool.get("poetry"), "tool.poetry")
    groups: dict[str, Table] = {
        canonicalize_name(name): fields.table(group, f"the group {name}")
        for name, group in fields.table(poetry.get("group"), "tool.poetry.group").items()
    }
    if "dev-dependencies" in poetry:  # before Poetry 1.2
        groups.setdefault("dev", {"dependencies": poetry["dev-dependencies"]})
    extras = fields.table(poetry.get("extras"), "tool.poetry.extras")
    return PoetryTables(
        main=fields.table(poetry.get("dependencies"), "tool.poetry.dependencies"),
        groups=groups,
        extras={
            canonicalize_name(extra): frozenset(
                canonicalize_name(name) for name in fields.texts(names, f"the extra {extra}")
            )
            for extra, names in extras.items()
        },
    )


def _found(name: str, details: Table, folder: str) -> str | Skipped:
    if elsewhere(details):
        marker = poetry_marker(name, details)
        return direct.from_table(name, details, folder=folder, marker=marker)
    return poetry_line(name, details) or Skipped(unsayable(name))
