"""Metrics of nights in the text format of Prometheus, as a file or for a push gateway.

The format is lines of text, so it is written here: a client library would keep state that one
short run of a command does not have.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import product
from pathlib import Path
from urllib.parse import quote

from stackgen.errors import UsageError
from stackgen.model.findings import FindingKind, NightOutcome, NightReport
from stackgen.notify import deliver
from stackgen.storage.files import atomic_write_text

_HELP = {
    "stackgen_night_timestamp_seconds": "When the last night ended, in seconds since 1970.",
    "stackgen_night_duration_seconds": "How long it took.",
    "stackgen_night_budget_seconds": "How long it may take.",
    "stackgen_night_outcome": "1 for how it ended, 0 for the other outcomes.",
    "stackgen_night_releases_examined": "Releases that it measured.",
    "stackgen_night_undecided": "What it could not decide; the next night goes on with it.",
    "stackgen_findings_open": "Findings that count, by kind.",
    "stackgen_finding_ratio": "Time of the release before over time of the release; 0 without one.",
}


def metrics_text(nights: Iterable[NightReport]) -> str:
    """Return the metrics of nights."""
    samples: dict[str, list[str]] = {name: [] for name in _HELP}

    def add(name: str, value: float, labels: Mapping[str, str]) -> None:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        samples[f"stackgen_{name}"].append(f"stackgen_{name}{{{pairs}}} {value:.10g}")

    for night in nights:
        own = {"watch": night.watch, "base": night.base}
        ended = datetime.fromisoformat(night.started_at).timestamp() + night.seconds
        add("night_timestamp_seconds", ended, own)
        add("night_duration_seconds", night.seconds, own)
        add("night_budget_seconds", night.budget_s, own)
        for outcome in NightOutcome:
            add("night_outcome", outcome is night.outcome, {**own, "outcome": outcome.value})
        add("night_releases_examined", len(night.examined), own)
        add("night_undecided", len(night.undecided), own)
        found = [each.finding for each in night.open_findings]
        # A night that could not begin knows its base by the findings alone.
        for base, kind in product(sorted({night.base, *(e.base for e in found)}), FindingKind):
            count = sum((e.base, e.kind) == (base, kind) for e in found)
            add("findings_open", count, {**own, "base": base, "kind": kind.value})
        for each in found:
            labels = {"package": each.package, "version": each.version, "kind": each.kind.value}
            labels |= {"base": each.base, "measure": each.measure}
            add("finding_ratio", each.ratio, {**own, **labels})
    lines = []
    for name, values in samples.items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *values]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def export_metrics(target: str, watch: str, nights: Iterable[NightReport]) -> None:
    """Write the metrics of a watch into a folder, or push them to a gateway.

    The target is ``file:FOLDER`` (that of node exporter's textfile collector) or ``push:URL``; each
    watch has a file, or a group, of its own.

    Raises:
        StackgenError: the folder or the gateway cannot be used.
    """
    kind, _, place = target.partition(":")
    text = metrics_text(nights)
    if kind == "push":
        group = f"{place.rstrip('/')}/metrics/job/stackgen/watch/{quote(watch, safe='')}"
        headers = {"Content-Type": "text/plain; version=0.0.4"}
        deliver("the push gateway", "PUT", group, text.encode(), headers)
        return
    try:
        atomic_write_text(Path(place) / f"stackgen-{watch}.prom", text)
    except OSError as error:
        raise UsageError(
            f"cannot write metrics into {place}",
            why=error.strerror or str(error),
            fix="name an existing folder in metrics of the watch",
        ) from error
