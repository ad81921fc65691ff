"""Findings of nights: where they are stored, and which of them count."""

from datetime import datetime, timezone

from stackgen.knowledge.database import open_database
from stackgen.model.findings import FindingsReport, FindingStatus
from stackgen.nightly.store import NightStore
from stackgen.storage.paths import Paths
from stackgen.storage.state import state_path


def open_store(paths: Paths) -> NightStore:
    """Return what nights remember beside a knowledge base."""
    with open_database(paths.knowledge) as database:
        identity = database.base_id
    now = datetime.now(timezone.utc)
    return NightStore(path=state_path(paths.knowledge), knowledge_base=identity, now=now)


def listed(paths: Paths, *, every: bool = False) -> FindingsReport:
    """Return the findings that count, or all of them."""
    counted = (FindingStatus.OPEN, FindingStatus.ACKNOWLEDGED)
    found = open_store(paths).findings()
    return FindingsReport(findings=tuple(e for e in found if every or e.status in counted))
