"""Somewhere to run inspections."""
