"""A lock against its indexes, and against what other tools would install."""
