"""Explore, advise, nightly: the only place where the stages meet."""
