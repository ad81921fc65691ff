"""Contrasts of campaigns, derived from inspections once and cached in the knowledge base.

One row per campaign, indicator, machine and baseline (``stackgen.measure.contrasts``). A campaign's
rows are derived again when its inspections change, when they are missing, or when ``DERIVATION``
is another: raise it whenever the same inspections would give other rows.
"""

import sqlite3
from collections.abc import Collection, Sequence

import msgspec

from stackgen.knowledge.evidence import CONTROL_COMPONENT
from stackgen.measure import controls, count_failures
from stackgen.measure.contrasts import CampaignContrasts, campaign_contrasts
from stackgen.model.evidence import CampaignIdentity
from stackgen.model.identity import IndicatorId
from stackgen.model.inspections import IndicatorCall, Inspection, Role
from stackgen.model.reports.campaigns import NOISE

DERIVATION = 1
_ORIGINS = """
SELECT DISTINCT o.id FROM row_origin_keys AS r JOIN origins AS o ON o.key = r.origin_key
WHERE r.kind = 8 AND r.row_key IN (SELECT key FROM inspection_rows WHERE campaign_key = ?)
"""
_OUTDATED = """
SELECT c.* FROM campaigns AS c LEFT JOIN derived_campaigns AS d ON d.campaign_key = c.key
WHERE d.derivation IS NOT ? ORDER BY c.key
"""


def outdated(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the rows of the campaigns whose contrasts are missing or outdated."""
    return connection.execute(_OUTDATED, (DERIVATION,)).fetchall()


def derive(
    connection: sqlite3.Connection,
    key: int,
    campaign: CampaignIdentity,
    inspections: Sequence[Inspection],
    calls: Sequence[IndicatorCall],
) -> tuple[CampaignContrasts, ...]:
    """Return the contrasts of a campaign; none where its controls failed or were never judged."""
    if campaign.kind == NOISE or not controls_hold(inspections, calls):
        return ()
    stacks = {each.stack_id for each in inspections}
    return campaign_contrasts(
        inspections,
        origins=(row[0] for row in connection.execute(_ORIGINS, (key,))),
        failed={s for s in stacks if count_failures(inspections, stack=s, calls=calls)},
    )


def store(connection: sqlite3.Connection, key: int, found: Sequence[CampaignContrasts]) -> None:
    """Replace a campaign's contrasts; it takes a transaction around it."""
    connection.execute("DELETE FROM derived_contrasts WHERE campaign_key = ?", (key,))
    by_indicator: dict[str, list[CampaignContrasts]] = {}
    for each in found:
        by_indicator.setdefault(each.indicator_id, []).append(each)
    connection.executemany(
        "INSERT INTO derived_contrasts SELECT ?, key, ? FROM indicators WHERE id = ?",
        [(key, msgspec.json.encode(rows), name) for name, rows in by_indicator.items()],
    )
    connection.execute("INSERT OR REPLACE INTO derived_campaigns VALUES (?, ?)", (key, DERIVATION))


def load(
    connection: sqlite3.Connection, indicators: Collection[IndicatorId] | None
) -> list[CampaignContrasts]:
    """Return the cached contrasts of these indicators; of all where None is given."""
    wanted = "SELECT content FROM derived_contrasts AS d"
    if indicators is not None:
        marks = ", ".join("?" for _ in indicators)
        wanted += f" JOIN indicators AS i ON i.key = d.indicator_key WHERE i.id IN ({marks})"
    decoder = msgspec.json.Decoder(tuple[CampaignContrasts, ...])
    ordered = f"{wanted} ORDER BY d.campaign_key, d.indicator_key"
    cursor = connection.execute(ordered, tuple(indicators or ()))
    return [each for (content,) in cursor for each in decoder.decode(content)]


def controls_hold(inspections: Sequence[Inspection], calls: Sequence[IndicatorCall]) -> bool:
    """Return whether the controls of a campaign were judged, and none of them failed."""
    baselines = {each.stack_id for each in inspections if each.role is Role.BASELINE}
    used = {each.indicator_id for each in inspections}
    known = [call for call in calls if call.id in used]
    pure = [call for call in known if call.indicator.component == CONTROL_COMPONENT]
    own = [call for call in known if call not in pure]
    judged = [
        control
        for baseline in baselines
        for control in controls(inspections, baseline=baseline, calls=own, pure=(pure or own)[0])
        if control.p_value is not None
    ]
    return bool(judged) and not any(control.failed for control in judged)
