"""Requirements files mean what pip makes of them; pip's own parser is the judge."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from stackgen.errors import UsageError
from stackgen.locks.requirement_files import constraints_in, read_requirements_file
from tests.locks.requirement_files import parsed, reader


def test_comments_blank_lines_and_continuations_are_pips() -> None:
    text = """
# a comment \\
numpy>=1.26  # why
sci\\
py[all] \\
    >=1.11,<2 ; python_version \\
    < "3.13"
url-like @ https://files.invalid/a-1-py3-none-any.whl#sha256=00
"""
    assert parsed(text).requirements == (
        "numpy>=1.26",
        'scipy[all]<2,>=1.11; python_version < "3.13"',
        "url-like @ https://files.invalid/a-1-py3-none-any.whl#sha256=00",
    )


def test_hashes_and_settings_of_builds_are_dropped() -> None:
    hashes = f"--hash=sha256:{'a' * 64} --hash sha512:{'B' * 128}"
    text = f'numpy==1.26.4 {hashes}\nscipy -C "a=b" --global-option=x\n'
    assert parsed(text).requirements == ("numpy==1.26.4", "scipy")


def test_a_line_that_stands_twice_counts_once() -> None:
    assert parsed("numpy\nscipy\nnumpy\n").requirements == ("numpy", "scipy")


def test_variables_are_taken_from_the_environment_and_left_where_it_has_none() -> None:
    text = "numpy==${VERSION}\n--index-url https://${USER}:${lower}@index.invalid/${NONE}\n"
    found = parsed(text, environ={"VERSION": "2.0", "USER": "me", "lower": "no", "NONE": ""})
    assert found.requirements == ("numpy==2.0",)
    assert found.index_options.index_url == "https://me:${lower}@index.invalid/${NONE}"


def test_included_files_are_relative_to_the_file_that_includes_them() -> None:
    files = {
        "deep/base.txt": "scipy\n-r more/last.txt\n",
        "deep/more/last.txt": "pandas\n-c ../limits.txt\n",
        "deep/limits.txt": "numpy<2\n",
    }
    found = parsed("-r base.txt\nnumpy\n", path="deep/requirements.txt", files=files)
    assert found.requirements == ("scipy", "pandas", "numpy")
    assert found.constraints == ("numpy<2",)


def test_a_file_may_be_included_twice_but_not_by_itself() -> None:
    twice = {"a.txt": "-r c.txt\n", "b.txt": "-r c.txt\n", "c.txt": "numpy\n"}
    assert parsed("-r a.txt\n-r b.txt\n", files=twice).requirements == ("numpy",)
    loop = {"a.txt": "-r b.txt\n", "b.txt": "\n-c x/../a.txt\n"}
    with pytest.raises(UsageError) as caught:
        parsed("-r a.txt\n", files=loop)
    assert caught.value.what == "cannot read line 2 of b.txt"
    assert "a.txt includes itself: a.txt -> b.txt -> a.txt" in caught.value.why


def test_a_file_from_the_web_includes_what_lies_beside_it() -> None:
    files = {
        "https://files.invalid/x/all.txt": "-r sub/one.txt\n",
        "https://files.invalid/x/sub/one.txt": "numpy\n",
    }
    assert parsed("-r https://files.invalid/x/all.txt\n", files=files).requirements == ("numpy",)


def test_a_file_that_is_not_there_is_named_with_the_line() -> None:
    with pytest.raises(UsageError) as caught:
        parsed("numpy\n-r gone.txt\n")
    assert caught.value.what == "cannot read line 2 of requirements.txt"
    assert "gone.txt cannot be read: No such file or directory" in caught.value.why


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("./w/a_b-1-py3-none-any.whl", "a-b @ file:///home/user/w/a_b-1-py3-none-any.whl"),
        ("../a-1-py3-none-any.whl", "a @ file:///home/a-1-py3-none-any.whl"),
        ("a-1-py3-none-any.whl", "a @ file:///home/user/a-1-py3-none-any.whl"),
        ("/w/a-1-py3-none-any.whl[x, y]", "a[x,y] @ file:///w/a-1-py3-none-any.whl"),
        (
            './a-1-py3-none-any.whl ; python_version < "3.9"',
            'a @ file:///home/user/a-1-py3-none-any.whl ; python_version < "3.9"',
        ),
        ("file:///w/a-1-py3-none-any.whl", "a @ file:///w/a-1-py3-none-any.whl"),
        ("file:w/a-1-py3-none-any.whl", "a @ file:///home/user/w/a-1-py3-none-any.whl"),
        (
            'https://x.invalid/a-1%2Bcpu-py3-none-any.whl; os_name == "nt"',
            'a @ https://x.invalid/a-1%2Bcpu-py3-none-any.whl ; os_name == "nt"',
        ),
        ("b @ ./a-1-py3-none-any.whl", "b @ file:///home/user/a-1-py3-none-any.whl"),
    ],
)
def test_a_wheel_by_its_place_gets_its_name(line: str, becomes: str) -> None:
    assert parsed(f"{line}\n").requirements == (becomes,)
    assert str(Requirement(becomes)) == becomes


def test_a_relative_wheel_is_looked_for_in_the_working_folder_as_pip_does() -> None:
    files = {"sub/wheels.txt": "./a-1-py3-none-any.whl\n"}
    assert parsed("-r sub/wheels.txt\n", files=files).requirements == (
        "a @ file:///home/user/a-1-py3-none-any.whl",
    )
    whole = parsed("./a-1-py3-none-any.whl\n", path="/w/requirements.txt", folder="")
    assert whole.requirements == ("a @ file:///w/a-1-py3-none-any.whl",)
    with pytest.raises(UsageError, match="relative path"):
        parsed("./a-1-py3-none-any.whl\n", folder="")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-e .[dev]", "-e .[dev] is a project to be built"),
        ("--editable=./mine", "-e ./mine is a project to be built"),
        (
            "git+https://me:secret@x.invalid/a.git@v1#egg=a",
            "git+https://***@x.invalid/a.git@v1#egg=a comes from a repository, not from an index",
        ),
        (
            "a @ git+ssh://git@x.invalid/a.git",
            "a: git+ssh://***@x.invalid/a.git comes from a repository, not from an index",
        ),
        ("./a-1.tar.gz", "./a-1.tar.gz is a project or a source archive, and no wheel"),
        ("./mine", "./mine is a project or a source archive, and no wheel"),
        (
            "a @ https://x.invalid/a-1.zip",
            "a: https://x.invalid/a-1.zip is a project or a source archive, and no wheel",
        ),
        ("--no-binary numpy", "--no-binary numpy is not followed: wheels are taken"),
        ("--all-releases numpy", "--all-releases numpy is not followed: see --pre"),
    ],
)
def test_what_no_index_has_is_reported_in_words(line: str, words: str) -> None:
    found = parsed(f"numpy\n{line}\n")
    assert found.requirements == ("numpy",)
    (reported,) = found.skipped
    assert reported.startswith(f"requirements.txt, line 2: {words}")


def test_options_of_the_index_are_kept_in_their_order() -> None:
    files = {"sub/more.txt": "--extra-index-url https://two.invalid\n-f wheels\n--pre\n"}
    text = """
