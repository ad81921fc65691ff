"""Findings of nights: listed, shown, acknowledged, reopened."""

from datetime import datetime, timezone

from stackgen.knowledge.database import open_database
from stackgen.model.findings import FindingsReport, FindingState, FindingStatus
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


def shown(paths: Paths, finding: str) -> FindingState:
    """Return one finding, by the beginning of its id.

    Raises:
        UsageError: there is none of that id.
    """
    return open_store(paths).find(finding)


def acknowledged(paths: Paths, finding: str, *, days: int | None, note: str = "") -> FindingState:
    """Record that someone knows of a finding; it no longer counts as open.

    Raises:
        UsageError: there is none of that id.
    """
    store = open_store(paths)
    return store.acknowledge(store.find(finding), days=days, note=note)


def reopened(paths: Paths, finding: str) -> FindingState:
    """Let a finding count again.

    Raises:
        UsageError: there is none of that id.
    """
    store = open_store(paths)
    return store.reopen(store.find(finding))
