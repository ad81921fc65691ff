"""Every failure that stackgen can explain, and the exit code of each.

One class per decision that a caller could take. docs/reference/exit-codes.md lists the codes; it
is generated from this module (``python -m tools.reference``).
"""


class StackgenError(Exception):
    """A failure that we can explain to its reader: what, why, and how to fix it."""

    exit_code = 1

    def __init__(self, what: str, *, why: str, fix: str) -> None:
        super().__init__(what, why, fix)
        self.what = what
        self.why = why
        self.fix = fix

    def __reduce__(self) -> tuple[object, ...]:
        # An exception pickles by its positional arguments; ours are keywords.
        return _revive, (type(self), self.what, self.why, self.fix)

    def __str__(self) -> str:
        return f"{self.what}\n  why: {self.why}\n  fix: {self.fix}"


def _revive(kind: type[StackgenError], what: str, why: str, fix: str) -> StackgenError:
    return kind(what, why=why, fix=fix)


class UsageError(StackgenError):
    """What the user gave cannot be understood: an option, a requirement, a lock file."""

    exit_code = 2


class EvidenceError(StackgenError):
    """Nothing was measured that could answer the question, or nothing is better."""

    exit_code = 3


class ResolutionError(StackgenError):
    """No stack satisfies the requirements on this target."""

    exit_code = 4


class BuildError(StackgenError):
    """An environment or a base could not be made."""

    exit_code = 5


class EngineError(BuildError):
    """The container engine refused, failed, or went away."""


class MeasurementError(StackgenError):
    """An indicator ran, but what it said is not a measurement."""

    exit_code = 6


class IndexUnavailableError(StackgenError):
    """A package index cannot be reached, or answered with nonsense."""

    exit_code = 8


class IndexRefusalError(IndexUnavailableError):
    """A package index answered, and its answer is no: asking again changes nothing."""


class StorageError(StackgenError):
    """A disk is full, or a folder cannot be written."""

    exit_code = 9


class DamagedLayersError(StorageError):
    """Cached layers were not as written; they are removed, and made anew when they are needed."""


class DatabaseError(StackgenError):
    """The knowledge base cannot be used: damaged, locked, or of a newer version."""

    exit_code = 10
