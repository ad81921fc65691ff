"""stackgen runs on the oldest Python that it states, whose typing module is another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from stackgen.model import toml
from tests.interpreters import by_minor

ROOT = Path(__file__).parents[1]
PROJECT = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OLDEST = PROJECT["requires-python"].removeprefix(">=")
TESTS = ("hypothesis", "jsonschema", "pytest", "pytest-timeout", "pytest-xdist")
QUICK = "not network and not docker and not journey and not prometheus and not slow and not gpu"
# What depends on annotations: options, what is encoded and decoded, rows of the knowledge base.
FILES = ("test_cli.py", "test_config.py", "test_index_universes.py", "test_formats.py", "knowledge")


@pytest.mark.network
@pytest.mark.skipif(
    f"{sys.version_info.major}.{sys.version_info.minor}" == OLDEST,
    reason="all tests run on the oldest Python",
)
def test_options_and_stored_values_are_the_same_on_the_oldest_python(tmp_path: Path) -> None:
    if OLDEST not in by_minor():
        pytest.skip(f"no Python {OLDEST} is here")
    python = tmp_path / "venv" / "bin" / "python"
    made = [
        find_uv_bin(),
        "venv",
        "--quiet",
        "--python",
        by_minor()[OLDEST],
        str(python.parents[1]),
    ]
    subprocess.run(made, check=True)
    packages = (*PROJECT["dependencies"], *TESTS)
    install = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python), *packages]
    subprocess.run(install, check=True)
    done = subprocess.run(
        [
            str(python),
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", f"{QUICK} and not thorough"),
            *(f"tests/{each}" for each in FILES),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
