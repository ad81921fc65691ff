"""A package index in a folder: real wheels, real pages, no network and no server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.containers.wheels import make_wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One release: its module, what it requires, and when it was uploaded.

    yanked: the reason, if it was.
    """

    source: str = ""
    requires: Sequence[str] = ()
    uploaded: str = "2024-01-01T00:00:00Z"
    requires_python: str = ">=3.6"
    yanked: str = ""


def publish(folder: Path, packages: Mapping[str, Mapping[str, Published]]) -> str:
    """Write an index of pure-Python packages; return its address."""
    for name, releases in packages.items():
        page = folder / "simple" / name
        page.mkdir(parents=True, exist_ok=True)
        links = [_link(page, name, version, each) for version, each in releases.items()]
        (page / "index.html").write_text(
            f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>"
        )
    return (folder / "simple").as_uri()


def _link(page: Path, name: str, version: str, release: Published) -> str:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {line}\n" for line in release.requires
    )
    files = {f"{name}.py": release.source, f"{name}-{version}.dist-info/METADATA": metadata}
    _, wheel = make_wheel(page, name, files, version=version)
    digest = sha256(wheel.read_bytes()).hexdigest()
    yanked = f' data-yanked="{release.yanked}"' if release.yanked else ""
    python = release.requires_python.replace(">", "&gt;").replace("<", "&lt;")
    return (
        f'<a href="{wheel.name}#sha256={digest}" data-requires-python="{python}" '
        f'data-upload-time="{release.uploaded}"{yanked}>{wheel.name}</a><br/>'
    )
