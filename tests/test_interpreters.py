"""Interpreters are found where people keep them, and each gets a virtualenv that works."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stackgen.images.bases import find_folder
from stackgen.images.targets import find_interpreters, probe
from stackgen.images.virtualenvs import VirtualenvBuilder
from stackgen.model.packages import Lock
from stackgen.model.stacks import Stack
from tests.interpreters import by_minor, ends_first
from tests.test_virtualenvs import wheel

LOCAL = by_minor()
SUPPORTED = [f"3.{minor}" for minor in range(7, 15)]
MISSING = [minor for minor in SUPPORTED if minor not in LOCAL]
HERE = ends_first(tuple(minor for minor in SUPPORTED if minor in LOCAL))
MODULES = """
from importlib import import_module
found = []
for name in ["bz2", "ctypes", "decimal", "hashlib", "lzma", "readline", "sqlite3", "ssl", "zlib"]:
    try:
        found.append(import_module(name).__name__)
    except ImportError:
        pass
"""
WORKS = f"""
import aa, json, os, sys
{MODULES}
print(json.dumps({{
    "minor": "%d.%d" % sys.version_info[:2], "inside": sys.prefix != sys.base_prefix,
    "site": aa.__file__.startswith(sys.prefix), "compiled": os.path.exists(aa.__cached__),
    "answer": aa.f(2), "modules": found,
}}))
"""


def an_interpreter(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    shutil.copy2("/bin/true", path)
    return path


def test_interpreters_are_found_on_path_in_pyenv_and_among_uvs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = an_interpreter(tmp_path / "bin" / "python3.8")
    pyenvs = an_interpreter(tmp_path / "pyenv/versions/3.7.16/bin/python3.7")
    uvs = an_interpreter(tmp_path / "uv/cpython-3.14.0-linux/bin/python3.14")
    shim = an_interpreter(tmp_path / "shims" / "python3.12")
    (on_path.parent / "python3.8-config").touch(mode=0o755)
    (on_path.parent / "python3").symlink_to(on_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(on_path.parent), str(shim.parent)]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    found = [path for path in find_interpreters() if path.startswith(str(tmp_path))]
    assert found == [str(uvs), str(on_path), str(pyenvs)]


def test_what_runs_us_is_found_wherever_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, "/nowhere")
    assert probe(sys.executable).reference in find_interpreters()


@pytest.mark.parametrize("minor", [*HERE, *MISSING])
def test_a_virtualenv_works_on_each_supported_python(tmp_path: Path, minor: str) -> None:
    if minor in MISSING:
        pytest.skip(f"no Python {minor} on this machine (found: {', '.join(LOCAL)})")
    base = probe(LOCAL[minor])
    artifact = wheel(tmp_path, "aa", "1.0", "def f(x):\n    return x + 1\n")
    stack = Stack(lock=Lock(artifacts=(artifact,)), facts=base.facts)
    paths = {artifact.sha256: tmp_path / artifact.filename}
    built = VirtualenvBuilder(root=tmp_path / "root").build(stack, base, paths)
    done = subprocess.run(
        [built.python, "-c", WORKS], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stderr == ""
    home = subprocess.run(
        [base.python, "-c", f"{MODULES}\nprint(*found)"], capture_output=True, text=True, check=True
    )
    whole = {"inside": True, "site": True, "compiled": True, "modules": home.stdout.split()}
    assert json.loads(done.stdout) == {"minor": minor, "answer": 3, **whole}


@pytest.mark.parametrize("minor", ends_first(tuple(LOCAL)))
def test_a_folder_to_copy_is_never_the_systems_own(minor: str) -> None:
    folders = [path for path in find_interpreters() if Path(path).name == f"python{minor}"]
    if not [path for path in folders if not path.startswith("/usr/bin/")]:
        pytest.skip(f"Python {minor} is the system's own here")
    found = find_folder(minor)
    assert str(found) in folders
    assert not str(found).startswith("/usr/bin/")
    assert find_folder(probe(str(found)).target.python) == found
