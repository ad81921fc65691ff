import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.pylock import Pylock

from stackgen.errors import UsageError
from stackgen.locks.fields import parse_toml
from stackgen.locks.reading import in_target, read_lock
from stackgen.locks.writing import write_pylock, write_requirements
from stackgen.model.packages import Artifact, Lock
from tests.locks.samples import TARGET

_NUMPY = Artifact(
    name="numpy",
    version="1.26.4",
    filename="numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    sha256="ab" * 32,
    url="https://files.invalid/numpy-1.26.4-cp311-cp311-manylinux2014_x86_64.whl",
    index="default",
    size=18_000_000,
    uploaded="2024-02-05T23:58:36.123456Z",
)
_GAST = Artifact(
    name="gast",
    version="0.4.0",
    filename="gast-0.4.0.tar.gz",
    sha256="cd" * 32,
    url="https://files.invalid/gast-0.4.0.tar.gz",
    index="default",
)
_LOCK = Lock(artifacts=(_GAST, _NUMPY))
_NO_HASH = Lock(artifacts=(replace(_GAST, sha256=""),))


def test_requirements_carry_pins_and_hashes() -> None:
    assert write_requirements(_LOCK, hashes=True) == (
        f"gast==0.4.0 \\\n    --hash=sha256:{'cd' * 32}\n"
        f"numpy==1.26.4 \\\n    --hash=sha256:{'ab' * 32}\n"
    )
    assert write_requirements(_LOCK, hashes=False) == "gast==0.4.0\nnumpy==1.26.4\n"


@pytest.mark.parametrize("format_", ["requirements", "pylock"])
def test_what_we_write_we_read_back(format_: str) -> None:
    if format_ == "pylock":
        text, path = write_pylock(_LOCK, TARGET), "pylock.toml"
    else:
        text, path = write_requirements(_LOCK, hashes=True), "requirements.txt"
    found = {p.name: (p.version, p.hashes) for p in in_target(read_lock(text, path=path), TARGET)}
    assert found == {a.name: (a.version, (a.sha256,)) for a in _LOCK.artifacts}


def test_packagings_own_reader_takes_the_pylock_and_selects_every_file() -> None:
    lock = Pylock.from_dict(parse_toml(write_pylock(_LOCK, TARGET)))
    numpy, gast = lock.packages[1], lock.packages[0]
    assert numpy.wheels is not None
    assert numpy.wheels[0].filename == _NUMPY.filename
    assert numpy.wheels[0].size == _NUMPY.size
    assert str(numpy.wheels[0].upload_time) == "2024-02-05 23:58:36+00:00"
    assert gast.sdist is not None
    assert str(lock.requires_python) == "==3.11.*"
    assert lock.environments is not None
    assert lock.environments[0].evaluate({**TARGET.environment})


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20))
def test_any_address_survives_the_way_into_toml(odd: str) -> None:
    url = f"https://files.invalid/{odd}"
    lock = Lock(artifacts=(replace(_NUMPY, url=url),))
    (package,) = Pylock.from_dict(parse_toml(write_pylock(lock, TARGET))).packages
    assert package.wheels is not None
    assert package.wheels[0].url == url


@pytest.mark.parametrize("uploaded", [None, "", "yesterday"])
def test_an_upload_time_that_is_none_is_left_out(uploaded: str | None) -> None:
    lock = Lock(artifacts=(replace(_NUMPY, uploaded=uploaded),))
    assert "upload-time" not in write_pylock(lock, TARGET)


def test_a_lock_without_hashes_is_written_only_without_them() -> None:
    assert write_requirements(_NO_HASH, hashes=False) == "gast==0.4.0\n"
    with pytest.raises(UsageError, match=r"gast 0\.4\.0 cannot be written with a hash"):
        write_requirements(_NO_HASH, hashes=True)
    with pytest.raises(UsageError, match="hash"):
        write_pylock(_NO_HASH, TARGET)


@pytest.mark.network
def test_pip_takes_what_we_write_with_hashes_required(tmp_path: Path) -> None:
    (digest,) = _published("idna", "3.7")
    lock = Lock(artifacts=(replace(_NUMPY, name="idna", version="3.7", sha256=digest),))
    file = tmp_path / "requirements.txt"
    file.write_text(write_requirements(lock, hashes=True))
    assert _pip(file).returncode == 0
    file.write_text(write_requirements(lock, hashes=True).replace(digest, "0" * 64))
    assert "HASH" in _pip(file).stderr.upper()  # and so the hash was looked at


def _pip(file: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(file)]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


def _published(name: str, version: str) -> list[str]:
    """Return the SHA-256 of a release's wheels, as the index states them."""
    from pypi_simple import PyPISimple

    with PyPISimple() as index:
        files = index.get_project_page(name).packages
    wheels = [f for f in files if f.version == version and f.filename.endswith(".whl")]
    return [f.digests["sha256"] for f in wheels]
