import pytest
from packaging.specifiers import SpecifierSet

from stackgen.locks.pyproject import specifier, stated_requirements


@pytest.mark.parametrize(
    ("constraint", "allows", "refuses"),
    [
        ("^1.2.3", ["1.2.3", "1.9"], ["1.2.2", "2.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("^0", ["0.9"], ["1.0"]),
        ("~1.2.3", ["1.2.9"], ["1.3.0"]),
        ("~1.2", ["1.2.9"], ["1.3.0"]),
        ("~1", ["1.9"], ["2.0"]),
        ("~=1.4.2", ["1.4.9"], ["1.5.0"]),
        ("1.2.3", ["1.2.3"], ["1.2.4"]),
        ("2.12.*", ["2.12.1"], ["2.13.0"]),
        (">=1.0,<2.0", ["1.5"], ["2.0"]),
        (">=1.0 <2.0", ["1.5"], ["2.0"]),
        (">=1.0,<2.0, ", ["1.5"], ["2.0"]),
        ("*", ["1", "99"], []),
    ],
)
def test_poetrys_constraints_mean_what_its_documentation_says(
    constraint: str, allows: list[str], refuses: list[str]
) -> None:
    found = specifier(constraint)
    assert found is not None
    assert all(version in SpecifierSet(found) for version in allows)
    assert not any(version in SpecifierSet(found) for version in refuses)


@pytest.mark.parametrize("constraint", [",", "1.0,,2.0", "^"])
def test_a_constraint_that_poetry_refuses_has_no_equal(constraint: str) -> None:
    assert specifier(constraint) is None


def test_alternatives_have_no_equal_and_are_reported_in_words() -> None:
    project = {"tool": {"poetry": {"dependencies": {"numpy": "^1.26 || ^2.1", "python": "^3.11"}}}}
    lines, unclear = stated_requirements(project)
    assert lines == ()
    assert unclear == ("numpy: PEP 508 cannot say what pyproject.toml requires of it",)


def test_tables_carry_extras_markers_and_pythons() -> None:
    wanted = {"version": "^2.31", "extras": ["socks"], "python": "<3.12", "platform": "linux"}
    lines, _ = stated_requirements({"tool": {"poetry": {"dependencies": {"requests": wanted}}}})
    assert lines == (
        'requests[socks]<3,>=2.31; sys_platform == "linux" and python_full_version < "3.12"',
    )


def test_what_must_not_come_from_an_index_is_left_out() -> None:
    wanted = {"mine": {"git": "https://example.invalid/mine"}, "rare": {"optional": True}}
    assert stated_requirements({"tool": {"poetry": {"dependencies": wanted}}}) == ((), ())
