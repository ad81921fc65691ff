"""A registry on the loopback: it hands out one image of the engine, changed by a label."""

import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stackgen.images.engine import Engine

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


@dataclass
class Registry:
    """What it hands out, by the last part of the address that is asked for."""

    port: int = 0
    parts: dict[str, tuple[str, bytes | Path]] = field(default_factory=dict)

    def publish(self, engine: Engine, image: str, folder: Path) -> str:
        """Take an image out of the engine and return the reference that pins it here."""
        saved = folder / "saved.tar"
        with saved.open("wb") as file:
            for chunk in engine.api.get_image(image):
                file.write(chunk)
        with tarfile.open(saved) as archive:
            archive.extractall(folder, filter="data")
        (listed,) = json.loads((folder / "manifest.json").read_text())
        config = json.loads((folder / listed["Config"]).read_text())
        config["config"]["Labels"] = {"stackgen.test": "pulled"}
        layers = [self._described(_LAYER, folder / name) for name in listed["Layers"]]
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": self._described(_CONFIG, json.dumps(config).encode()),
                "layers": layers,
            }
        ).encode()
        digest = str(self._described(_MANIFEST, manifest)["digest"])
        return f"127.0.0.1:{self.port}/base@{digest}"

    def _described(self, kind: str, content: bytes | Path) -> dict[str, object]:
        text = content if isinstance(content, bytes) else content.read_bytes()
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        self.parts[digest] = (kind, content)
        return {"mediaType": kind, "size": len(text), "digest": digest}


@contextmanager
def open_registry() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/v2/":
                return self._answer("application/json", b"{}")
            kind, content = registry.parts.get(self.path.rpartition("/")[2], ("", b""))
            if not kind:
                return self.send_error(404)
            text = content if isinstance(content, bytes) else content.read_bytes()
            return self._answer(kind, text)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

        def _answer(self, kind: str, text: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
