"""What all tests share."""

import gc
import importlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.store_parts import Stores
    from tests.tiny_index import TinyIndex

# Examples of each property test; `pytest --hypothesis-profile thorough` takes more of them. How
# long one takes on a shared machine says nothing about the code.
for _name, _examples in (("quick", 10), ("thorough", 100)):
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


def pytest_collection_finish() -> None:
    """Have the garbage collector leave alone what lives to the end: a tenth of all its time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_locks_and_no_seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have measurements of this process of tests take turns with each other, and no others.

    Tests are about what is measured, not how precisely, and waiting for all others takes minutes.
    The shipped evidence takes 0.7 seconds to import into a new cache: tests of it name it.
    """
    folder = tmp_path_factory.mktemp("locks")
    folder.chmod(0o1777)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STACKGEN_TEST_LOCKS", str(folder))
        patch.setenv("STACKGEN_SEED", "")
        yield


@pytest.fixture
def server() -> "Iterator[TinyIndex]":
    """Serve an empty package index on loopback."""
    from tests.tiny_index import serving

    with serving() as index:
        yield index


@pytest.fixture
def stores(tmp_path: Path) -> "Stores":
    """Return empty stores of wheels and layers."""
    from tests.store_parts import Stores

    return Stores(tmp_path / "cache")


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of its own, of one megabyte or the module's ``DISK_SIZE``."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={getattr(request.module, 'DISK_SIZE', '1m')}"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here (that needs root)")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # what is open is until it goes


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
