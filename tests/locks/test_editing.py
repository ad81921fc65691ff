"""A lock file is changed by as few bytes as its format allows."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackgen.errors import UsageError
from stackgen.locks.editing import diff, write_constraints, write_lock
from stackgen.locks.reading import read_lock
from stackgen.model.packages import Artifact, LockChange
from tests.locks.samples import text as sample


def artifact(name: str, version: str, *, sdist: bool = False, letter: str = "c") -> Artifact:
    tail = ".tar.gz" if sdist else "-cp311-cp311-manylinux_2_17_x86_64.whl"
    return Artifact(
        name=name,
        version=version,
        filename=f"{name}-{version}{tail}",
        sha256=letter * 64,
        url=f"https://files.invalid/{name}-{version}{tail}",
        index="default",
        size=123,
        uploaded="2024-02-05T23:58:36.120000Z",
    )


def change(name: str, version: str, *requires: str, **more: object) -> LockChange:
    files = (artifact(name, version), artifact(name, version, sdist=True, letter="d"))
    found = LockChange(
        name=name,
        version=version,
        artifacts=files if version else (),
        chosen=files[0] if version else None,
        requires_dist=requires,
        requires_python=">=3.9",
    )
    return replace(found, **more)  # type: ignore[arg-type]


NUMPY = change("numpy", "1.26.4")


def written(text: str, *changes: LockChange, path: str) -> str:
    return write_lock(text, read_lock(text, path=path, partial=True), changes)


def changed_lines(old: str, new: str) -> list[str]:
    lines = diff(old, new, "lock").splitlines()[2:]
    return [each for each in lines if each[0] in "+-"]


_SAMPLES = [
    "pipenv/Pipfile.lock",
    "poetry1/poetry.lock",
    "poetry2/poetry.lock",
    "uv/uv.lock",
    "uv/pylock.toml",
    "uv/requirements.txt",
    "pip/pylock.toml",
    "pip-tools/requirements.txt",
]


@pytest.mark.parametrize("name", _SAMPLES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_entry_that_changes_is_touched(name: str, newline: str) -> None:
    old = sample(name).replace("\n", newline)
    new = written(old, NUMPY if "poetry1" not in name else change("numpy", "1.26.3"), path=name)
    assert "\n" not in new.replace("\r\n", "") or newline == "\n"
    lines = changed_lines(old, new)
    assert any("1.26." in each for each in lines if each.startswith("+"))
    assert any("c" * 64 in each for each in lines)
    keys = {re.split(r"[\s=:]", each[1:].strip())[0].strip('"') for each in lines}
    files = {"wheels", "files", "sdist", "--hash", "sha256", "hashes", "numpy", "size", "url"}
    files |= {"name", "upload-time", "{", "{file", "]", "[", "[[packages.wheels]]", ""}
    other = keys - files - {"version", "python-versions", "markers", "[packages.wheels.hashes]"}
    assert {each for each in other if not each.startswith("numpy")} <= {"[packages.sdist]"}
    assert new.endswith(newline) == old.endswith(newline)


@pytest.mark.parametrize("name", _SAMPLES)
def test_a_change_and_its_reverse_leave_the_other_entries_as_they_were(name: str) -> None:
    old = sample(name)
    numpy = next(p for p in read_lock(old, path=name).packages if p.name == "numpy")
    there = written(old, change("numpy", "9.9"), path=name)
    back = written(there, change("numpy", numpy.version), path=name)
    pairs = [
        (p.name, p.version) for text in (old, back) for p in read_lock(text, path=name).packages
    ]
    assert pairs[: len(pairs) // 2] == pairs[len(pairs) // 2 :]


_REQUIREMENTS = """\
# pinned by hand, keep me
--extra-index-url https://index.invalid/simple
NumPy==1.26.0 ; python_version < "4"  # why
    # via pandas
