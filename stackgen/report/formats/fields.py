"""What several formats hold of a run, read off a report once."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from stackgen.model.inspections import Inspection, Observation
from stackgen.model.reports.local import LocalReport

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def number(text: str) -> int | float | str | None:
    """Return a number where a text is one, None where it is empty, else the text."""
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, int | float | str | None]:
    """Return pairs with their values as numbers where they are."""
    return {name: number(value) for name, value in pairs}


def size(text: str) -> int | None:
    """Return bytes of a cache's size as the kernel writes it: ``32K``."""
    unit = _UNITS.get(text[-1:])
    digits = text[:-1] if unit else text
    return int(digits) * (unit or 1) if digits.isdigit() else None


def whole(text: str) -> int | None:
    """Return a whole number, None where a text is none."""
    return int(text) if text.isdigit() else None


def label(report: LocalReport, arguments: Iterable[tuple[str, str]]) -> str:
    """Return what a person calls a measurement: ``numpy/matmul size=64``."""
    return " ".join([report.indicator.name, *(f"{name}={value}" for name, value in arguments)])


def circumstances(inspection: Inspection) -> dict[str, str]:
    """Return what was read around the samples; nothing where there are none."""
    seen = inspection.observation
    return dict(seen.circumstances) if seen else {}


def began(inspection: Inspection) -> datetime:
    """Return when an inspection began."""
    return datetime.fromisoformat(inspection.started_at)


def ended(inspection: Inspection) -> datetime:
    """Return when an inspection had ended."""
    return began(inspection) + timedelta(seconds=inspection.duration_s)


def gpus(machine: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return model and MiB of each GPU in a machine's identity (``NVIDIA A100 40960 MiB``)."""
    found = []
    for name in sorted(each for each in machine if each.startswith("gpu")):
        model, _, amount = machine[name].removesuffix(" MiB").rpartition(" ")
        found.append((model, float(amount)) if amount.isdigit() else (machine[name], math.nan))
    return found


def on_gpu(seen: Observation) -> bool:
    """Return whether an operation ran on a GPU: only then is its memory or its state written."""
    names = dict(seen.circumstances)
    return "device_memory_bytes" in names or any(each.startswith("gpu ") for each in names)


def mhz(report: LocalReport) -> float | None:
    """Return the highest frequency of the CPUs, or the one that was seen while measuring."""
    values = [dict(report.machine.circumstances).get("cpu_mhz_max", "")]
    values += [
        dict(seen.circumstances).get("cpu_mhz", "")
        for result in report.results
        for seen in result.observations
    ]
    found = next((number(each) for each in values if each), None)
    return float(found) if isinstance(found, int | float) else None
