"""What all tests share."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Machines here are shared: how long an example takes, or to think of one, says nothing about the
# code.
settings.register_profile(
    "shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")


@pytest.fixture
def signals_as_usual() -> Iterator[None]:
    """Have signals do what they do by default, here and in new processes, whatever started us.

    A shell starts background jobs with SIGINT ignored, ``nohup`` with SIGHUP, and both are
    inherited.
    """
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
