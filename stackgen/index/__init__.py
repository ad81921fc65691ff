"""Package indexes: what they offer, and its metadata."""
