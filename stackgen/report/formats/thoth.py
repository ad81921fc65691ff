"""Thoth's inspection result, one for each process, with an indicator's output as its stdout.

Where theirs is open, or not known to us, we write:

- ``elapsed``: the median time of one operation in ms; ``rate``: GFLOP/s at that time, null for
  indicators that do not count FLOP.
- ``exit_code``: 0 where a process ended well, else 1: stackgen keeps how it ended in words.
- ``usage``: of the process once its samples were taken (``getrusage``); null where not recorded.
- ``stderr``: the end of what it printed besides its document. ``script_sha256``: of the script
  alone, without the harness.
- ``hwinfo.cpu_type``: what follows from a CPU's flags and vendor; null for the rest.
"""

from datetime import datetime, timezone

from stackgen.model.inspections import Inspection
from stackgen.model.reports.local import LocalReport, LocalResult
from stackgen.report.formats import fields

# In the order of Python's resource.struct_rusage.
USAGE = (
    *("ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_idrss", "ru_isrss", "ru_minflt"),
    *("ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv"),
    *("ru_nsignals", "ru_nvcsw", "ru_nivcsw"),
)
_GIGA, _MILLI = 1e9, 1e-3


def inspection_results(report: LocalReport) -> list[dict[str, object]]:
    """Return one result for each process, in the order of the combinations."""
    return [_result(report, each, ran) for each in report.results for ran in each.inspections]


def _result(report: LocalReport, result: LocalResult, ran: Inspection) -> dict[str, object]:
    ok = ran.observation is not None
    return {
        "exit_code": 0 if ok else 1,
        "start_datetime": _naive(fields.began(ran)),
        "end_datetime": _naive(fields.ended(ran)),
        "hostname": report.host.name or None,
        "script_sha256": report.script_sha256 or None,
        "os_release": dict(report.host.os_release),
        "runtime_environment": _runtime_environment(report),
        "usage": _usage(ran),
        "stderr": ran.log,
        "stdout": indicator_output(report, result, ran) if ok else "",
        "hwinfo": hwinfo(report, ran),
    }


def indicator_output(
    report: LocalReport, result: LocalResult, ran: Inspection
) -> dict[str, object] | str:
    """Return what an indicator of theirs prints; "" where nothing was measured."""
    seen = ran.observation
    if seen is None:
        return ""
    ordered = sorted(seen.values_s)
    median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    counts = report.indicator.unit == "FLOP" and seen.work
    name = report.indicator.name.rsplit("/", 1)[-1]
    return {
        "component": report.indicator.component,
        "name": "Pi" + "".join(part.capitalize() for part in name.split("_")),
        "@parameters": fields.numbers(result.arguments),
        "@result": {
            "elapsed": median / _MILLI,
            "rate": seen.work / median / _GIGA if counts and seen.work else None,
        },
        "tensorflow_upstream_buildinfo": None,
        "tensorflow_aicoe_buildinfo": None,
    }


def _naive(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds")


def _runtime_environment(report: LocalReport) -> dict[str, object]:
    machine, release = dict(report.machine.identity), dict(report.host.os_release)
    version = report.python_version.rpartition(" ")[2]
    return {
        "cuda_version": dict(report.machine.circumstances).get("gpu_cuda"),
        "hardware": {
            "cpu_family": fields.number(machine.get("cpu_family", "")),
            "cpu_model": fields.number(machine.get("cpu_model", "")),
        },
        "operating_system": {"name": release.get("id"), "version": release.get("version_id")},
        "python_version": ".".join(version.split(".")[:2]),
    }


def _usage(ran: Inspection) -> dict[str, object]:
    texts = fields.circumstances(ran).get("rusage", "").split()
    values = (
        [fields.number(each) for each in texts] if len(texts) == len(USAGE) else [None] * len(USAGE)
    )
    return dict(zip(USAGE, values, strict=True))


def hwinfo(report: LocalReport, ran: Inspection) -> dict[str, object]:
    """Return what is known of the hardware, by the names of theirs."""
    machine, around = dict(report.machine.identity), dict(report.machine.circumstances)
    platform = dict(report.host.platform)
    flags = around.get("cpu_flags", "").split()
    seen = fields.number(fields.circumstances(ran).get("cpu_mhz", ""))
    return {
        "cpu_features": {
            "flags": flags,
            "hz_actual": _hz(seen),
            "hz_actual_raw": None,
            "hz_advertised": _hz(fields.mhz(report)),
            "hz_advertised_raw": None,
            "l1_data_cache_size": fields.size(machine.get("cache_l1d", "")),
            "l1_instruction_cache_size": fields.size(machine.get("cache_l1i", "")),
            "l2_cache_size": fields.size(machine.get("cache_l2", "")),
            "l3_cache_size": fields.size(machine.get("cache_l3", "")),
        },
        "cpu_info": {
            "arch": platform.get("machine", "").upper(),
            "arch_string_raw": platform.get("machine"),
            "brand_raw": machine.get("cpu_name"),
            "count": fields.whole(machine.get("cpus", "")),
            "family": fields.number(machine.get("cpu_family", "")),
            "model": fields.number(machine.get("cpu_model", "")),
            "stepping": fields.number(machine.get("cpu_stepping", "")),
            "vendor_id_raw": machine.get("cpu_vendor"),
        },
        "cpu_type": _cpu_type(machine.get("cpu_vendor", ""), flags, machine.get("cpus", "")),
        "platform": {
            name: platform.get(name)
            for name in ("machine", "node", "release", "version", "processor")
        },
    }


def _hz(mhz: object) -> list[int] | None:
    """Return a frequency as theirs is written: a number, and an exponent of ten."""
    return [round(mhz * 1e6), 0] if isinstance(mhz, int | float) and mhz else None


def _cpu_type(vendor: str, flags: list[str], cpus: str) -> dict[str, object]:
    supported = {f"has_{name}": name in flags for name in ("mmx", "sse", "sse2", "ssse3", "3dnow")}
    return {
        **supported,
        "has_sse3": "pni" in flags or "sse3" in flags,
        "is_64bit": "lm" in flags if vendor in ("GenuineIntel", "AuthenticAMD") else None,
        "is_AMD": vendor == "AuthenticAMD",
        "is_Intel": vendor == "GenuineIntel",
        "ncpus": fields.whole(cpus),
    }
