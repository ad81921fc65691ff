"""Limits and isolation of untrusted code."""
