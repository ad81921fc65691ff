"""What a user asks for: requirements files, pyproject.toml and Pipfiles, read as text."""

from stackgen.locks.asked.reading import constraints_in, read_asked

__all__ = ["constraints_in", "read_asked"]
