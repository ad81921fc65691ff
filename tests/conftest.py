"""What all tests share."""

from hypothesis import HealthCheck, settings

# Machines here are shared: how long an example takes, or to think of one, says nothing about the
# code.
settings.register_profile(
    "shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")
