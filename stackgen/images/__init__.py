"""Bases, virtualenvs and images, made from local files alone."""
