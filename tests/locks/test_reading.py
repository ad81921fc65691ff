import codecs
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import UsageError
from stackgen.locks.editing import write_lock
from stackgen.locks.reading import (
    admits_python,
    decode_text,
    in_target,
    read_lock,
    suits_python,
)
from stackgen.locks.sources import read_sources
from stackgen.model.packages import LockChange, LockedPackage, LockFile
from tests.locks.samples import TARGET, target, text

_COMPANIONS = {
    "pipenv/Pipfile.lock": "pipenv/Pipfile",
    "poetry1/poetry.lock": "poetry1/pyproject.toml",
    "poetry2/poetry.lock": "poetry2/pyproject.toml",
    "pip-tools/requirements.txt": "pip-tools/requirements.in",
}
_TENSORFLOW = [
    "pipenv/Pipfile.lock",
    "poetry2/poetry.lock",
    "uv/uv.lock",
    "pip-tools/requirements.txt",
    "uv/requirements.txt",
    "uv/pylock.toml",
]


def read(name: str, *, companion: bool = True) -> LockFile:
    beside = text(_COMPANIONS[name]) if companion and name in _COMPANIONS else None
    return read_lock(text(name), path=name, companion=beside)


def pins(lock: LockFile, **where: str) -> dict[str, str]:
    return {p.name: p.version for p in in_target(lock, target(**where))}


@pytest.mark.parametrize("name", _TENSORFLOW)
def test_every_tool_locked_the_same_tensorflow(name: str) -> None:
    found = pins(read(name))
    assert found["tensorflow"] == "2.12.1"
    assert found["numpy"] == "1.24.3"
    assert found["pysocks"] == "1.7.1"  # needed by requests[socks] alone
    assert "colorama" not in found  # needed on Windows alone


@pytest.mark.parametrize("name", ["pipenv/Pipfile.lock", "poetry2/poetry.lock", "uv/uv.lock"])
def test_a_locks_default_packages_are_what_uv_compiles_for_them(name: str) -> None:
    expected_pins = pins(read("uv/requirements.txt"))
    assert pins(read(name)) == expected_pins


@pytest.mark.parametrize("name", ["pipenv/Pipfile.lock", "poetry2/poetry.lock", "uv/uv.lock"])
def test_what_is_needed_for_development_is_left_out(name: str) -> None:
    lock = read(name)
    assert "pytest" not in pins(lock)
    (pytest_,) = (p for p in lock.packages if p.name == "pytest")
    assert pytest_.group == "dev"
    assert not pytest_.direct


@pytest.mark.parametrize(
    "name",
    [
        "pipenv/Pipfile.lock",
        "poetry2/poetry.lock",
        "uv/uv.lock",
        "pip-tools/requirements.txt",
        "uv/requirements.txt",
    ],
)
def test_what_the_user_requested_is_direct(name: str) -> None:
    lock = read(name)
    assert {p.name for p in lock.packages if p.direct} == {"requests", "tensorflow"}
    assert lock.requires_python in ("==3.11.*", "<3.12,>=3.11")


@pytest.mark.parametrize("name", ["pipenv/Pipfile.lock", "poetry2/poetry.lock", "uv/uv.lock"])
def test_requirements_are_as_the_user_wrote_them(name: str) -> None:
    assert set(read(name).requirements) == {"tensorflow==2.12.*", "requests[socks]>=2.31"}


def test_without_its_companion_a_lock_says_no_requirements() -> None:
    lock = read("pipenv/Pipfile.lock", companion=False)
    assert lock.requirements == ()
    assert not any(p.direct for p in lock.packages)
    assert pins(lock) == pins(read("pipenv/Pipfile.lock"))


@pytest.mark.parametrize("name", [*_TENSORFLOW, "poetry1/poetry.lock", "pip/pylock.toml"])
def test_every_package_has_the_hashes_of_its_files(name: str) -> None:
    lock = read(name)
    assert all(p.hashes for p in lock.packages)
    assert all(len(h) == 64 for p in lock.packages for h in p.hashes)


def test_poetry_1_leaves_groups_and_markers_to_be_found_out() -> None:
    lock = read("poetry1/poetry.lock")
    assert set(pins(lock)) == {
        "certifi",
        "charset-normalizer",
        "idna",
        "numpy",
        "pysocks",
        "requests",
        "urllib3",
    }
    assert lock.requirements == ("numpy<1.27,>=1.26", "requests[socks]<3,>=2.31")


