"""pdm.lock of every era, locks of conda environments, installed environments, partial pins."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackgen.campaign.installed import read_environment
from stackgen.errors import UsageError
from stackgen.locks.reading import in_target, read_lock
from stackgen.model.packages import LockFile
from tests.locks.samples import target

_HASH = "ab" * 32


def pins(lock: LockFile, **where: str) -> dict[str, str]:
    return {p.name: p.version for p in in_target(lock, target(**where))}


_PDM_PROJECT = """
[project]
name = "demo"
requires-python = ">=3.10"
dependencies = ["pandas>=2", "coverage[toml]"]
"""


def pdm(header: str, *, groups: bool = True, inline: bool = True) -> str:
    entries = []
    for name, version, group, more in (
        (
            "pandas",
            "2.2.0",
            "default",
            'dependencies = ["numpy>=1.26", "tzdata; os_name == \'nt\'"]',
        ),
        ("numpy", "1.26.4", "default", ""),
        ("tzdata", "2024.1", "default", ""),
        ("coverage", "7.4.1", "default", ""),
        ("coverage", "7.4.1", "default", 'extras = ["toml"]\ndependencies = ["tomli"]'),
        ("tomli", "2.0", "default", ""),
        ("pytest", "8.0", "dev", ""),
    ):
        entries.append(f'[[package]]\nname = "{name}"\nversion = "{version}"\n{more}\n')
        if groups:
            entries[-1] += f'groups = ["{group}"]\n'
        if inline:
            entries[-1] += f'files = [{{file = "{name}.whl", hash = "sha256:{_HASH}"}}]\n'
    return f"[metadata]\n{header}\n" + "\n".join(entries)


_FILES = "[metadata.files]\n" + "\n".join(
    f'"{name}" = [{{url = "{name}.whl", hash = "sha256:{_HASH}"}}]'
    for name in ("pandas 2.2.0", "numpy 1.26.4", "coverage 7.4.1", "tomli 2.0", "pytest 8.0")
)


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (pdm('lock_version = "4.5.0"\n[[metadata.targets]]\nrequires_python = ">=3.10"'), 0),
        (pdm('strategy = ["cross_platform"]\nlock_version = "4.4.1"'), 0),
        (pdm('lock_version = "4.3"', groups=False), 1),
        (pdm('lock_version = "4.0"', groups=False, inline=False) + _FILES, 1),
        (pdm('content_hash = "sha256:00"', groups=False, inline=False) + _FILES, 2),
    ],
)
def test_a_pdm_lock_of_any_era_gives_the_same_packages(text: str, notes: int) -> None:
    lock = read_lock(text, path="pdm.lock", companion=_PDM_PROJECT)
    assert pins(lock) == {
        "pandas": "2.2.0",
        "numpy": "1.26.4",
        "coverage": "7.4.1",
        "tomli": "2.0",
    }
    assert "tzdata" in pins(lock, platform="win32")
    assert {p.name for p in lock.packages if p.direct} == {"pandas", "coverage"}
    assert {p.name for p in lock.packages if p.group == "dev"} == {"pytest"}
    assert all(p.hashes == (_HASH,) for p in lock.packages if p.name != "tzdata")
    assert len(lock.notes) == notes
    assert lock.requires_python == ">=3.10"


def test_pdm_states_markers_where_it_inherits_them() -> None:
    header = 'strategy = ["inherit_metadata"]\nlock_version = "4.5.0"'
    text = pdm(header).replace(
        'version = "2024.1"', 'version = "2024.1"\nmarker = "os_name == \'nt\'"'
    )
    lock = read_lock(text, path="pdm.lock")
    assert "tzdata" not in pins(lock)
    assert lock.requirements == ()


def test_a_pdm_lock_says_what_comes_from_no_index() -> None:
    text = pdm('lock_version = "4.5.0"') + '[[package]]\nname = "mine"\npath = "./mine"\n'
    assert read_lock(text, path="pdm.lock").skipped == (
        "mine: comes from a file, not from an index",
    )


_CONDA_LOCK = f"""
version: 1
metadata:
  content_hash:
    linux-64: 00
package:
- name: python
  version: 3.11.4
  manager: conda
  platform: linux-64
- name: blas
  version: '1.10'
  manager: conda
  platform: linux-64
- name: numpy
  version: 1.26.4
  manager: pip
  platform: linux-64
  hash:
    sha256: {_HASH}
  category: main
- name: pytest
  version: '8.0'
  manager: pip
  platform: linux-64
  hash: {{sha256: {_HASH}}}
  category: dev
- name: mine
  version: 0.1
  manager: pip
  platform: linux-64
"""
_PIXI_6 = f"""
version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.invalid/linux-64/python-3.11.4-h1_0.conda
      - conda: https://conda.invalid/linux-64/blas-1.10-h1_0.tar.bz2
      - pypi: https://files.invalid/numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl
      - pypi: ./mine
      win-64:
      - pypi: https://files.invalid/numpy-1.26.4-cp311-cp311-win_amd64.whl
      - pypi: https://files.invalid/colorama-0.4.6-py3-none-any.whl
  test:
    packages:
      linux-64:
      - pypi: https://files.invalid/pytest-8.0-py3-none-any.whl
packages:
- conda: https://conda.invalid/linux-64/python-3.11.4-h1_0.conda
  sha256: 00
- pypi: https://files.invalid/numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl
  name: numpy
  version: 1.26.4
  sha256: {_HASH}
