"""Spaces that are too wide are cut: valid stacks alone, the newest among them, honestly fewer."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.resolve.compilation import compile_space
from stackgen.resolve.diagram import TooWideError, compile_diagram, newest_stack
from stackgen.resolve.masks import compile_masks
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import Index, universe
from tests.test_space import indexes

limits = st.integers(1, 6)

WIDE: Index = {
    "a": {"3.0": ["b", "c"], "2.0": ["b<3", "c<3"], "1.0": ["b<2", "c"]},
    "b": {"4.0": ["c<2"], "3.0": ["c==2.0"], "2.0": ["c"], "1.0": ["c>2"]},
    "c": {"4.0": [], "3.0": [], "2.0": [], "1.0": []},
}


def cut(index: Index, *requirements: str, limit: int) -> Space:
    found = universe(index, parse_requirements(*requirements))
    return Space(found, diagram=compile_space(compile_masks(found), limit=limit))


def whole(index: Index, *requirements: str) -> Space:
    return cut(index, *requirements, limit=10**6)


def stacks(space: Space) -> list[frozenset[tuple[str, str]]]:
    return [frozenset(each.versions.items()) for each in space.stacks()]


@given(indexes(), limits)
def test_a_cut_space_holds_valid_stacks_alone(index: Index, limit: int) -> None:
    part, every = cut(index, "a", "b", limit=limit), whole(index, "a", "b")
    assert set(stacks(part)) <= set(stacks(every))
    assert len(stacks(part)) == part.count <= every.count
    assert every.exact


@given(indexes(), limits)
def test_a_cut_space_is_empty_exactly_where_the_space_is(index: Index, limit: int) -> None:
    part, every = cut(index, "a", "b", limit=limit), whole(index, "a", "b")
    assert bool(part.count) == bool(every.count)
    assert part.newest() == every.newest()


@given(indexes(), limits)
def test_a_space_is_exact_or_says_that_it_is_not(index: Index, limit: int) -> None:
    part, every = cut(index, "a", "b", limit=limit), whole(index, "a", "b")
    if part.exact:
        assert part.count == every.count
    else:
        assert part.version_limit > 0
        with pytest.raises(TooWideError):
            compile_diagram(compile_masks(every.universe), limit=limit)


@given(indexes())
def test_the_search_finds_the_first_stack_of_the_list(index: Index) -> None:
    every = whole(index, "a[x]", "b")
    found = newest_stack(compile_masks(every.universe))
    first = next(every.assignments(), None)
    if found is None:
        assert first is None
    else:
        assert first is not None
        assert dict(found) == {rank: bit for rank, bit in enumerate(first) if bit >= 0}


def test_a_space_that_is_cut_keeps_each_version_of_what_the_user_requested() -> None:
    part, every = cut(WIDE, "a", limit=7), whole(WIDE, "a")
    assert not part.exact
    assert part.count < every.count
    assert part.versions("a") == every.versions("a") == ("3.0", "2.0", "1.0")


def test_the_looser_the_limit_the_more_is_kept() -> None:
    def counts() -> Iterator[int]:
        for limit in range(1, 30):
            yield cut(WIDE, "a", limit=limit).count

    found = list(counts())
    assert found == sorted(found)
    assert found[-1] == whole(WIDE, "a").count


@pytest.mark.timeout(20)
def test_versions_newer_than_those_of_the_newest_stack_do_not_hold_the_cut_up() -> None:
    index: Index = {
        "a": {"2.0": ["b<2", "c"], "1.0": ["b", "c"]},
        "b": {"3.0": ["c<2"], "2.0": ["c<3"], "1.0": []},
        "c": {"3.0": [], "2.0": [], "1.0": []},
    }
    part = cut(index, "a", limit=3)
    assert not part.exact
    assert part.newest() == whole(index, "a").newest()
