"""docs/glossary.md: each term once, and each type that it names exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

_TEXT = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text("utf-8")
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]


@pytest.mark.parametrize("name", sorted({row[3] for row in _ROWS}))
def test_a_type_of_the_glossary_exists(name: str) -> None:
    found = re.fullmatch(r"`([a-z_.]+)\.([A-Z]\w+)`", name)
    assert found, "one type, by its module below stackgen"
    assert hasattr(import_module(f"stackgen.{found[1]}"), found[2])


def test_each_term_has_one_row_of_four_cells() -> None:
    terms = [row[0] for row in _ROWS]
    assert len(terms) == len(set(terms)) > 50
    assert all(len(row) == 4 and all(row) for row in _ROWS)
    assert all(row[1].endswith(".") for row in _ROWS)
