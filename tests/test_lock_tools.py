"""What is written into a lock is accepted by the lock's own tool, in real environments.

Each tool has a virtualenv of its own in the user's cache folder, made on first use.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs
import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from stackgen.campaign.candidates import read_lock_file
from stackgen.campaign.targets import find_target
from stackgen.commands.lock_changes import lock_changes, refuse_excluded
from stackgen.index import PackageIndex, load_config
from stackgen.locks.editing import write_lock
from stackgen.model.progress import NullProgress
from stackgen.storage.paths import find_paths

pytestmark = [pytest.mark.network, pytest.mark.slow]

_TOOLS = {
    "uv": ("uv",),
    "pipenv": ("pipenv", "virtualenv"),
    "poetry": ("poetry",),
    # Newer ones of these two clash: TESTBED of the lock tools.
    "pdm": ("pdm==2.25.*", "hishel<1", "unearth<0.18"),
    "pip-tools": ("pip-tools", "pip>=25.1"),
}
_OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
_FROM, _TO = "1.26.4", "2.2.6"
_PANDAS = "pandas==2.2.3"
pytestmark.append(
    pytest.mark.skipif(
        not (3, 10) <= sys.version_info[:2] <= (3, 12),
        reason="the NumPy that is locked first has wheels for Python 3.10 to 3.12",
    )
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a tool in the project's folder, after it was installed where need be."""

    def tool(name: str, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(_tool(name) / "bin" / program), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=_ENVIRONMENT, capture_output=True, text=True, check=False
        )

    return tool


_ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"},
    "UV_PYTHON_DOWNLOADS": "never",
    "PIPENV_VENV_IN_PROJECT": "1",
    "PIPENV_IGNORE_VIRTUALENVS": "1",
    "PIPENV_NOSPIN": "1",
    "POETRY_VIRTUALENVS_IN_PROJECT": "true",
    "PDM_CHECK_UPDATE": "0",
}


def _tool(name: str) -> Path:
    folder = Path(platformdirs.user_cache_dir("stackgen")) / "lock-tools" / name
    if not (folder / "bin" / name.replace("pip-tools", "pip-compile")).exists():
        python = str(folder / "bin" / "python")
        for command in (
            ["venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            ["pip", "install", "--quiet", "--python", python, *_TOOLS[name]],
        ):
            subprocess.run([sys.executable, "-m", "uv", *command], check=True)
    return folder


def _pyproject(folder: Path, more: str = "") -> None:
    upper = f"3.{sys.version_info[1] + 1}"
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "demo"\nversion = "0.1"\nrequires-python = ">={_OWN},<{upper}"\n'
        f'dependencies = ["numpy>=1.26,<2.3", "{_PANDAS}"]\n{more}'
    )


def _change(path: Path, wanted: Mapping[str, str]) -> None:
    """Write other versions into a lock, as ``advise --write`` does."""
    with path.open(newline="") as file:
        old = file.read()
    lockfile = read_lock_file(path)
    paths = find_paths(os.environ)
    target = find_target(base="", python=_OWN, platform="", paths=paths, progress=NullProgress())
    with PackageIndex(load_config(environ=os.environ), paths.cache) as index:
        changes = lock_changes(lockfile, wanted, target, index=index, progress=NullProgress())
    refuse_excluded(lockfile, changes)
    with path.open("w", newline="") as file:
        file.write(write_lock(old, lockfile, changes))


