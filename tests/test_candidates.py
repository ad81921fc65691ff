"""Which versions are candidates, and what is said of the others."""

import pytest

from stackgen.errors import ResolutionError, UsageError
from stackgen.model.choices import Prereleases
from stackgen.resolve.candidates import Policy
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.explain import nothing_fits
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import TARGET, Index, artifact, closure, space


def reason(requirement: str, **fields: str | None) -> str:
    """Return why version 2.0 of a package is left out, given its artifact's fields."""
    tag = fields.pop("tag", None) or "py3-none-any"
    page = (artifact("a", "2.0", tag, **fields), artifact("a", "1.0"))
    universe = closure({}, requirement, pages={"a": page}).universe()
    return ", ".join(each.reason for each in universe.excluded["a"])


def test_each_version_that_is_left_out_says_why() -> None:
    assert "no wheel for Python 3.11" in reason("a", tag="cp39-cp39-win_amd64")
    assert "requires Python <3.9" in reason("a", requires_python="<3.9")
    assert "yanked: broken" in reason("a", yanked="broken")
    assert reason("a") == ""


def test_a_yanked_version_needs_the_users_exact_pin() -> None:
    assert reason("a==2.0", yanked="broken") == ""
    assert "yanked" in reason("a>=2.0", yanked="broken")


def test_the_wheel_with_the_best_tag_is_selected() -> None:
    tags = (
        "py3-none-any",
        "cp311-cp311-manylinux_2_36_x86_64",
        "cp311-cp311-manylinux_2_17_x86_64",
    )
    pages = {"a": tuple(artifact("a", "1.0", tag) for tag in tags)}
    (release,) = closure({}, "a", pages=pages).universe().releases["a"]
    assert "manylinux_2_36" in release.artifact.filename


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [("a", "1.0"), ("a>=1.0rc1", "1.0"), ("a>1", "2.0rc1"), ("only", "1.0b1")],
)
def test_a_prerelease_is_taken_where_no_final_release_will_do(
    requirement: str, expected: str
) -> None:
    index: Index = {"a": {"2.0rc1": [], "1.0": []}, "only": {"1.0b1": []}}
    newest = space(index, requirement).newest()
    assert newest is not None
    assert expected in newest.versions.values()


def test_prereleases_are_admitted_by_option() -> None:
    index: Index = {"a": {"2.0rc1": [], "1.0": []}}
    found = Space(
        closure(index, "a", policy=Policy(prereleases=Prereleases.ALLOW)).universe()
    ).newest()
    assert found is not None
    assert found.versions == {"a": "2.0rc1"}


def test_a_dependency_that_floats_does_not_let_prereleases_in() -> None:
    index: Index = {"a": {"1.0": ["b>=1.0rc1"]}, "b": {"2.0rc1": [], "1.0": []}}
    newest = space(index, "a").newest()
    assert newest is not None
    assert newest.versions["b"] == "1.0"


def test_a_lock_s_hashes_decide_which_files_are_candidates() -> None:
    page = (artifact("a", "1.0"),)
    other = Policy(hashes=(("a", frozenset({"f" * 64})),))
    universe = closure({}, "a", pages={"a": page}, policy=other).universe()
    assert not universe.releases["a"]
    assert "lock file" in universe.excluded["a"][0].reason


def test_only_what_some_requirement_admits_is_requested() -> None:
    index: Index = {"a": {"1.0": ["b<2"]}, "b": {"3.0": ["c"], "1.0": []}, "c": {"1.0": []}}
    universe = closure(index, "a").universe()
    assert [each.version for each in universe.releases["b"]] == ["1.0"]
    assert "c" not in universe.releases


def test_epochs_and_local_versions_are_ordered_as_pep_440_says() -> None:
    index: Index = {"a": {"1.0": [], "1.0+cpu": [], "1!0.1": []}}
    versions = [each.version for each in closure(index, "a").universe().releases["a"]]
    assert versions == ["1!0.1", "1.0+cpu", "1.0"]
    assert space(index, "a==1.0").count == 2
    assert space(index, "a==1.0+cpu").count == 1


def test_an_unknown_package_is_named() -> None:
    with pytest.raises(ResolutionError, match="no package named tensorfow"):
        closure({}, "tensorfow").universe()


def test_a_release_whose_dependency_is_unknown_is_no_candidate() -> None:
    found = space({"a": {"2.0": ["gone"], "1.0": []}}, "a")
    assert [stack.versions for stack in found.stacks()] == [{"a": "1.0"}]


def test_where_no_version_fits_the_reasons_are_counted() -> None:
    page = tuple(artifact("a", v, "cp39-cp39-win_amd64") for v in ("2.0", "1.0"))
    error = nothing_fits(
        closure({}, "a", pages={"a": page}).universe(), parse_requirements("a"), TARGET
    )
    assert error is not None
    assert "no wheel for Python 3.11" in error.why
    assert "(2: 2.0, 1.0)" in error.why


def test_what_is_no_requirement_is_refused() -> None:
    for text in ("tensorflow>>2", "a @", ""):
        with pytest.raises(UsageError):
            parse_requirement(text)