def test_poetry_1_without_pyproject_takes_what_nothing_needs_as_direct() -> None:
    found = pins(read("poetry1/poetry.lock", companion=False))
    assert {"numpy", "requests", "pytest"} <= found.keys()
    assert "colorama" not in found


def test_a_universal_lock_differs_by_platform() -> None:
    lock = read("poetry2/poetry.lock")
    linux, windows = pins(lock), pins(lock, platform="win32")
    assert "tensorflow-intel" in windows
    assert "tensorflow-intel" not in linux


# -- written by hand, each as small as the claim ------------------------------------------------

_UV = """
version = 1
requires-python = ">=3.10"
[[package]]
name = "demo"
version = "0.1"
source = { editable = "." }
dependencies = [
    { name = "numpy", version = "1.26.4", marker = "python_full_version < '3.12'" },
    { name = "numpy", version = "2.1.0", marker = "python_full_version >= '3.12'" },
    { name = "forked" },
]
[package.metadata]
requires-dist = [
    { name = "numpy" },
    { name = "forked", git = "https://example.invalid/forked" },
    { name = "plots", marker = "extra == 'plots'" },
]
[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://index.invalid/simple" }
[[package]]
name = "numpy"
version = "2.1.0"
source = { registry = "https://index.invalid/simple" }
[[package]]
name = "forked"
version = "9"
source = { git = "https://example.invalid/forked?rev=1#1" }
dependencies = [{ name = "leaf" }]
[[package]]
name = "leaf"
version = "1"
source = { registry = "https://index.invalid/simple" }
dependencies = [{ name = "leaf" }]
"""


def test_uv_may_lock_two_versions_and_the_target_decides_which() -> None:
    lock = read_lock(_UV, path="uv.lock")
    assert pins(lock) == {"numpy": "1.26.4", "leaf": "1"}
    assert pins(lock, python="3.12.1") == {"numpy": "2.1.0", "leaf": "1"}


def test_what_comes_from_no_index_is_skipped_in_words_and_not_requested() -> None:
    lock = read_lock(_UV, path="uv.lock")
    assert lock.skipped == ("forked: comes from a repository, not from an index",)
    assert lock.requirements == ("numpy",)


def test_a_uv_lock_that_lacks_what_it_needs_is_refused() -> None:
    broken = _UV.replace('name = "leaf"\nversion', 'name = "other"\nversion')
    with pytest.raises(UsageError, match="the lock does not hold it"):
        read_lock(broken, path="uv.lock")


def test_pipfile_entries_from_elsewhere_are_skipped_in_words() -> None:
    lock = {
        "_meta": {"requires": {"python_full_version": "3.9.2"}},
        "default": {
            "Some_Package": {"version": "==1.0.0", "markers": "os_name == 'posix'"},
            "mine": {"path": ".", "editable": True},
            "fork": {"git": "https://example.invalid/fork", "ref": "abc"},
        },
        "docs": {"sphinx": {"version": "==7.0"}},
    }
    requested = '[packages]\nSome_Package = "*"\nmine = {path = ".", editable = true}\n'
    found = read_lock(json.dumps(lock), path="Pipfile.lock", companion=requested)
    assert found.skipped == (
        "mine: comes from a file, not from an index",
        "fork: comes from a repository, not from an index",
    )
    assert [(p.name, p.group, p.direct) for p in found.packages] == [
        ("some-package", "default", True),
        ("sphinx", "docs", False),
    ]
    assert found.requires_python == "==3.9.2"
    assert found.requirements == ("Some_Package",)


_SCRIPT = """
version = 1
revision = 3
requires-python = ">=3.11"

[manifest]
requirements = [
    { name = "numpy", specifier = "<3" },
    { name = "pandas", extras = ["fast"], specifier = "<2.3" },
]

[manifest.dependency-groups]
dev = [{ name = "pytest" }]

[[package]]
name = "numba"
version = "0.61.0"
source = { registry = "https://index.invalid/simple" }

[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://index.invalid/simple" }

[[package]]
name = "pandas"
version = "2.2.3"
source = { registry = "https://index.invalid/simple" }
dependencies = [{ name = "numpy" }]

[package.optional-dependencies]
fast = [{ name = "numba" }]

[[package]]
name = "pytest"
version = "8.0.0"
source = { registry = "https://index.invalid/simple" }
"""


