"""METADATA from both ends of a wheel's directory: right, or not at all."""

import io
import zipfile

from hypothesis import given
from hypothesis import strategies as st

from stackgen.index.metadata import read_through

STATED = "demo-1.0.dist-info/METADATA"
CONTENT = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n" * 40


def wheel(*, before: int, after: int, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a wheel with so many members before and behind METADATA in its directory."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for number in range(before):
            archive.writestr(f"demo/{number:05}-{'x' * 60}.py", b"")
        archive.writestr(STATED, CONTENT)
        for number in range(after):
            archive.writestr(f"more/{number:05}-{'x' * 60}.py", b"")
    return target.getvalue()


def read(content: bytes, tail: int) -> tuple[bytes | None, int]:
    """Return the METADATA found, and how many bytes were read for it beyond the tail."""
    spans: list[int] = []

    def fetch(start: int, end: int) -> bytes:
        part = content[start:end]
        spans.append(len(part))
        return part

    found = read_through(content[-tail:], fetch)
    if found is not None:
        assert found[1] == content.index(STATED.encode()) - 30
    return found and found[0], sum(spans)


methods = st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))


@given(st.integers(0, 300), st.integers(0, 300), st.integers(22, 60_000), methods)
def test_what_is_found_is_what_the_wheel_holds(
    before: int, after: int, tail: int, method: int
) -> None:
    content, _ = read(wheel(before=before, after=after, method=method), tail)
    assert content in (CONTENT, None)


def test_at_either_end_of_a_large_directory_it_is_found_by_small_reads() -> None:
    for before, after in ((5_000, 3), (3, 5_000)):
        content, size = read(wheel(before=before, after=after), 1 << 16)
        assert content == CONTENT
        assert size < 20_000


def test_in_the_middle_of_a_large_directory_it_is_not_found() -> None:
    assert read(wheel(before=2000, after=2000), 1 << 16)[0] is None


def test_a_member_whose_bytes_were_changed_is_not_believed() -> None:
    content = wheel(before=0, after=0, method=zipfile.ZIP_STORED)
    assert read(content.replace(b"Name: demo", b"Name: evil", 1), 1 << 16)[0] is None


def test_what_is_no_zip_file_holds_nothing() -> None:
    assert read(b"\0" * 5000, 1 << 16)[0] is None
    assert read(b"", 1 << 16)[0] is None
