"""pyperf's JSON (version 1.0): one benchmark for each combination, one run for each process.

``pyperf stats``, ``hist`` and ``compare_to`` read it. Values are seconds of one operation, as
pyperf's are; loops are operations per value. Warm-ups are not recorded, so there are none. Only
combinations that were measured are in it.
"""

from datetime import timezone

from stackgen.errors import MeasurementError
from stackgen.model.inspections import Inspection, Observation
from stackgen.model.reports.local import LocalReport, LocalResult
from stackgen.report.formats import fields

VERSION = "1.0"


def suite(report: LocalReport) -> dict[str, object]:
    """Return a suite of benchmarks.

    Raises:
        MeasurementError: nothing was measured, and pyperf knows no empty suite.
    """
    benchmarks = [_benchmark(report, each) for each in report.results if each.figures]
    if not benchmarks:
        raise MeasurementError(
            "there is nothing to write for pyperf",
            why="no combination was measured, and its format holds no failures",
            fix="see what failed: leave --format out, or use --json",
        )
    return {"version": VERSION, "metadata": _common(report), "benchmarks": benchmarks}


def _common(report: LocalReport) -> dict[str, object]:
    machine, platform = dict(report.machine.identity), dict(report.host.platform)
    implementation, _, version = report.python_version.partition(" ")
    metadata = {
        "unit": "second",
        "timer": "time.perf_counter()",
        "hostname": report.host.name,
        "platform": f"{platform.get('system', '')}-{platform.get('release', '')}"
        f"-{platform.get('machine', '')}",
        "cpu_count": fields.whole(machine.get("cpus", "")),
        "cpu_model_name": machine.get("cpu_name"),
        "python_implementation": implementation.lower(),
        "python_version": version,
        "python_executable": report.python,
        f"{report.indicator.component}_version": report.component_version,
    }
    return {name: value for name, value in metadata.items() if value not in (None, "")}


def _benchmark(report: LocalReport, result: LocalResult) -> dict[str, object]:
    name = fields.label(report, result.arguments)
    runs = [_run(each, each.observation) for each in result.inspections if each.observation]
    loops = result.observations[0].loops
    return {"metadata": {"name": name, "loops": loops}, "runs": runs}


def _run(inspection: Inspection, seen: Observation) -> dict[str, object]:
    numbers = fields.numbers(seen.circumstances)
    load = fields.number(str(numbers.get("load") or "").partition(" ")[0])
    began = fields.began(inspection).astimezone(timezone.utc).replace(tzinfo=None)
    metadata = {
        "loops": seen.loops,
        "date": began.isoformat(" ", timespec="microseconds"),
        "duration": inspection.duration_s,
        "load_avg_1min": load if isinstance(load, int | float) else None,
        "mem_max_rss": seen.peak_memory_bytes,
        "cpu_affinity": str(numbers["cpus"]) if numbers.get("cpus") is not None else None,
        "cpu_freq": f"{numbers['cpu_mhz']} MHz" if numbers.get("cpu_mhz") else None,
    }
    return {
        "metadata": {name: value for name, value in metadata.items() if value is not None},
        "values": list(seen.values_s),
    }
