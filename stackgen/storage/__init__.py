"""Content-addressed wheels and layers on disk."""
