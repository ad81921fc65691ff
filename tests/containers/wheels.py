"""Tiny wheels, made on the spot."""

import base64
import hashlib
import uuid
import zipfile
from pathlib import Path

from stackgen.model.packages import Artifact, Lock, Target
from stackgen.model.stacks import Base, BaseFacts, EnvironmentKind, Stack

# No two runs make the same wheels: an engine may still hold the images of a run that was killed.
HEAD = f"Metadata-Version: 2.1\nSummary: made by run {uuid.uuid4().hex}\n"
PURE = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_wheel(
    folder: Path,
    name: str,
    files: dict[str, str] | None = None,
    *,
    version: str = "1.0",
    raw: dict[zipfile.ZipInfo, str] | None = None,
    lie: str = "",
) -> tuple[Artifact, Path]:
    """Write a wheel; ``raw`` members have attributes, and the digest of ``lie`` is wrong."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"{HEAD}Name: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": PURE,
        **(files or {}),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(zipfile.ZipInfo(member), text)
        for entry, text in (raw or {}).items():
            archive.writestr(entry, text)
        rows = [f"{m},{_digest(t, wrong=m == lie)},{len(t)}" for m, t in contents.items()]
        record = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record)
    return artifact_of(path), path


def artifact_of(path: Path) -> Artifact:
    name, version = path.name.split("-")[:2]
    return Artifact(
        name=name.replace("_", "-").lower(),
        version=version,
        filename=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        url="",
        index="tests",
    )


def a_base(*, python: str = "/usr/bin/python3", version: str = "3.11.2") -> Base:
    """Return a base that exists in no engine."""
    minor = "".join(version.split(".")[:2])
    return Base(
        name="nowhere",
        kind=EnvironmentKind.DOCKER,
        reference="sha256:0",
        python=python,
        facts=BaseFacts(
            python=f"CPython {version}",
            python_build="main",
            libc="glibc 2.36",
            distribution="debian 12",
        ),
        target=Target(python=version, markers=(), tags=(f"cp{minor}-cp{minor}-linux_x86_64",)),
    )


def stack_of(*artifacts: Artifact, base: Base, **settings: str) -> Stack:
    lock = Lock(artifacts=tuple(sorted(artifacts, key=lambda artifact: artifact.name)))
    return Stack(lock=lock, facts=base.facts, settings=tuple(sorted(settings.items())))


def _digest(text: str, *, wrong: bool) -> str:
    content = text.encode() + (b"?" if wrong else b"")
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.decode().rstrip("=")
