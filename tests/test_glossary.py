"""docs/glossary.md: each term once, and each type that it names exists."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (_ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]


@pytest.mark.parametrize("name", sorted({row[3] for row in _ROWS}))
def test_a_type_of_the_glossary_exists(name: str) -> None:
    found = re.fullmatch(r"`([a-z]+)\.([A-Z]\w+)`", name)
    assert found, "one type, by its package below stackgen"
    defined = re.compile(rf"^(class {found[2]}\b|{found[2]} = )", re.MULTILINE)
    modules = (_ROOT / "stackgen" / found[1]).glob("**/*.py")
    assert any(defined.search(module.read_text("utf-8")) for module in modules)


def test_each_term_has_one_row_of_four_cells() -> None:
    terms = [row[0] for row in _ROWS]
    assert len(terms) == len(set(terms)) > 50
    assert all(len(row) == 4 and all(row) for row in _ROWS)
    assert all(row[1].endswith(".") for row in _ROWS)
