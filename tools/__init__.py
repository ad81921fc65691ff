"""Programs for maintainers: the reference of the documentation, and the checks of a release."""
