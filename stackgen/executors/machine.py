"""Identity and circumstances of the local machine: hardware facts that can change timings."""

import hashlib
import importlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import psutil

from stackgen.model.reports.local import LocalHost
from stackgen.model.stacks import Machine

# GPUs

_TIMEOUT_S = 20
_MIB = 1 << 20
_DEVICES = Path("/dev")
_DEVICE = re.compile(r"nvidia\d+|kfd|dri|dxg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """GPUs of the machine.

    models: name and memory of each, such as ``NVIDIA A100-SXM4-40GB 40960 MiB``.
    driver: its version. cuda: the newest CUDA that the driver knows, such as ``12.4``.
    """

    models: tuple[str, ...] = ()
    driver: str = ""
    cuda: str = ""


def find_gpus() -> Gpus:
    """Return the GPUs of this machine, also those that CUDA_VISIBLE_DEVICES hides."""
    try:
        return from_library(importlib.import_module("pynvml"))
    except Exception:  # noqa: BLE001 # not installed, no driver, or a driver that it does not know
        return from_command()


def any_gpu(gpus: Gpus, devices: Path = _DEVICES) -> bool:
    """Return whether there is a GPU of any vendor, by its model or its device."""
    return bool(gpus.models) or any(
        _DEVICE.fullmatch(each.name) for each in (devices.iterdir() if devices.is_dir() else ())
    )


def from_library(nvml: ModuleType) -> Gpus:
    """Return the GPUs that NVIDIA's management library lists.

    Raises:
        Exception: one of the library's own, as where there is no driver.
    """
    nvml.nvmlInit()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return Gpus(
            models=tuple(
                f"{_text(nvml.nvmlDeviceGetName(each))} "
                f"{nvml.nvmlDeviceGetMemoryInfo(each).total // _MIB} MiB"
                for each in handles
            ),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        )
    finally:
        nvml.nvmlShutdown()


def from_command() -> Gpus:
    """Return the GPUs that ``nvidia-smi`` lists."""
    query = "--query-gpu=name,memory.total,driver_version"
    listed = _output("nvidia-smi", query, "--format=csv,noheader")
    rows = [[cell.strip() for cell in line.split(",")] for line in listed.splitlines()]
    found = [row for row in rows if len(row) == 3]
    if not found:
        return Gpus()
    details = _output("nvidia-smi", "-q", "-d", "MEMORY")
    cuda = re.search(r"CUDA Version\s*:\s*([\d.]+)", details)
    return Gpus(
        models=tuple(f"{name} {memory}" for name, memory, _ in found),
        driver=found[0][2],
        cuda=cuda[1] if cuda else "",
    )


def _text(value: str | bytes) -> str:
    """Return text; releases before 11.515 answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# CPU flags by which numeric code selects its implementation. Other flags depend on kernel,
# microcode and mitigations.
_INSTRUCTION_SETS = re.compile(
    r"(sse|ssse|avx|fma|f16c|bmi|amx|vaes|vpclmul|gfni|sha|aes|popcnt|adx|3dnow|cx16"
    r"|asimd|neon|sve|sme(?!p)|bf16|i8mm|fphp|atomics|altivec|vsx)\w*"
)
# Names in /proc/cpuinfo, on x86 and on ARM.
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
_CPU0 = Path("/sys/devices/system/cpu/cpu0")
_CACHES = _CPU0 / "cache"
_NODES = Path("/sys/devices/system/node")
_GROUPS = Path("/sys/fs/cgroup")
# Files with the vendor of a virtual machine, in this order.
_MAKERS = (Path("/sys/hypervisor/type"), Path("/sys/class/dmi/id/sys_vendor"))
_NO_LIMIT_BYTES = 1 << 60  # "no limit" in version 1 of control groups


def this_machine() -> Machine:
    """Return the local machine; its identity is the same in each run."""
    gpus = find_gpus()
    cpuinfo = _read("/proc/cpuinfo")
    identity = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": str(psutil.cpu_count(logical=False) or 0),
        "cpus": str(psutil.cpu_count() or 0),
        **(_macos() if sys.platform == "darwin" else _linux(cpuinfo)),
        **{f"gpu{number}": name for number, name in enumerate(gpus.models)},
    }
    circumstances = {
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "memory_bytes": str(psutil.virtual_memory().total),
        "host": hashlib.sha256(platform.node().encode()).hexdigest()[:16],
        "microcode": cpu_fields(cpuinfo).get("microcode", ""),
        "governor": _read(_CPU0 / "cpufreq/scaling_governor").strip(),
        "cpu_mhz_max": _most_mhz(cpuinfo),
        "cpu_flags": cpu_flags(cpuinfo),
        "numa_nodes": numa_nodes(_NODES),
        "virtual_machine": _virtual_machine(),
        "gpu_driver": gpus.driver,
        "gpu_cuda": gpus.cuda,
        "usable_cpus": _usable_cpus(),
        **group_limits(_GROUPS, _read("/proc/self/cgroup")),
    }
    return Machine(identity=_pairs(identity), circumstances=_pairs(circumstances))


