"""Lock formats of other tools, read and written as text."""
