"""Laws of the space, held against brute force on small random indexes."""

from collections.abc import Iterator
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from scipy.stats import chisquare

from stackgen.resolve import Granularity, newest_first
from tests.spaces import Index, space

NAMES = ("a", "b", "c", "d")
VERSIONS = ("1.0", "1.1", "2.0")
SPECIFIERS = ("", ">=1.1", "<2", "==1.0", "!=1.1")


@st.composite
def indexes(draw: st.DrawFn) -> Index:
    """Draw indexes of up to four packages, cycles and extras included."""
    lines = st.builds(
        lambda name, extra, specifier, marker: f"{name}{extra}{specifier}{marker}",
        st.sampled_from(NAMES),
        st.sampled_from(("", "", "", "[x]")),
        st.sampled_from(SPECIFIERS),
        st.sampled_from(("", "", "; extra == 'x'", "; python_version < '3.8'")),
    )
    return {
        name: {
            version: draw(st.lists(lines, max_size=2))
            for version in draw(st.lists(st.sampled_from(VERSIONS), min_size=1, unique=True))
        }
        for name in NAMES
    }


def brute_force(index: Index, roots: tuple[str, ...]) -> Iterator[frozenset[tuple[str, str]]]:
    """Yield each valid stack: every way to give every package a version or none."""
    options = [(None, *versions) for versions in index.values()]
    seen = set()
    for choice in product(*options):
        versions = {n: v for n, v in zip(index, choice, strict=True) if v is not None}
        needed = _needed(index, versions, roots)
        if needed is not None and needed == set(versions):
            seen.add(frozenset(versions.items()))
    yield from seen


def _needed(index: Index, versions: dict[str, str], roots: tuple[str, ...]) -> set[str] | None:
    """Return the packages that a choice needs, or None where it breaks a requirement."""
    todo = [Requirement(root) for root in roots]
    done: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        version = versions.get(requirement.name)
        if version is None or not SpecifierSet(str(requirement.specifier)).contains(version):
            return None
        for extra in ("", *requirement.extras):
            if (requirement.name, extra) in done:
                continue
            done.add((requirement.name, extra))
            for line in index[requirement.name][version]:
                each = Requirement(line)
                environment = {"python_version": "3.11", "extra": extra}
                if each.marker is None or each.marker.evaluate(environment):
                    todo.append(each)
    return {name for name, _ in done}


@given(indexes(), st.sampled_from(SPECIFIERS), st.sampled_from(SPECIFIERS))
@settings(max_examples=150, deadline=None)
def test_it_holds_exactly_the_valid_stacks(index: Index, one: str, two: str) -> None:
    roots = (f"a{one}", f"b{two}")
    valid = set(brute_force(index, roots))
    found = space(index, *roots)
    listed = [frozenset(stack.versions.items()) for stack in found.stacks()]
    assert found.count == len(listed) == len(valid)
    assert set(listed) == valid
    assert {frozenset(found.unrank(k).versions.items()) for k in range(found.count)} == valid


@given(indexes())
@settings(max_examples=80, deadline=None)
def test_slices_add_up_to_the_count_and_their_newest_completion_exists(index: Index) -> None:
    found = space(index, "a", "b")
    slices = found.slices(["a", "c"])
    assert sum(each.completions for each in slices) == found.count
    for each in slices:
        stack = found.complete(each)
        assert stack is not None
        assert all(stack.versions[name] == version for name, version in each.versions)
        assert not set(each.absent) & set(stack.versions)


@given(indexes())
@settings(max_examples=80, deadline=None)
def test_the_newest_stack_is_the_first_one_listed(index: Index) -> None:
    found = space(index, "a", "b")
    assert found.newest() == next(found.stacks(), None)


def test_samples_are_uniform() -> None:
    index: Index = {"a": {"1.0": ["b"], "2.0": ["b<2"]}, "b": {"1.0": [], "1.1": [], "2.0": []}}
    found = space(index, "a")
    drawn = [tuple(sorted(each.versions.items())) for each in found.sample(seed=1, n=5000)]
    counts = [drawn.count(each) for each in set(drawn)]
    assert len(counts) == found.count == 5
    assert chisquare(counts).pvalue > 0.001


def test_nothing_is_listed_where_nothing_is_valid() -> None:
    found = space({"a": {"1.0": ["b>=2"]}, "b": {"1.0": []}}, "a", "b<2")
    assert found.count == 0
    assert found.newest() is None
    assert list(found.stacks()) == list(found.sample(seed=1, n=3)) == []


def test_a_space_of_astronomic_size_is_counted_and_its_first_stacks_come_at_once() -> None:
    versions: dict[str, list[str]] = {
        f"{major}.{minor}": [] for major in range(10) for minor in range(10)
    }
    index = {"top": {"1.0": [f"p{n}" for n in range(40)]}} | {f"p{n}": versions for n in range(40)}
    found = space(index, "top")
    assert found.count == 100**40
    assert len(list(islice(found.stacks(), 100))) == 100


def test_every_varied_package_moves_early_in_newest_first_order() -> None:
    index: Index = {
        "tf": {"2.3.1": ["np"], "2.3.0": ["np"], "2.2.0": ["np<2"], "2.1.0": ["np<2"]},
        "np": {"2.0.1": [], "2.0.0": [], "1.9.0": [], "1.8.0": []},
    }
    found = space(index, "tf", "np")
    ordered = newest_first(found.slices(["tf", "np"]))
    assert [tuple(v for _, v in each.versions) for each in ordered[:4]] == [
        ("2.3.1", "2.0.1"),
        ("2.3.1", "1.9.0"),
        ("2.2.0", "1.9.0"),
        ("2.3.1", "1.8.0"),
    ]


def test_patch_granularity_keeps_every_version() -> None:
    index: Index = {"tf": {"2.3.1": [], "2.3.0": []}}
    slices = space(index, "tf").slices(["tf"])
    assert len(newest_first(slices)) == 1
    assert len(newest_first(slices, granularity=Granularity.PATCH)) == 2


def test_a_number_outside_of_the_space_is_refused() -> None:
    with pytest.raises(IndexError):
        space({"a": {"1.0": []}}, "a").unrank(1)
