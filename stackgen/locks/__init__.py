"""Lock formats and files of requirements, read and written as text."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stackgen.locks.direct import from_place
    from stackgen.locks.editing import diff, write_constraints, write_lock, writes
    from stackgen.locks.reading import admits_python, decode_text, in_target, read_lock
    from stackgen.locks.requirement_files import constraints_in, read_requirements_file
    from stackgen.locks.writing import write_pylock, write_requirements

# A module is loaded when something of it is used: a command needs few of them.
_HOMES = {
    "direct": ("from_place",),
    "editing": ("diff", "write_constraints", "write_lock", "writes"),
    "reading": ("admits_python", "decode_text", "in_target", "read_lock"),
    "requirement_files": ("constraints_in", "read_requirements_file"),
    "writing": ("write_pylock", "write_requirements"),
}

__all__ = [
    "admits_python",
    "constraints_in",
    "decode_text",
    "diff",
    "from_place",
    "in_target",
    "read_lock",
    "read_requirements_file",
    "write_constraints",
    "write_lock",
    "write_pylock",
    "write_requirements",
    "writes",
]


def __getattr__(name: str) -> object:
    """Return what a module of this package exports."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
