"""A package index on 127.0.0.1 that serves tiny wheels, and fails in whatever way a test asks."""

import base64
import hashlib
import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stackgen.index import IndexConfig, PackageIndex
from stackgen.index.config import location
from stackgen.model.packages import Artifact

CUT = -1
"""A fault: the connection ends in the middle of the body."""

SLOW = -2
"""A fault: nothing comes for longer than a test wants to wait."""

DRIP = -3
"""A fault: the body comes byte by byte."""


def make_wheel(
    name: str,
    version: str = "1.0",
    *,
    requires: tuple[str, ...] = (),
    members: Mapping[str, bytes] | None = None,
    recorded: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a wheel's bytes.

    members: further files; recorded: contents that RECORD claims in place of the true ones.
    """
    info = f"{name}-{version}.dist-info"
    lines = [f"Requires-Dist: {each}" for each in requires]
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata = "\n".join([*head, *lines, "Requires-Python: >=3.8", "", "Words: of prose"])
    files = {f"{name}.py": b"x = 1\n", **(members or {}), f"{info}/METADATA": metadata.encode()}
    record = [f"{path},{_record_hash((recorded or {}).get(path, c))}," for path, c in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(zipfile.ZipInfo(path), content)
    return out.getvalue()


def _record_hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class TinyIndex:
    """What the server holds and how it behaves; a test changes it at will.

    faults: by path, the statuses (or CUT, SLOW) of the next answers; then it behaves again.
    timeout_s: how long the client of a test waits where answers are slow.
    drip_s: how long after each other bytes come where they drip.
    surplus: what stands behind each part of a file, though nobody wants it.
    requested: every request as (method, path, Range header).
    """

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    requested: list[tuple[str, str, str]] = field(default_factory=list)
    timeout_s: float = 0.3
    drip_s: float = 0.02
    ranges: bool = True
    surplus: bytes = b""
    password: str = ""

    @property
    def simple(self) -> str:
        return f"{self.url}/simple"

    def paths(self, part: str = "") -> list[str]:
        return [path for _, path, _ in self.requested if part in path]

    def add(self, filename: str, content: bytes, *, attributes: str = "", hashed: str = "") -> str:
        """Serve a file and link it from its project's HTML page; return its URL."""
        project = filename.split("-", maxsplit=1)[0].lower().replace("_", "-")
        path, page = f"/files/{filename}", f"/simple/{project}/"
        self.files[path] = content
        fragment = f"#sha256={hashed or sha256(content)}"
        link = f'<a href="../..{path}{fragment}" {attributes}>{filename}</a>\n'
        self.files[page] = self.files.get(page, b"<!DOCTYPE html>\n") + link.encode()
        self.types[page] = "text/html"
        return self.url + path

    def add_json(self, project: str, files: list[dict[str, object]]) -> None:
        page = f"/simple/{project}/"
        document = {"meta": {"api-version": "1.1"}, "name": project, "files": files}
        self.files[page] = json.dumps(document).encode()
        self.types[page] = "application/vnd.pypi.simple.v1+json"


def opened(
    server: TinyIndex, cache: Path, *, read_timeout_s: float = 5.0, **settings: Any
) -> PackageIndex:
    """Open an index for reading, which waits for nothing between two tries.

    settings: further ones of ``IndexConfig``.
    """
    places = (location(server.simple),)
    config = IndexConfig(indexes=places, read_timeout_s=read_timeout_s, **settings)
    return PackageIndex(config, cache, sleep=lambda _: None)


def only(index: PackageIndex) -> Artifact:
    """Return the only file of the project ``demo``."""
    (found,) = index.candidates("demo")
    return found


class _Handler(BaseHTTPRequestHandler):
    index: TinyIndex

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        index, path = self.index, self.path.partition("?")[0]
        index.requested.append((self.command, path, self.headers.get("Range", "")))
        fault = index.faults[path].pop(0) if index.faults.get(path) else 0
        if fault > 0:
            return self._answer(fault, b"no")
        if fault == SLOW:
            time.sleep(index.timeout_s * 2)
        if index.password and self.headers.get("Authorization") != _basic(index.password):
            return self._answer(401, b"who are you?")
        if target := index.redirects.get(path):
            return self._answer(302, b"", {"Location": target})
        if path not in index.files:
            return self._answer(404, b"not here")
        headers = index.headers.get(path, {})
        if "ETag" in headers and self.headers.get("If-None-Match") == headers["ETag"]:
            return self._answer(304, b"")
        headers = headers | {"Content-Type": index.types.get(path, "application/octet-stream")}
        status, body, more = self._span(index.files[path])
        return self._answer(status, body, headers | more, fault=fault)

    def _span(self, whole: bytes) -> tuple[int, bytes, dict[str, str]]:
        requested = self.headers.get("Range", "").removeprefix("bytes=")
        if not requested or not self.index.ranges:
            return 200, whole, {}
        first, _, last = requested.partition("-")
        start = int(first) if first else max(0, len(whole) - int(last))
        end = min(int(last), len(whole) - 1) if first and last else len(whole) - 1
        if start >= len(whole):
            return 416, b"", {}
        part = whole[start : end + 1] + self.index.surplus
        return 206, part, {"Content-Range": f"bytes {start}-{end}/{len(whole)}"}

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        fault: int = 0,
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):  # Who waited long enough has hung up.
                if fault == DRIP:
                    for byte in body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(self.index.drip_s)
                else:
                    self.wfile.write(body[: len(body) // 2] if fault == CUT else body)


def _basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


@contextmanager
def serving(port: int = 0) -> Iterator[TinyIndex]:
    """Serve until the block ends, at a free port if none is given."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        index = TinyIndex(url=f"http://127.0.0.1:{server.server_address[1]}")
        handler.index = index  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
