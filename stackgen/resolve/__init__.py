"""The exact space of stacks that requirements allow on a target."""
