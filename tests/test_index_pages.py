"""Names of files, and the compact form in which pages are cached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.index.pages import Page, decode, encode, name_and_version, parse_html
from stackgen.values import Artifact

words = st.text(st.characters(codec="utf-8", exclude_characters="\n\x1e"), min_size=1, max_size=20)
optional = st.none() | words
artifacts = st.builds(
    Artifact,
    name=st.just("demo"),
    version=words,
    filename=words,
    sha256=st.sampled_from(["", "ab" * 32]),
    url=words,
    index=st.just("PyPI"),
    size=st.none() | st.integers(0, 10**12),
    requires_python=optional,
    uploaded=optional,
    yanked=st.none() | st.just("") | words,
)


@given(st.lists(artifacts, max_size=5), st.integers(0, 9))
def test_a_cached_page_reads_back_as_it_was(files: list[Artifact], count: int) -> None:
    announced = {x.url: "+" for x in files[:2]}
    page = Page(artifacts=tuple(files), announced=announced, listed=count, skipped=count)
    assert decode(encode(page), name="demo", index="PyPI") == page
    assert decode(encode(page), name="", index="PyPI") == page


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
    (wheel,) = parse_html(html, url="https://h.test/simple/", name="demo", index="i").artifacts
    assert (wheel.filename, wheel.sha256) == ("demo-1.0-py3-none-any.whl", "")


def test_an_address_cannot_smuggle_in_a_path() -> None:
    html = '<a href="..%2F..%2Fdemo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>'
    page = parse_html(html, url="https://h.test/simple/demo/", name="demo", index="i")
    assert all("/" not in x.filename for x in page.artifacts)


def test_credentials_in_links_are_left_out() -> None:
    html = '<a href="https://me:pw@h.test/demo-1.0-py3-none-any.whl">x</a>'
    (wheel,) = parse_html(html, url="https://h.test/", name="demo", index="i").artifacts
    assert wheel.url == "https://h.test/demo-1.0-py3-none-any.whl"


def test_a_broken_yank_reason_stays_on_one_line() -> None:
    html = '<a href="demo-1.0-py3-none-any.whl" data-yanked="two\nlines">x</a>'
    page = parse_html(html, url="https://h.test/", name="demo", index="i")
    assert decode(encode(page), name="demo", index="i").artifacts[0].yanked == "two lines"
