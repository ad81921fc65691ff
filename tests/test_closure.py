"""What is read at all, and that the order in which it is read does not matter."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stackgen.resolve import Closure, Space, Universe, asked
from stackgen.values import Artifact, Metadata
from tests.spaces import TARGET, Index, artifact, closure
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
    found = Closure(asked(*requirements), TARGET)
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


def test_what_a_possible_release_requires_is_read() -> None:
    index = {**NIGHTLY, "tf": {"2.0": ["np>=2", "board"], "1.0": ["board", "np<2"]}}
    universe = closure(index, "tf").universe()
    assert [each.version for each in universe.releases["nightly"]] == ["3.0", "1.0"]
    assert "more" in universe.releases


@given(indexes(), st.integers(0, 999))
@settings(max_examples=80, deadline=None)
def test_the_universe_does_not_depend_on_the_order_of_answers(index: Index, seed: int) -> None:
    roots = ("a[x]", "b")
    universe = read_in_any_order(index, Random(seed), *roots)
    assert universe == closure(index, *roots).universe()


def test_a_prerelease_that_a_dependency_pins_is_no_candidate() -> None:
    """Otherwise what is a candidate would depend on what is looked at."""
    index: Index = {
        "a": {"2.0": ["b>=1"], "1.0": ["c"]},
        "b": {"2.0rc1": [], "1.0": []},
        "c": {"1.0": ["b==2.0rc1"]},
    }
    universe = closure(index, "a").universe()
    assert [each.version for each in universe.releases["b"]] == ["1.0"]
    pinned = closure(index, "a", "b==2.0rc1").universe()
    assert {stack.versions["a"] for stack in Space(pinned).stacks()} == {"1.0", "2.0"}


def test_nothing_below_a_release_can_let_in_a_prerelease_in_its_place() -> None:
    index: Index = {"a": {"2.0rc1": [], "1.0": ["b"]}, "b": {"1.0": ["a==2.0rc1"], "0.9": []}}
    stacks = Space(closure(index, "a").universe()).stacks()
    assert [each.versions for each in stacks] == [{"a": "1.0", "b": "0.9"}]
