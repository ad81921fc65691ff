"""stackgen: which versions of your dependencies run your code fastest, measured and proven."""

__version__ = "0.1.0"
