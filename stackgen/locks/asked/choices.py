"""The extras and groups that a user chooses by name."""

from collections.abc import Collection, Sequence

from packaging.utils import canonicalize_name

from stackgen.errors import UsageError


def chosen(kind: str, wanted: Sequence[str], *, known: Collection[str], path: str) -> list[str]:
    """Return the normalised names that were chosen, each once, in the order given.

    Args:
        kind: what is chosen, "extra" or "group"; for the message.
        wanted: names in any spelling.
        known: the normalised names that the file has.
        path: of the file, for the message.

    Raises:
        UsageError: the file has no such name; the error lists those that it has.
    """
    names: list[str] = list(dict.fromkeys(canonicalize_name(each) for each in wanted))
    for name in names:
        if name not in known:
            options = ", ".join(sorted(known))
            raise UsageError(
                f"{path} has no {kind} {name!r}",
                why=f"its {kind}s are: {options}" if options else f"it has no {kind}s at all",
                fix=f"give --{kind} with one of those names" if options else f"leave --{kind} out",
            )
    return names
