"""Indexes that are compared: the same version of two indexes is two candidates."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.errors import UsageError
from stackgen.index import IndexConfig, PackageIndex, load_config
from stackgen.index.config import location
from stackgen.resolve.candidates import Policy, Selector
from tests.spaces import TARGET
from tests.tiny_index import TinyIndex, make_wheel, serving

BARE = {
    "PIP_CONFIG_FILE": os.devnull,
    "UV_NO_CONFIG": "1",
    "UV_INDEX": "first=https://a.test second=https://b.test/simple",
    "UV_DEFAULT_INDEX": "main=https://main.test",
}
WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.mark.parametrize("text", ["second", "https://b.test/simple/", "new=https://b.test/simple"])
def test_a_configured_index_is_named_by_its_name_or_address(text: str) -> None:
    (found,) = load_config(environ=BARE, compare=[text]).compared
    assert (found.name, found.url) == ("second", "https://b.test/simple")


def test_a_new_index_is_given_by_its_address_with_or_without_a_name() -> None:
    config = load_config(
        environ=BARE, compare=["mine=https://me:pw@c.test/simple", "https://d.test/x"]
    )
    assert [each.name for each in config.compared] == ["mine", "https://d.test/x"]
    assert [each.name for each in config.indexes] == ["main", "first", "second"]
    place = config.location_of("https://c.test/simple/demo/")
    assert place is not None
    assert place.credentials is not None


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="no index third") as caught:
        load_config(environ=BARE, compare=["third"])
    assert "main, first, second" in caught.value.why


def test_two_indexes_of_one_name_could_not_be_distinguished() -> None:
    with pytest.raises(UsageError, match="two indexes are called first"):
        load_config(environ=BARE, compare=["first=https://other.test/x"])


@pytest.fixture
def official() -> Iterator[TinyIndex]:
    with serving() as index:
        yield index


@pytest.fixture
def other() -> Iterator[TinyIndex]:
    with serving() as index:
        yield index


def labels(
    official: TinyIndex, other: TinyIndex, cache: Path, name: str = "demo", *, listed: bool = False
) -> list[tuple[str, str]]:
    """Return label and index of each candidate; `listed`: the other is an index like the first."""
    first, second = location(official.simple, name="main"), location(other.simple, name="other")
    indexes = (second, first) if listed else (first,)
    config = IndexConfig(indexes=indexes, compared=(second,))
    with PackageIndex(config, cache, sleep=lambda _: None) as index:
        files = index.candidates_many([name])[name]
    found = Selector(TARGET, Policy(compared=frozenset({"other"}))).select(files or (), ())
    return [(each.label, getattr(each.found, "index", "")) for each in found]


@pytest.mark.parametrize("listed", [False, True])
def test_the_same_version_of_two_indexes_is_two_candidates(
    official: TinyIndex, other: TinyIndex, tmp_path: Path, listed: bool
) -> None:
    official.add(WHEEL, make_wheel("demo"))
    official.add("demo-2.0-py3-none-any.whl", make_wheel("demo", "2.0"))
    other.add(WHEEL, make_wheel("demo", members={"recompiled.so": b"fast"}))
    assert labels(official, other, tmp_path, listed=listed) == [
        ("2.0", "main"),
        ("1.0", "main"),
        ("1.0@other", "other"),
    ]


def test_the_same_file_in_both_is_one_candidate(
    official: TinyIndex, other: TinyIndex, tmp_path: Path
) -> None:
    official.add(WHEEL, make_wheel("demo"))
    other.add(WHEEL, make_wheel("demo"))
    assert labels(official, other, tmp_path) == [("1.0", "main")]


def test_what_only_the_compared_index_has_comes_from_there_under_its_plain_version(
    official: TinyIndex, other: TinyIndex, tmp_path: Path
) -> None:
    other.add(WHEEL, make_wheel("demo"))
    assert labels(official, other, tmp_path) == [("1.0", "other")]
    assert labels(official, other, tmp_path, "nil") == []


def test_a_version_that_only_the_compared_index_has_is_a_candidate(
    official: TinyIndex, other: TinyIndex, tmp_path: Path
) -> None:
    official.add(WHEEL, make_wheel("demo"))
    other.add("demo-1.0+fast-py3-none-any.whl", make_wheel("demo", "1.0+fast"))
    assert labels(official, other, tmp_path) == [("1.0+fast@other", "other"), ("1.0", "main")]
