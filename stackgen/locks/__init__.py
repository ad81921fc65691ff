"""Lock formats and files of requirements, read and written as text."""

from stackgen.locks.direct import from_place
from stackgen.locks.editing import diff, write_constraints, write_lock, writes
from stackgen.locks.reading import admits_python, decode_text, in_target, read_lock
from stackgen.locks.requirement_files import constraints_in, read_requirements_file
from stackgen.locks.writing import write_pylock, write_requirements

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