pandas == 2.1.0
zzz==1
"""


def test_requirements_without_hashes_keep_spelling_markers_and_comments() -> None:
    new = written(_REQUIREMENTS, NUMPY, path="requirements.txt")
    assert changed_lines(_REQUIREMENTS, new) == [
        '-NumPy==1.26.0 ; python_version < "4"  # why',
        '+NumPy==1.26.4 ; python_version < "4"  # why',
    ]


def test_requirements_gain_and_lose_packages_in_their_order() -> None:
    more = [change("numpy", ""), change("pytz", "2024.1"), change("zzzz", "2")]
    new = written(_REQUIREMENTS, *more, path="requirements.txt")
    assert changed_lines(_REQUIREMENTS, new) == [
        '-NumPy==1.26.0 ; python_version < "4"  # why',
        "-    # via pandas",
        "+pytz==2024.1",
        "+zzzz==2",
    ]


def test_a_file_that_ends_without_a_line_end_still_takes_a_new_pin() -> None:
    assert written("a==1", change("b", "2"), path="requirements.txt") == "a==1\nb==2\n"


@pytest.mark.parametrize(
    "old",
    [
        "numpy==1.0 --hash=sha256:{a} --hash=sha256:{b}\n",
        "numpy==1.0 \\\n    --hash=sha256:{a} \\\n    --hash=sha256:{b}\n    # via x\n",
        "numpy==1.0 \\\n    --hash=sha256:{a}\nother==1 \\\n  --hash=sha256:{b}\n",
    ],
)
def test_hashes_keep_the_layout_of_the_file(old: str) -> None:
    old = old.format(a="a" * 64, b="b" * 64)
    new = written(old, NUMPY, path="requirements.txt")
    expected = old.replace("1.0", "1.26.4").replace("a" * 64, "c" * 64)
    if "other" in old:
        expected = expected.replace("\nother", f" \\\n    --hash=sha256:{'d' * 64}\nother")
    else:
        expected = expected.replace("b" * 64, "d" * 64)
    assert new == expected


_UV = """\
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "demo"
version = "0.1"
source = { virtual = "." }
dependencies = [
    { name = "pandas" },
]

[package.metadata]
requires-dist = [{ name = "pandas" }]

[[package]]
name = "numpy"
version = "1.0"
source = { registry = "https://index.invalid/simple" }
wheels = [
    { url = "https://files.invalid/a.whl", hash = "sha256:aa", upload-time = "2024-01-01T00:00:00Z" },
]

[[package]]
name = "pandas"
version = "2.0"
source = { registry = "https://index.invalid/simple" }
dependencies = [
    { name = "numpy" },
    { name = "pytz" },
]
wheels = [
    { url = "https://files.invalid/b.whl", hash = "sha256:bb", size = 1 },
]

