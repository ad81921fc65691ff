"""Does resolve do what published scenarios of resolvers expect? One index on loopback per scenario.

python benchmarks/scenarios.py FOLDER [--only PART] [--uv] [--verbose]

FOLDER holds scenarios as TOML files, in the format of packse: ``test/scenarios`` of the repository
astral-sh/uv, or ``scenarios`` of astral-sh/packse. Fetch it yourself; nothing of it is kept here.
Each scenario becomes a package index with tiny wheels and sdists, and the command ``stackgen
resolve --one`` runs against it (with ``--uv``, ``uv pip compile`` does, too, for comparison). What
counts: whether there is a stack, and which versions it holds where the scenario names them. Exit
code 1: some scenario failed that uv passes, or, without ``--uv``, any.
"""

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, canonicalize_version
from uv import find_uv_bin

from stackgen.model import toml

PYTHON, REQUIRES_PYTHON = "3.12", ">=3.12"
"""What a scenario means where it does not say."""

PLATFORMS = {"": "manylinux_2_36_x86_64", "x86_64-manylinux2014": "manylinux_2_17_x86_64"}
"""What is resolved for, by the scenario's word for it."""

DIFFERENT = {
    "python-less-than-current": "uv heeds no upper bound of Requires-Python; stackgen does, as pip",
}
"""Scenarios that fail by decision, by the name of the file, and why (docs/adr/0005)."""

_LIMIT_S = 120
_NO_STACK, _UV_REFUSES = 4, 1
_JSON_PAGE = "application/vnd.pypi.simple.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario.

    versions: the expected pins; empty where only satisfiability counts.
    inapplicable: why it cannot be put to stackgen; "" where it can.
    packages: by name and version, the tables of the file.
    """

    path: str
    requires: tuple[str, ...]
    packages: Mapping[str, Mapping[str, Mapping[str, Any]]]
    satisfiable: bool
    versions: Mapping[str, str]
    python: str
    platform: str
    prereleases: bool
    built: tuple[str, ...]
    inapplicable: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a resolver said: its pins, or None, and why."""

    pins: Mapping[str, str] | None
    why: str = ""
    broken: bool = False


def read_scenario(path: Path, folder: Path) -> Scenario:
    """Read one file."""
    table = toml.loads(path.read_text(encoding="utf-8"))
    options, expected = table.get("resolver_options", {}), table["expected"]
    packages = {n: each["versions"] for n, each in table.get("packages", {}).items()}
    refused = {canonicalize_name(name) for name in options.get("no_build", ())}
    return Scenario(
        path=str(path.relative_to(folder)),
        requires=tuple(table["root"].get("requires", ())),
        packages=packages,
        satisfiable=expected["satisfiable"],
        versions=expected.get("packages", {}),
        python=options.get("python") or table.get("environment", {}).get("python", PYTHON),
        platform=PLATFORMS.get(options.get("python_platform", ""), ""),
        prereleases=options.get("prereleases", False),
        built=tuple(name for name in packages if canonicalize_name(name) not in refused),
        inapplicable=_inapplicable(table),
    )


def _inapplicable(table: Mapping[str, Any]) -> str:
    options = table.get("resolver_options", {})
    if options.get("universal"):
        return "one lock for several platforms; stackgen resolves for one target"
    if options.get("no_binary"):
        return "refuses wheels; stackgen has no such option"
    if options.get("python_platform", "") not in PLATFORMS:
        return f"unknown platform {options['python_platform']}"
    return "" if "root" in table else "no scenario"


# The index.


