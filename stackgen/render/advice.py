"""An advice in plain English."""

from stackgen.render.explore import interval, verdict
from stackgen.render.tables import columns
from stackgen.values import AdviceReport, Origin, Verdict

TOLD = ("tensorflow", "tensorflow-cpu", "torch", "numpy")
"""Packages whose locked versions head an advice."""


def advice_text(report: AdviceReport) -> str:
    """Return current and recommended versions, the speed-up with its interval, and caveats."""
    advice = report.advice
    names = dict(report.indicators)
    lines = [f"{report.lockfile.path}"]
    locked = {each.name: each.version for each in report.lockfile.packages}
    current = [f"{name} {locked[name]}" for name in TOLD if name in locked]
    lines += [f"Current: {', '.join(current)}"] if current else []
    if advice.lock is None and not advice.effects:
        lines += ["Nothing that was measured beside this lock can be recommended (see the notes)."]
    elif advice.lock is None and all(effect.low <= 0 for effect in advice.effects):
        lines += ["Not decided yet: too few blocks were measured for an answer."]
    elif advice.lock is None:
        lines += ["No measurable difference: nothing that was measured is faster than this lock."]
    else:
        rows = [("package", "current", "recommended")]
        rows += [(c.name, c.current or "-", c.recommended or "-") for c in advice.changes]
        lines += [*columns(rows), ""]
    for effect in advice.effects:
        label = names.get(effect.indicator_id, effect.indicator_id)
        if effect.verdict is Verdict.FASTER:
            lines.append(
                f"Expected speed-up on {label}: {effect.ratio:.2f} times as fast "
                f"{interval(effect)}, {effect.blocks} blocks"
            )
        else:
            lines.append(
                f"On {label}: {verdict(effect)} {interval(effect)}, {effect.blocks} blocks"
            )
    lines += [f"Note: {caveat}" for caveat in advice.caveats]
    lines += [f"Evidence: {report.knowledge_base}"]
    lines += [
        f"Merged from {_origin(origin)}: {count} of {report.inspections} inspections"
        for origin, count in report.merged
    ]
    if advice.lock is None:
        lines += [f"To measure more: {report.explore_command}"]
    return "\n".join(lines)


def _origin(origin: Origin) -> str:
    base = f"knowledge base {origin.base_id[:12]}, " if origin.base_id else ""
    return f"{origin.file} ({base}{origin.merged_at[:10]})"
