"""Limits and isolation of foreign code."""