[[package]]
name = "pytz"
version = "1"
source = { registry = "https://index.invalid/simple" }
wheels = [
    { url = "https://files.invalid/c.whl", hash = "sha256:cc", size = 1 },
]
"""  # noqa: E501


def test_a_uv_lock_gains_and_loses_what_the_new_version_requires() -> None:
    pandas = change(
        "pandas", "3.0", "numpy>=1", 'tzdata>=2; sys_platform == "win32"', 'x; extra == "all"'
    )
    new = written(_UV, pandas, change("pytz", ""), change("tzdata", "2024.1"), path="uv.lock")
    lines = changed_lines(_UV, new)
    assert '-    { name = "pytz" },' in lines
    assert '+    { name = "tzdata", marker = "sys_platform == \'win32\'" },' in lines
    assert '+name = "tzdata"' in lines
    assert '-name = "pytz"' in lines
    assert not any("numpy" in each for each in lines)


def test_a_uv_lock_lists_wheels_of_its_own_pythons_as_uv_does() -> None:
    old = replace(artifact("numpy", "1.26.4"), filename="numpy-1.26.4-cp39-cp39-any.whl")
    several = replace(NUMPY, artifacts=(*NUMPY.artifacts, old))
    new = written(_UV, several, path="uv.lock")
    assert (
        changed_lines(_UV, new)[1:]
        == [
            '+version = "1.26.4"',
            '-    { url = "https://files.invalid/a.whl", hash = "sha256:aa", '
            'upload-time = "2024-01-01T00:00:00Z" },',
            f'+    {{ url = "{NUMPY.artifacts[0].url}", hash = "sha256:{"c" * 64}", '
            'upload-time = "2024-02-05T23:58:36.12Z" },',
        ]
        or "sdist = " in new
    )
    assert "cp39" not in new


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([change("pytz", "")], "pandas still requires pytz"),
        ([replace(NUMPY, artifacts=(replace(NUMPY.artifacts[0], sha256=""),))], "states the hash"),
        ([change("demo", "2")], "demo is not of an index"),
    ],
)
def test_a_uv_lock_that_would_be_wrong_is_not_written(changes: list[LockChange], why: str) -> None:
    with pytest.raises(UsageError, match=r"uv\.lock is not changed") as refused:
        written(_UV, *changes, path="uv.lock")
    assert why in refused.value.why
    assert "--constraints" in refused.value.fix


def test_a_package_that_is_locked_twice_is_left_to_its_own_tool() -> None:
    twice = _UV.replace('name = "pytz"\nversion', 'name = "numpy"\nversion')
    with pytest.raises(UsageError) as refused:
        written(twice.replace('    { name = "pytz" },\n', ""), NUMPY, path="uv.lock")
    assert "holds numpy 1 and 1.0 for different environments" in refused.value.why


_POETRY = """\
[[package]]
name = "numpy"
version = "1.0"
description = "d"
optional = false
python-versions = "*"
groups = ["main"]
files = [
    {file = "a.whl", hash = "sha256:aa"},
]

[[package]]
name = "pandas"
version = "2.0"
description = "d"
optional = false
python-versions = "*"
groups = ["main"]
markers = "os_name == 'posix'"
files = [
    {file = "b.whl", hash = "sha256:bb"},
]

[package.dependencies]
numpy = ">=1"

[package.extras]
all = ["x"]

[metadata]
lock-version = "2.1"
python-versions = ">=3.10"
content-hash = "00"
"""


def test_a_poetry_lock_says_what_new_versions_require_in_poetrys_words() -> None:
    pandas = change(
        "pandas",
        "3.0",
        'numpy<3,>=1.22; python_version < "3.12"',
        'numpy>=1.26; python_version >= "3.12"',
        "tz.data[all]>=2",
    )
    new = written(_POETRY, pandas, change("tz-data", "2"), path="poetry.lock")
    assert (
        "[package.dependencies]\n"
        "numpy = [\n"
        '    {version = ">=1.22,<3", markers = "python_version < \\"3.12\\""},\n'
        '    {version = ">=1.26", markers = "python_version >= \\"3.12\\""},\n'
        "]\n"
        '"tz.data" = {version = ">=2", extras = ["all"]}\n'
        "\n[package.extras]\n"
    ) in new
    entry = new[new.index('name = "tz-data"') : new.index("[metadata]")]
    assert 'groups = ["main"]\nmarkers = "os_name == \'posix\'"\n' in entry
    assert new.endswith(_POETRY[_POETRY.index("[metadata]") :])


_PDM = """\
[metadata]
lock_version = "4.5.0"
strategy = ["inherit_metadata"]

[[package]]
name = "pandas"
version = "2.0"
requires_python = ">=3.8"
groups = ["default"]
marker = "python_version >= \\"3.10\\""
dependencies = [
    "tzdata; os_name == \\"nt\\"",
]
files = [
    {file = "b.whl", hash = "sha256:bb"},
]

[[package]]
name = "pandas"
version = "2.0"
extras = ["all"]
groups = ["default"]
marker = "python_version >= \\"3.10\\""
dependencies = [
    "pandas==2.0",
]
files = [
    {file = "b.whl", hash = "sha256:bb"},
]

