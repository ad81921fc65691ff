"""Describe an interpreter and the system around it, as one line of JSON.

The text of this file runs inside the interpreter itself (``python -c``, or standard input),
on a host or in a container: standard library alone, Python 3.6 and newer, and no import of ours.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig

BLAS_PACKAGES = ("libblas*", "liblapack*", "libopenblas*", "libatlas*", "libblis*", "*-mkl*")


def run(command: "list[str]") -> str:
    """Return what a command printed on both streams, or "" where it does not exist."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError:
        return ""
    return process.communicate()[0].decode("utf-8", "replace")


def read(path: str) -> str:
    """Return a file's text, or "" where it cannot be read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def markers() -> "dict[str, str]":
    """Return the environment of PEP 508."""
    version = sys.implementation.version
    implementation = "{}.{}.{}".format(*version[:3])
    if version.releaselevel != "final":
        implementation += version.releaselevel[0] + str(version.serial)
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": implementation,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }


def libc() -> "list[str]":
    """Return name and version of the C library, or two empty strings where there is no answer."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        text = ""
    if text.startswith("glibc "):
        return ["glibc", text.split()[1]]
    # musl answers nothing to confstr; its loader says its version when it is run by itself.
    loader = re.search(r"\S*/ld-musl-\S*", read("/proc/self/maps"))
    found = re.search(r"Version (\S+)", run([loader.group()])) if loader else None
    return ["musl", found.group(1)] if found else ["", ""]


def distribution() -> "list[str]":
    """Return id and version of the Linux distribution, "" for what it does not say."""
    text = read("/etc/os-release") or read("/usr/lib/os-release")
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return [pairs.get(key, "").strip("\"'") for key in ("ID", "VERSION_ID")]


def system_packages() -> "list[list[str]]":
    """Return [name, version] of the installed system packages of BLAS and LAPACK, sorted."""
    form = "-f=${db:Status-Status} ${Package} ${Version}\n"
    rows = [row.split() for row in run(["dpkg-query", "-W", form, *BLAS_PACKAGES]).splitlines()]
    return sorted(row[1:] for row in rows if len(row) == 3 and row[0] == "installed")


def macos_version() -> str:
    """Return the version of macOS, or "" elsewhere."""
    version = platform.mac_ver()[0]
    if version == "10.16":  # what older interpreters get in place of 11 and newer
        os.environ["SYSTEM_VERSION_COMPAT"] = "0"
        code = "import platform; print(platform.mac_ver()[0])"
        version = run([sys.executable, "-IS", "-c", code]).strip() or version
    return version


def probe() -> "dict[str, object]":
    """Return everything that stackgen records of an interpreter."""
    return {
        "stackgen_probe": 1,
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "build": sys.version.replace("\n", ""),
        "markers": markers(),
        "soabi": sysconfig.get_config_var("SOABI") or "",
        "abiflags": getattr(sys, "abiflags", ""),
        "debug": bool(sysconfig.get_config_var("Py_DEBUG")),
        "gil_disabled": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "cache_tag": sys.implementation.cache_tag or "",
        "platform": sysconfig.get_platform(),
        "machine": platform.machine(),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "libc": libc(),
        "distribution": distribution(),
        "system_packages": system_packages(),
        "macos": macos_version(),
        "executable": sys.executable,
        "base_executable": getattr(sys, "_base_executable", None) or sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "paths": sysconfig.get_paths(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(), sort_keys=True) + "\n")
