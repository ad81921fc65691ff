"""What is derived from inspections once and cached in the knowledge base, by campaign.

Contrasts, one per campaign, indicator, machine and baseline (``stackgen.measure.contrasts``), and
what was recorded of each stack besides times. A campaign's rows are derived again when its
inspections change, when they are missing, or when ``DERIVATION`` is another: raise it whenever the
same inspections would give other rows.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from stackgen.knowledge.evidence import CONTROL_COMPONENT, StackSummary, summaries
from stackgen.measure import Computed, Result, controls, count_failures
from stackgen.measure.contrasts import CampaignContrasts, campaign_contrasts
from stackgen.model.evidence import CampaignIdentity, Control
from stackgen.model.identity import CampaignId, IndicatorId, MachineId, StackId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.reports.campaigns import NOISE

DERIVATION = 4
OUTLINE = 2
"""Raise it whenever the same knowledge base would give another outline."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What campaigns say: of stacks beside each other, and of each stack."""

    contrasts: tuple[CampaignContrasts, ...] = ()
    summaries: tuple[StackSummary, ...] = ()


class _StoredStack(msgspec.Struct, array_like=True):
    machine_id: MachineId
    stack_id: StackId
    loaded: tuple[str, ...]
    # A checksum as text: JSON has no nan.
    counts: tuple[tuple[str | None, str, str, int], ...]
    tolerance: float | None
    blocks: int
    is_baseline: bool
    failed: bool


class _Content(msgspec.Struct, array_like=True):
    """A row of the cache: of one campaign and indicator, which are not repeated for each stack."""

    contrasts: tuple[CampaignContrasts, ...]
    stacks: tuple[_StoredStack, ...]


_ORIGINS = """
SELECT o.id, count(*) FROM row_origin_keys AS r JOIN origins AS o ON o.key = r.origin_key
WHERE r.kind = 8 AND r.row_key IN (SELECT key FROM inspection_rows WHERE campaign_key = ?)
GROUP BY o.id ORDER BY o.id
"""
_ORIGINS_OF_EACH = """
SELECT (SELECT group_concat(o.id) FROM row_origin_keys AS r
        JOIN origins AS o ON o.key = r.origin_key WHERE r.kind = 8 AND r.row_key = i.key)
FROM inspection_rows AS i WHERE i.campaign_key = ? ORDER BY i.started_at, i.id
"""
_OUTDATED = """
SELECT c.* FROM campaigns AS c LEFT JOIN derived_campaigns AS d ON d.campaign_key = c.key
WHERE d.derivation IS NOT ? ORDER BY c.key
"""


_STAMP = """
SELECT (SELECT count(*) FROM stacks), (SELECT coalesce(max(key), 0) FROM stacks),
       (SELECT count(*) FROM machines), (SELECT count(*) FROM indicators),
       (SELECT count(*) FROM campaigns), (SELECT count(*) FROM derived_campaigns)
"""


def load_outline(connection: sqlite3.Connection) -> bytes | None:
    """Return the outline of the whole (``stackgen.knowledge.outline``); None of an outdated one."""
    if outdated(connection):
        return None
    row = connection.execute("SELECT stamp, content FROM derived_outline").fetchone()
    return row["content"] if row is not None and row["stamp"] == _stamp(connection) else None


def store_outline(connection: sqlite3.Connection, content: bytes) -> None:
    """Replace the outline; it takes a transaction around it."""
    values = _stamp(connection), content
    connection.execute("INSERT OR REPLACE INTO derived_outline VALUES (1, ?, ?)", values)


def _stamp(connection: sqlite3.Connection) -> str:
    """Return what changes with what an outline is made of, besides what removes the outline."""
    return json.dumps([DERIVATION, OUTLINE, *connection.execute(_STAMP).fetchone()])


