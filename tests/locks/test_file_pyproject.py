"""What a pyproject.toml asks for, by PEP 621, PEP 735, Poetry and uv."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from uv import find_uv_bin

from stackgen.errors import UsageError
from stackgen.model.packages import RequirementsFile
from tests.locks import requirement_files
from tests.locks.samples import target
from tests.locks.samples import text as sample

_PROJECT = """
[project]
name = "My_Project"
version = "1"
requires-python = ">=3.10"
dependencies = ["numpy>=1.26", "scipy ; python_version < '3.13'"]

[project.optional-dependencies]
gpu = ["torch[opt] >=2 ; sys_platform == 'linux'"]
Fast_Math = ["numexpr"]
all = ["my-project[gpu,fast.math]", "tqdm"]
loop = ["my-project[loop2]", "a"]
loop2 = ["My.Project[loop] ; os_name == 'nt'", "b"]
narrow = ["my-project[gpu] ; python_version > '3.9'"]

[dependency-groups]
test = ["pytest", {include-group = "Typing"}]
typing = ["mypy"]
own = ["my-project[fast-math]"]
"""


def read(
    text: str, *, extras: tuple[str, ...] = (), groups: tuple[str, ...] = ()
) -> RequirementsFile:
    return requirement_files.parsed(text, path="pyproject.toml", extras=extras, groups=groups)


def added(text: str, *, extras: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> list[str]:
    """Return what extras and groups add to what is asked for by default."""
    plain = read(text).requirements
    found = read(text, extras=extras, groups=groups).requirements
    assert found[: len(plain)] == plain
    return list(found[len(plain) :])


def test_a_project_requires_its_dependencies() -> None:
    assert read(_PROJECT) == RequirementsFile(
        requirements=("numpy>=1.26", 'scipy; python_version < "3.13"'), requires_python=">=3.10"
    )


def test_extras_are_found_in_any_spelling() -> None:
    assert added(_PROJECT, extras=("fast-math", "GPU", "gpu")) == [
        "numexpr",
        'torch[opt]>=2; sys_platform == "linux"',
    ]


def test_an_extra_may_name_others_of_its_own_project() -> None:
    assert set(added(_PROJECT, extras=("all",))) == {
        "numexpr",
        'torch[opt]>=2; sys_platform == "linux"',
        "tqdm",
    }


def test_extras_that_name_each_other_come_to_an_end() -> None:
    assert added(_PROJECT, extras=("loop",)) == ["b", "a"]


def test_what_an_extra_takes_under_a_condition_keeps_both_conditions() -> None:
    assert added(_PROJECT, extras=("narrow",)) == [
        'torch[opt]>=2; sys_platform == "linux" and python_version > "3.9"'
    ]


def test_groups_include_groups_and_extras_of_the_project() -> None:
    assert added(_PROJECT, groups=("test",)) == ["pytest", "mypy"]
    assert added(_PROJECT, groups=("own",)) == ["numexpr"]


@pytest.mark.parametrize(
    ("chosen", "what", "why"),
    [
        (
            {"extras": ("cuda",)},
            "pyproject.toml has no extra 'cuda'",
            "its extras are: all, fast-math, gpu, loop, loop2, narrow",
        ),
        (
            {"groups": ("dev",)},
            "pyproject.toml has no group 'dev'",
            "its groups are: own, test, typing",
        ),
    ],
)
def test_an_unknown_choice_is_answered_with_the_known_ones(
    chosen: dict[str, tuple[str, ...]], what: str, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(_PROJECT, **chosen)
    assert (caught.value.what, caught.value.why) == (what, why)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[project\n", "it is not TOML"),
        ("[project]\ndependencies = 'numpy'\n", "dependencies is not a list"),
        ("[project]\ndependencies = ['numpy=1']\n", "'numpy=1' is not a requirement"),
        ("[project]\nrequires-python = 'three'\n", "requires-python is no version specifier"),
        (
            "[project]\nname = 'a'\ndependencies = ['a[b]']\n",
            "names an extra that the project lacks",
        ),
        ("project = 1\n", "project is not a table"),
        ("[project]\n[dependency-groups]\na = 'b'\n", "the group a is not a list"),
        (
            "[project]\n[dependency-groups]\na-b = []\nA_B = []\n",
            "Duplicate dependency group names",
        ),
    ],
)
def test_a_broken_file_says_where(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.what == "cannot read pyproject.toml"
    assert message in caught.value.why


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("[{include-group = 'a'}]", "a includes itself"),
        ("[{include-group = 'other'}]", "'other' not found"),
        ("['numpy=1']", "Expected"),
        ("[1]", "Invalid dependency group item: 1"),
    ],
)
def test_a_broken_group_harms_only_those_who_choose_it(group: str, message: str) -> None:
    text = f"[project]\ndependencies = ['numpy']\n[dependency-groups]\na = {group}\n"
    assert read(text).requirements == ("numpy",)
    with pytest.raises(UsageError) as caught:
        read(text, groups=("a",))
    assert message in caught.value.why


def test_groups_need_no_project() -> None:
    text = "[dependency-groups]\ntest = ['pytest']\n"
    assert read(text, groups=("test",)).requirements == ("pytest",)
    with pytest.raises(UsageError, match="requires nothing"):
        read(text)


@pytest.mark.parametrize("text", ["", "[tool.black]\nline-length = 100\n", "[build-system]\n"])
def test_a_file_without_a_project_requires_nothing(text: str) -> None:
    with pytest.raises(UsageError, match=r"it has no \[project\] table"):
        read(text)


def test_dependencies_that_only_a_build_reveals_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError) as caught:
        read("[project]\nname = 'a'\ndynamic = ['version', 'dependencies']\n")
    assert "only a build shows them" in caught.value.why
    assert "uv pip compile pyproject.toml" in caught.value.fix
    optional = "[project]\nname = 'a'\ndynamic = ['optional-dependencies']\ndependencies = ['b']\n"
    assert read(optional).requirements == ("b",)
    with pytest.raises(UsageError, match="dynamic"):
        read(optional, extras=("c",))


_POETRY = """
[tool.poetry.dependencies]
python = "^3.9"
numpy = "^1.26"
rare = {version = "~2.1", optional = true}
mine = {path = "../mine", develop = true}
fork = {git = "https://x.invalid/fork.git"}
wheel = {path = "w/wheel-1-py3-none-any.whl", extras = ["z"], python = "<3.12"}
many = [{version = "1.0", python = "<3.10"}, {version = "2.0", python = ">=3.10"}]
odd = "^1 || ^3"