-i https://zero.invalid
--index-url=https://main.invalid/simple
--extra-index-url https://one.invalid --find-links /w
-f https://links.invalid/page.html
--trusted-host one.invalid --prefer-binary --only-binary :all: --require-hashes
--no-binary :none: --only-final numpy
-r sub/more.txt
"""
    options = parsed(text, files=files).index_options
    assert options.index_url == "https://main.invalid/simple"
    assert options.extra_index_urls == ("https://one.invalid", "https://two.invalid")
    assert options.find_links == ("/w", "https://links.invalid/page.html", "sub/wheels")
    assert (options.no_index, options.prereleases) == (False, True)
    assert parsed(text, files=files).skipped == ()
    assert parsed("--no-index\n").index_options.no_index
    assert parsed("--all-releases :all:\n").index_options.prereleases


def test_credentials_stay_out_of_what_is_printed() -> None:
    found = parsed("-i https://me:secret@index.invalid\n")
    assert "secret" not in repr(found)
    with pytest.raises(UsageError) as caught:
        parsed("nonsense here https://me:secret@index.invalid\n")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("numpy==1.26 --hash=sha256:zz", "'sha256:zz' is no sha256"),
        ("numpy==1.26 --hash=zz", "'zz' is of none of sha256"),
        ("numpy ; python_version < '3.x'", "compares a version with '3.x'"),
        ("numpy ; os_nam == 'nt'", "is not a requirement"),
        ("numpy ; " + "(" * 99_999, "is not a requirement"),
        ("--frobnicate", "no such option: --frobnicate"),
        ("--index-url", "requires 1 argument"),
        ("-r 'open", "a quotation mark is never closed"),
        ("numpy=1.2", "'numpy=1.2' is not a requirement"),
        ("numpy: 1.2", "'numpy: 1.2' is not a requirement"),
        ("dear reader, hello", "is not a requirement"),
        ("./a-one-wheel.whl", "a-one-wheel.whl is not the name of a wheel"),
    ],
)
def test_a_line_that_pip_refuses_is_named_by_file_and_number(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed("-r sub/x.txt\n", files={"sub/x.txt": f"numpy\n\n{line}\n"})
    assert caught.value.what == "cannot read line 3 of sub/x.txt"
    assert message in caught.value.why
    assert "pip install --dry-run -r requirements.txt" in caught.value.fix


def test_what_a_constraints_file_includes_is_required_as_in_pip() -> None:
    files = {"limits.txt": "numpy<2\n-r more.txt\n-c other.txt\n"}
    files |= {"more.txt": "scipy\n", "other.txt": "pandas<3\n"}
    found = parsed("-c limits.txt\n", files=files)
    assert found.constraints == ("numpy<2", "pandas<3")
    assert found.requirements == ("scipy",)


def test_a_constraints_file_gives_its_lines() -> None:
    read = reader({"more.txt": "scipy<2\n"})
    found = constraints_in("numpy<${N}\n-c more.txt\n", path="c.txt", read=read, environ={"N": "2"})
    assert found == ("numpy<2", "scipy<2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy[x]<2\n", "a constraint cannot have extras"),
        ("-r more.txt\n", "it requires 'scipy'"),
        ("", "it is empty"),
        ("<html>", "HTML"),
    ],
)
def test_what_is_no_constraint_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        constraints_in(text, path="c.txt", read=reader({"more.txt": "scipy\n"}), environ={})
    assert message in caught.value.why


@given(st.text(max_size=200))
def test_no_text_at_all_leads_to_a_traceback(text: str) -> None:
    try:
        found = parsed(text)
    except UsageError:
        return
    assert all(str(Requirement(line)) == line for line in found.requirements)


_PIP = """
import json, sys
from pip._internal.index.collector import LinkCollector
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.search_scope import SearchScope
from pip._internal.models.selection_prefs import SelectionPreferences
from pip._internal.network.session import PipSession
from pip._internal.req.req_file import parse_requirements
session = PipSession()
scope = SearchScope.create(find_links=[], index_urls=[], no_index=False)
finder = PackageFinder.create(
    link_collector=LinkCollector(session=session, search_scope=scope),
    selection_prefs=SelectionPreferences(allow_yanked=False),
)
found = [
    [each.requirement, each.constraint, each.is_editable]
    for each in parse_requirements(sys.argv[1], session, finder)
]
print(json.dumps({"found": found, "urls": finder.index_urls, "links": finder.find_links}))
"""

_SAMPLE = {
    "requirements.txt": """\
