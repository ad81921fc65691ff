"""The GPUs of this machine, by NVIDIA's library where its Python package is installed.

``pip install "stackgen[gpu]"`` brings the package; without it, ``nvidia-smi`` is asked. Both say
the same of a GPU, so that a machine keeps its identity whichever answers.
"""

import importlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_TIMEOUT_S = 20
_MIB = 1 << 20
_DEVICES = Path("/dev")
_DEVICE = re.compile(r"nvidia\d+|kfd|dri|dxg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """What there is.

    models: name and memory of each, such as ``NVIDIA A100-SXM4-40GB 40960 MiB``.
    driver: its version. cuda: the newest CUDA that the driver knows, such as ``12.4``.
    """

    models: tuple[str, ...] = ()
    driver: str = ""
    cuda: str = ""


def find_gpus() -> Gpus:
    """Return the GPUs of this machine, also those that the user hides from CUDA."""
    try:
        return from_library(importlib.import_module("pynvml"))
    except Exception:  # noqa: BLE001 # not installed, no driver, or a driver that it does not know
        return from_command()


def any_gpu(gpus: Gpus, devices: Path = _DEVICES) -> bool:
    """Return whether there is a GPU of any maker, also where only its device tells of it."""
    return bool(gpus.models) or any(
        _DEVICE.fullmatch(each.name) for each in (devices.iterdir() if devices.is_dir() else ())
    )


def from_library(nvml: ModuleType) -> Gpus:
    """Return what NVIDIA's management library says.

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
    """Return what ``nvidia-smi`` says; nothing where there is none."""
    query = "--query-gpu=name,memory.total,driver_version"
    said = _output("nvidia-smi", query, "--format=csv,noheader")
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
    found = [row for row in rows if len(row) == 3]
    if not found:
        return Gpus()
    told = _output("nvidia-smi", "-q", "-d", "MEMORY")
    cuda = re.search(r"CUDA Version\s*:\s*([\d.]+)", told)
    return Gpus(
        models=tuple(f"{name} {memory}" for name, memory, _ in found),
        driver=found[0][2],
        cuda=cuda[1] if cuda else "",
    )


def _text(value: str | bytes) -> str:
    """Return text; releases before 11.515 answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _output(*command: str) -> str:
    """Return what a command printed, "" where it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