def _installed(folder: Path) -> str:
    code = "import numpy, pandas; print(numpy.__version__)"
    done = subprocess.run(
        [str(folder / ".venv/bin/python"), "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _ok(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _pin(path: Path, name: str, version: str) -> None:
    """Lock the older version first, so that there is something to change."""
    locked = {each.name: each.version for each in read_lock_file(path).packages}
    if locked[name] != version:
        _change(path, {name: version})


def _written(path: Path) -> None:
    """Write the newer NumPy into a lock that has the older one."""
    _pin(path, "numpy", _FROM)
    _change(path, {"numpy": _TO})


def test_uv_syncs_a_written_lock_and_would_have_written_the_same(tmp_path: Path, run: Run) -> None:
    _pyproject(tmp_path)
    python = ("--python", sys.executable)
    _ok(run("uv", "uv", "lock", *python, "--upgrade-package", f"numpy=={_FROM}"))
    before = (tmp_path / "uv.lock").read_text()
    _change(tmp_path / "uv.lock", {"numpy": _TO})
    written = (tmp_path / "uv.lock").read_text()
    _ok(run("uv", "uv", "sync", "--locked", "--no-install-project", *python))
    assert _installed(tmp_path) == _TO
    (tmp_path / "uv.lock").write_text(before)
    _ok(run("uv", "uv", "lock", *python, "--upgrade-package", f"numpy=={_TO}"))
    assert (tmp_path / "uv.lock").read_text() == written


def test_poetry_checks_and_installs_a_written_lock(tmp_path: Path, run: Run) -> None:
    source = f'[[tool.poetry.source]]\nname = "own"\nurl = "{PYPI_SIMPLE_ENDPOINT}"\n'
    _pyproject(tmp_path, f'[tool.poetry]\npackage-mode = false\n{source}priority = "primary"\n')
    _ok(run("poetry", "poetry", "env", "use", sys.executable))
    _ok(run("poetry", "poetry", "lock", "-n"))
    _written(tmp_path / "poetry.lock")
    _ok(run("poetry", "poetry", "check", "--lock"))
    _ok(run("poetry", "poetry", "install", "-n", "--no-root"))
    assert _installed(tmp_path) == _TO


def test_pdm_installs_a_written_lock(tmp_path: Path, run: Run) -> None:
    source = f'[[tool.pdm.source]]\nname = "pypi"\nurl = "{PYPI_SIMPLE_ENDPOINT}"\n'
    _pyproject(tmp_path, f"[tool.pdm]\ndistribution = false\n{source}")
    _ok(run("pdm", "pdm", "venv", "create", sys.executable))
    _ok(run("pdm", "pdm", "use", "-f", str(tmp_path / ".venv")))
    _ok(run("pdm", "pdm", "lock"))
    _written(tmp_path / "pdm.lock")
    _ok(run("pdm", "pdm", "lock", "--check"))
    _ok(run("pdm", "pdm", "install", "--check", "--no-self"))
    assert _installed(tmp_path) == _TO


def test_pipenv_verifies_and_deploys_a_written_lock(tmp_path: Path, run: Run) -> None:
    (tmp_path / "Pipfile").write_text(
        f'[[source]]\nurl = "{PYPI_SIMPLE_ENDPOINT.rstrip("/")}"\nverify_ssl = true\n'
        f'name = "pypi"\n\n[packages]\nnumpy = ">=1.26,<2.3"\npandas = "==2.2.3"\n\n'
        f'[requires]\npython_version = "{_OWN}"\n'
    )
    _ok(run("pipenv", "pipenv", "--python", sys.executable, "lock"))
    _written(tmp_path / "Pipfile.lock")
    _ok(run("pipenv", "pipenv", "verify"))
    _ok(run("pipenv", "pipenv", "install", "--deploy"))
    assert _installed(tmp_path) == _TO


@pytest.mark.parametrize("compiler", ["uv", "pip-tools"])
def test_pip_installs_written_requirements_with_their_hashes(
    tmp_path: Path, run: Run, compiler: str
) -> None:
    (tmp_path / "requirements.in").write_text(f"numpy=={_FROM}\n{_PANDAS}\n")
    command = ("-q", "--generate-hashes", "requirements.in", "-o", "requirements.txt")
    program = ("uv", "pip", "compile", "--python", sys.executable)
    _ok(run(compiler, *(program if compiler == "uv" else ("pip-compile",)), *command))
    (tmp_path / "requirements.in").write_text(f"numpy<3\n{_PANDAS}\n")
    _change(tmp_path / "requirements.txt", {"numpy": _TO})
    _ok(run("uv", "uv", "venv", "-q", "--seed", "--python", sys.executable, ".venv"))
    pip = [str(tmp_path / ".venv/bin/python"), "-m", "pip", "install", "--require-hashes"]
    _ok(
        subprocess.run(
            [*pip, "-r", "requirements.txt"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
    )  # fmt: skip
    assert _installed(tmp_path) == _TO


@pytest.mark.parametrize("compiler", ["uv", "pip"])
def test_uv_syncs_a_written_pylock(tmp_path: Path, run: Run, compiler: str) -> None:
    (tmp_path / "requirements.in").write_text(f"numpy=={_FROM}\n{_PANDAS}\n")
    if compiler == "uv":
        made = ("pip", "compile", "-q", "requirements.in", "--python", sys.executable)
        _ok(run("uv", "uv", *made, "--format", "pylock.toml", "-o", "pylock.toml"))
    else:
        command = ("-m", "pip", "lock", "-r", "requirements.in", "-o", "pylock.toml")
        _ok(run("pip-tools", "python", *command))
    _change(tmp_path / "pylock.toml", {"numpy": _TO})
    _ok(run("uv", "uv", "venv", "-q", "--python", sys.executable, ".venv"))
    _ok(run("uv", "uv", "pip", "sync", "--python", ".venv", "pylock.toml"))
    assert _installed(tmp_path) == _TO
