"""What all tests share."""

from hypothesis import settings

# Machines here are shared: how long an example takes says nothing about the code.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
