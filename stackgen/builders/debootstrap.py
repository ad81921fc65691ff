"""Make a Debian base without a container registry, from the packages of a Debian mirror."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from stackgen.errors import BuildError

_TOOL = "debootstrap"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
# What a container gets of its own, and what only the installation needed.
_LEFT_OUT = (
    *("./dev/*", "./proc/*", "./sys/*"),
    *("./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*", "./var/log/*.log"),
)


def obstacle() -> str:
    """Return why no base can be made here, or "" where nothing speaks against it."""
    if shutil.which(_TOOL) is None:
        return "debootstrap is not installed"
    if os.geteuid() != 0:
        return "debootstrap needs root, and stackgen does not run as root"
    return ""


def root_archive(
    suite: str, packages: Sequence[str], *, archive: Path, progress: Callable[[str], None]
) -> None:
    """Write a compressed tar of a minimal Debian with Python.

    Args:
        suite: such as ``bookworm``.
        packages: to be added.
        archive: takes its place whole or not at all.
        progress: is told what happens.

    Raises:
        BuildError: the tool is missing or failed; its own words are the reason.
    """
    if reason := obstacle():
        raise BuildError(f"cannot make a Debian {suite} base", why=reason, fix=_FIX)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stackgen-base-", dir=archive.parent) as folder:
        root = Path(folder) / "root"
        include = ",".join((*_PACKAGES, *packages))
        progress(f"making Debian {suite} with debootstrap (about a minute, 300 MB)")
        try:
            _run([_TOOL, "--variant=minbase", f"--include={include}", suite, str(root)], suite)
            progress(f"packing Debian {suite}")
            _pack(root, Path(folder) / "root.tar.gz", suite)
            (Path(folder) / "root.tar.gz").replace(archive)
        finally:
            # An interrupted debootstrap leaves /proc mounted in there: never descend into it.
            subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=False)


_FIX = "install debootstrap and run as root, or pull an image and name it: --base IMAGE"


def _pack(root: Path, archive: Path, suite: str) -> None:
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    options = ["--numeric-owner", "--sort=name", "--use-compress-program=gzip -1"]
    _run(["tar", *options, *left_out, "-C", str(root), "-cf", str(archive), "."], suite)


def _run(command: Sequence[str], suite: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        last = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise BuildError(
            f"cannot make a Debian {suite} base", why=f"{command[0]}: {last}", fix=_FIX
        )