def outdated(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the rows of the campaigns whose contrasts are missing or outdated."""
    return connection.execute(_OUTDATED, (DERIVATION,)).fetchall()


def derive(
    connection: sqlite3.Connection,
    key: int,
    campaign: CampaignIdentity,
    inspections: Sequence[Inspection],
    calls: Sequence[IndicatorCall],
    own: Collection[str] = (),
) -> Derived:
    """Return what a campaign says; no contrasts where its controls failed or were never judged.

    Args:
        connection: to the knowledge base.
        key: of the campaign.
        campaign: that is derived.
        inspections: of the campaign, oldest first.
        calls: all indicators.
        own: the ids of this installation, whose inspections count before those of others.
    """
    found = summaries(inspections, calls)
    origins, inspections = _by_one(connection, key, inspections, own)
    if campaign.kind == NOISE or not controls_hold(inspections, calls):
        return Derived(summaries=found)
    stacks = {each.stack_id for each in inspections}
    contrasts = campaign_contrasts(
        inspections,
        origins=origins,
        failed={s for s in stacks if count_failures(inspections, stack=s, calls=calls)},
    )
    return Derived(contrasts=contrasts, summaries=found)


def _by_one(
    connection: sqlite3.Connection,
    key: int,
    inspections: Sequence[Inspection],
    own: Collection[str],
) -> tuple[Sequence[str], Sequence[Inspection]]:
    """Return the inspections of a campaign that count, and the origins that recorded all of them.

    Where others add runs to a campaign (equal machines that ran the same command, or a file that
    was made up), a contrast of one's baseline with another's candidate would be of no block at all,
    and bear the name of both. So one origin counts: this installation, else who recorded most.
    """
    counts = {row[0]: row[1] for row in connection.execute(_ORIGINS, (key,))}
    if all(count == len(inspections) for count in counts.values()):
        return [*counts], inspections
    recorded = [
        frozenset((row[0] or "").split(",")) for row in connection.execute(_ORIGINS_OF_EACH, (key,))
    ]
    most = max(counts, key=lambda each: (counts[each], each))
    chosen = counts.keys() & set(own) or {most}
    pairs = zip(inspections, recorded, strict=True)
    counting = [(each, by) for each, by in pairs if not by.isdisjoint(chosen)]
    every = frozenset.intersection(*(by for _, by in counting))
    return sorted(every or chosen), [each for each, _ in counting]


def store(connection: sqlite3.Connection, key: int, found: Derived) -> None:
    """Replace what was derived of a campaign; it takes a transaction around it."""
    connection.execute("DELETE FROM derived_contrasts WHERE campaign_key = ?", (key,))
    contents: dict[str, _Content] = {}
    for each in found.contrasts:
        content = contents.setdefault(each.indicator_id, _Content((), ()))
        content.contrasts += (each,)
    for one in found.summaries:
        content = contents.setdefault(one.indicator_id, _Content((), ()))
        content.stacks += (_stored(one),)
    connection.executemany(
        "INSERT INTO derived_contrasts SELECT ?, key, ? FROM indicators WHERE id = ?",
        [(key, msgspec.json.encode(content), name) for name, content in contents.items()],
    )
    connection.execute("INSERT OR REPLACE INTO derived_campaigns VALUES (?, ?)", (key, DERIVATION))
    connection.execute("DELETE FROM derived_outline")


def _stored(summary: StackSummary) -> _StoredStack:
    computed = summary.computed
    return _StoredStack(
        machine_id=summary.machine_id,
        stack_id=summary.stack_id,
        loaded=summary.loaded,
        counts=tuple(
            (None if r.checksum is None else repr(r.checksum), r.file, r.text, count)
            for r, count in computed.counts
        ),
        tolerance=computed.tolerance,
        blocks=summary.blocks,
        is_baseline=summary.is_baseline,
        failed=summary.failed,
    )


def load(
    connection: sqlite3.Connection,
    indicators: Collection[IndicatorId] | None,
    campaigns: Collection[CampaignId] | None = None,
) -> Derived:
    """Return what is cached of these indicators and campaigns; of all where None is given."""
    wanted = (
        "SELECT d.content, c.id, i.id FROM derived_contrasts AS d "
        "JOIN campaigns AS c ON c.key = d.campaign_key "
        "JOIN indicators AS i ON i.key = d.indicator_key"
    )
    given = [("i.id", indicators), ("c.id", campaigns)]
    limits = [f"{name} IN (SELECT value FROM json_each(?))" for name, of in given if of is not None]  # noqa: S608
    if limits:
        wanted += f" WHERE {' AND '.join(limits)}"
    values = [json.dumps([*of]) for _, of in given if of is not None]
    decoder = msgspec.json.Decoder(_Content)
    ordered = f"{wanted} ORDER BY d.campaign_key, d.indicator_key"
    contrasts: list[CampaignContrasts] = []
    found: list[StackSummary] = []
    known: dict[object, Computed] = {}
    results: dict[object, Result] = {}
    for row in connection.execute(ordered, values):
        content, campaign, indicator = row
        decoded = decoder.decode(content)
        contrasts += decoded.contrasts
        for each in decoded.stacks:
            what = each.counts, each.tolerance
            computed = known.get(what)
            if computed is None:
                computed = known[what] = _computed(each, results)
            found.append(
                StackSummary(
                    campaign_id=campaign,
                    indicator_id=indicator,
                    machine_id=each.machine_id,
                    stack_id=each.stack_id,
                    loaded=each.loaded,
                    computed=computed,
                    blocks=each.blocks,
                    is_baseline=each.is_baseline,
                    failed=each.failed,
                )
            )
    return Derived(contrasts=tuple(contrasts), summaries=tuple(found))


def _computed(stored: _StoredStack, results: dict[object, Result]) -> Computed:
    """Return what a stack computed; equal results are one object, which compares quickly."""

    def result(text: str | None, file: str, words: str) -> Result:
        made = Result(checksum=None if text is None else float(text), file=file, text=words)
        return results.setdefault((text, file, words), made)

    counts = ((result(text, file, words), count) for text, file, words, count in stored.counts)
    return Computed(counts=tuple(counts), tolerance=stored.tolerance)


def controls_hold(inspections: Sequence[Inspection], calls: Sequence[IndicatorCall]) -> bool:
    """Return whether the controls of a campaign were judged, and none of them failed."""
    judged = judged_controls(inspections, calls)
    return bool(judged) and not any(control.failed for control in judged)


def judged_controls(
    inspections: Sequence[Inspection], calls: Sequence[IndicatorCall]
) -> list[Control]:
    """Return the controls of a campaign that have enough blocks to be judged."""
    baselines = {each.stack_id for each in inspections if each.role is Role.BASELINE}
    used = {each.indicator_id for each in inspections}
    known = [call for call in calls if call.id in used]
    pure = [call for call in known if call.indicator.component == CONTROL_COMPONENT]
    own = [call for call in known if call not in pure]
    return [
        control
        for baseline in baselines
        for control in controls(inspections, baseline=baseline, calls=own, pure=(pure or own)[0])
        if control.p_value is not None
    ]
