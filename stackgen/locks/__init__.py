"""Lock formats and files of requirements, read and written as text."""
