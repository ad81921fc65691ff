"""What can be asked, and what is refused."""

from dataclasses import replace

import pytest
from packaging.requirements import Requirement

from stackgen.errors import UsageError
from stackgen.model.choices import Prereleases
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements, parse_requirements


def test_roles_are_distinguished_from_requirements() -> None:
    request = parse_requirements("a|b[x]>=2", "c>=1")
    (role,) = request.alternatives
    assert [each.name for each in role] == ["a", "b"]
    assert {str(each.specifier) for each in role} == {">=2"}
    assert request.names == ("c", "a", "b")


def test_a_bar_in_an_address_or_a_marker_makes_no_role() -> None:
    request = parse_requirements("a @ https://files.test/a|b.whl")
    assert not request.alternatives
    assert request.names == ("a",)


def test_each_way_to_fill_the_roles_bars_the_other_packages() -> None:
    request = parse_requirements("a|b", "c|d|e", "f")
    found = request.combinations()
    assert len(found) == 6
    for each in found:
        chosen = {one.name for one in each.request.requirements} - {"f"}
        assert each.barred == {"a", "b", "c", "d", "e"} - chosen
        assert not each.request.alternatives


def test_a_package_that_fills_one_role_is_barred_by_another_that_it_does_not_fill() -> None:
    barred = {each.chosen: each.barred for each in parse_requirements("a|b", "b|c").combinations()}
    assert barred[0, 0] == {"b", "c"}
    assert barred[1, 0] == {"a", "c"}


@pytest.mark.parametrize("text", ["tensorflow>>2", "a @", ""])
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_requirement(text)


@pytest.mark.parametrize("text", ["a|a", "a|A", "a|", "|a", "a||b", "a|b; os_name == 'nt'"])
def test_alternatives_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_requirements(text)


@pytest.mark.parametrize("text", ["b[x]<2", "b @ https://files.test/b-1-py3-none-any.whl"])
def test_a_constraint_takes_no_extras_and_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="constraint"):
        Requirements(constraints=(Requirement(text),))


@pytest.mark.parametrize("text", ["a.b", "a.b|c", "c|A-B"])
def test_what_is_requested_cannot_be_excluded(text: str) -> None:
    request = parse_requirements(text)
    with pytest.raises(UsageError, match="a-b is both required and excluded"):
        Requirements(
            requirements=request.requirements,
            alternatives=request.alternatives,
            excluded=("A_b",),
        )


def test_requests_differ_by_what_they_ask_and_not_by_its_order() -> None:
    assert parse_requirements("a", "b").content == parse_requirements("b", "a").content
    assert parse_requirements("a").content != parse_requirements("a|b").content
    assert (
        Requirements(policy=Policy(prereleases=Prereleases.ALLOW)).content != Requirements().content
    )
    limited = Requirements(constraints=(parse_requirement("a<2"),))
    assert limited.content != Requirements(overrides=(parse_requirement("a<2"),)).content


def test_a_cutoff_that_is_no_date_is_refused() -> None:
    with pytest.raises(ValueError, match="not a date"):
        Policy(newest_upload="yesterday")


def test_an_override_that_may_empty_a_role_is_refused() -> None:
    override = parse_requirement("a; python_version < '3'")
    with pytest.raises(UsageError, match="cannot take the override"):
        replace(parse_requirements("a|b"), overrides=(override,))
