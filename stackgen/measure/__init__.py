"""Blocks, effects and controls: what may be said from observations."""
