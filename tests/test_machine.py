"""A machine is told apart by what can change a timing, and by nothing that changes by itself."""

from stackgen.executors.machine import cpu_identity, this_machine

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
