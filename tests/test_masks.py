"""Closures as integers: what is decided when, and what fewer versions mean."""

from hypothesis import given
from hypothesis import strategies as st

from stackgen.resolve.compilation import compile_space
from stackgen.resolve.diagram import Steps
from stackgen.resolve.masks import Masks, compile_masks, decision_order
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import Index, universe
from tests.test_space import VERSIONS, indexes

names = st.sampled_from("abcdef")


def masks(index: Index, *requirements: str) -> Masks:
    return compile_masks(universe(index, parse_requirements(*requirements)))


@given(st.dictionaries(names, st.lists(names, unique=True)), st.lists(names, min_size=1))
def test_dependents_are_decided_before_what_they_depend_on(
    edges: dict[str, list[str]], roots: list[str]
) -> None:
    parts = decision_order(edges, roots)
    place = {name: number for number, part in enumerate(parts) for name in part}
    assert len(place) == sum(map(len, parts))
    assert set(roots) <= set(place)
    for name, local in place.items():
        assert all(local <= place[needed] for needed in edges.get(name, ()))


@given(st.dictionaries(names, st.lists(names, unique=True)), st.lists(names, min_size=1))
def test_just_what_the_roots_reach_is_decided(
    edges: dict[str, list[str]], roots: list[str]
) -> None:
    decided = {name for part in decision_order(edges, roots) for name in part}
    reached = set(roots) | {needed for name in decided for needed in edges.get(name, ())}
    assert decided == reached


@given(st.dictionaries(names, st.lists(names, unique=True)), st.permutations("abcdef"))
def test_the_order_does_not_depend_on_the_order_of_the_edges(
    edges: dict[str, list[str]], order: list[str]
) -> None:
    shuffled = {name: edges[name][::-1] for name in order if name in edges}
    assert decision_order(shuffled, ["a", "b"]) == decision_order(edges, ["a", "b"])


def test_versions_that_need_the_same_are_one_group() -> None:
    index: Index = {
        "a": {"4.0": ["b>=2"], "3.0": ["b>1.5"], "2.0": ["b"], "1.0": []},
        "b": {"2.0": [], "1.0": []},
    }
    found = masks(index, "a")
    a, b = found.ranks["a"], found.ranks["b"]
    assert found.groups[a] == ((((b, 0b01),), 0b0011), (((b, 0b11),), 0b0100), ((), 0b1000))
    assert found.roots == ((a, 0b1111),)


def test_several_requirements_of_one_package_are_one_mask() -> None:
    index: Index = {
        "a": {"1.0": ["b>1", "b<3", "b!=2.5"]},
        "b": {"3.0": [], "2.5": [], "2.0": [], "1.0": []},
    }
    found = compile_masks(universe(index, parse_requirements("a"), pruned=False))
    assert found.groups[found.ranks["a"]][0][0] == ((found.ranks["b"], 0b0100),)


def test_only_packages_of_a_circle_are_cyclic() -> None:
    index: Index = {
        "top": {"1.0": ["a"]},
        "a": {"1.0": ["b"]},
        "b": {"1.0": ["a", "c"]},
        "c": {"1.0": []},
    }
    found = masks(index, "top")
    assert {n for n, rank in found.ranks.items() if found.cyclic >> rank & 1} == {"a", "b"}
    reach = found.reach[found.ranks["a"]]
    assert {n for n, rank in found.ranks.items() if reach >> rank & 1} == {"a", "b", "c"}


@given(indexes(), st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from(VERSIONS))))
def test_to_narrow_before_compiling_is_to_narrow_after(
    index: Index, allowed: dict[str, set[str]]
) -> None:
    found = universe(index, parse_requirements("a", "b[x]"))
    compiled = compile_masks(found)
    bits = {
        compiled.ranks[name]: sum(
            1 << bit for bit, each in enumerate(found.releases[name]) if each.version in versions
        )
        for name, versions in allowed.items()
        if name in compiled.ranks
    }
    diagram = compile_space(compiled.within(bits))
    before = [each.versions for each in Space(found, diagram=diagram).stacks()]
    assert before == [each.versions for each in Space(found).within(allowed).stacks()]


def test_packages_that_cannot_influence_each_other_are_parts_of_their_own() -> None:
    index: Index = {
        "a": {"1.0": ["c"]},
        "b": {"1.0": ["c"]},
        "c": {"1.0": []},
        "d": {"1.0": ["e"]},
        "e": {"1.0": []},
    }
    found = masks(index, "a", "b", "d")
    parts = Steps(found).start()
    assert parts is not None
    named = [[found.packages[rank] for rank, _ in part] for part in parts]
    assert sorted(named) == [["a", "b"], ["d"]]


def test_a_root_without_a_version_leaves_no_state() -> None:
    assert Steps(masks({"a": {"1.0": []}}, "a>1")).start() is None
