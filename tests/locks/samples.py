"""Lock files that the tools themselves wrote (their names and versions stand in the files).

Asked of each but where noted: tensorflow==2.12.* and requests[socks]>=2.31, pytest for development,
Python 3.11. Addresses were replaced by neutral ones, and pip-tools' --find-links line taken out.
"""

from pathlib import Path

from stackgen.model.packages import Target

FOLDER = Path(__file__).parent / "samples"


def text(name: str) -> str:
    """Return what a sample holds."""
    return (FOLDER / name).read_text("utf-8")


def target(python: str = "3.11.7", platform: str = "linux") -> Target:
    """Return a target with these markers and no tags."""
    markers = {
        "implementation_name": "cpython",
        "implementation_version": python,
        "os_name": "nt" if platform == "win32" else "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "6.1",
        "platform_system": {"linux": "Linux", "win32": "Windows"}[platform],
        "platform_version": "1",
        "python_full_version": python,
        "python_version": python.rsplit(".", 1)[0],
        "sys_platform": platform,
    }
    return Target(python=python, markers=tuple(sorted(markers.items())), tags=())


TARGET = target()
