"""Benchmarks that measure real stacks for minutes: run them where nothing else runs.

Each is a module, run from the repository's root: ``python -m benchmarks.live.quota``.
"""
