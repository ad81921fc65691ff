"""Reports and progress for a terminal."""
