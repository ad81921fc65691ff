"""Files of requirements: requirements.txt, pyproject.toml and Pipfile, read as text."""

from stackgen.locks.requirement_files.reading import constraints_in, read_requirements_file

__all__ = ["constraints_in", "read_requirements_file"]
