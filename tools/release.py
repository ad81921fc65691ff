"""Build a release twice, check it, install it in clean environments, and try it there.

``python -m tools.release dist`` (``make release``) leaves wheel and source distribution in
``dist``. Nothing is published; ``.github/workflows/release.yml`` would do that for a tag.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ("pis", "images", "kb")
"""Folders of data that travel in the wheel, below ``stackgen/_shipped``."""
REQUIREMENT = "numpy>=1.26"
INSTALLERS = ("pip", "uv", "pipx")
ENDS = (0, 3)
"""How an exploration may end: with an answer, or with none yet."""


class ReleaseError(Exception):
    """The release is not fit to be published."""


# Version, changelog, tag


def disagreements(
    version: str, changelog: str, tags: Iterable[str], here: Iterable[str]
) -> list[str]:
    """Return what does not agree with a version.

    Args:
        version: of the package.
        changelog: its text; the first heading of level two names a version, or ``Unreleased``.
        tags: all tags of the repository.
        here: those of the commit that is built.
    """
    found = []
    heading = re.search(r"^## \[?([^\]\s]+)", changelog, re.MULTILINE)
    newest = heading[1] if heading else ""
    own = f"v{version}"
    released = [tag for tag in here if re.fullmatch(r"v\d.*", tag)]
    if released and released != [own]:
        found.append(f"the commit has the tag {released[0]}, the package the version {version}")
    if released and newest != version:
        found.append(
            f"{released[0]} is tagged, and the changelog begins with {newest or 'nothing'}"
        )
    if not released and own in set(tags):
        found.append(f"{own} is the tag of another commit: raise the version")
    if not released and newest not in ("Unreleased", version):
        found.append(f"the changelog begins with {newest or 'nothing'}, not with {version}")
    return found


def _git(*arguments: str) -> str:
    return _run(["git", "-C", str(ROOT), *arguments])


# Building


def build(commit: str, folder: Path) -> dict[str, bytes]:
    """Build wheel and sdist of a commit's files, and return their bytes by name."""
    sources = folder / "sources"
    sources.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(sources)], input=archive.stdout, check=True)
    date = _git("log", "-1", "--format=%ct", commit).strip()
    _run(
        [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(sources)],
        {"SOURCE_DATE_EPOCH": date},
    )
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """Return the files that two builds do not have alike."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


# Contents


def lacking(wheel: Path, sdist: Path, tracked: Iterable[str]) -> list[str]:
    """Return what a wheel or an sdist should hold and does not, and what it should not hold.

    tracked: paths of the repository's files.
    """
    files = set(tracked)
    package = {path for path in files if path.startswith("stackgen/")}
    data = {path for path in files if path.startswith(tuple(f"{each}/" for each in SHIPPED))}
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    info = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
    wanted = package | {f"stackgen/_shipped/{path}" for path in data}
    wanted |= {"stackgen/py.typed", f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"}
    surplus = {name for name in names - wanted if not name.startswith(f"{info}/")}
    with tarfile.open(sdist) as opened_sdist:
        members = {name.partition("/")[2] for name in opened_sdist.getnames()}
    needed = package | data | {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"}
    return [
        *(f"{wheel.name} lacks {name}" for name in sorted(wanted - names)),
        *(f"{wheel.name} holds {name}" for name in sorted(surplus)),
        *(f"{sdist.name} lacks {name}" for name in sorted(needed - members)),
    ]


# Trying it


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A clean environment: how the wheel is installed there, and where the command is then."""

    name: str
    steps: tuple[tuple[str, ...], ...]
    command: Path
    environ: Mapping[str, str]


def trials(wheel: Path, folder: Path) -> Iterator[Trial]:
    """Yield an environment for each installer that is at hand."""
    target = folder / "pip"
    python = str(target / "bin" / "python")
    yield Trial(
        name="pip",
        steps=(
            (sys.executable, "-m", "venv", str(target)),
            (python, "-m", "pip", "install", "--quiet", str(wheel)),
        ),
        command=target / "bin" / "stackgen",
        environ={},
    )
    if found := shutil.which("uv"):
        places = {"UV_TOOL_DIR": str(folder / "uv"), "UV_TOOL_BIN_DIR": str(folder / "uv-bin")}
        yield Trial(
            name="uv",
            steps=((found, "tool", "install", "--quiet", "--python", sys.executable, str(wheel)),),
            command=folder / "uv-bin" / "stackgen",
            environ=places,
        )
    if found := shutil.which("pipx"):
        places = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "pipx-bin")}
        yield Trial(
            name="pipx",
            steps=((found, "install", "--quiet", "--python", sys.executable, str(wheel)),),
            command=folder / "pipx-bin" / "stackgen",
            environ=places,
        )