def test_a_script_is_locked_by_uv_without_a_project() -> None:
    lock = read_lock(_SCRIPT, path="job.py.lock")
    assert [(p.name, p.group, p.direct) for p in lock.packages] == [
        ("numba", "default", False),
        ("numpy", "default", True),
        ("pandas", "default", True),
        ("pytest", "dev", False),
    ]
    assert lock.requirements == ("numpy<3", "pandas[fast]<2.3")
    assert lock.skipped == ()


_REQUIREMENTS = """
--index-url https://index.invalid/simple
NumPy==1.26.4 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via -r requirements.in
scipy[all]==1.11.0 ; python_version < "3.12"  # a note
-e ./mine
thing @ https://files.invalid/thing-1.whl
""".format(a="a" * 64, b="b" * 64)


def test_requirements_are_read_with_hashes_markers_and_who_requested_them() -> None:
    lock = read_lock(_REQUIREMENTS, path="requirements.txt")
    numpy, scipy = lock.packages
    assert (numpy.name, numpy.version, numpy.hashes) == ("numpy", "1.26.4", ("a" * 64, "b" * 64))
    assert (numpy.direct, scipy.direct) == (True, False)
    assert (scipy.extras, scipy.marker) == (("all",), 'python_version < "3.12"')
    assert lock.skipped == (
        "line 8: -e ./mine is not from an index",
        "line 9: thing @ https://files.invalid/thing-1.whl is not from an index",
    )
    assert "scipy" not in pins(lock, python="3.12.0")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (".[ci]", ".[ci] is not from an index"),
        (".", ". is not from an index"),
        ("-e.", "-e. is not from an index"),
        ("dist/thing-1-py3-none-any.whl", "dist/thing-1-py3-none-any.whl is not from an index"),
        ("thing-1.tar.gz ; os_name == 'nt'", "thing-1.tar.gz ; os_name == 'nt' is not"),
        ("sub\\folder", "sub\\folder is not from an index"),
        ("thing@https://me:secret@files.invalid/thing.whl", "thing@https://***@files.invalid/"),
        ("git+ssh://git@files.invalid/thing.git", "git+ssh://***@files.invalid/thing.git is not"),
        ("gpg===1.13.1-unknown", "gpg===1.13.1-unknown pins no version of PEP 440"),
    ],
)
def test_what_pip_installs_from_elsewhere_is_left_out_and_said(line: str, shown: str) -> None:
    text = f"scipy==1.11.0\n{line}\n"
    lock = read_lock(text, path="requirements.txt")
    assert [each.name for each in lock.packages] == ["scipy"]
    assert lock.skipped[0].startswith(f"line 2: {shown}")
    assert "secret" not in lock.skipped[0]
    stated = read_sources(text, path="requirements.txt").packages
    assert [each.name for each in stated if not each.elsewhere] == ["scipy"]


