"""What requirements mean: versions, extras, markers, Pythons, yanks, prereleases, files."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from stackgen.errors import ResolutionError
from stackgen.model.choices import Prereleases
from stackgen.model.files import DIRECT
from stackgen.model.packages import Metadata, Target
from stackgen.resolve.candidates import Policy
from stackgen.resolve.closure import Closure, Universe
from stackgen.resolve.dependencies import DependencyReader, defect, parse_requirement
from stackgen.resolve.explain import conflict, conflict_core, nothing_fits
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.resolve.space import Space
from tests.spaces import TARGET, Index, artifact, closure, space, universe

Stack = Mapping[str, str]


def stacks(index: Index, *requirements: str, request: Requirements | None = None) -> list[Stack]:
    found = space(index, *requirements, request=request)
    listed = [each.versions for each in found.stacks()]
    assert found.count == len(listed)
    return listed


def admitted(requirement: str, *versions: str, policy: Policy | None = None) -> list[str]:
    """Return the versions of package a that a requirement admits, newest first."""
    request = replace(parse_requirements(requirement), policy=policy or Policy())
    return [each["a"] for each in stacks({"a": {v: [] for v in versions}}, request=request)]


def wanted(*requirements: str, **narrowed: tuple[str, ...]) -> Requirements:
    """Return a request; `narrowed` are its constraints, overrides and exclusions as texts."""
    excluded = narrowed.pop("excluded", ())
    read = {kind: tuple(map(parse_requirement, texts)) for kind, texts in narrowed.items()}
    return replace(parse_requirements(*requirements), excluded=excluded, **read)  # type: ignore[arg-type]


# Versions


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a>=1", ["1!0.5", "2.0", "1.0"]),
        ("a<2", ["1.0"]),
        ("a==1!0.5", ["1!0.5"]),
        ("a>=1!0", ["1!0.5"]),
        ("a<1!0", ["2.0", "1.0"]),
    ],
)
def test_an_epoch_goes_before_everything(requirement: str, expected: list[str]) -> None:
    assert admitted(requirement, "1.0", "2.0", "1!0.5") == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a>1.0", ["1.1"]),
        ("a>=1.0", ["1.1", "1.0.post1", "1.0"]),
        ("a==1.0", ["1.0"]),
        ("a==1.0.*", ["1.0.post1", "1.0"]),
        ("a>1.0.post0", ["1.1", "1.0.post1"]),
        ("a<=1.0", ["1.0"]),
    ],
)
def test_a_post_release_comes_after_its_release_but_is_not_newer_by_itself(
    requirement: str, expected: list[str]
) -> None:
    assert admitted(requirement, "1.0", "1.0.post1", "1.1") == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a", ["1.0"]),
        ("a<1.0", []),
        ("a==1.0.dev1", ["1.0.dev1"]),
        ("a>=1.0.dev1", ["1.0"]),
        ("a>=1.0.dev1,!=1.0", ["1.0rc1", "1.0.dev1"]),
    ],
)
def test_a_development_release_is_a_prerelease(requirement: str, expected: list[str]) -> None:
    assert admitted(requirement, "1.0", "1.0rc1", "1.0.dev1") == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a==1.0", ["1.0+cu12", "1.0+cpu", "1.0"]),
        ("a==1.0+cpu", ["1.0+cpu"]),
        ("a===1.0", ["1.0"]),
        ("a===1.0+cpu", ["1.0+cpu"]),
        ("a!=1.0", []),
        ("a!=1.0+cpu", ["1.0+cu12", "1.0"]),
        ("a>1.0", []),
        ("a<=1.0", ["1.0+cu12", "1.0+cpu", "1.0"]),
    ],
)
def test_a_local_version_counts_only_where_it_is_named(
    requirement: str, expected: list[str]
) -> None:
    assert admitted(requirement, "1.0", "1.0+cpu", "1.0+cu12") == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a~=1.1", ["1.10", "1.2", "1.1"]),
        ("a~=1.1.0", ["1.1"]),
        ("a==1.*", ["1.10", "1.2", "1.1", "1.0"]),
        ("a!=1.1.*,<2", ["1.10", "1.2", "1.0"]),
        ("a===1.1.0", []),
        ("a==1.1.0", ["1.1"]),
    ],
)
def test_compatible_wildcard_and_arbitrary_equality(requirement: str, expected: list[str]) -> None:
    assert admitted(requirement, "1.0", "1.1", "1.2", "1.10", "2.0") == expected


def test_specifiers_of_everyone_who_requires_a_package_hold_together() -> None:
    index: Index = {
        "a": {"1.0": ["c>=1.1"]},
        "b": {"1.0": ["c<2"]},
        "c": {"1.0": [], "1.1": [], "2.0": []},
    }
    assert [each["c"] for each in stacks(index, "a", "b")] == ["1.1"]
    assert stacks(index, "a", "b", "c!=1.1") == []


def test_names_are_normalised_wherever_they_stand() -> None:
    index: Index = {"a-b": {"1.0": ["C.d[X_y]"]}, "c-d": {"1.0": ["e; extra == 'x.y'"]}, "e": {}}
    index = {**index, "e": {"1.0": []}}
    assert stacks(index, "A_B") == [{"a-b": "1.0", "c-d": "1.0", "e": "1.0"}]


# Extras


def test_an_extra_adds_what_it_requires_and_only_that() -> None:
    index: Index = {"a": {"1.0": ["b", "c; extra == 'x'"]}, "b": {"1.0": []}, "c": {"1.0": []}}
    assert stacks(index, "a") == [{"a": "1.0", "b": "1.0"}]
    assert stacks(index, "a[x]") == [{"a": "1.0", "b": "1.0", "c": "1.0"}]


def test_extras_that_different_packages_require_are_joined() -> None:
    index: Index = {
        "top": {"1.0": ["a[x]", "mid"]},
        "mid": {"1.0": ["a[y]"]},
        "a": {"2.0": ["b>=2; extra == 'x'", "b<2; extra == 'y'"], "1.0": ["b; extra == 'x'"]},
        "b": {"2.0": [], "1.0": []},
    }
    assert [(each["a"], each["b"]) for each in stacks(index, "top")] == [
        ("1.0", "2.0"),
        ("1.0", "1.0"),
    ]


def test_an_extra_and_its_package_have_one_version() -> None:
    index: Index = {"a": {"2.0": [], "1.0": ["b; extra == 'x'"]}, "b": {"1.0": []}}
    assert stacks(index, "a[x]", "a<2") == [{"a": "1.0", "b": "1.0"}]
    assert stacks(index, "a[x]") == [{"a": "2.0"}, {"a": "1.0", "b": "1.0"}]


def test_extras_name_each_other() -> None:
    lines = [
        "a[x,y]; extra == 'all'",
        "b; extra == 'x'",
        "a[z]; extra == 'y'",
        "c; extra == 'z'",
        "d; extra == 'other'",
    ]
    index: Index = {"a": {"1.0": lines}} | {name: {"1.0": []} for name in "bcd"}
    assert stacks(index, "a[all]") == [{"a": "1.0", "b": "1.0", "c": "1.0"}]


def test_extras_may_name_each_other_in_a_circle() -> None:
    index: Index = {
        "a": {"1.0": ["a[y]; extra == 'x'", "a[x]; extra == 'y'", "b; extra == 'y'"]},
        "b": {"1.0": ["a[x]"]},
    }
    assert stacks(index, "a[x]") == [{"a": "1.0", "b": "1.0"}]


def test_an_undeclared_extra_adds_nothing() -> None:
    assert stacks({"a": {"1.0": ["b; extra == 'x'"]}}, "a[nope]") == [{"a": "1.0"}]


def test_an_extra_joined_by_or_with_another_condition_is_understood() -> None:
    line = "b; extra == 'x' or python_version < '3'"
    index: Index = {"a": {"1.0": [line]}, "b": {"1.0": []}}
    assert stacks(index, "a") == [{"a": "1.0"}]
    assert stacks(index, "a[x]") == [{"a": "1.0", "b": "1.0"}]


# Markers


def test_markers_are_those_of_the_target_and_not_of_this_machine() -> None:
    markers = {**dict(TARGET.markers), "sys_platform": "win32", "python_version": "3.8"}
    windows = replace(TARGET, python="3.8.1", markers=tuple(sorted(markers.items())))
    lines = ("a; sys_platform == 'win32'", "b; sys_platform == 'linux'", "c; python_version<'3.9'")

    def needed(target: Target) -> list[str]:
        return [each.package for each in DependencyReader(target).needed(lines)]

    assert needed(windows) == ["a", "c"]
    assert needed(TARGET) == ["b"]


def test_a_requirement_of_the_user_whose_marker_is_false_is_none() -> None:
    index: Index = {"a": {"1.0": []}}
    assert stacks(index, "a", "gone; python_version < '3'") == [{"a": "1.0"}]


# Pythons


@pytest.mark.parametrize(
    ("requires", "fits"),
    [(">=3.9", True), (">=3.12", False), (">=3.7,<3.11", False), ("<4", True), ("==3.11.*", True)],
)
def test_requires_python_holds_at_both_ends_wherever_it_is_stated(
    requires: str, fits: bool
) -> None:
    on_page = (artifact("a", "1.0", requires_python=requires),)
    assert bool(closure({}, "a", pages={"a": on_page}).universe().releases["a"]) is fits
    assert bool(with_metadata(Metadata(requires_dist=(), requires_python=requires)).count) is fits


def with_metadata(metadata: Metadata) -> Space:
    """Return the space of the only release of a package, given its metadata."""
    return Space(read(metadata))


def read(metadata: Metadata) -> Universe:
    found = Closure(parse_requirements("a"), TARGET)
    found.need()
    found.give_pages({"a": (artifact("a", "1.0"),)})
    found.give_metadata(dict.fromkeys(found.need().metadata, metadata))
    found.need()
    return found.universe()


def test_a_python_that_only_the_metadata_exclude_is_named_as_the_reason() -> None:
    (excluded,) = read(Metadata(requires_dist=(), requires_python=">=3.12")).excluded["a"]
    assert excluded.reason == "requires Python >=3.12, this is 3.11.2"


MALFORMED = (
    "good >>>= 1",
    "!!! nonsense ((",
    "good ; foo_bar == 'x'",
    "good >>>= 1 ; python_version < '3'",  # as in uv, whatever its marker
    "good >>>= 1 ; extra == 'unasked'",
    "good ~= 1",
    f"good < {'9' * 5000}",
    f"good ; python_version < '{'9' * 5000}'",
)


@pytest.mark.parametrize("line", MALFORMED)
def test_a_release_with_a_malformed_requirement_is_no_candidate(line: str) -> None:
    found = read(Metadata(requires_dist=("fine>=1", line)))
    assert not found.releases["a"]
    assert [each.reason for each in found.excluded["a"]] == [
        f"malformed metadata: Requires-Dist {line!r}"
    ]


@pytest.mark.parametrize("requires", [">>3.x", "3.8", ">=3.*.*", f"<{'9' * 5000}"])
def test_a_release_with_a_malformed_requires_python_is_no_candidate(requires: str) -> None:
    found = read(Metadata(requires_dist=(), requires_python=requires))
    reason = f"malformed metadata: Requires-Python {requires!r}"
    assert [each.reason for each in found.excluded["a"]] == [reason]
    on_page = (artifact("a", "1.0", requires_python=requires),)
    found = closure({}, "a", pages={"a": on_page}).universe()
    assert [each.reason for each in found.excluded["a"]] == [reason]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("b (>=1.*)", "b>=1"),
        ("b >= 1.*; python_version >= '3'", "b>=1"),
        ("b (>=1.0<3)", "b>=1.0,<3"),
        ("b2>=1.*", "b2>=1"),
        ("b (!=~2.0,>=1)", "b!=2.0.*,>=1"),
        ("b (>=1,!=3.0*)", "b>=1,!=3.0.*"),
        ("b >=1,", "b>=1"),
        ("b (>=1,)", "b>=1"),
        ("b >dev", "b>0.dev0"),
        ("b >=2.0rc1.0", "b>=2.0rc1"),
        ("b >=2'", "b>=2"),
    ],
)
def test_known_forms_of_old_releases_are_read_as_they_were_meant(line: str, meant: str) -> None:
    reader = DependencyReader(TARGET)
    assert reader.needed((line,)) == reader.needed((meant,)) != ()
    assert defect(Metadata(requires_dist=(line,), requires_python=">=3.6.*")) == ""


LINES = [
    f"{name}{extra}{clauses}{marker}"
    for name in ("b", "b-c.d_e", "-b", "b-")
    for extra in ("", "[x]", "[x, y-z]", "[]", "[x")
    for clauses in ("", ">=1", " (>=1,<2)", "==1.*", "<1.*.1", "~=1", ">=1.0rc1.post2.dev3", " >1,")
    for marker in ("", "; extra == 'x'", "; os == 'x'", "; python_version<'3' and extra=='x'", ";")
]


def test_lines_that_are_checked_without_a_parser_are_those_that_a_parser_reads() -> None:
    read = {line for line in LINES if defect(Metadata(requires_dist=(line,))) == ""}
    repaired = {line for line in LINES if "1," in line and "<2" not in line}
    assert read - repaired == {line for line in LINES if _parses(line)} - repaired


def _parses(line: str) -> bool:
    try:
        return bool(Requirement(line))
    except InvalidRequirement:
        return False


# Yanked releases and prereleases

YANKED = {"b": (artifact("b", "2.0", yanked="broken"), artifact("b", "1.0"))}


@pytest.mark.parametrize(
    ("line", "expected"),
    [("b", ["1.0"]), ("b>=1", ["1.0"]), ("b==2.0", ["2.0"]), ("b===2.0", ["2.0"]), ("b==2.*", [])],
)
def test_a_yanked_release_needs_an_exact_pin_of_the_user(line: str, expected: list[str]) -> None:
    found = closure({}, line, pages=YANKED).universe()
    assert [each.versions["b"] for each in Space(found).stacks()] == expected


def test_what_a_dependency_pins_lets_no_yanked_release_in_as_in_uv() -> None:
    assert not Space(closure({"a": {"1.0": ["b==2.0"]}}, "a", pages=YANKED).universe()).count
    pinned = closure({"a": {"1.0": ["b==2.0"]}}, "a", "b==2.0", pages=YANKED).universe()
    assert Space(pinned).count == 1


def test_a_constraint_that_pins_a_yanked_release_lets_it_in() -> None:
    request = wanted("b", constraints=("b==2.0",))
    found = Space(closure({}, request=request, pages=YANKED).universe())
    assert [each.versions["b"] for each in found.stacks()] == ["2.0"]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("a", ["1.0"]),
        ("a>=1.0rc1", ["1.0"]),
        ("a<2.0rc2", ["1.0"]),
        ("a==2.0rc1", ["2.0rc1"]),
        ("a>1.0", ["2.0rc1"]),
        ("a>1.0,<2.0", []),
        ("a!=2.0rc2", ["1.0"]),
        ("a!=2.0rc1", ["1.0"]),
    ],
)
def test_a_prerelease_is_taken_where_a_requirement_admits_no_final_release(
    requirement: str, expected: list[str]
) -> None:
    assert admitted(requirement, "2.0rc1", "1.0") == expected


def test_the_option_admits_prereleases_of_every_package() -> None:
    index: Index = {"a": {"1.0": ["b"]}, "b": {"2.0a1": [], "1.0": []}}
    request = replace(parse_requirements("a"), policy=Policy(prereleases=Prereleases.ALLOW))
    assert [each["b"] for each in stacks(index, request=request)] == ["2.0a1", "1.0"]


def test_a_dependency_that_floats_does_not_let_prereleases_in() -> None:
    index: Index = {"a": {"1.0": ["b>=1.0rc1"]}, "b": {"2.0rc1": [], "1.0": []}}
    assert [each["b"] for each in stacks(index, "a")] == ["1.0"]


def test_a_package_with_nothing_but_prereleases_is_taken_as_it_is() -> None:
    assert admitted("a>=0.5", "1.0b2", "1.0b1") == ["1.0b2", "1.0b1"]


@pytest.mark.parametrize("kind", ["constraints", "overrides"])
@pytest.mark.parametrize(
    ("policy", "limit", "expected"),
    [
        (Prereleases.IF_NECESSARY, "b>1.0", ["2.0rc1"]),
        (Prereleases.IF_NECESSARY_OR_EXPLICIT, "b>1.0", ["2.0rc1"]),
        (Prereleases.IF_NECESSARY, "b>=1.0rc1", ["1.0"]),
        (Prereleases.EXPLICIT, "b>1.0", []),
        (Prereleases.EXPLICIT, "b>1.1rc1", ["2.0rc1"]),
        (Prereleases.EXPLICIT, "b>=1.0rc1", ["1.0"]),
        (Prereleases.DISALLOW, "b==2.0rc1", []),
        (Prereleases.ALLOW, "b>=1.0", ["2.0rc1", "1.0"]),
    ],
)
def test_the_policy_on_prereleases_heeds_whatever_the_user_gives(
    kind: str, policy: Prereleases, limit: str, expected: list[str]
) -> None:
    index: Index = {"a": {"1.0": ["b"]}, "b": {"2.0rc1": [], "1.0": []}}
    request = replace(wanted("a", **{kind: (limit,)}), policy=Policy(prereleases=policy))
    assert [each["b"] for each in stacks(index, request=request)] == expected


def test_a_final_release_that_leads_nowhere_gives_way_to_a_prerelease() -> None:
    index: Index = {
        "a": {"2.0": [], "1.0": []},
        "c": {"2.0b1": ["a>=2"], "1.5a1": [], "1.0": ["d"]},
        "d": {"2.0": ["a>=2"]},
    }
    universe = closure(index, "a==1.0", "c>=1", all_prereleases=True).universe()
    assert [each.versions for each in Space(universe).stacks()] == [{"a": "1.0", "c": "1.5a1"}]


# Cycles


def test_packages_may_require_each_other() -> None:
    index: Index = {
        "a": {"2.0": ["b==2.0"], "1.0": ["b==1.0"]},
        "b": {"2.0": ["a<2"], "1.0": ["a"]},
    }
    assert stacks(index, "a") == [{"a": "1.0", "b": "1.0"}]


def test_a_package_may_require_itself() -> None:
    assert stacks({"a": {"2.0": ["a<2"], "1.0": ["a"]}}, "a") == [{"a": "1.0"}]


# Constraints, overrides, exclusions

BASE: Index = {
    "a": {"1.0": ["b[x]<2"]},
    "b": {"2.0": ["c; extra == 'x'", "d; extra == 'y'"], "1.0": ["c; extra == 'x'"]},
    "c": {"1.0": []},
    "d": {"1.0": []},
}


def test_a_constraint_limits_a_package_and_requires_nothing() -> None:
    index: Index = {"a": {"1.0": ["b"]}, "b": {"2.0": [], "1.0": []}, "c": {"1.0": []}}
    request = wanted("a", constraints=("b<2", "c==1.0", "unknown==3"))
    assert stacks(index, request=request) == [{"a": "1.0", "b": "1.0"}]


def test_the_page_of_a_package_that_is_merely_constrained_is_not_read() -> None:
    found = Closure(wanted("a", constraints=("c==1.0",)), TARGET)
    assert found.need().pages == ("a",)
    found.give_pages({"a": (artifact("a", "1.0"),)})
    found.give_metadata(dict.fromkeys(found.need().metadata, Metadata(requires_dist=())))
    assert found.need().pages == ()


def test_a_constraint_whose_marker_is_false_limits_nothing() -> None:
    request = wanted("b", constraints=("b<2; python_version < '3'",))
    assert [each["b"] for each in stacks(BASE, request=request)] == ["2.0", "1.0"]


def test_an_override_counts_in_place_of_what_a_release_requires() -> None:
    request = wanted("a", overrides=("b==2.0",))
    assert [each["b"] for each in stacks(BASE, request=request)] == ["2.0"]


def test_an_override_counts_in_place_of_what_the_user_requires() -> None:
    request = wanted("b==1.0", overrides=("b>=2",))
    assert stacks(BASE, request=request) == [{"b": "2.0"}]


def test_a_constraint_limits_an_override() -> None:
    request = wanted("a", constraints=("b<2",), overrides=("b==2.0",))
    assert stacks(BASE, request=request) == []


def test_an_override_whose_marker_is_false_takes_the_dependency_away_as_in_uv() -> None:
    request = wanted("a", overrides=("b; python_version < '3'",))
    assert stacks(BASE, request=request) == [{"a": "1.0"}]


def test_an_override_brings_its_own_extras_as_in_uv() -> None:
    plain = wanted("a", overrides=("b==2.0",))
    other = wanted("a", overrides=("b[y]==2.0",))
    assert stacks(BASE, request=plain) == [{"a": "1.0", "b": "2.0"}]
    assert stacks(BASE, request=other) == [{"a": "1.0", "b": "2.0", "d": "1.0"}]


def test_an_override_holds_also_where_what_it_replaces_does_not_as_in_uv() -> None:
    index: Index = {"a": {"1.0": ["b<1; python_version < '3'"]}, "b": {"1.0": []}}
    request = wanted("a", overrides=("b==1.0",))
    assert stacks(index, request=request) == [{"a": "1.0", "b": "1.0"}]


def test_an_override_of_an_extras_dependency_needs_the_extra() -> None:
    request = wanted("b", overrides=("c==1.0",))
    assert {frozenset(each) for each in stacks(BASE, request=request)} == {frozenset({"b"})}


def test_what_is_excluded_is_in_no_stack_and_never_requested() -> None:
    index: Index = {"a": {"1.0": ["b[x]"]}, "b": {"1.0": ["gone"]}}
    request = wanted("a", excluded=("B",))
    assert stacks(index, request=request) == [{"a": "1.0"}]
    assert "b" not in universe(index, request).releases


# Files

FILE = "file:///tmp/b-3.0-py3-none-any.whl"
LOCAL = replace(artifact("b", "3.0"), url=FILE, index=DIRECT)


def given_file(
    index: Index, *requirements: str, request: Requirements | None = None
) -> list[Stack]:
    """Return all stacks where the user names the file of b by its address."""
    found = closure(index, *requirements, request=request, pages={"b": (LOCAL,)}).universe()
    return [each.versions for each in Space(found).stacks()]


def test_a_file_that_the_user_names_is_the_only_candidate_of_its_package() -> None:
    index: Index = {"a": {"2.0": ["b<3"], "1.0": ["b>=2"]}, "b": {"3.0": ["c"]}, "c": {"1.0": []}}
    assert given_file(index, f"b @ {FILE}#sha256={LOCAL.sha256}", "a") == [
        {"a": "1.0", "b": "3.0", "c": "1.0"}
    ]


def test_extras_of_a_named_file_are_taken() -> None:
    index: Index = {"b": {"3.0": ["c; extra == 'x'"]}, "c": {"1.0": []}}
    assert given_file(index, f"b[x] @ {FILE}") == [{"b": "3.0", "c": "1.0"}]


def test_no_cutoff_and_no_rule_on_prereleases_bars_a_named_file() -> None:
    early = replace(LOCAL, version="3.0rc1", uploaded="2024-01-01")
    request = replace(parse_requirements(f"b @ {FILE}"), policy=Policy(newest_upload="2020-01-01"))
    found = closure({}, request=request, pages={"b": (early, artifact("b", "1.0"))}).universe()
    assert [each.version for each in found.releases["b"]] == ["3.0rc1"]


def test_a_release_that_requires_a_file_which_was_not_given_is_in_no_stack() -> None:
    line = "b @ https://elsewhere.test/b-1.0-py3-none-any.whl"
    index: Index = {"a": {"2.0": [line], "1.0": ["b"]}, "b": {"1.0": []}}
    assert stacks(index, "a") == [{"a": "1.0", "b": "1.0"}]
    assert stacks(index, "a>=2") == []


def test_a_release_may_require_the_very_file_that_the_user_gave() -> None:
    index: Index = {"a": {"1.0": [f"b @ {FILE}"]}}
    assert given_file(index, "a", f"b @ {FILE}") == [{"a": "1.0", "b": "3.0"}]


# What is not there


def test_a_release_whose_dependency_is_unknown_is_in_no_stack() -> None:
    assert stacks({"a": {"2.0": ["gone"], "1.0": []}}, "a") == [{"a": "1.0"}]


def test_a_version_that_no_index_has_is_explained() -> None:
    error = nothing_fits(
        closure({"a": {"1.0": []}}, "a>=9").universe(), parse_requirements("a>=9"), TARGET
    )
    assert error is not None
    assert "no index has a version of a that >=9 admits" in error.why


@pytest.mark.parametrize("names", [("gone",), ("a", "gone"), ("a|gone",)])
def test_a_package_that_no_index_has_is_named(names: tuple[str, ...]) -> None:
    with pytest.raises(ResolutionError, match="no package named gone"):
        space({"a": {"1.0": []}}, *names)


def test_an_unknown_package_deep_in_the_closure_is_part_of_the_explanation() -> None:
    index: Index = {"a": {"1.0": ["b"]}, "b": {"1.0": ["gone"]}}
    found = universe(index, parse_requirements("a"), pruned=False)
    reported = conflict(conflict_core(found), found, parse_requirements("a"))
    assert "no index has a package named gone" in str(reported)


def test_a_constraint_is_a_fact_of_what_is_read_without_pruning() -> None:
    request = Requirements(requirements=(Requirement("a>=2"),), constraints=(Requirement("a<2"),))
    found = universe({"a": {"2.0": [], "1.0": []}}, request, pruned=False)
    assert [str(each) for each in conflict_core(found).limits] == ["a<2"]
