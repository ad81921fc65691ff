"""PerfZero's summary (``perfzero_summary.json``), one for each combination of parameters.

Where theirs is open, we write:

- ``wall_time``: the median time of one operation in seconds, -1 where none was measured. (Theirs
  is whatever a benchmark reports: often one step, sometimes a whole run.)
- ``metrics``: the other times, rates, and facts; ``exp_per_second`` are samples per second, as in
  TensorFlow's models. ``extras``: the parameters.
- ``harness_info``: the package's version stands where theirs has a branch, and the digest of the
  indicator with its harness where theirs has a commit; so does ``site_package_info`` for each
  distribution that was loaded (theirs are git checkouts).
- ``max_cpu_percent``: the mean over the samples, all cores together. ``max_vms`` is not recorded.
"""

from stackgen import __version__
from stackgen.model.reports.local import Figures, LocalReport, LocalResult
from stackgen.report.formats import fields

_PERCENT = 100.0


def summaries(report: LocalReport) -> list[dict[str, object]]:
    """Return one summary for each combination of parameters."""
    return [_summary(report, each) for each in report.results]


def _summary(report: LocalReport, result: LocalResult) -> dict[str, object]:
    first = fields.began(result.inspections[0])
    return {
        "execution_id": first.strftime("%Y-%m-%d-%H-%M-%S-%f"),
        "execution_timestamp": first.timestamp(),
        "benchmark_result": _benchmark_result(report, result),
        "benchmark_info": _benchmark_info(report, result),
        "setup_info": {},
        "ml_framework_info": {
            "name": report.indicator.component,
            "version": report.component_version or None,
            "build_version": None,
            "build_label": None,
        },
        "system_info": _system_info(report),
        "process_info": _process_info(result),
    }


def _benchmark_result(report: LocalReport, result: LocalResult) -> dict[str, object]:
    found = result.figures
    return {
        "name": fields.label(report, result.arguments),
        "wall_time": found.median_s if found else -1,
        "succeeded": result.failure is None,
        "extras": [
            {"name": name, "value": fields.number(value)} for name, value in result.arguments
        ],
        "metrics": _metrics(found, report.indicator.unit) if found else [],
        "trial_id": result.inspections[0].id,
    }


def _metrics(found: Figures, unit: str) -> list[dict[str, object]]:
    values: dict[str, object] = {
        "best_time": found.best_s,
        "mean_time": found.mean_s,
        "std_time": found.std_s,
        "p90_time": found.p90_s,
        "p99_time": found.p99_s,
        "exp_per_second": found.items_per_s,
        f"{unit.lower()}_per_second": found.rate,
        "device_memory_bytes": found.device_memory_bytes,
        **fields.numbers(found.facts),
    }
    return [{"name": name, "value": value} for name, value in values.items() if value is not None]


def _benchmark_info(report: LocalReport, result: LocalResult) -> dict[str, object]:
    recorded = fields.circumstances(result.inspections[0])
    seen = result.observations
    return {
        "harness_name": "stackgen",
        "harness_info": {"url": None, "branch": __version__, "hash": report.indicator.sha256},
        "has_exception": result.failure is not None,
        "execution_label": fields.label(report, result.arguments),
        "output_url": None,
        "env_vars": {
            name.removeprefix("env "): value
            for name, value in recorded.items()
            if name.startswith("env ")
        },
        "flags": dict(result.arguments),
        "site_package_info": {
            each.name: {"url": None, "branch": each.version, "hash": None}
            for each in (seen[0].loaded if seen else ())
        },
    }


def _system_info(report: LocalReport) -> dict[str, object]:
    machine = dict(report.machine.identity)
    gpus = fields.gpus(machine)
    return {
        "platform_name": dict(report.machine.circumstances).get("virtual_machine"),
        "system_name": machine.get("system"),
        "accelerator_count": len(gpus),
        "accelerator_model": gpus[0][0] if gpus else None,
        "accelerator_driver_version": dict(report.machine.circumstances).get("gpu_driver"),
        "cpu_model": machine.get("cpu_name"),
        "physical_cpu_count": fields.whole(machine.get("cores", "")),
        "logical_cpu_count": fields.whole(machine.get("cpus", "")),
        "cpu_socket_count": fields.whole(machine.get("sockets", "")),
        "hostname": report.host.name or None,
    }


def _process_info(result: LocalResult) -> dict[str, object]:
    found = result.figures
    shares = []
    for each in result.inspections:
        numbers = fields.numbers(fields.circumstances(each).items())
        used, wall = numbers.get("cpu_time_s"), numbers.get("wall_s")
        if isinstance(used, int | float) and isinstance(wall, int | float) and wall > 0:
            shares.append(_PERCENT * used / wall)
    return {
        "max_rss": found.peak_memory_bytes if found else None,
        "max_vms": None,
        "max_cpu_percent": max(shares, default=None),
    }
