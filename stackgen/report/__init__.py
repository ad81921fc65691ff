"""Reports and progress for a terminal, and reports for machines."""
