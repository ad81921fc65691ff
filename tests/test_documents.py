"""The documents agree with each other and with the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
STATUS = re.compile(
    r"^\*\*Status\.\*\* (\w.*?)\. \*\*Date\.\*\* (\d{4}-\d\d-\d\d)\.$", re.MULTILINE
)


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_title_status_date_and_a_row_in_the_index(page: Path) -> None:
    text = page.read_text("utf-8")
    title = re.match(r"# (\d+)\. (\w\S.*)\n", text)
    stated = STATUS.search(text)
    assert title, "the first line is '# NUMBER. Title'"
    assert stated, "'**Status.** Accepted. **Date.** YYYY-MM-DD.'"
    assert page.name.startswith(f"{int(title[1]):04d}-")
    status = re.split(r"[;.]", stated[1])[0]
    row = f"| {title[1]} | [{title[2]}]({page.name}) | {status} | {stated[2]} |"
    assert row in (ROOT / "docs" / "adr" / "index.md").read_text("utf-8").splitlines()


def test_numbers_of_decisions_are_used_once_and_mentioned_ones_exist() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert len(numbers) == len(set(numbers)) > 20
    sources = [
        path
        for folder in ("stackgen", "docs", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
    ]
    for path in [*sources, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        mentioned = re.findall(r"\bADRs? (\d+)|docs/adr/(\d{4})", path.read_text("utf-8"))
        assert {int(a or b) for a, b in mentioned} <= set(numbers), path


def test_the_readme_has_at_most_1200_words() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1200


def test_entries_of_the_changelog_are_one_short_line_under_a_known_heading() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    headings = [line for line in lines if line.startswith("### ")]
    assert set(headings) <= {"### Added", "### Changed", "### Fixed", "### Removed"}
    assert len(headings) == len(set(headings))
    for line in lines:
        assert not line.startswith("- ") or len(line.split()) <= 40, line
