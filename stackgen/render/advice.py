"""An advice in plain English."""

from stackgen.render.explore import interval, verdict
from stackgen.render.tables import columns
from stackgen.values import AdviceReport, Change, Effect, Origin, Provenance, Verdict

TOLD = ("tensorflow", "tensorflow-cpu", "torch", "numpy")
"""Packages whose locked versions head an advice."""

_MOST_SHOWN = 6


def advice_text(report: AdviceReport) -> str:
    """Return current and recommended versions, what was measured of them, and caveats."""
    advice = report.advice
    lines = [f"{report.lockfile.path}"]
    locked = {each.name: each.version for each in report.lockfile.packages}
    current = [f"{name} {locked[name]}" for name in TOLD if name in locked]
    lines += [f"Current: {', '.join(current)}"] if current else []
    if advice.refused:
        lines += [f"Measured to be faster, but not recommended: {advice.refused}"]
    elif advice.lock is None and not advice.effects:
        lines += ["Nothing that was measured beside this lock can be recommended (see the notes)."]
    elif advice.lock is None and all(effect.low <= 0 for effect in advice.effects):
        lines += ["Not decided yet: too few blocks were measured for an answer."]
    elif advice.lock is None:
        lines += ["No measurable difference: nothing that was measured is faster than this lock."]
    else:
        rows = [("package", "current", "recommended")]
        rows += [(c.name, c.current or "-", c.recommended or "-") for c in advice.changes]
        lines += [*columns(rows), ""]
    for effect, provenance in zip(advice.effects, advice.provenance, strict=True):
        lines += _measured(effect, provenance, recommended=advice.lock is not None)
    lines += [f"Note: {caveat}" for caveat in advice.caveats]
    lines += [f"Evidence: {report.knowledge_base}"]
    lines += [
        f"Merged from {_origin(origin)}: {count} of {report.inspections} inspections"
        for origin, count in report.merged
    ]
    if advice.lock is None and report.explore_command:
        lines += [f"To measure more: {report.explore_command}"]
    return "\n".join(lines)


def _origin(origin: Origin) -> str:
    base = f"knowledge base {origin.base_id[:12]}, " if origin.base_id else ""
    return f"{origin.file} ({base}{origin.merged_at[:10]})"


def _measured(effect: Effect, provenance: Provenance, *, recommended: bool) -> list[str]:
    """Return an effect with its estimate and interval, and what it rests on."""
    ratio = f"{effect.ratio:.2f} times as {'good' if provenance.is_figure else 'fast'}"
    said = f"{ratio} {interval(effect)}, {effect.blocks} blocks"
    if recommended and effect.verdict is Verdict.FASTER and not provenance.is_figure:
        first = f"Expected speed-up on {provenance.indicator}: {said}"
    else:
        words = verdict(effect, figure=provenance.is_figure)
        first = f"On {provenance.indicator}: {words}: {said}"
    days = dict.fromkeys((provenance.first[:10], provenance.last[:10]))
    return [
        first,
        f"  compared: {_versions(provenance.compared)}",
        f"  measured: {' to '.join(days)} on {provenance.machine}, Python {provenance.python}",
    ]


def _versions(compared: tuple[Change, ...]) -> str:
    told = [f"{c.name} {c.current or '-'} -> {c.recommended or '-'}" for c in compared]
    more = f" and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
    return f"{', '.join(told[:_MOST_SHOWN])}{more}"
