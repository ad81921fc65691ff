"""What a Pipfile asks for, as pipenv reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.errors import UsageError
from stackgen.model.packages import RequirementsFile
from tests.locks import requirement_files
from tests.locks.samples import text as sample

_PIPFILE = """
[[source]]
name = "main"
url = "https://${WHO}:${WORD}@index.invalid/simple"
verify_ssl = true
[[source]]
name = "cpu"
url = "https://cpu.invalid/simple"

[packages]
numpy = "*"
scipy = ">=1.11,<2"
exact = "1.2"
requests = {version = ">=2.31", extras = ["socks", "all"], markers = "python_version < '3.13'"}
windows-only = {version = "*", sys_platform = "== 'win32'", python_version = "< '3.12'"}
torch = {version = "*", index = "cpu"}
mine = {path = ".", editable = true}
fork = {git = "https://x.invalid/fork.git", ref = "main"}
wheel = {file = "https://x.invalid/wheel-1-py3-none-any.whl", os_name = "== 'nt'"}
near = {path = "./near-1-py3-none-any.whl"}

[dev-packages]
pytest = "~=8.0"

[Docs]
sphinx = "*"

[requires]
python_version = "3.11"

[pipenv]
allow_prereleases = true

[scripts]
start = "python run.py"
"""


def read(text: str, *groups: str, path: str = "Pipfile", **environ: str) -> RequirementsFile:
    return requirement_files.parsed(text, path=path, groups=groups, environ=environ)


def test_packages_become_pep_508_lines() -> None:
    assert read(_PIPFILE).requirements == (
        "numpy",
        "scipy<2,>=1.11",
        "exact==1.2",
        'requests[all,socks]>=2.31; python_version < "3.13"',
        'windows-only; sys_platform == "win32" and python_version < "3.12"',
        "torch",
        'wheel @ https://x.invalid/wheel-1-py3-none-any.whl ; os_name == "nt"',
        "near @ file:///home/user/near-1-py3-none-any.whl",
    )


def test_what_is_left_out_or_not_followed_is_reported_in_words() -> None:
    assert read(_PIPFILE).skipped == (
        "torch: the index that it is tied to is not followed",
        "mine: comes from a file, not from an index",
        "fork: comes from a repository, not from an index",
    )


def test_sources_are_index_options() -> None:
    found = read(_PIPFILE, WHO="me", WORD="secret")
    options = found.index_options
    assert options.index_url == "https://me:secret@index.invalid/simple"
    assert options.extra_index_urls == ("https://cpu.invalid/simple",)
    assert options.prereleases
    assert "secret" not in repr(found)


def test_python_is_the_line_that_it_requires() -> None:
    assert read(_PIPFILE).requires_python == "==3.11.*"


def test_development_and_categories_are_groups() -> None:
    assert read(_PIPFILE, "dev", "docs").requirements[-2:] == ("pytest~=8.0", "sphinx")
    assert "pytest~=8.0" not in read(_PIPFILE).requirements
    with pytest.raises(UsageError, match="its groups are: dev, docs"):
        read(_PIPFILE, "test")


def test_a_pipfile_has_no_extras() -> None:
    with pytest.raises(UsageError, match="Pipfile has no extra 'gpu'"):
        requirement_files.parsed(_PIPFILE, path="Pipfile", extras=("gpu",))


def test_a_pipfile_by_another_name_is_known_by_its_content() -> None:
    assert read(_PIPFILE, path="old.pipfile") == read(_PIPFILE)


def test_a_file_that_pipenv_wrote_is_read() -> None:
    found = read(sample("pipenv/Pipfile"), "dev")
    assert found.requirements == ("tensorflow==2.12.*", "requests[socks]>=2.31", "pytest")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[packages\n", "it is not TOML"),
        ("[packages]\nnumpy = 1\n", "numpy is not a table"),
        ("[packages]\nnumpy = '=1'\n", "is not a requirement"),
        ("[packages]\nnumpy = {version = '*', markers = 'blue'}\n", "is not a requirement"),
        ("packages = 3\n", "packages is not a table"),
    ],
)
def test_a_broken_file_says_where(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.what == "cannot read Pipfile"
    assert message in caught.value.why


@given(st.data())
def test_no_damage_to_a_file_leads_to_a_traceback(data: st.DataObject) -> None:
    lines = _PIPFILE.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    retained = data.draw(st.integers(0, len(lines[at])))
    damaged = [*lines[:at], lines[at][:retained] + data.draw(st.text(max_size=5)), *lines[at + 1 :]]
    try:
        read("\n".join(damaged), "dev")
    except UsageError:
        return
