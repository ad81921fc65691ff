"""A machine is told apart by what can change a timing, and by nothing that changes by itself."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from stackgen.executors.machine import (
    Gpus,
    any_gpu,
    cpu_identity,
    find_gpus,
    from_library,
    group_limits,
    numa_nodes,
    os_release,
    this_host,
    this_machine,
)

X86 = """processor : 0
vendor_id : GenuineIntel
cpu family : 6
model : 85
model name : Some Xeon
stepping : 7
microcode : 0x5003604
cpu MHz : 2500.1
physical id : 0
flags : fpu sse2 avx512f fma md_clear retpoline hypervisor smep

processor : 1
vendor_id : GenuineIntel
physical id : 1
flags : fpu sse2
"""
ARM = "processor : 0\nFeatures : fp asimd sve\nCPU implementer : 0x41\nCPU part : 0xd40\n"


def test_the_machine_is_the_same_from_run_to_run() -> None:
    assert this_machine().id == this_machine().id


def test_kernel_and_memory_are_circumstances() -> None:
    machine = this_machine()
    assert {"kernel", "memory_bytes"} <= dict(machine.circumstances).keys()
    assert not {"kernel", "memory_bytes", "microcode"} & dict(machine.identity).keys()


def test_clock_microcode_and_mitigations_do_not_change_an_identity() -> None:
    later = X86.replace("0x5003604", "0x6").replace("2500.1", "3100").replace("md_clear ", "")
    assert cpu_identity(later) == cpu_identity(X86)


def test_another_instruction_set_is_another_machine() -> None:
    assert cpu_identity(X86.replace("avx512f", "avx2")) != cpu_identity(X86)


def test_an_x86_cpu_is_read() -> None:
    found = cpu_identity(X86)
    assert (found["cpu_model"], found["cpu_stepping"], found["sockets"]) == ("85", "7", "2")
    assert found["instruction_sets"] == "avx512f fma sse2"
    assert found["virtualised"] == "1"


def test_an_arm_cpu_is_read() -> None:
    found = cpu_identity(ARM)
    assert (found["cpu_vendor"], found["cpu_model"]) == ("0x41", "0xd40")
    assert found["instruction_sets"] == "asimd sve"


def test_what_is_recorded_besides_leaves_the_identity_as_it_was() -> None:
    """Machines in knowledge bases keep their ids: these names, and no others, make them."""
    names = dict(this_machine().identity).keys()
    assert names <= {
        *("architecture", "cores", "cpus", "system", "smt", "sockets", "virtualised"),
        *("cpu_family", "cpu_model", "cpu_name", "cpu_stepping", "cpu_vendor"),
        *("instruction_sets", "cache_l1", "cache_l1d", "cache_l1i", "cache_l2", "cache_l3"),
        *(name for name in names if name.startswith("gpu")),
    }


def test_flags_libc_and_nodes_are_circumstances() -> None:
    machine = this_machine()
    reported = dict(machine.circumstances)
    assert {"libc", "cpu_flags", "numa_nodes"} <= reported.keys()
    assert set(dict(machine.identity)["instruction_sets"].split()) < set(
        reported["cpu_flags"].split()
    )


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_nodes_of_memory_are_reported_with_their_cpus(tmp_path: Path) -> None:
    files = {"node1/cpulist": "8-15\n", "node0/cpulist": "0-7\n", "node10/cpulist": "\n"}
    assert numa_nodes(write(tmp_path, files)) == "0:0-7 1:8-15 10:"


def test_limits_of_a_control_group_of_version_2(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "mine/cpu.max": "150000 100000\n",
            "mine/memory.max": "1073741824\n",
            "mine/cpuset.cpus.effective": "2-3\n",
        },
    )
    found = group_limits(root, "0::/mine\n")
    assert found == {"cpu_quota": "1.5", "cpuset": "2-3", "memory_limit_bytes": "1073741824"}


def test_limits_of_a_container_of_version_1(tmp_path: Path) -> None:
    """There, the path is that of the host, and the group's files lie at the top."""
    root = write(
        tmp_path,
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "cpuset/cpuset.effective_cpus": "0\n",
        },
    )
    groups = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n3:cpuset:/docker/abc\n0::/x\n"
    found = group_limits(root, groups)
    assert found == {"cpu_quota": "0.5", "cpuset": "0", "memory_limit_bytes": ""}


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    root = write(tmp_path, {"cpu.max": "max 100000\n", "memory.max": "max\n"})
    assert set(group_limits(root, "0::/\n").values()) == {""}
    assert set(group_limits(tmp_path / "none", "").values()) == {""}


def test_the_host_is_named() -> None:
    host = this_host()
    assert host.name
    assert dict(host.platform)["release"]
    assert 0 < host.memory_available_bytes <= host.memory_total_bytes


def test_what_a_distribution_calls_itself_is_read() -> None:
    text = 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\n# a remark\nID=debian\n'
    assert os_release(text) == {"name": "Debian GNU/Linux", "version_id": "12", "id": "debian"}


SMI = """#!/bin/sh
case "$1" in
  --query-gpu=name,memory.total,driver_version)
    echo "NVIDIA A100-SXM4-40GB, 40960 MiB, 550.54.15"; echo "Tesla T4, 15360 MiB, 550.54.15";;
  -q) echo "Driver Version                            : 550.54.15"
      echo "CUDA Version                              : 12.4";;
esac
"""
BOTH = Gpus(
    models=("NVIDIA A100-SXM4-40GB 40960 MiB", "Tesla T4 15360 MiB"),
    driver="550.54.15",
    cuda="12.4",
)


def command(folder: Path, text: str) -> None:
    (folder / "nvidia-smi").write_text(text)
    (folder / "nvidia-smi").chmod(0o755)


def test_gpus_are_reported_by_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command(tmp_path, SMI)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_gpus() == BOTH
    machine = this_machine()
    assert dict(machine.identity)["gpu1"] == "Tesla T4 15360 MiB"
    circumstances = dict(machine.circumstances)
    assert (circumstances["gpu_driver"], circumstances["gpu_cuda"]) == ("550.54.15", "12.4")


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\necho No devices\n"])
def test_a_driver_that_is_broken_has_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    command(tmp_path, text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_gpus() == Gpus()


def test_a_gpu_of_any_maker_is_noticed(tmp_path: Path) -> None:
    assert not any_gpu(Gpus(), write(tmp_path, {"null": "", "nvidiactl": ""}))
    assert any_gpu(BOTH, tmp_path)
    assert any_gpu(Gpus(), write(tmp_path, {"kfd": ""}))


class Nvml(ModuleType):
    """A driver's library with two GPUs, in the place of one that no test machine has."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 # as the library has it
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:  # noqa: N802
        return at

    def nvmlDeviceGetName(self, at: int) -> bytes | str:  # noqa: N802
        return b"Tesla T4" if at else "NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetMemoryInfo(self, at: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=(15360 if at else 40960) << 20)

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "550.54.15"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 12040


def test_the_drivers_library_says_the_same_as_its_command() -> None:
    library = Nvml()
    assert from_library(library) == BOTH
    assert library.open == 0