def test_settings_of_builds_behind_a_pin_are_kept_where_it_changes() -> None:
    text = "scipy==1.11.0 --config-settings=a=b --global-option=c\n"
    lock = read_lock(text, path="requirements.txt")
    change = LockChange(name="scipy", version="1.12.0")
    assert write_lock(text, lock, [change]) == text.replace("1.11.0", "1.12.0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("numpy>=1.20", "line 2 pins no version: 'numpy>=1.20'"),
        ("numpy", "line 2 pins no version"),
        ("numpy==1.*", "line 2 pins no version"),
        ("numpy==1.26,!=1.27", "line 2 pins no version"),
        ("-r other.txt", "line 2 includes another file"),
        ("-c limits.txt", "line 2 includes another file"),
        ("dear reader, hello", "line 2 is not a requirement"),
        ("numpy==1.26 --hash=sha256:zz", "line 2: the hash 'sha256:zz' is no sha256"),
        (f"numpy==1.26 --hash=md5:{'a' * 32}", "line 2: the hash 'md5:aaaa"),
        ("numpy==1.26 ; python_version < '3.x'", "line 2: the marker compares a version with"),
        ("numpy==1.26 ; 'abc' ~= python_version", "line 2: the marker compares a version with"),
        ("numpy==1.26 ; os_nam == 'nt'", "line 2 is not a requirement"),
        ("numpy==1.26 ; " + "(" * 99_999, "line 2 is not a requirement"),
    ],
)
def test_a_line_that_pins_nothing_is_named(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_lock(f"scipy==1.11.0\n{line}\n", path="requirements.txt")
    assert message in caught.value.why


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("Pipfile.lock", "", "it is empty"),
        ("requirements.txt", " \n\t\n", "it is empty"),
        ("requirements.txt", "# nothing\n", "names none"),
        ("requirements.txt", f"numpy=={'9' * 5000}\n", "has a thousand digits"),
        ("Pipfile.lock", '{"_meta": {', "broken JSON"),
        ("Pipfile.lock", "hello", "not JSON"),
        ("Pipfile.lock", '{"_meta": {}, "default": []}', "default is not a table"),
        ("Pipfile.lock", '{"_meta": {}, "default": {"a": {"version": "*"}}}', "a is not pinned"),
        ("Pipfile.lock", '{"_meta": {}, "default": {"a": {"version": "==x"}}}', "no valid version"),
        ("package-lock.json", '{"lockfileVersion": 3, "packages": {}}', "JavaScript's npm"),
        ("some.json", '{"a": 1}', "not that of a Pipfile.lock"),
        ("poetry.lock", "[[package]\n", "not TOML"),
        ("poetry.lock", "a = 1\n", "not that of a lock file"),
        ("poetry.lock", "a = " + "[" * 99_999, "nested too deeply"),
        ("Pipfile.lock", '{"_meta": ' + "[" * 99_999, "nested too deeply"),
        ("pdm.lock", '[metadata]\nlock_version = "4.5.0"\n', "names none"),
        ("pixi.lock", "version: 6\nenvironments:\n  default: {}\n", "the lock of pixi"),
        ("other.lock", "version: 6\nenvironments:\n  default: {}\n", "the lock of pixi"),
        ("pixi.lock", "version: 6\nenvironments: [\n", "not YAML"),
        ("pixi.lock", "version: 6\nenvironments: " + "[" * 99_999, "nested too deeply"),
        ("pixi.lock", "version: 6\n", "it has no environments"),
        ("Cargo.lock", 'version = 3\n[[package]]\nname = "a"\nchecksum = "1"\n', "Rust"),
        ("pyproject.toml", '[project]\nname = "a"\n', "pyproject.toml, which is no lock"),
        ("Pipfile", '[packages]\nnumpy = "*"\n', "Pipfile, which is no lock"),
        ("environment.yml", "name: x\nchannels:\n  - y\ndependencies:\n  - z\n", "conda"),
        ("conda-lock.yml", "version: 1\npackage: []\n", "the lock of conda-lock"),
        ("explicit.txt", "@EXPLICIT\n", "explicit list of conda"),
        ("yarn.lock", "# yarn lockfile v1\n", "JavaScript"),
        ("page.txt", "<!DOCTYPE html>", "HTML"),
        ("wheel.whl", "PK\x00\x03", "binary"),
        ("run.py", "import os\n", "Python code"),
        ("pylock.toml", 'lock-version = "1.0"\npackages = []\n', "created-by"),
    ],
)
def test_what_is_no_lock_of_ours_is_named(path: str, content: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_lock(content, path=path)
    assert message in caught.value.why
    assert path in caught.value.what
    assert caught.value.exit_code == 2
    assert "Pipfile.lock" in caught.value.fix


@given(st.text(max_size=300), st.sampled_from(["Pipfile.lock", "uv.lock", "x.txt", "p.toml"]))
def test_no_text_at_all_leads_to_a_traceback(content: str, path: str) -> None:
    try:
        lock = read_lock(content, path=path)
    except UsageError:
        return
    assert lock.packages


@given(st.data(), st.sampled_from([*_TENSORFLOW, "poetry1/poetry.lock"]))
def test_no_damage_to_a_real_lock_leads_to_a_traceback(data: st.DataObject, name: str) -> None:
    lines = text(name).splitlines()[:200]
    at = data.draw(st.integers(0, len(lines) - 1))
    retained = data.draw(st.integers(0, len(lines[at])))
    damaged = [*lines[:at], lines[at][:retained], *lines[at + 1 :]]
    try:
        in_target(read_lock("\n".join(damaged), path=name), TARGET)
    except UsageError:
        return


def test_two_versions_of_one_package_are_refused(tmp_path: Path) -> None:
    lock = read_lock("numpy==1.26.4\nnumpy==2.0.0\n", path=str(tmp_path / "requirements.txt"))
    with pytest.raises(UsageError, match=r"holds numpy 1\.26\.4 and 2\.0\.0"):
        in_target(lock, TARGET)


def test_pylock_groups_that_are_not_default_are_left_out() -> None:
    lock = """
lock-version = "1.0"
created-by = "hand"
dependency-groups = ["dev", "main"]
default-groups = ["main"]
"""
    for name, group in (("pytest", "dev"), ("numpy", "main")):
        lock += f"""
[[packages]]
name = "{name}"
version = "1.0"
marker = "'{group}' in dependency_groups and python_version >= '3'"
[[packages.wheels]]
name = "{name}-1.0-py3-none-any.whl"
url = "https://files.invalid/{name}-1.0-py3-none-any.whl"
hashes = {{ sha256 = "aa" }}
"""
    found = read_lock(lock, path="pylock.toml")
    assert pins(found) == {"numpy": "1.0"}
    assert {p.name: p.group for p in found.packages} == {"pytest": "dev", "numpy": "default"}


def two_versions(dependency: str, more: str = "") -> str:
    """Return a lock of Poetry 1 with two versions of numpy, and app, which depends on it."""
    return f"""
[[package]]
name = "app"
version = "1.0"
optional = false
python-versions = ">=3.8"
[package.dependencies]
{dependency}
{more}
[[package]]
name = "numpy"
version = "1.24.4"
optional = false
python-versions = ">=3.8"
[[package]]
name = "numpy"
version = "2.0.0"
optional = false
python-versions = ">=3.9"
[metadata]
lock-version = "2.0"
python-versions = ">=3.8"
content-hash = "x"
"""


_FORKED = """numpy = [
    {version = ">=1.20,<2", markers = "python_version < \\"3.10\\""},
    {version = "^2.0", markers = "python_version >= \\"3.10\\""},
]"""
_ALONE = '[tool.poetry.dependencies]\npython = ">=3.8"\napp = "^1"\n'
_BESIDE = f'{_ALONE}numpy = "*"\n'
_OLD = f'{_ALONE}numpy = "<2"\n'
_PYTHONS = (
    f'{_ALONE}numpy = [{{version = "1.24.4", python = "<3.10"}}, '
    '{version = "^2", python = ">=3.10"}]\n'
)


@pytest.mark.parametrize(
    ("dependency", "project"),
    [
        (_FORKED, _ALONE),
        (_FORKED, _BESIDE),
        (_FORKED, None),
        ('numpy = ">=1.20"', _PYTHONS),
        (_FORKED.replace(">=1.20,<2", ">=1.20,<1.23 || >1.23,<2"), _ALONE),
    ],
)
def test_poetry_1_chooses_among_versions_by_the_markers_of_what_depends_on_them(
    dependency: str, project: str | None
) -> None:
    lock = read_lock(two_versions(dependency), path="poetry.lock", companion=project)
    assert pins(lock, python="3.9.1") == {"app": "1.0", "numpy": "1.24.4"}
    assert pins(lock, python="3.11.1") == {"app": "1.0", "numpy": "2.0.0"}


def test_a_version_of_poetry_1_counts_only_for_the_pythons_that_it_states() -> None:
    lock = read_lock(two_versions('numpy = "*"'), path="poetry.lock", companion=_BESIDE)
    assert pins(lock, python="3.8.1") == {"app": "1.0", "numpy": "1.24.4"}


@pytest.mark.parametrize(
    ("dependency", "project", "message"),
    [('numpy = "*"', _BESIDE, "numpy 1.24.4 and 2.0.0"), (_FORKED, _OLD, "none is sure")],
)
def test_a_lock_of_poetry_1_that_leaves_the_version_open_is_refused(
    dependency: str, project: str, message: str
) -> None:
    lock = read_lock(two_versions(dependency), path="poetry.lock", companion=project)
    with pytest.raises(UsageError, match=message):
        pins(lock, python="3.11.1")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_texts_are_decoded_by_their_byte_order_mark(encoding: str) -> None:
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    assert decode_text(mark + "numpy==1.26.4 # ä".encode(encoding)) == "numpy==1.26.4 # ä"


def test_an_encoding_is_taken_from_a_comment_and_any_other_is_refused() -> None:
    assert "ä" in decode_text("# -*- coding: latin-1 -*-\n# ä\n".encode("latin-1"))
    for content in ("ä".encode("latin-1"), b"# coding: none-such\n"):
        with pytest.raises(ValueError, match="iconv"):
            decode_text(content)


def test_poetrys_constraints_in_extras_are_no_pep_508() -> None:
    text = """
[[package]]
name = "frame"
version = "1.0"
optional = false
python-versions = "*"
files = []

[package.dependencies]
helper = {version = "*", optional = true, markers = "extra == \\"all\\""}

[package.extras]
all = ["helper (<2.0.dev0 || >=2.5.dev0,<3)"]

[[package]]
name = "helper"
version = "2.6"
optional = true
python-versions = "*"
files = []

[metadata]
lock-version = "2.0"
python-versions = "*"
content-hash = "0"
"""
    own = "[tool.poetry.dependencies]\nframe = {version = '*', extras = ['all']}\n"
    found = read_lock(text, path="poetry.lock", companion=own)
    assert {each.name: each.version for each in found.packages} == {"frame": "1.0", "helper": "2.6"}


@pytest.mark.parametrize(
    ("marker", "requires", "admitted"),
    [
        ("", "", ["3.9", "3.11.2", "3.12"]),
        ("", ">=3.10", ["3.11.2", "3.12"]),
        ("", ">=3.11.5", ["3.11.2", "3.12"]),
        ("", "==3.9.2", ["3.9"]),
        ("python_full_version == '3.12.*'", ">=3.11", ["3.12"]),
        ("python_version < '3.10'", "", ["3.9"]),
        ("sys_platform == 'win32' and python_version < '4'", "", ["3.9", "3.11.2", "3.12"]),
        ("python_version == '3.9' and sys_platform == 'linux'", "", ["3.9"]),
        ("python_version < '3.12' and platform_machine == 'arm64'", "", ["3.9", "3.11.2"]),
        ("python_version < '3' and implementation_name == 'pypy'", "", ["3.9", "3.11.2", "3.12"]),
    ],
)
def test_a_lock_whose_packages_are_for_other_pythons_does_not_admit_one(
    marker: str, requires: str, admitted: list[str]
) -> None:
    packages = (LockedPackage(name="numpy", version="1.26.4", marker=marker),)
    lockfile = LockFile(path="p", format="pylock", packages=packages, requires_python=requires)
    assert [p for p in ("3.9", "3.11.2", "3.12") if admits_python(lockfile, p)] == admitted


@pytest.mark.parametrize(
    ("name", "suited"),
    [
        ("poetry2/poetry.lock", ["3.10", "3.11.2"]),
        ("uv/uv.lock", ["3.11.2"]),
        ("uv/pylock.toml", ["3.11.2"]),
        ("pipenv/Pipfile.lock", ["3.10", "3.11.2", "3.14"]),  # it names no files
    ],
)
def test_a_lock_suits_the_pythons_that_its_wheels_are_for(name: str, suited: list[str]) -> None:
    """A range of Pythons alone would admit some that TensorFlow 2.12.1 never had wheels for."""
    lockfile = replace(read(name), requires_python=">=3.10")
    assert all(admits_python(lockfile, each) for each in ("3.10", "3.11.2", "3.14"))
    assert [p for p in ("3.10", "3.11.2", "3.14") if suits_python(lockfile, p)] == suited


@pytest.mark.parametrize(
    ("wheel", "suited"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.whl", True),
        ("a-1-cp39-abi3-manylinux_2_17_x86_64.whl", True),
        ("a-1-cp313-abi3-manylinux_2_17_x86_64.whl", False),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.whl", False),
        ("a-1-cp312-cp312t-manylinux_2_17_x86_64.whl", False),
        ("unreadable.whl", True),
    ],
)
def test_what_a_wheel_is_for_is_read_off_its_name(wheel: str, suited: bool) -> None:
    other = "a-1-cp310-cp310-manylinux_2_17_x86_64.whl"
    packages = (LockedPackage(name="a", version="1", wheels=(other, wheel)),)
    lockfile = LockFile(path="p", format="uv", packages=packages)
    assert suits_python(lockfile, "3.12.1") is suited


def test_what_must_be_built_on_every_python_decides_none() -> None:
    """Many locks name a wheel of Python 2 or 3.6 beside a source distribution."""
    wheels = {
        "a": ("a-1-cp312-cp312-manylinux_2_17_x86_64.whl",),
        "b": ("b-1-py2-none-any.whl", "b-1-cp36-cp36m-manylinux1_x86_64.whl"),
    }
    packages = tuple(
        LockedPackage(name=name, version="1", wheels=own) for name, own in wheels.items()
    )
    lockfile = LockFile(path="p", format="uv", packages=packages, requires_python=">=3.11")
    assert [p for p in ("3.11", "3.12.1", "3.14") if suits_python(lockfile, p)] == ["3.12.1"]