[[package]]
name = "tzdata"
version = "2024.1"
groups = ["default"]
marker = "os_name == \\"nt\\""
files = [
    {file = "c.whl", hash = "sha256:cc"},
]
"""


def test_a_pdm_lock_changes_every_entry_of_a_package_and_widens_markers() -> None:
    pandas = change("pandas", "3.0", "tzdata>=2", 'more>=1; os_name == "x" and extra == "all"')
    tzdata = change("tzdata", "2024.1", widened=True)
    new = written(_PDM, pandas, tzdata, path="pdm.lock")
    assert '    "tzdata>=2",\n' in new
    assert '    "more>=1; os_name == \\"x\\"",\n    "pandas==3.0",\n' in new
    assert 'marker = "(os_name == \\"nt\\") or (python_version >= \\"3.10\\")"' in new
    assert new.count('version = "3.0"') == 2


def test_a_pipfile_lock_gains_and_loses_packages() -> None:
    old = sample("pipenv/Pipfile.lock")
    last = change("zzz", "1")
    new = written(old, NUMPY, change("absl-py", ""), last, change("aaa", "2"), path="Pipfile.lock")
    found = {p.name: p.version for p in read_lock(new, path="Pipfile.lock").packages}
    assert (found["aaa"], found["zzz"], found["numpy"]) == ("2", "1", "1.26.4")
    assert "absl-py" not in found
    assert new.startswith(old[: old.index('"default"')])


def test_a_pipfile_lock_without_the_section_of_a_new_package_is_refused() -> None:
    old = sample("pipenv/Pipfile.lock").replace('"default"', '"Default"')
    with pytest.raises(UsageError, match="is not changed") as refused:
        written(old, change("aaa", "2"), path="Pipfile.lock")
    assert "no section default" in str(refused.value)


@pytest.mark.parametrize("format_", ["conda-lock", "pixi", "environment"])
def test_what_its_own_tool_must_write_is_refused(format_: str) -> None:
    lock = replace(read_lock("a==1", path="requirements.txt"), format=format_)
    with pytest.raises(UsageError, match="is not changed"):
        write_lock("a==1", lock, [NUMPY])


def test_constraints_carry_their_evidence_as_comments() -> None:
    text = write_constraints(
        [change("scipy", "1.13"), NUMPY, change("old", "")],
        evidence={"numpy": ["1.4 times as fast (1.3 to 1.5)"]},
        head=["Written by stackgen", ""],
    )
    assert text == (
        "# Written by stackgen\n#\n"
        "# 1.4 times as fast (1.3 to 1.5)\nnumpy==1.26.4\n"
        "# old is not needed any more\nscipy==1.13\n"
    )


@settings(max_examples=25)
@given(st.data(), st.sampled_from(_SAMPLES))
def test_no_damaged_lock_is_changed_in_more_than_the_entry(data: st.DataObject, name: str) -> None:
    lines = sample(name).splitlines()[:400]
    at = data.draw(st.integers(0, len(lines) - 1))
    kept = data.draw(st.integers(0, len(lines[at])))
    damaged = "\n".join([*lines[:at], lines[at][:kept], *lines[at + 1 :]])
    try:
        lock = read_lock(damaged, path=name)
        new = write_lock(damaged, lock, [change("numpy", "9.9")])
    except UsageError:
        return
    found = read_lock(new, path=name).packages
    others = [[p for p in packages if p.name != "numpy"] for packages in (lock.packages, found)]
    assert [(p.name, p.version, p.hashes) for p in others[0]] == [
        (p.name, p.version, p.hashes) for p in others[1]
    ]


@pytest.mark.parametrize(("requires", "refused"), [(">=3.11", False), (">=3.12", True)])
def test_a_release_that_a_python_of_the_lock_is_too_old_for_is_not_written(
    requires: str, refused: bool
) -> None:
    newer = change("numpy", "1.26.4", requires_python=requires)
    text = sample("uv/uv.lock")
    if refused:
        with pytest.raises(UsageError) as caught:
            written(text, newer, path="uv.lock")
        assert caught.value.why == ("it is for Python ==3.11.*, and numpy 1.26.4 requires >=3.12")
    else:
        written(text, newer, path="uv.lock")
