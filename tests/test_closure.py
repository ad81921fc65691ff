"""What is read at all, and that the order in which it is read does not matter."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from stackgen.model.choices import Prereleases
from stackgen.model.packages import Artifact, Metadata
from stackgen.resolve.candidates import Policy
from stackgen.resolve.closure import Closure, Universe
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import TARGET, Index, artifact, closure, space
from tests.test_space import indexes

NIGHTLY: Index = {
    "tf": {"2.0": ["np>=2"], "1.0": ["board", "np<2"]},
    "board": {"1.0": ["nightly"]},
    "nightly": {"3.0": ["np>=2", "more"], "1.0": []},
    "more": {"1.0": []},
    "np": {"2.0": [], "1.0": []},
}


def read_in_any_order(index: Index, generator: Random, *requirements: str) -> Universe:
    """Complete a closure by one answer at a time, drawn from all that are wanted."""
    found = Closure(parse_requirements(*requirements), TARGET)
    while (need := found.need()).pages or need.metadata:
        open_ends: list[str | Artifact] = [*need.pages, *need.metadata]
        wanted = generator.choice(open_ends)
        if isinstance(wanted, str):
            versions = index.get(wanted)
            page = None if versions is None else tuple(artifact(wanted, v) for v in versions)
            found.give_pages({wanted: page})
        else:
            lines = tuple(index[wanted.name][wanted.version])
            found.give_metadata({wanted: Metadata(requires_dist=lines)})
    return found.universe()


def test_what_only_impossible_releases_require_is_not_read() -> None:
    universe = closure(NIGHTLY, "tf").universe()
    assert [each.version for each in universe.releases["nightly"]] == ["1.0"]
    assert "more" not in universe.releases


def test_only_what_some_requirement_admits_is_read() -> None:
    index: Index = {"a": {"1.0": ["b<2"]}, "b": {"3.0": ["c"], "1.0": []}, "c": {"1.0": []}}
    universe = closure(index, "a").universe()
    assert [each.version for each in universe.releases["b"]] == ["1.0"]
    assert "c" not in universe.releases


def test_what_a_possible_release_requires_is_read() -> None:
    index = {**NIGHTLY, "tf": {"2.0": ["np>=2", "board"], "1.0": ["board", "np<2"]}}
    universe = closure(index, "tf").universe()
    assert [each.version for each in universe.releases["nightly"]] == ["3.0", "1.0"]
    assert "more" in universe.releases


@given(indexes(), st.integers(0, 999))
def test_the_universe_does_not_depend_on_the_order_of_answers(index: Index, seed: int) -> None:
    roots = ("a[x]", "b")
    universe = read_in_any_order(index, Random(seed), *roots)
    assert universe == closure(index, *roots).universe()


def test_a_prerelease_that_a_dependency_needs_is_only_for_stacks_that_hold_it() -> None:
    index: Index = {
        "a": {"2.0": ["b>=1"], "1.0": ["c"]},
        "b": {"2.0rc1": [], "1.0": []},
        "c": {"1.0": ["b==2.0rc1"]},
    }
    assert [each.versions for each in space(index, "a").stacks()] == [
        {"a": "2.0", "b": "1.0"},
        {"a": "1.0", "b": "2.0rc1", "c": "1.0"},
    ]


def test_a_requirement_may_need_a_prerelease_of_the_package_that_is_named_first() -> None:
    index: Index = {"a": {"2.0rc1": [], "1.0": []}, "b": {"2.0": ["a>1.0"], "1.0": []}}
    for roots in (("a", "b"), ("b", "a")):
        found = [each.versions for each in space(index, *roots).stacks()]
        assert found == [{"a": "2.0rc1", "b": "2.0"}, {"a": "1.0", "b": "1.0"}]


def test_prereleases_that_no_requirement_needs_are_not_looked_at() -> None:
    index: Index = {"a": {"1.0": ["b"]}, "b": {"2.0rc1": ["c"], "1.0": []}, "c": {"1.0": []}}
    universe = closure(index, "a").universe()
    assert universe.has_more
    assert [each.version for each in universe.releases["b"]] == ["1.0"]
    assert "c" not in universe.releases


@given(indexes())
def test_with_prereleases_there_is_a_stack_wherever_there_can_be_one(index: Index) -> None:
    early: Index = {
        name: {f"{v}rc1" if place % 2 else v: lines for place, (v, lines) in enumerate(of.items())}
        for name, of in index.items()
    }
    allowed = Policy(prereleases=Prereleases.ALLOW)
    found = Space(closure(early, "a", "b", all_prereleases=True).universe())
    every = Space(closure(early, "a", "b", policy=allowed).universe())
    stacks = {tuple(each.versions.items()) for each in found.stacks()}
    all_stacks = {tuple(each.versions.items()) for each in every.stacks()}
    final = {s for s in all_stacks if not any("rc" in version for _, version in s)}
    assert final <= stacks <= all_stacks
    assert bool(stacks) == bool(all_stacks)
