"""Make a Debian base without a container registry, from the packages of a Debian mirror."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from stackgen.errors import BuildError

PYTHON = ("python3", "python3-venv")
"""Debian's own Python, for a base that gets no other."""

_TOOL = "debootstrap"
_PACKAGES = ("ca-certificates",)
_TEMPORARY = "stackgen-base-"
_SUITES = "/usr/share/debootstrap"
# What a container gets of its own, and what only the installation needed.
_LEFT_OUT = (
    *("./dev/*", "./proc/*", "./sys/*"),
    *("./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*", "./var/log/*.log"),
)


def obstacle(suite: str = "") -> str:
    """Return why no base of a suite can be made here, or "" where nothing speaks against it."""
    if shutil.which(_TOOL) is None:
        return "debootstrap is not installed"
    if os.geteuid() != 0:
        return "debootstrap needs root, and stackgen does not run as root"
    suites = Path(os.environ.get("DEBOOTSTRAP_DIR", _SUITES)) / "scripts"
    if suite and suites.is_dir() and not (suites / suite).exists():
        return f"debootstrap here knows no suite {suite} (see the names in {suites})"
    return ""


def remove_left_over(folder: Path) -> None:
    """Remove what killed processes left where archives are made; nobody may be making one now."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        _remove(left)


def root_archive(
    suite: str,
    packages: Sequence[str],
    *,
    archive: Path,
    progress: Callable[[str], None],
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a compressed tar of a minimal Debian.

    Args:
        suite: such as ``bookworm``.
        packages: to be added, Python among them unless ``finish`` brings one.
        archive: takes its place whole or not at all.
        progress: is told what happens.
        finish: is given the root before it is packed.

    Raises:
        BuildError: the tool is missing or failed; its own words are the reason.
    """
    if reason := obstacle(suite):
        raise BuildError(f"cannot make a Debian {suite} base", why=reason, fix=_FIX)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=archive.parent) as folder:
        root = Path(folder) / "root"
        include = ",".join((*_PACKAGES, *packages))
        progress(f"making Debian {suite} with debootstrap (about a minute, 300 MB)")
        try:
            _run([_TOOL, "--variant=minbase", f"--include={include}", suite, str(root)], suite)
            if finish is not None:
                finish(root)
            progress(f"packing Debian {suite}")
            _pack(root, Path(folder) / "root.tar.gz", suite)
            (Path(folder) / "root.tar.gz").replace(archive)
        finally:
            _remove(root)


_FIX = "install debootstrap and run as root, or pull an image and name it: --base IMAGE"


def _remove(root: Path) -> None:
    # An interrupted debootstrap leaves /proc mounted in there: never descend into it.
    subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=False)


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
        lines = done.stdout.strip().splitlines()
        # debootstrap's errors begin with E:, and what follows them tells nothing.
        said = [line for line in lines if line.startswith("E: ")] or lines[-3:]
        raise BuildError(
            f"cannot make a Debian {suite} base",
            why=f"{command[0]}: {' / '.join(said[:3])}",
            fix=_fix_for(said),
        )


def _fix_for(said: Sequence[str]) -> str:
    if any(re.search(r"Couldn't find these debs", line) for line in said):
        return "correct packages in the base's definition: this suite has no such packages"
    return _FIX