def files_of(name: str, version: str, release: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of one release, as name and content."""
    stem = f"{canonicalize_name(name).replace('-', '_')}-{version}"
    metadata = "\n".join(_metadata(name, version, release)).encode() + b"\n\n"
    if release.get("wheel", True):
        for tag in release.get("wheel_tags") or ["py3-none-any"]:
            yield f"{stem}-{tag}.whl", _wheel(stem, tag, metadata)
    if release.get("sdist", True):
        yield f"{stem}.tar.gz", _sdist(stem, metadata)


def _metadata(name: str, version: str, release: Mapping[str, Any]) -> Iterator[str]:
    yield from ("Metadata-Version: 2.3", f"Name: {name}", f"Version: {version}")
    yield f"Requires-Python: {release.get('requires_python', REQUIRES_PYTHON)}"
    for line in release.get("requires", ()):
        yield f"Requires-Dist: {line}"
    for extra, lines in release.get("extras", {}).items():
        yield f"Provides-Extra: {extra}"
        for line in lines:
            found = Requirement(line)
            marker = f"({found.marker}) and " if found.marker else ""
            found.marker = None
            yield f'Requires-Dist: {found} ; {marker}extra == "{extra}"'


def _wheel(stem: str, tag: str, metadata: bytes) -> bytes:
    info = f"{stem}.dist-info"
    members = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        f"{info}/RECORD": b"",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        for path, content in members.items():
            wheel.writestr(zipfile.ZipInfo(path), content)
    return out.getvalue()


def _sdist(stem: str, metadata: bytes) -> bytes:
    project = b'[build-system]\nrequires = []\nbuild-backend = "none"\n'
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, content in (("PKG-INFO", metadata), ("pyproject.toml", project)):
            member = tarfile.TarInfo(f"{stem}/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@dataclass
class Index:
    """All scenarios on one server, each under a number of its own; content by path."""

    url: str
    content: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, number: int, scenario: Scenario) -> str:
        """Serve a scenario; return the address of its index."""
        for name, versions in scenario.packages.items():
            listed = []
            for version, release in versions.items():
                for filename, content in files_of(name, version, release):
                    path = f"/{number}/files/{filename}"
                    self.content[path] = "application/octet-stream", content
                    listed.append(
                        {
                            "filename": filename,
                            "url": self.url + path,
                            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                            "requires-python": release.get("requires_python", REQUIRES_PYTHON),
                            "yanked": release.get("yanked", False),
                        }
                    )
            page = {"meta": {"api-version": "1.0"}, "name": name, "files": listed}
            path = f"/{number}/simple/{canonicalize_name(name)}/"
            self.content[path] = _JSON_PAGE, json.dumps(page).encode()
        return f"{self.url}/{number}/simple"


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        kind, body = self.index.content.get(self.path, ("", b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[Index]:
    """Serve on loopback until the block ends."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index = Index(f"http://127.0.0.1:{server.server_address[1]}")
        handler.index = index  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield index
        finally:
            server.shutdown()


# The resolvers.


def stackgen(scenario: Scenario, url: str, scratch: Path) -> Answer:
    """Put a scenario to stackgen: its own main function in this process, which saves the start."""
    from stackgen.cli import main as run

    command = ["stackgen", "resolve", "--one", "--format", "requirements", "--index-url", url]
    command += ["--python", scenario.python, "--platform", scenario.platform]
    command += ["--pre"] if scenario.prereleases else []
    command += [part for name in scenario.built for part in ("--allow-build", name)]
    os.environ["STACKGEN_CACHE"] = str(scratch / "stackgen")
    sys.argv = [*command, *scenario.requires]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
    return _answer(int(code or 0), out.getvalue(), err.getvalue(), refusal=_NO_STACK)


def uv(scenario: Scenario, url: str, scratch: Path) -> Answer:
    """Put a scenario to uv."""
    command = [find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
    command += ["--default-index", url, "--python-version", scenario.python, "--no-config"]
    command += ["--python-platform", f"x86_64-{scenario.platform.removesuffix('_x86_64')}"]
    command += ["--prerelease", "allow"] if scenario.prereleases else []
    refused = [name for name in scenario.packages if name not in scenario.built]
    command += [part for name in refused for part in ("--no-build-package", name)]
    done = subprocess.run(
        command,
        env={**os.environ, "UV_CACHE_DIR": str(scratch / "uv")},
        input="\n".join(scenario.requires),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    return _answer(done.returncode, done.stdout, done.stderr, refusal=_UV_REFUSES)


def _answer(code: int, output: str, errors: str, *, refusal: int) -> Answer:
    if code:
        return Answer(None, errors.strip(), broken=code != refusal)
    lines = (line.partition(";")[0].strip(" \\") for line in output.splitlines())
    pins = (line.split()[0].partition("==") for line in lines if "==" in line)
    return Answer({str(canonicalize_name(n.partition("[")[0])): version for n, _, version in pins})


def failure(scenario: Scenario, answer: Answer) -> str:
    """Return in what an answer differs from what is expected; "" where it does not."""
    if answer.broken:
        return f"broke: {answer.why}"
    if answer.pins is None:
        return f"found no stack: {answer.why}" if scenario.satisfiable else ""
    found = ", ".join(f"{name} {version}" for name, version in sorted(answer.pins.items()))
    if not scenario.satisfiable:
        return f"found {found}, where there is no stack"
    expected = {str(canonicalize_name(name)): each for name, each in scenario.versions.items()}
    if expected and _canonical(expected) != _canonical(answer.pins):
        wanted = ", ".join(f"{name} {version}" for name, version in sorted(expected.items()))
        return f"found {found}; expected {wanted}"
    return ""


def _canonical(pins: Mapping[str, str]) -> Mapping[str, str]:
    return {name: canonicalize_version(version) for name, version in pins.items()}


def main() -> int:
    """Read the options, run every scenario, print counts and failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="PART", help="of the path of a scenario")
    parser.add_argument("--uv", action="store_true", help="put them to uv, too")
    parser.add_argument("--verbose", action="store_true", help="reasons in full")
    given = parser.parse_args()
    every = [read_scenario(each, given.folder) for each in sorted(given.folder.rglob("*.toml"))]
    every = [each for each in every if given.only in each.path]
    requested = [each for each in every if not each.inapplicable]
    resolvers = [stackgen, uv] if given.uv else [stackgen]
    with serving() as index, tempfile.TemporaryDirectory() as scratch:
        urls = [index.add(number, each) for number, each in enumerate(requested)]
        found = [
            [
                failure(each, put(each, url, Path(scratch)))
                for each, url in zip(requested, urls, strict=True)
            ]
            for put in resolvers
        ]
    print(f"{len(every)} scenarios, {len(requested)} applicable")
    for why, count in Counter(each.inapplicable for each in every).most_common():
        if why:
            print(f"   {count} left out: {why}")
    for put, failures in zip(resolvers, found, strict=True):
        print(f"{put.__name__}: {failures.count('')} of {len(requested)} pass")
    unexplained = 0
    for scenario, *reasons in zip(requested, *found, strict=True):
        if reasons[0]:
            passed = given.uv and not reasons[1]
            decided = DIFFERENT.get(Path(scenario.path).stem, "")
            unexplained += not decided and (passed or not given.uv)
            peer = ("; uv passes" if passed else "; uv fails, too") if given.uv else ""
            reason = reasons[0] if given.verbose else reasons[0].replace("\n", " ")[:200]
            print(f"{scenario.path}: {f'by decision: {decided}' if decided else reason}{peer}")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