# asked for by hand
--index-url https://index.invalid/simple
--extra-index-url=https://${HOST}/simple
numpy >= 1.26 , <3   # trailing
scipy[all]>=1.11; python_version >= "3.10" and \\
    sys_platform != "win32"
    # an indented comment
-r sub/more.txt
-c limits.txt
-e ./mine
pandas==2.2.0 \\
    --hash=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 \\
    # a comment ends what was joined
tqdm; extra == "x"
Typing_Extensions~=4.0
a.b @ https://files.invalid/a.b-1-py3-none-any.whl ; os_name == "posix"
""",
    "sub/more.txt": "requests[socks] ; python_full_version<'4'\n-r deep.txt\n--find-links wheels\n",
    "sub/deep.txt": "pillow!=10.0,>=9\nsix===1.16.0\n",
    "limits.txt": "numpy<2.3\nurllib3 <3\n",
}


def test_pips_own_parser_reads_the_same(tmp_path: Path) -> None:
    for name, text in _SAMPLE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = tmp_path / "requirements.txt"
    (tmp_path / "sub" / "wheels").mkdir()
    environ = {**os.environ, "HOST": "other.invalid"}
    done = subprocess.run(
        [sys.executable, "-c", _PIP, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    pip = json.loads(done.stdout.splitlines()[-1])
    ours = read_requirements_file(
        _SAMPLE["requirements.txt"],
        path=str(path),
        read=lambda place: Path(place).read_text("utf-8"),
        environ=environ,
    )
    theirs = [(str(Requirement(r)), c) for r, c, editable in pip["found"] if not editable]
    assert set(ours.requirements) == {line for line, limits in theirs if not limits}
    assert set(ours.constraints) == {line for line, limits in theirs if limits}
    assert len(ours.skipped) == sum(editable for _, _, editable in pip["found"])
    options = ours.index_options
    assert [options.index_url, *options.extra_index_urls] == pip["urls"]
    assert list(options.find_links) == pip["links"]
