"""Roles: one of several packages fills each, the others stay out."""

from dataclasses import replace

import pytest
from hypothesis import given

from stackgen.resolve.choose import pairwise_cover
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Slice
from tests.spaces import Index, space
from tests.test_space import brute_force, indexes

Stacks = set[frozenset[tuple[str, str]]]

MAIN: Index = {
    "tf": {"2.0": ["np"], "1.0": ["np<2"]},
    "tf-cpu": {"2.0": ["np>=2"]},
    "np": {"2.0": [], "1.0": []},
}


def without(stacks: Stacks, name: str) -> Stacks:
    return {each for each in stacks if name not in dict(each)}


@given(indexes())
def test_a_role_holds_the_stacks_of_each_package_without_the_others(index: Index) -> None:
    with_a = without(set(brute_force(index, ("a", "c"))), "b")
    with_b = without(set(brute_force(index, ("b", "c"))), "a")
    found = space(index, "a|b", "c")
    listed = [frozenset(each.versions.items()) for each in found.stacks()]
    assert found.count == len(listed) == len(with_a) + len(with_b)
    assert set(listed) == with_a | with_b


@given(indexes())
def test_two_roles_are_filled_independently(index: Index) -> None:
    valid: Stacks = set()
    for one, other in (("a", "b"), ("b", "a")):
        for two, another in (("c", "d"), ("d", "c")):
            part = set(brute_force(index, (one, two)))
            valid |= without(without(part, other), another)
    found = space(index, "a|b", "c|d")
    assert {frozenset(each.versions.items()) for each in found.stacks()} == valid
    assert found.count == len(valid)


@given(indexes())
def test_slices_over_a_role_add_up_to_the_count(index: Index) -> None:
    found = space(index, "a|b", "c")
    slices = found.slices(["a", "b"])
    assert sum(each.completions for each in slices) == found.count
    assert all(len(each.versions) == len(each.absent) == 1 for each in slices)
    for each in slices:
        assert found.complete(each) == found.of(each).newest()


def test_the_first_alternative_comes_first() -> None:
    found = [each.versions for each in space(MAIN, "tf-cpu|tf").stacks()]
    assert found[0] == {"tf-cpu": "2.0", "np": "2.0"}
    assert {"tf": "2.0", "np": "2.0"} in found


def test_a_specifier_after_the_last_name_holds_for_all_alternatives() -> None:
    assert [each.versions for each in space(MAIN, "tf|tf-cpu>=2", "np<2").stacks()] == [
        {"tf": "2.0", "np": "1.0"}
    ]


def test_an_alternative_that_no_stack_can_hold_leaves_the_others() -> None:
    found = space(MAIN, "tf|tf-cpu", "np<2")
    assert {name for each in found.stacks() for name in each.versions} == {"tf", "np"}


def test_a_release_that_requires_two_alternatives_is_in_no_stack() -> None:
    index: Index = {**MAIN, "tf-cpu": {"2.0": ["tf"], "1.0": []}}
    assert [each.versions for each in space(index, "tf-cpu|tf", "np<2").stacks()] == [
        {"tf-cpu": "1.0", "np": "1.0"},
        {"tf": "2.0", "np": "1.0"},
        {"tf": "1.0", "np": "1.0"},
    ]


def test_roles_that_share_a_package_never_hold_two_of_one_role() -> None:
    index: Index = {name: {"1.0": []} for name in "abc"}
    found = [set(each.versions) for each in space(index, "a|b", "b|c").stacks()]
    assert sorted(map(sorted, found)) == [["a", "c"], ["b"]]


def test_walks_speak_of_packages_and_not_of_roles() -> None:
    found = space(MAIN, "tf|tf-cpu")
    assert set(found.packages) == set(MAIN)
    assert found.versions("tf-cpu") == ("2.0",)
    assert found.versions("tf|tf-cpu") == ()
    part = found.within({"tf": ("1.0",)}, present=("tf",))
    assert [each.versions for each in part.stacks()] == [{"tf": "1.0", "np": "1.0"}]
    assert {each.versions["np"] for each in found.sample(seed=1, n=20)} == {"1.0", "2.0"}


def test_overrides_and_constraints_hold_whichever_way_roles_are_filled() -> None:
    request = replace(parse_requirements("tf|tf-cpu"), constraints=(parse_requirement("np>=2"),))
    found = space(MAIN, request=request)
    assert {each.versions["np"] for each in found.stacks()} == {"2.0"}
    assert found.count == 2


@pytest.mark.parametrize("varied", [["tf", "tf-cpu", "np"], ["np", "tf"]])
def test_a_cover_of_a_role_holds_each_alternative(varied: list[str]) -> None:
    slices = space(MAIN, "tf|tf-cpu").slices(varied)
    covered: set[str] = set()
    each: Slice
    for each in pairwise_cover(slices):
        covered |= set(dict(each.versions))
    assert covered == set(varied)