def attempt(trial: Trial, folder: Path, version: str, budget: str) -> None:
    """Install, and run what a new user would run, with caches and a knowledge base of their own.

    Raises:
        ReleaseError: something fails, or is not as announced.
    """
    environ = {
        **trial.environ,
        "STACKGEN_CACHE": str(folder / "cache"),
        "STACKGEN_KB": str(folder / f"{trial.name}.db"),
    }
    for step in trial.steps:
        _run(step, environ)
    command = str(trial.command)
    said = _run([command, "--version"], environ).strip()
    if said != f"stackgen {version}":
        raise ReleaseError(f"{trial.name}: --version prints {said!r}, not stackgen {version}")
    _run([command, "doctor"], environ, cwd=folder)
    lock = _run([command, "resolve", REQUIREMENT, "--one", "--format", "requirements"], environ)
    if not re.search(r"^numpy==", lock, re.MULTILINE):
        raise ReleaseError(f"{trial.name}: resolve prints no numpy: {lock!r}")
    measured = ("explore", REQUIREMENT, "--pi", "sort", "--stacks", "2", "--budget", budget)
    report = _run([command, *measured], environ, cwd=folder, ends=ENDS)
    print(f"{trial.name}: {said}; {lock.split()[0]}; {_conclusion(report)}")


def _conclusion(report: str) -> str:
    lines = [line for line in report.splitlines() if re.match(r"[A-Z].*(faster|difference)", line)]
    return lines[-1] if lines else "explored"


def _run(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    cwd: Path | None = None,
    ends: Sequence[int] = (0,),
) -> str:
    done = subprocess.run(
        list(command),
        env={**os.environ, **(environ or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in ends:
        raise ReleaseError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


# All of it


def main() -> None:
    """Build and check a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", default="2m", help="of each exploration")
    parser.add_argument(
        "--installer", action="append", choices=INSTALLERS, help="only this one; all by default"
    )
    options = parser.parse_args()
    try:
        release(options.out, options.budget, options.installer or INSTALLERS)
    except ReleaseError as error:
        sys.exit(f"error: {error}")


def release(out: Path, budget: str, installers: Sequence[str] = INSTALLERS) -> None:
    """Build into ``out`` what passes every check.

    Raises:
        ReleaseError: a check fails.
    """
    commit = _git("rev-parse", "HEAD").strip()  # others may commit meanwhile
    found = re.search(r'__version__ = "(.+)"', (ROOT / "stackgen/__init__.py").read_text("utf-8"))
    version = found[1] if found else ""
    tags, here = _git("tag").split(), _git("tag", "--points-at", commit).split()
    _refuse(disagreements(version, (ROOT / "CHANGELOG.md").read_text("utf-8"), tags, here))
    if _git("status", "--porcelain").strip():
        print("note: uncommitted changes are not part of what is built")
    with tempfile.TemporaryDirectory(prefix="stackgen-release-") as name:
        folder = Path(name)
        first, second = (build(commit, folder / each) for each in ("first", "second"))
        _refuse([f"two builds of {each} differ" for each in differing(first, second)])
        built = sorted((folder / "first" / "dist").iterdir())
        sdist, wheel = (next(p for p in built if p.name.endswith(e)) for e in (".gz", ".whl"))
        _refuse(lacking(wheel, sdist, _git("ls-tree", "-r", "--name-only", commit).splitlines()))
        _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
        for each, content in first.items():
            print(f"{each}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
        for trial in trials(wheel, folder):
            if trial.name not in installers:
                continue
            attempt(trial, folder, version, budget)
        out.mkdir(parents=True, exist_ok=True)
        for path in (wheel, sdist):
            shutil.copy(path, out)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise ReleaseError("\n".join(problems))


if __name__ == "__main__":
    main()
