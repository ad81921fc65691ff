"""What all tests share."""

import importlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Examples of each property test; `pytest --hypothesis-profile thorough` takes more of them. How
# long one takes on a shared machine says nothing about the code.
for _name, _examples in (("quick", 20), ("thorough", 100)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")

# Matrices are small here: BLAS threads, several for each worker, would only wait for each other.
# Libraries read the variable when they are loaded; processes that tests start do not inherit it.
with pytest.MonkeyPatch.context() as _patch:
    _patch.setenv("OPENBLAS_NUM_THREADS", "1")
    for _module in ("numpy", "scipy.linalg"):
        importlib.import_module(_module)


@pytest.fixture(scope="session", autouse=True)
def _own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have measurements of this process of tests take turns with each other, and no others.

    Tests are about what is measured, not how precisely, and waiting for all others takes minutes.
    """
    folder = tmp_path_factory.mktemp("locks")
    folder.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STACKGEN_TEST_LOCKS", str(folder))
        yield


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
