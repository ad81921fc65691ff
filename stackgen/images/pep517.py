"""Build a wheel from a source distribution, by the interpreter that runs this text (PEP 517).

The text of this file runs inside a container (``python -c TEXT JSON``): standard library alone,
Python 3.7 and newer, and no import of ours. It starts itself once more, to run the package's own
code in a process that it can watch and end; all that this prints goes to standard error. Standard
output gets one line of JSON and, where a wheel was made, its bytes.
"""

import importlib
import json
import os
import posixpath
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

DRIVER = "--run-the-backend"
LEGACY = "setuptools.build_meta:__legacy__"
MOST_MEMBERS = 500_000
UNREADABLE = (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OSError, RuntimeError)


class RefusedError(ValueError):
    """The source distribution does what none has reason to do."""


def check(name: str, link: "str | None" = None) -> None:
    """Refuse a member that would be written, or that points, out of the archive's own folder."""
    if escapes(name):
        raise RefusedError(f"its member {name!r} would be written outside of its folder")
    if link is not None and escapes(link):
        raise RefusedError(f"its member {name!r} is a link out of its folder")


def escapes(path: str) -> bool:
    """Return whether a path leads out of the folder that it is relative to."""
    plain = posixpath.normpath(path)
    return plain.startswith("/") or plain.split("/")[0] == ".." or "\\" in path


def unpack_tar(path: str, folder: str) -> None:
    """Unpack regular files, folders, and links that stay inside."""
    with tarfile.open(path, "r:*") as archive:
        members = []
        for member in archive:
            checked(member)
            members.append(member)
            if len(members) > MOST_MEMBERS:
                raise RefusedError(f"it has more than {MOST_MEMBERS} members")
        # Links come last, so that nothing is ever written through one of them.
        members.sort(key=lambda member: (member.issym(), member.islnk()))
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder, members)  # noqa: S202 # each was looked at


def checked(member: tarfile.TarInfo) -> None:
    """Refuse a member that has no place in a source distribution; take away what it may not set."""
    if member.issym() and not member.linkname.startswith("/"):
        check(member.name, posixpath.join(posixpath.dirname(member.name), member.linkname))
    elif member.issym() or member.islnk():
        check(member.name, member.linkname)
    elif member.isfile() or member.isdir():
        check(member.name)
    else:
        raise RefusedError(f"its member {member.name!r} is no file")
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.uid, member.gid = os.getuid(), os.getgid()


def unpack_zip(path: str, folder: str) -> None:
    """Unpack a zip file."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            check(member.filename)
        archive.extractall(folder)  # noqa: S202 # each was looked at


def unpacked(path: str, folder: str) -> str:
    """Unpack an archive, and return the one folder that it holds."""
    Path(folder).mkdir(parents=True)
    (unpack_zip if path.endswith(".zip") else unpack_tar)(path, folder)
    found = [entry for entry in Path(folder).iterdir() if entry.name != "pax_global_header"]
    if len(found) != 1 or found[0].is_symlink() or not found[0].is_dir():
        raise RefusedError(f"it holds {len(found)} files and folders, where it should hold one")
    return str(found[0])


def backend_of(order: "dict[str, object]") -> object:
    """Import the backend as PEP 517 says it: from the sources alone where that is stated."""
    tree = Path.cwd().resolve()
    # The folder of the sources is no place to import from, unless backend-path says so.
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".", str(tree))]
    stated = []
    for entry in order["backend_path"]:  # type: ignore[attr-defined]
        place = (tree / str(entry)).resolve()
        if place != tree and tree not in place.parents:
            raise RefusedError(f"its backend-path {entry!r} lies outside of its sources")
        stated.append(place)
    sys.path[:0] = map(str, stated)
    module, _, attributes = str(order["backend"] or LEGACY).partition(":")
    found = importlib.import_module(module)  # type: object
    home = Path(getattr(found, "__file__", None) or "/").resolve()
    if stated and not any(place in home.parents for place in stated):
        raise RefusedError(f"its backend {module} is not what lies in its backend-path")
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


def drive(order: "dict[str, object]") -> None:
    """Run the hooks, in the folder of the sources; write down what they said."""
    backend = backend_of(order)
    hook = getattr(backend, "get_requires_for_build_wheel", None)
    answer = {}  # type: dict[str, object]
    if hook is not None and not order["complete"]:
        answer["requires"] = sorted({str(line) for line in hook(None)})
    if answer.get("requires"):
        pass
    elif order.get("metadata"):
        # PEP 517 makes this hook optional; without it, only a whole build would show them.
        made = backend.prepare_metadata_for_build_wheel(order["out"], None)  # type: ignore[attr-defined]
        answer["wheel"] = f"{Path(str(made)).name}/METADATA"
    else:
        made = backend.build_wheel(order["out"], None, None)  # type: ignore[attr-defined]
        answer["wheel"] = Path(str(made)).name
    Path(str(order["answer"])).write_text(json.dumps(answer), encoding="utf-8")


def report(**what: object) -> None:
    """Print the line of JSON."""
    sys.stdout.buffer.write(json.dumps(what, sort_keys=True).encode("ascii") + b"\n")
    sys.stdout.buffer.flush()


def run_backend(order: "dict[str, object]", tree: str) -> str:
    """Run the hooks in a process of their own; return why they failed, or ""."""
    command = [sys.executable, "-s", "-c", str(order["text"]), DRIVER, json.dumps(order)]
    # What it prints belongs to the log.
    process = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=2, stderr=2)
    try:
        status = process.wait(float(str(order["timeout_s"])))
    except subprocess.TimeoutExpired:
        process.kill()
        return "it took too long"
    if status < 0:
        return f"it was ended by {signal.Signals(-status).name}"
    return "its build backend failed" if status else ""


def main(order: "dict[str, object]") -> None:
    """Unpack, build, and hand the wheel over."""
    for folder in (str(order["out"]), os.environ["HOME"], os.environ["TMPDIR"]):
        Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        tree = unpacked(str(order["sdist"]), str(order["sources"]))
    except UNREADABLE as error:
        return report(kind="failed", why=f"it cannot be unpacked: {error}")
    why = run_backend(order, tree)
    if why:
        return report(kind="failed", why=why)
    answer = json.loads(Path(str(order["answer"])).read_text(encoding="utf-8"))
    if answer.get("requires"):
        return report(kind="requires", requires=answer["requires"])
    wheel = Path(str(order["out"])) / answer["wheel"]
    if wheel.is_symlink() or not wheel.is_file():
        return report(kind="failed", why="its build backend names a wheel that it did not make")
    report(kind="wheel", name=wheel.name, size=wheel.stat().st_size)
    with wheel.open("rb") as source:
        shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)
    sys.stdout.buffer.flush()
    return None


if __name__ == "__main__":
    if sys.argv[1] == DRIVER:
        drive(json.loads(sys.argv[2]))
    else:
        main(json.loads(sys.argv[1]))
