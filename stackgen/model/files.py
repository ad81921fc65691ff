"""The files that an index has of a package, in columns: artifacts are made on access.

A package may have thousands of files, of which a target takes one per version. As rows they would
cost most of the time of a warm resolution.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import overload

from stackgen.model.packages import Artifact

DIRECT = "direct"
"""The index of an artifact that a requirement names by its address."""

COLUMNS = (
    "name",
    "version",
    "stem",
    "tail",
    "sha256",
    "url",
    "index",
    "size",
    "requires_python",
    "uploaded",
    "yanked",
)
"""What is stored of a file. Its name is stem and tail: a wheel's tail holds build number and tags.

All are texts. "" stands for None; what follows the "y" of a yanked file is the reason given.
"""

_DISTINCT = frozenset({"stem", "sha256", "url", "size"})


class Coded(Sequence[str]):
    """A column of which the same values come again and again: row n is ``values[codes[n]]``."""

    __slots__ = ("codes", "values")

    def __init__(self, values: Sequence[str], codes: Sequence[int]) -> None:
        self.values = values
        self.codes = codes

    @classmethod
    def of(cls, column: Sequence[str]) -> "Coded":
        """Return a column with its values numbered in the order in which they first appear."""
        if isinstance(column, cls):
            return column
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(text, len(numbers)) for text in column]
        return cls(tuple(numbers), codes)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        if isinstance(row, slice):
            return [self.values[code] for code in self.codes[row]]
        return self.values[self.codes[row]]

    def __iter__(self) -> Iterator[str]:
        return map(self.values.__getitem__, self.codes)

    def __len__(self) -> int:
        return len(self.codes)


class Files(Sequence[Artifact]):
    """Artifacts as columns; equal where the artifacts are.

    Args:
        columns: each of `COLUMNS`, one entry per file.
    """

    __slots__ = ("_coded", "_columns")

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        if len({len(columns[each]) for each in COLUMNS}) > 1:
            raise ValueError("columns of different lengths")
        self._columns = columns
        self._coded: dict[str, Coded] = {}

    @classmethod
    def of(cls, artifacts: Iterable[Artifact]) -> "Files":
        """Return artifacts as columns."""
        if isinstance(artifacts, cls):
            return artifacts
        columns: tuple[list[str], ...] = tuple([] for _ in COLUMNS)
        shared: dict[str, str] = {}  # what most files have in common takes memory once
        for each in artifacts:
            for name, column, text in zip(COLUMNS, columns, _texts(each), strict=True):
                column.append(text if name in _DISTINCT else shared.setdefault(text, text))
        return cls(dict(zip(COLUMNS, columns, strict=True)))

    @classmethod
    def joined(cls, parts: Sequence["Files"]) -> "Files":
        """Return the files of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        return cls({x: list(chain.from_iterable(p.column(x) for p in parts)) for x in COLUMNS})

    def column(self, name: str) -> Sequence[str]:
        """Return one of `COLUMNS`."""
        return self._columns[name]

    def coded(self, name: str) -> Coded:
        """Return one of `COLUMNS` with its distinct values."""
        if name not in self._coded:
            self._coded[name] = Coded.of(self._columns[name])
        return self._coded[name]

    @overload
    def __getitem__(self, row: int) -> Artifact: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[Artifact, ...]: ...
    def __getitem__(self, row: int | slice) -> Artifact | tuple[Artifact, ...]:
        if isinstance(row, slice):
            return tuple(map(self._artifact, range(*row.indices(len(self)))))
        return self._artifact(row)

    def __iter__(self) -> Iterator[Artifact]:
        return map(self._artifact, range(len(self)))

    def __len__(self) -> int:
        return len(self._columns["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Files) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Files{tuple(self)!r}"

    def _artifact(self, row: int) -> Artifact:
        of = self._columns
        size, yanked = of["size"][row], of["yanked"][row]
        return Artifact(
            name=of["name"][row],
            version=of["version"][row],
            filename=of["stem"][row] + of["tail"][row],
            sha256=of["sha256"][row],
            url=of["url"][row],
            index=of["index"][row],
            size=int(size) if size else None,
            requires_python=of["requires_python"][row] or None,
            uploaded=of["uploaded"][row] or None,
            yanked=yanked[1:] if yanked else None,
        )


def _texts(artifact: Artifact) -> tuple[str, ...]:
    """Return the row of an artifact, in the order of `COLUMNS`."""
    stem, tail = split_filename(artifact.filename)
    return (
        artifact.name,
        artifact.version,
        stem,
        tail,
        artifact.sha256,
        artifact.url,
        artifact.index,
        "" if artifact.size is None else str(artifact.size),
        artifact.requires_python or "",
        artifact.uploaded or "",
        "" if artifact.yanked is None else f"y{artifact.yanked}",
    )


def split_filename(filename: str) -> tuple[str, str]:
    """Return stem and tail: ``a-1.0-`` and ``py3-none-any.whl``, or ``a-1.0`` and ``.tar.gz``."""
    if filename.endswith(".whl"):
        parts = filename.split("-", 2)
        cut = len(filename) - len(parts[-1])
    else:
        cut = len(filename.removesuffix(".zip").removesuffix(".tar.gz"))
    return filename[:cut], filename[cut:]