def this_host() -> LocalHost:
    """Return name, system and memory of this host."""
    release = platform.uname()
    memory = psutil.virtual_memory()
    return LocalHost(
        name=release.node,
        os_release=_pairs(os_release(_read("/etc/os-release") or _read("/usr/lib/os-release"))),
        platform=_pairs({name: getattr(release, name) for name in (*release._fields, "processor")}),
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        memory_used_bytes=memory.used,
    )


def os_release(text: str) -> dict[str, str]:
    """Return the fields of ``/etc/os-release``, their names in lower case."""
    rows = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name.strip().lower(): value.strip().strip("\"'") for name, value in rows}


def cpu_fields(cpuinfo: str) -> dict[str, str]:
    """Return the fields of the first CPU in the text of ``/proc/cpuinfo``."""
    first = cpuinfo.split("\n\n", 1)[0]
    rows = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def cpu_flags(cpuinfo: str) -> str:
    """Return all flags of the first CPU, sorted, with blanks between them."""
    fields = cpu_fields(cpuinfo)
    return " ".join(sorted(f"{fields.get('flags', '')} {fields.get('Features', '')}".split()))


def cpu_identity(cpuinfo: str) -> dict[str, str]:
    """Return the facts in ``/proc/cpuinfo`` that can change timings."""
    fields = cpu_fields(cpuinfo)
    flags = set(cpu_flags(cpuinfo).split())
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


def numa_nodes(folder: Path) -> str:
    """Return the CPUs of each NUMA node, such as ``0:0-15 1:16-31``."""
    found = [
        (int(each.name.removeprefix("node")), _read(each / "cpulist").strip())
        for each in folder.glob("node[0-9]*")
    ]
    return " ".join(f"{number}:{cpus}" for number, cpus in sorted(found))


def group_limits(root: Path, groups: str) -> dict[str, str]:
    """Return what our control group limits: ``cpu_quota`` (CPUs), ``cpuset``, ``memory_limit``.

    Args:
        root: where control groups are mounted.
        groups: the text of ``/proc/self/cgroup``, of version 1, 2, or both.

    In a container the group's own path leads nowhere, its files lie at the top.
    """
    quota = _group_file(root, groups, "cpu", "cpu.max").split()
    if not quota:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota = [_group_file(root, groups, "cpu", name).strip() for name in names]
    memory = _group_file(root, groups, "memory", "memory.max") or _group_file(
        root, groups, "memory", "memory.limit_in_bytes"
    )
    cpuset = _group_file(root, groups, "cpuset", "cpuset.cpus.effective") or _group_file(
        root, groups, "cpuset", "cpuset.effective_cpus"
    )
    limit = int(memory) if memory.strip().isdigit() else _NO_LIMIT_BYTES
    return {
        "cpu_quota": f"{int(quota[0]) / int(quota[1]):g}"
        if len(quota) == 2 and all(part.isdigit() for part in quota)
        else "",
        "cpuset": cpuset.strip(),
        "memory_limit_bytes": str(limit) if limit < _NO_LIMIT_BYTES else "",
    }


def _group_file(root: Path, groups: str, controller: str, name: str) -> str:
    """Return a file of our control group; "" where it has none."""
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            mount = root
        elif controller in controllers.split(","):
            mount = root / controllers if (root / controllers).is_dir() else root / controller
        else:
            continue
        found = _read(mount / path.lstrip("/") / name) or _read(mount / name)
        if found:
            return found
    return ""


def _linux(cpuinfo: str) -> dict[str, str]:
    return {
        **cpu_identity(cpuinfo),
        **dict(_caches()),
        "smt": _read("/sys/devices/system/cpu/smt/active").strip(),
    }


def _caches() -> Iterator[tuple[str, str]]:
    for index in sorted(_CACHES.glob("index*")):
        level, kind, size = (_read(index / name).strip() for name in ("level", "type", "size"))
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        yield f"cache_l{level}{suffix}", size


def _macos() -> dict[str, str]:
    return {ours: _output("sysctl", "-n", name).strip() for ours, name in _SYSCTL.items()}


def _most_mhz(cpuinfo: str) -> str:
    """Return the highest frequency of a CPU in MHz, from the system or from its name."""
    khz = _read(_CPU0 / "cpufreq/cpuinfo_max_freq").strip()
    if khz.isdigit():
        return str(int(khz) // 1000)
    named = re.search(r"@ ([\d.]+)GHz", cpuinfo)
    return f"{float(named[1]) * 1000:.0f}" if named else ""


def _virtual_machine() -> str:
    product = _read("/sys/class/dmi/id/product_name").strip()
    maker = next(filter(None, (_read(path).strip() for path in _MAKERS)), "")
    return f"{maker} {product}".strip()


def _usable_cpus() -> str:
    if not hasattr(os, "sched_getaffinity"):
        return ""
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))


def _pairs(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in values.items() if value))


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Return what a command printed, "" where it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