"""
_PIXI_5 = f"""
version: 5
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.invalid/linux-64/python-3.11.4-h1_0.conda
      - conda: https://conda.invalid/linux-64/blas-1.10-h1_0.conda
      - pypi: https://files.invalid/numpy-1.26.4.whl
packages:
- kind: conda
  name: python
  version: 3.11.4
  url: https://conda.invalid/linux-64/python-3.11.4-h1_0.conda
- kind: pypi
  name: numpy
  version: 1.26.4
  url: https://files.invalid/numpy-1.26.4.whl
  sha256: {_HASH}
"""


@pytest.mark.parametrize(
    ("path", "text"),
    [("conda-lock.yml", _CONDA_LOCK), ("pixi.lock", _PIXI_6), ("renamed.lock", _PIXI_5)],
)
def test_of_a_conda_environment_the_packages_of_an_index_are_read(path: str, text: str) -> None:
    lock = read_lock(text, path=path, partial=True)
    assert pins(lock) == {"numpy": "1.26.4"}
    assert [p.hashes for p in lock.packages if p.name == "numpy"] == [(_HASH,)]
    assert lock.conda == (("blas", "1.10"), ("python", "3.11.4"))
    assert lock.requires_python == "==3.11.*"
    with pytest.raises(UsageError, match="cannot read") as caught:
        read_lock(text, path=path)
    assert "conda" in caught.value.why


def test_pixi_platforms_are_markers_and_environments_are_groups() -> None:
    lock = read_lock(_PIXI_6, path="pixi.lock", partial=True)
    assert "colorama" not in pins(lock)
    windows = target(platform="win32")
    assert {p.name: p.group for p in lock.packages}["pytest"] == "test"
    assert dict(windows.markers)["platform_machine"] == "x86_64"  # so that win-64 does not match
    assert lock.skipped == ("./mine: comes from no index",)


def test_a_partly_pinned_file_names_the_lines_that_pin_nothing() -> None:
    text = "numpy==1.26.4\npandas>=2  # any\n\nscipy\n"
    lock = read_lock(text, path="requirements.txt", partial=True)
    assert pins(lock) == {"numpy": "1.26.4"}
    assert lock.unpinned == ((2, "pandas>=2"), (4, "scipy"))
    with pytest.raises(UsageError) as caught:
        read_lock(text, path="requirements.txt")
    assert "line 2 pins no version: 'pandas>=2'" in caught.value.why


def test_what_pipenv_writes_against_the_format_of_pylock_is_read() -> None:
    text = f"""
lock-version = "1.0"
created-by = "pipenv"
[[packages]]
name = "jaraco.classes"
version = "3.4.0"
[[packages.wheels]]
name = "jaraco.classes-3.4.0-py3-none-any.whl"
upload-time = "2024-03-31T07:27:34Z"
url = "https://files.invalid/a.whl"
hashes = {{sha256 = "{_HASH}"}}
"""
    assert pins(read_lock(text, path="pylock.toml")) == {"jaraco-classes": "3.4.0"}
    with pytest.raises(UsageError, match="cannot read"):
        read_lock(text.replace("pipenv", "other"), path="pylock.toml")


def installed(prefix: Path, name: str, version: str, **files: str) -> None:
    info = prefix / "lib/python3.11/site-packages" / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    requires = files.pop("requires", "")
    more = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
    )
    for file, text in files.items():
        (info / file.replace("__", ".")).write_text(text)


def test_an_environment_is_read_as_a_lock(tmp_path: Path) -> None:
    installed(tmp_path, "Tensor.Flow", "2.12.0", requires="setuptools", REQUESTED="")
    installed(tmp_path, "numpy", "1.26.4", requires="pip ; extra == 'x'")
    installed(tmp_path, "setuptools", "69.0")
    installed(tmp_path, "pip", "24.0")
    installed(tmp_path, "mine", "1", direct_url__json='{"url": "file:///mine", "dir_info": {}}')
    installed(tmp_path, "odd", "not-a-version")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    for path in (tmp_path, python):
        lock = read_environment(path)
        assert pins(lock) == {"tensor-flow": "2.12.0", "numpy": "1.26.4", "setuptools": "69.0"}
        assert lock.requirements == ("tensor-flow",)
        assert lock.requires_python == "==3.11.*"
        assert lock.skipped == (
            "mine: comes from a file, not from an index",
            "odd: its metadata state no valid version",
        )


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no packages installed"):
        read_environment(tmp_path)


_BITS = [
    "[",
    "]",
    "{",
    '"',
    "- ",
    ": ",
    "&a ",
    "*a",
    "\n",
    "\\",
    "null",
    "1e999",
    "; x",
    "\x00",
    "",
]


@settings(max_examples=60)
@given(
    st.sampled_from(
        [
            ("pdm.lock", pdm('lock_version = "4.4.1"')),
            ("pdm.lock", pdm('lock_version = "4.0"', groups=False, inline=False) + _FILES),
            ("conda-lock.yml", _CONDA_LOCK),
            ("pixi.lock", _PIXI_5),
            ("pixi.lock", _PIXI_6),
        ]
    ),
    st.floats(0, 1),
    st.integers(0, 60),
    st.sampled_from(_BITS),
)
def test_no_damage_to_these_formats_leads_to_a_traceback(
    lock: tuple[str, str], where: float, length: int, bit: str
) -> None:
    path, text = lock
    at = int(where * len(text))
    try:
        found = read_lock(text[:at] + bit + text[at + length :], path=path, partial=True)
        in_target(found, target())
    except UsageError:
        return
