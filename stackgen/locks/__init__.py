"""Lock formats of other tools, read and written as text."""

from stackgen.locks.reading import read_lock
from stackgen.locks.target import in_target
from stackgen.locks.writing import write_pylock, write_requirements

__all__ = ["in_target", "read_lock", "write_pylock", "write_requirements"]
