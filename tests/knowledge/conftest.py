"""A knowledge base for tests whose claim is not about how it is opened."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.knowledge.database import Database, open_database
from tests.knowledge import samples


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return an open knowledge base with all that the inspections of ``samples`` refer to."""
    with open_database(tmp_path / "kb.db") as found:
        samples.prepare(found)
        yield found