[tool.poetry.extras]
Most = ["rare"]

[tool.poetry.group.dev.dependencies]
pytest = "*"

[tool.poetry.group.docs]
include-groups = ["dev"]
[tool.poetry.group.docs.dependencies]
sphinx = ">=7"

[tool.poetry.group.round]
include-groups = ["round"]

[tool.poetry.dev-dependencies]
old = "*"
"""


def test_poetrys_own_table_is_read() -> None:
    found = read(_POETRY)
    assert found.requirements == (
        "numpy<2,>=1.26",
        'wheel[z] @ file:///home/user/w/wheel-1-py3-none-any.whl ; python_full_version < "3.12"',
        'many==1.0; python_full_version < "3.10"',
        'many==2.0; python_full_version >= "3.10"',
    )
    assert found.requires_python == "<4,>=3.9"
    assert found.skipped == (
        "mine: comes from a file, not from an index",
        "fork: comes from a repository, not from an index",
        "odd: PEP 508 cannot say what pyproject.toml requires of it",
    )


def test_poetrys_extras_and_groups_are_chosen_by_name() -> None:
    assert added(_POETRY, extras=("most",)) == ["rare<2.2,>=2.1"]
    assert added(_POETRY, groups=("docs",)) == ["sphinx>=7", "pytest"]
    with pytest.raises(UsageError, match="round includes itself: round -> round"):
        read(_POETRY, groups=("round",))
    with pytest.raises(UsageError, match="its groups are: dev, docs, round"):
        read(_POETRY, groups=("test",))


def test_poetry_before_groups_had_one_for_development() -> None:
    text = "[tool.poetry.dependencies]\na = '*'\n[tool.poetry.dev-dependencies]\nb = '^1'\n"
    assert added(text, groups=("dev",)) == ["b<2,>=1"]


def test_poetry_2_states_in_the_standard_table_and_only_adds_where_from() -> None:
    text = """
[project]
name = "a"
dependencies = ["b>=1", "c", "d[x]; os_name == 'posix'"]
[tool.poetry.dependencies]
b = {source = "mirror"}
c = {git = "https://x.invalid/c.git"}
d = {url = "https://x.invalid/d-1-py3-none-any.whl"}
"""
    found = read(text)
    assert found.requirements == (
        "b>=1",
        'd[x] @ https://x.invalid/d-1-py3-none-any.whl ; os_name == "posix"',
    )
    assert found.skipped == ("c: comes from a repository, not from an index",)


def test_poetry_may_state_what_the_standard_table_calls_dynamic() -> None:
    text = "[project]\nname = 'a'\ndynamic = ['dependencies']\n"
    assert read(text + "[tool.poetry.dependencies]\nb = '*'\n").requirements == ("b",)


def test_what_uv_takes_from_elsewhere_is_requested_from_no_index() -> None:
    text = """
[project]
dependencies = ["member", "fork>=1", "torch", "numpy"]
[tool.uv.sources]
member = {workspace = true}
fork = [{git = "https://x.invalid/fork.git", marker = "os_name == 'nt'"}]
torch = {index = "cpu"}
"""
    found = read(text)
    assert found.requirements == ("torch", "numpy")
    assert found.skipped == (
        "member: is another project of the workspace, not from an index",
        "fork: comes from a repository, not from an index",
        "torch: the index that it is tied to is not followed",
    )


@pytest.mark.parametrize("name", ["poetry1/pyproject.toml", "poetry2/pyproject.toml"])
def test_files_that_poetry_wrote_are_read(name: str) -> None:
    found = requirement_files.parsed(sample(name), path=name, groups=("dev",))
    assert "requests[socks]" in " ".join(found.requirements)
    assert found.requirements[-1].startswith("pytest")
    assert found.skipped == ()


@pytest.mark.network
def test_uv_takes_the_same_packages_of_extras_and_groups(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    options = ["--no-deps", "--no-header", "--no-annotate", "--quiet", "--python-version", "3.12"]
    options += ["--python-platform", "linux", "--extra", "all", "--extra", "narrow"]
    done = subprocess.run(
        [find_uv_bin(), "pip", "compile", "pyproject.toml", "--group", "test", *options],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    found = read(_PROJECT, extras=("all", "narrow"), groups=("test",)).requirements
    on = target("3.12.0").environment
    ours = [Requirement(line) for line in found]
    assert {each.name for each in ours if not each.marker or each.marker.evaluate(dict(on))} == {
        Requirement(line).name for line in done.stdout.splitlines()
    }


@given(st.data())
def test_no_damage_to_a_file_leads_to_a_traceback(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from([_PROJECT, _POETRY])).splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    retained = data.draw(st.integers(0, len(lines[at])))
    damaged = [*lines[:at], lines[at][:retained] + data.draw(st.text(max_size=5)), *lines[at + 1 :]]
    try:
        read("\n".join(damaged), extras=("all",), groups=("dev", "test"))
    except UsageError:
        return
