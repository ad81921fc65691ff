"""Tell which machine this is: what can change a timing, apart from what is merely so today."""

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from stackgen.values import Machine

# Of the CPU's flags, those that numeric code chooses its kernels by. The others come and go with
# kernels, microcode and mitigations.
_INSTRUCTION_SETS = re.compile(
    r"(sse|ssse|avx|fma|f16c|bmi|amx|vaes|vpclmul|gfni|sha|aes|popcnt|adx|3dnow|cx16"
    r"|asimd|neon|sve|sme(?!p)|bf16|i8mm|fphp|atomics|altivec|vsx)\w*"
)
# Names of /proc/cpuinfo, on x86 and on ARM, by ours.
_CPU_FIELDS = {
    "cpu_vendor": ("vendor_id", "CPU implementer"),
    "cpu_family": ("cpu family", "CPU architecture"),
    "cpu_model": ("model", "CPU part"),
    "cpu_name": ("model name", "Processor"),
    "cpu_stepping": ("stepping", "CPU revision"),
}
_SYSCTL = {
    "cpu_name": "machdep.cpu.brand_string",
    "cpu_family": "hw.cpufamily",
    "cache_l1d": "hw.l1dcachesize",
    "cache_l2": "hw.l2cachesize",
    "virtualised": "kern.hv_vmm_present",
}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU0 = Path("/sys/devices/system/cpu/cpu0")


def this_machine() -> Machine:
    """Return the machine that we run on; the same from run to run."""
    gpus, driver = _gpus()
    identity = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": str(psutil.cpu_count(logical=False) or 0),
        "cpus": str(psutil.cpu_count() or 0),
        **(_macos() if sys.platform == "darwin" else _linux()),
        **{f"gpu{number}": name for number, name in enumerate(gpus)},
    }
    circumstances = {
        "kernel": platform.release(),
        "memory_bytes": str(psutil.virtual_memory().total),
        "host": hashlib.sha256(platform.node().encode()).hexdigest()[:16],
        "microcode": cpu_fields(_read("/proc/cpuinfo")).get("microcode", ""),
        "governor": _read(str(_CPU0 / "cpufreq/scaling_governor")).strip(),
        "gpu_driver": driver,
        "usable_cpus": _usable_cpus(),
    }
    return Machine(identity=_pairs(identity), circumstances=_pairs(circumstances))


def cpu_fields(cpuinfo: str) -> dict[str, str]:
    """Return the fields of the first CPU in the text of ``/proc/cpuinfo``."""
    first = cpuinfo.split("\n\n", 1)[0]
    rows = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def cpu_identity(cpuinfo: str) -> dict[str, str]:
    """Return what the text of ``/proc/cpuinfo`` says of a CPU that can change a timing."""
    fields = cpu_fields(cpuinfo)
    flags = set(f"{fields.get('flags', '')} {fields.get('Features', '')}".split())
    found = {
        ours: next((fields[theirs] for theirs in names if theirs in fields), "")
        for ours, names in _CPU_FIELDS.items()
    }
    sockets = set(re.findall(r"^physical id\s*: (\d+)", cpuinfo, re.MULTILINE))
    return {
        **found,
        "instruction_sets": " ".join(sorted(filter(_INSTRUCTION_SETS.fullmatch, flags))),
        "sockets": str(len(sockets) or 1),
        "virtualised": "1" if "hypervisor" in flags else "",
    }


def _linux() -> dict[str, str]:
    return {
        **cpu_identity(_read("/proc/cpuinfo")),
        **dict(_caches()),
        "smt": _read("/sys/devices/system/cpu/smt/active").strip(),
    }


def _caches() -> Iterator[tuple[str, str]]:
    for index in sorted(_CACHES.glob("index*")):
        level, kind, size = (_read(str(index / name)).strip() for name in ("level", "type", "size"))
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        yield f"cache_l{level}{suffix}", size


def _macos() -> dict[str, str]:
    return {ours: _output("sysctl", "-n", name).strip() for ours, name in _SYSCTL.items()}


def _gpus() -> tuple[tuple[str, ...], str]:
    """Return the models of the GPUs with their memory, and the driver's version."""
    query = "--query-gpu=name,memory.total,driver_version"
    rows = [
        [cell.strip() for cell in line.split(",")]
        for line in _output("nvidia-smi", query, "--format=csv,noheader").splitlines()
    ]
    found = [row for row in rows if len(row) == 3]
    return tuple(f"{name} {memory}" for name, memory, _ in found), found[0][2] if found else ""


def _usable_cpus() -> str:
    if not hasattr(os, "sched_getaffinity"):
        return ""
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))


def _pairs(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in values.items() if value))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Return what a command printed, "" where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
