"""One module per command: the story of what it does."""
