"""Why nothing resolves: the conflict is one, it is smallest, and what is proposed helps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stackgen.model.choices import Prereleases
from stackgen.resolve.candidates import Policy
from stackgen.resolve.closure import Closure, Need, Universe
from stackgen.resolve.dependencies import Dependency, parse_requirement
from stackgen.resolve.explain import (
    Core,
    conflict,
    conflict_core,
    nothing_fits,
    relaxations,
    smallest,
)
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import TARGET, Index, artifact, closure, space, universe
from tests.test_space import SPECIFIERS, indexes


def unpruned(index: Index, *requirements: str, request: Requirements | None = None) -> Universe:
    return universe(index, request or parse_requirements(*requirements), pruned=False)


def only(found: Universe, roots: Collection[str], edges: Collection[tuple[str, str]]) -> Universe:
    """Return a closure in which just these facts hold."""
    return replace(
        found,
        roots=tuple(each for each in found.roots if each.package in roots),
        needs={
            package: tuple(
                tuple(each for each in needs if (package, each.package) in edges)
                for needs in per_release
            )
            for package, per_release in found.needs.items()
        },
    )


def smaller(core: Core) -> list[Core]:
    """Return the conflict without each of its facts in turn."""
    by_root = [Core(tuple(r for r in core.roots if r != each), core.edges) for each in core.roots]
    by_edge = [Core(core.roots, tuple(e for e in core.edges if e != each)) for each in core.edges]
    return by_root + by_edge


conflicting = st.tuples(indexes(), st.sampled_from(SPECIFIERS), st.sampled_from(SPECIFIERS))


@given(conflicting)
@settings(max_examples=3 * settings().max_examples)
def test_a_conflict_is_one_and_none_without_any_of_its_facts(drawn: tuple[Index, str, str]) -> None:
    index, one, two = drawn
    roots = (f"a{one}", f"b[x]{two}")
    assume(not space(index, *roots).count)
    found = unpruned(index, *roots)
    core = conflict_core(found)
    assert not Space(only(found, core.roots, core.edges)).count
    assert all(Space(only(found, each.roots, each.edges)).count for each in smaller(core))


@given(indexes(), st.sampled_from(SPECIFIERS))
def test_nothing_that_pruning_leaves_out_is_in_a_stack(index: Index, one: str) -> None:
    roots = (f"a[x]{one}", "b")
    assert Space(unpruned(index, *roots)).count == space(index, *roots).count


Sets = list[set[int]]


@given(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=5))
def test_the_smallest_conflicting_part_conflicts_and_no_less_of_it_does(conflicts: Sets) -> None:
    def conflicting(facts: Sequence[int]) -> bool:
        return any(each <= set(facts) for each in conflicts)

    found = smallest(range(10), conflicting)
    assert conflicting(found)
    assert not any(conflicting([f for f in found if f != each]) for each in found)


def test_a_small_conflict_among_many_facts_takes_few_tries() -> None:
    tries = 0

    def conflicting(facts: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        return {100, 900} <= set(facts)

    assert smallest(range(1000), conflicting) == (100, 900)
    assert tries < 50


DIAMOND: Index = {
    "app": {"1.0": ["left", "right"]},
    "left": {"1.0": ["np>=2"]},
    "right": {"2.0": ["np<2"], "1.0": ["np<1.5"]},
    "np": {"2.0": [], "1.0": []},
    "other": {"1.0": []},
}


def reported(index: Index, request: Requirements) -> str:
    found = unpruned(index, request=request)
    return str(conflict(conflict_core(found), found, request))


def test_the_chain_leads_from_the_user_to_both_ends_of_the_conflict() -> None:
    lines = reported(DIAMOND, parse_requirements("other", "app")).splitlines()
    assert lines[0].endswith("no stack satisfies app")
    assert [each.strip(" ;").removeprefix("why: ") for each in lines[1:-1]] == [
        "you require app",
        "app 1.0 requires left",
        "app 1.0 requires right",
        "left 1.0 requires np>=2",
        "right 2.0 requires np<2",
        "right 1.0 requires np<1.5",
    ]


def test_requirements_that_contradict_each_other_are_both_named() -> None:
    words = reported(DIAMOND, parse_requirements("np>=2", "np<2"))
    assert "you require np>=2" in words
    assert "you require np<2" in words


def test_a_constraint_that_is_part_of_the_conflict_is_reported() -> None:
    request = replace(parse_requirements("left"), constraints=(parse_requirement("np<2"),))
    assert "you limit np to <2" in reported(DIAMOND, request)


@pytest.mark.parametrize("others", [{}, {"b": {"1.0": []}}])
@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "https://files.test/b-1.0-py3-none-any.whl",
            'only where you require it yourself: add "b @ https://files.test/b-1.0-py3-none-any.whl"',
        ),
        ("git+https://files.test/b", "stackgen takes nothing from repositories"),
    ],
)
def test_an_address_that_only_a_package_requires_is_called_so(
    address: str, message: str, others: Index
) -> None:
    text = reported({"a": {"1.0": [f"b @ {address}"]}, **others}, parse_requirements("a"))
    assert f"a 1.0 requires b @ {address}" in text
    assert message in text
    assert "there is none" not in text
    assert "no index has" not in text


def helpful(index: Index, request: Requirements) -> Mapping[str, int]:
    """Return what is proposed and how many stacks it leads to."""
    core = conflict_core(unpruned(index, request=request))
    return {
        each.words: space(index, request=each.request).count for each in relaxations(core, request)
    }


def test_each_clause_of_a_requirement_in_the_conflict_may_be_left_out() -> None:
    found = helpful(DIAMOND, parse_requirements("left", "np>=0.5,<1.9"))
    assert found["leave out '<1.9' of np"] == 1
    assert found["leave out '>=0.5' of np"] == 0


def test_a_constraint_or_an_override_in_the_conflict_may_be_left_out() -> None:
    limited = replace(parse_requirements("left"), constraints=(parse_requirement("np<2"),))
    assert helpful(DIAMOND, limited)["leave out the constraint 'np<2'"] == 1
    bent = replace(parse_requirements("left"), overrides=(parse_requirement("np>9"),))
    assert helpful(DIAMOND, bent)["leave out the override 'np>9'"] == 1


def test_prereleases_are_proposed_where_they_help() -> None:
    index: Index = {"a": {"1.0": ["b>=1.5"]}, "b": {"2.0rc1": [], "1.0": []}}
    request = replace(parse_requirements("a"), policy=Policy(prereleases=Prereleases.DISALLOW))
    assert helpful(index, request)["give --prerelease allow"] == 1


def test_a_cutoff_is_proposed_to_be_left_out() -> None:
    policy = Policy(newest_upload="2020-01-01")
    request = replace(parse_requirements("left"), policy=policy)
    words = [each.words for each in relaxations(Core(("left",), ()), request)]
    assert "leave out --exclude-newer" in words


@pytest.mark.parametrize(
    ("requirement", "fields", "reason"),
    [
        ("a", {"tag": "cp39-cp39-win_amd64"}, "no wheel for Python 3.11 on manylinux_2_36_x86_64"),
        ("a", {"requires_python": ">=3.12"}, "requires Python >=3.12, this is 3.11.2"),
        ("a", {"yanked": "bad"}, "yanked: bad"),
        ("a>=1", {"yanked": ""}, "yanked: no reason given"),
    ],
)
def test_a_package_of_which_nothing_fits_says_why(
    requirement: str, fields: dict[str, str], reason: str
) -> None:
    tag = fields.get("tag", "py3-none-any")
    rest = {name: text for name, text in fields.items() if name != "tag"}
    page = (artifact("a", "2.0", tag, **rest), artifact("a", "1.0", tag, **rest))
    found = closure({}, requirement, pages={"a": page}).universe()
    error = nothing_fits(found, parse_requirements(requirement), TARGET)
    assert error is not None
    assert f"{reason} (2: 2.0, 1.0)" in error.why


def test_versions_outside_of_the_requirements_give_no_reasons() -> None:
    page = (artifact("a", "2.0", "cp39-cp39-win_amd64"), artifact("a", "1.0", yanked="bad"))
    found = closure({}, "a>=2", pages={"a": page}).universe()
    error = nothing_fits(found, parse_requirements("a>=2"), TARGET)
    assert error is not None
    assert "yanked" not in error.why


def test_where_each_package_has_a_version_the_conflict_lies_elsewhere() -> None:
    found = closure(DIAMOND, "app").universe()
    assert nothing_fits(found, parse_requirements("app"), TARGET) is None


def test_a_pin_in_no_stack_lets_no_prerelease_into_the_explanation() -> None:
    index: Index = {
        "a": {"2.0rc1": [], "1.0": ["b"]},
        "b": {"1.0": ["a==2.0rc1"]},
        "other": {"1.0": []},
    }
    request = replace(
        parse_requirements("a", "other"), policy=Policy(prereleases=Prereleases.DISALLOW)
    )
    assert not space(index, request=request).count
    assert "other" not in reported(index, request)


def test_a_constraint_without_a_part_in_the_conflict_is_not_named() -> None:
    index: Index = {"a": {"1.0": ["n<2"]}, "n": {"2.0": [], "1.0": []}}
    limits = (parse_requirement("n>=0.5"), parse_requirement("n<2; python_version < '3'"))
    request = replace(parse_requirements("a", "n>=2"), constraints=limits)
    assert "you limit" not in reported(index, request)
    assert unpruned(index, request=request).limits == (Dependency("n", ">=0.5"),)


def test_a_range_is_reported_only_where_no_other_version_lies_within() -> None:
    index: Index = {
        "a": {"4.0": ["n<2"], "3.0": ["n<2"], "2.0": ["n<1.5"], "1.0": ["n<2"]},
        "n": {"2.0": [], "1.0": []},
    }
    text = reported(index, parse_requirements("a", "n>=2"))
    assert "a 1.0, 3.0 and 4.0 require n<2" in text
    assert "a 2.0 requires n<1.5" in text


def test_what_is_barred_from_a_role_is_barred_from_its_explanation() -> None:
    index: Index = {
        "a": {"1.0": ["b"]},
        "b": {"1.0": ["a"]},
        "c": {"1.0": ["d"]},
        "d": {"1.0": []},
    }
    request = parse_requirements("a|b", "c")
    assert not space(index, request=request).count
    for each in request.combinations():
        found = closure(index, request=each.request, barred=each.barred, pruned=False).universe()
        core = conflict_core(found)
        assert "c" not in core.roots
        assert all("d" not in edge for edge in core.edges)


def test_a_version_with_unreadable_metadata_is_explained_by_just_that() -> None:
    page = (artifact("a", "2.0"), artifact("a", "1.0rc1"), artifact("a", "0.9", yanked="broken"))
    found = Closure(parse_requirements("a==2.0"), TARGET, pruned=False)
    found.need()
    found.give_pages({"a": page})
    found.need()
    found.give_metadata({}, {page[0]: "told only when it is built"})
    assert found.need() == Need(pages=(), metadata=())
    whole = found.universe()
    text = str(conflict(conflict_core(whole), whole, parse_requirements("a==2.0")))
    assert "told only when it is built (1: 2.0)" in text
    assert "yanked" not in text
