"""A command of the user's own that is measured as it stands."""

from dataclasses import dataclass, field

PROGRAM = "program"
"""Name and component of the indicator that runs such commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run, and what it may see.

    command: its words, without a shell.
    project: the folder that it runs in a copy of.
    data: further folders that it may read, by their absolute paths.
    variables: (name, value) pairs for it alone. The values are nobody else's business: they are
        stored nowhere, and taken out of what it prints.
    figure: a regular expression with one group for the number that it prints; "" means its time.
    better: ``lower`` or ``higher``, of the figure.
    check: the file with its result, from the project's folder on; "" where there is none.
    network: whether it may use the network.
    """

    command: tuple[str, ...]
    project: str
    data: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    figure: str = ""
    better: str = "lower"
    check: str = ""
    network: bool = False
