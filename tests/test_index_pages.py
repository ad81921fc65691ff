"""Names of files, and the compact form in which pages are cached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.index.pages import Page, decode, encode, name_and_version, parse_html
from stackgen.model.files import Files
from stackgen.model.packages import Artifact

words = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20)
names = st.builds("demo-1-{}.whl".format, words) | words
optional = st.none() | words
artifacts = st.builds(
    Artifact,
    name=st.just("demo"),
    version=words,
    filename=names,
    sha256=st.sampled_from(["", "ab" * 32]),
    url=words | st.builds("https://h.test/{}/demo-1-py3-none-any.whl".format, words),
    index=st.just("PyPI"),
    size=st.none() | st.integers(0, 10**12),
    requires_python=optional,
    uploaded=optional,
    yanked=st.none() | st.just("") | words,
)


@given(st.lists(artifacts, max_size=9), st.integers(0, 9), words)
def test_a_cached_page_reads_back_as_it_was(found: list[Artifact], count: int, word: str) -> None:
    announced = [word if row % 2 else "" for row in range(len(found))]
    page = Page(files=Files.of(found), announced=announced, listed=count, skipped=count)
    back = decode(encode(page), index="PyPI")
    assert (tuple(back.files), list(back.announced)) == (tuple(found), announced)
    assert (back.listed, back.skipped) == (count, count)


@given(st.lists(artifacts, max_size=9))
def test_files_are_the_artifacts_that_they_were_made_of(found: list[Artifact]) -> None:
    files = Files.of(found)
    assert list(files) == found
    assert files[1:3] == tuple(found[1:3])
    assert list(Files.joined([files, files])) == [*found, *found]


def test_rows_of_many_lengths_do_not_blow_a_page_up() -> None:
    urls = [f"https://h.test/{row}/{'x' * (99_999 if row == 7 else 9)}" for row in range(500)]
    html = "".join(f'<a href="{url}/demo-{n}-py3-none-any.whl">x</a>' for n, url in enumerate(urls))
    page = parse_html(html, url="https://h.test/", name="demo", index="i")
    content = encode(page)
    assert len(content) < 10 * len(html)
    assert decode(content, index="i").files == page.files


@given(st.binary(max_size=60))
def test_what_is_no_stored_page_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a page"):
        decode(content, index="i")


@pytest.mark.parametrize(
    ("filename", "project", "expected"),
    [
        ("NumPy-1.24.03-cp311-cp311-linux_x86_64.whl", "numpy", ("numpy", "1.24.3")),
        ("a_b-1.0-1-py3-none-any.whl", "a-b", ("a-b", "1.0")),
        ("torch-2.0+cpu-py3-none-any.whl", "torch", ("torch", "2.0+cpu")),
        ("a-b-1.0.post1.tar.gz", "a-b", ("a-b", "1.0.post1")),
        ("demo-1.0-1.zip", "demo", ("demo", "1.0.post1")),
        ("a-b-1.0.tar.gz", "", ("a-b", "1.0")),
        ("other-1.0-py3-none-any.whl", "demo", None),
        ("demo-1.0-x-py3-none-any.whl", "demo", None),
        ("demo-1.0dev-stable.tar.gz", "demo", None),
        ("../demo-1.0-py3-none-any.whl", "demo", None),
        ("demo.tar.gz", "demo", None),
    ],
)
def test_names_and_versions_are_normalised_or_refused(
    filename: str, project: str, expected: tuple[str, str] | None
) -> None:
    assert name_and_version(filename, project) == expected


def test_a_file_name_comes_from_the_address_not_from_the_shortened_text() -> None:
    html = '<a href="files/demo-1.0-py3-none-any.whl?x=1#md5=abc">demo-1.0-py..&gt;</a>'
    (wheel,) = parse_html(html, url="https://h.test/simple/", name="demo", index="i").files
    assert (wheel.filename, wheel.sha256) == ("demo-1.0-py3-none-any.whl", "")


def test_an_address_cannot_smuggle_in_a_path() -> None:
    html = '<a href="..%2F..%2Fdemo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>'
    page = parse_html(html, url="https://h.test/simple/demo/", name="demo", index="i")
    assert all("/" not in x.filename for x in page.files)


def test_credentials_in_links_are_left_out() -> None:
    html = '<a href="https://me:pw@h.test/demo-1.0-py3-none-any.whl">x</a>'
    (wheel,) = parse_html(html, url="https://h.test/", name="demo", index="i").files
    assert wheel.url == "https://h.test/demo-1.0-py3-none-any.whl"


def test_a_broken_yank_reason_stays_on_one_line() -> None:
    html = '<a href="demo-1.0-py3-none-any.whl" data-yanked="two\nlines">x</a>'
    page = parse_html(html, url="https://h.test/", name="demo", index="i")
    assert decode(encode(page), index="i").files[0].yanked == "two lines"
