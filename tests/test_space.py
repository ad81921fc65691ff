"""Laws of the space, held against brute force on small random indexes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from stackgen.model.choices import Granularity
from stackgen.model.packages import Metadata
from stackgen.resolve.candidates import Policy
from stackgen.resolve.choose import newest_first
from stackgen.resolve.closure import Closure
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import TARGET, Index, artifact, closure, space

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
def test_it_holds_exactly_the_valid_stacks(index: Index, one: str, two: str) -> None:
    roots = (f"a{one}", f"b{two}")
    valid = set(brute_force(index, roots))
    found = space(index, *roots)
    listed = [frozenset(stack.versions.items()) for stack in found.stacks()]
    assert found.count == len(listed) == len(valid)
    assert set(listed) == valid
    assert {frozenset(found.unrank(k).versions.items()) for k in range(found.count)} == valid


@given(indexes())
def test_the_order_of_the_requirements_changes_no_stack(index: Index) -> None:
    there, back = space(index, "a[x]", "b", "c"), space(index, "c", "b", "a[x]")
    assert {each.id for each in there.stacks()} == {each.id for each in back.stacks()}


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


Stack = frozenset[tuple[str, str]]
narrowings = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(VERSIONS)))


def listed(found: Space) -> list[Stack]:
    return [frozenset(each.versions.items()) for each in found.stacks()]


@given(indexes())
def test_every_walk_has_the_same_order(index: Index) -> None:
    found = space(index, "a[x]", "b")
    walked = list(found.assignments())
    assert len(set(walked)) == found.count
    assert [found.lock(each) for each in walked] == list(found.stacks())
    assert [found.unrank(place) for place in range(found.count)] == list(found.stacks())


@given(indexes(), narrowings, st.sets(st.sampled_from(NAMES), max_size=2))
def test_a_part_of_a_space_is_what_a_filter_would_leave(
    index: Index, allowed: dict[str, set[str]], present: set[str]
) -> None:
    valid = set(brute_force(index, ("a", "b")))
    part = space(index, "a", "b").within(allowed, present=present)
    left = {
        each
        for each in valid
        if all(version in allowed.get(name, (version,)) for name, version in each)
        and present <= set(dict(each))
    }
    assert set(listed(part)) == left
    assert part.count == len(left)
    assert part.newest() == next(part.stacks(), None)


@given(indexes())
def test_the_versions_of_a_space_are_those_of_its_stacks(index: Index) -> None:
    found = space(index, "a", "b")
    used = {pair for each in found.stacks() for pair in each.versions.items()}
    assert {(name, v) for name in NAMES for v in found.versions(name)} == used


@given(indexes(), st.permutations(NAMES), st.integers(1, 4))
def test_slices_are_the_choices_of_all_stacks_with_their_newest(
    index: Index, names: list[str], number: int
) -> None:
    found = space(index, "a", "b")
    slices = found.slices(names[:number])
    varied = slices[0].varied if slices else ()
    stacks = [dict(each) for each in brute_force(index, ("a", "b"))]
    choices = Counter(tuple(each.get(name, "") for name in varied) for each in stacks)
    assert {
        tuple(dict(each.versions).get(name, "") for name in varied): each.completions
        for each in slices
    } == choices
    for each in slices:
        allowed: Mapping[str, tuple[str, ...]] = {
            **dict.fromkeys(each.absent, ()),
            **{name: (version,) for name, version in each.versions},
        }
        part = found.within(allowed, present=[name for name, _ in each.versions])
        assert found.complete(each) == part.newest()
        assert part.count == each.completions


@given(indexes())
def test_slices_come_newest_first_and_what_is_absent_last(index: Index) -> None:
    slices = space(index, "a", "b").slices(["a", "c"])

    def place(name: str, versions: Mapping[str, str]) -> int:
        return sorted(VERSIONS).index(versions[name]) if name in versions else -1

    rows = [tuple(place(n, dict(each.versions)) for n in each.varied) for each in slices]
    assert rows == sorted(rows, reverse=True)


@given(indexes(), st.sampled_from(SPECIFIERS))
def test_a_constraint_is_an_index_without_the_other_versions(index: Index, limit: str) -> None:
    request = replace(parse_requirements("a", "b[x]"), constraints=(Requirement(f"c{limit}"),))
    retained = {v: index["c"][v] for v in index["c"] if SpecifierSet(limit).contains(v)}
    valid = set(brute_force({**index, "c": retained}, ("a", "b[x]")))
    assert set(listed(space(index, request=request))) == valid


@given(indexes())
def test_an_exclusion_is_an_index_where_no_release_names_it(index: Index) -> None:
    request = replace(parse_requirements("a", "b[x]"), excluded=("c",))
    valid = set(brute_force(_rewritten(index, ""), ("a", "b[x]")))
    assert set(listed(space(index, request=request))) == valid


@given(indexes(), st.sampled_from(("c", "c>=1.1", "c[x]==1.0")))
def test_an_override_is_an_index_where_all_say_the_same(index: Index, override: str) -> None:
    request = replace(parse_requirements("a", "b[x]"), overrides=(Requirement(override),))
    valid = set(brute_force(_rewritten(index, override), ("a", "b[x]")))
    assert set(listed(space(index, request=request))) == valid


def _rewritten(index: Index, override: str) -> Index:
    """Return an index whose lines on c say something else, or are gone."""

    def printed(line: str) -> str:
        marker = line.partition(";")[2]
        return f"{override};{marker}" if "extra" in marker else override

    return {
        name: {
            version: [
                printed(line) if line.startswith("c") else line
                for line in lines
                if override or not line.startswith("c")
            ]
            for version, lines in versions.items()
        }
        for name, versions in index.items()
    }


def test_a_preferred_version_is_taken_where_it_is_open() -> None:
    index: Index = {"a": {"2.0": ["b<2"], "1.0": ["b"]}, "b": {"2.0": [], "1.1": [], "1.0": []}}
    found = space(index, "a")

    def preferring(**preferred: str) -> list[str]:
        lock = found.newest(preferred=preferred)
        return [] if lock is None else sorted(lock.versions.values())

    assert preferring(b="1.0") == ["1.0", "2.0"]
    assert preferring(b="2.0") == ["1.1", "2.0"]
    assert preferring(a="1.0", b="2.0") == ["1.0", "2.0"]


def test_what_no_stack_may_contain_cannot_be_present() -> None:
    found = space({"a": {"1.0": []}}, "a")
    assert found.within({}, present=("z",)).count == 0
    assert found.within({"z": ()}).count == 1


# Indexes that are compared: the same version of both is two candidates, told apart by labels.

FAST = replace(artifact("np", "1.0", "cp311-cp311-manylinux_2_17_x86_64"), index="fast")
COMPARING = Policy(compared=frozenset({"fast"}))
COMPARED: Index = {"tf": {"1.0": ["np[x]"]}, "np": {"1.0": ["six; extra == 'x'"]}, "six": {}}


def compared(*requirements: str) -> Space:
    index = {**COMPARED, "six": {"1.0": list[str]()}}
    request = replace(parse_requirements(*requirements), policy=COMPARING)
    pages = {"np": (artifact("np", "1.0"), artifact("np", "0.9"), FAST)}
    return Space(closure(index, request=request, pages=pages).universe())


def test_the_same_version_of_two_indexes_is_two_stacks() -> None:
    found = compared("tf", "np>=1")
    assert found.count == 2
    assert found.versions("np") == ("1.0", "1.0@fast")
    indexes_used = [a.index for each in found.stacks() for a in each.artifacts if a.name == "np"]
    assert indexes_used == ["here", "fast"]
    assert len({each.id for each in found.stacks()}) == 2


def test_slices_distinguish_compared_candidates() -> None:
    found = compared("tf", "np")
    slices = found.slices(["np"])
    assert [each.versions for each in slices] == [
        (("np", "1.0"),),
        (("np", "1.0@fast"),),
        (("np", "0.9"),),
    ]
    for each in slices:
        (label,) = dict(each.versions).values()
        lock = found.complete(each)
        assert lock is not None
        assert lock == found.newest({"np": (label,)})


def test_an_extra_stays_with_the_candidate_of_its_own_index() -> None:
    found = compared("np[x]")
    part = found.within({"np": ("1.0@fast",)})
    assert [a.index for each in part.stacks() for a in each.artifacts] == ["fast", "here"]
    assert found.count == 3


def test_an_extra_of_one_index_is_never_joined_to_a_release_of_the_other() -> None:
    found = Closure(replace(parse_requirements("six", "np[x]"), policy=COMPARING), TARGET)
    pages = {"np": (artifact("np", "1.0"), FAST), "six": (artifact("six", "1.0"),)}
    while (need := found.need()).pages or need.metadata:
        found.give_pages({name: pages[name] for name in need.pages})
        lines = {"here": ("six>=9", "six; extra == 'x'"), "fast": ("six; extra == 'x'",)}
        found.give_metadata(
            {
                each: Metadata(requires_dist=lines[each.index] if each.name == "np" else ())
                for each in need.metadata
            }
        )
    assert Space(found.universe()).count == 1


@pytest.mark.parametrize("granularity", list(Granularity))
def test_an_order_of_choices_keeps_both_compared_candidates(granularity: Granularity) -> None:
    ordered = newest_first(compared("tf", "np>=1").slices(["np"]), granularity=granularity)
    assert [each.versions for each in ordered] == [(("np", "1.0"),), (("np", "1.0@fast"),)]


@given(indexes())
def test_every_version_is_in_the_order_of_choices_once(index: Index) -> None:
    slices = space(index, "a", "b").slices(["a", "c", "d"])
    ordered = newest_first(slices, granularity=Granularity.PATCH)
    assert set(ordered) == set(slices)
    assert len(ordered) == len(slices)


def test_versions_of_different_packages_are_no_patches_of_each_other() -> None:
    index: Index = {
        "a": {"1.0": []},
        "b": {"2.0": ["c"], "1.0": ["d"]},
        "c": {"1.0.0": []},
        "d": {"1.0.1": []},
    }
    slices = space(index, "a", "b").slices(["a", "c", "d"])
    assert newest_first(slices) == slices
    assert len(slices) == 2
