"""Source distributions that declare no metadata: built once where the user allows it."""

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stackgen.campaign.targets import find_target
from stackgen.images.metadata_builds import SandboxMetadataBuilder
from stackgen.images.targets import find_interpreters
from stackgen.index import IndexConfig, PackageIndex, artifact_key
from stackgen.index.config import location
from stackgen.index.metadata import UnusableMetadataError
from stackgen.model.packages import Artifact, Metadata
from stackgen.model.progress import NullProgress
from stackgen.storage.paths import find_paths
from tests.tiny_index import TinyIndex

SDIST = "demo-1.0.tar.gz"
# The backend lies in the sources themselves, so that nothing is to be installed for it.
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
HOOKS = """
import os, socket
def prepare_metadata_for_build_wheel(folder, settings=None):
    {body}
    os.mkdir(os.path.join(folder, "demo-1.0.dist-info"))
    with open(os.path.join(folder, "demo-1.0.dist-info", "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\nRequires-Dist: six>=1\\n")
    return "demo-1.0.dist-info"
"""


def sdist(body: str = "pass") -> bytes:
    out = io.BytesIO()
    files = {
        "PKG-INFO": "Metadata-Version: 1.0\nName: demo\nVersion: 1.0\n",
        "pyproject.toml": PYPROJECT,
        "backend.py": HOOKS.format(body=body),
    }
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"demo-1.0/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


@dataclass
class Builder:
    """A builder that counts; an allowed package requires six, or fails."""

    allowed: str = "demo"
    python: str = "3.11"
    failure: str = ""
    built: list[str] = field(default_factory=list)

    def key(self, artifact: Artifact) -> str:
        return f"py{self.python}" if artifact.name == self.allowed else ""

    def build(self, artifact: Artifact, file: Path) -> Metadata:  # noqa: ARG002 # the protocol
        self.built.append(file.name)
        if self.failure:
            raise UnusableMetadataError(self.failure)
        return Metadata(requires_dist=(f"six=={self.python}",))


def read(server: TinyIndex, cache: Path, builder: Builder | None) -> Metadata | str:
    """Return the metadata that an index has of the only release, or the reason for none."""
    config = IndexConfig(indexes=(location(server.simple),), read_timeout_s=5.0)
    with PackageIndex(config, cache, sleep=lambda _: None, builder=builder) as index:
        (artifact,) = index.candidates("demo")
        found = index.metadata_many([artifact])
        key = artifact_key(artifact)
        return found[key] if key in found else index.defects[key]


def test_metadata_are_built_once_for_each_python(server: TinyIndex, tmp_path: Path) -> None:
    server.add(SDIST, sdist())
    builder = Builder()
    for _ in range(2):
        assert read(server, tmp_path, builder) == Metadata(requires_dist=("six==3.11",))
    other = Builder(python="3.12")
    assert read(server, tmp_path, other) == Metadata(requires_dist=("six==3.12",))
    assert (builder.built, other.built) == ([SDIST], [SDIST])


def test_what_was_refused_without_permission_is_built_with_it(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.add(SDIST, sdist())
    refused = Builder(allowed="other")
    for builder in (None, refused):
        assert "its metadata need a build" in str(read(server, tmp_path, builder))
    assert refused.built == []
    assert isinstance(read(server, tmp_path, Builder()), Metadata)
    assert "its metadata need a build" in str(read(server, tmp_path, None))


def test_a_failed_build_is_a_reason_and_is_not_tried_again(
    server: TinyIndex, tmp_path: Path
) -> None:
    server.add(SDIST, sdist())
    builder = Builder(failure="no compiler")
    for _ in range(2):
        assert read(server, tmp_path, builder) == "its metadata cannot be built: no compiler"
    assert len(builder.built) == 1


def test_no_code_runs_of_a_file_with_another_hash(server: TinyIndex, tmp_path: Path) -> None:
    server.add(SDIST, sdist(), hashed="0" * 64)
    builder = Builder()
    assert "hash" in str(read(server, tmp_path, builder))
    assert builder.built == []


@pytest.fixture
def sandbox(tmp_path: Path) -> SandboxMetadataBuilder:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("the sandbox needs the namespaces of Linux")
    paths = find_paths({"HOME": str(tmp_path), "STACKGEN_CACHE": str(tmp_path / "cache")})
    progress = NullProgress()
    return SandboxMetadataBuilder(
        target=find_target(base="", python="", platform="", paths=paths, progress=progress),
        allowed=frozenset({"demo"}),
        environ={"UV_OFFLINE": "1", "UV_NO_CONFIG": "1"},
        scratch=paths.cache,
        progress=progress,
    )


def built(sandbox: SandboxMetadataBuilder, folder: Path, body: str = "pass") -> Metadata:
    file = folder / SDIST
    file.write_bytes(sdist(body))
    artifact = Artifact(
        name="demo", version="1.0", filename=SDIST, sha256="aa", url=file.as_uri(), index="x"
    )
    assert sandbox.key(artifact)
    try:
        return sandbox.build(artifact, file)
    except UnusableMetadataError as error:
        if "cannot confine it" in str(error):
            pytest.skip(str(error))
        raise


def test_the_sandbox_returns_what_the_hook_writes(
    sandbox: SandboxMetadataBuilder, tmp_path: Path
) -> None:
    assert built(sandbox, tmp_path) == Metadata(requires_dist=("six>=1",))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise SystemExit('no compiler')", "its build backend failed: .*no compiler"),
        ("open('{folder}/escaped', 'w')", "Read-only file system"),
        ("socket.create_connection(('192.0.2.1', 80), 5)", "Network is unreachable"),
    ],
)
def test_a_hook_that_fails_or_leaves_the_sandbox_is_a_reason(
    sandbox: SandboxMetadataBuilder, tmp_path: Path, body: str, why: str
) -> None:
    with pytest.raises(UnusableMetadataError, match=why):
        built(sandbox, tmp_path, body.format(folder=tmp_path))
    assert not (tmp_path / "escaped").exists()


def test_packages_that_the_user_did_not_name_have_no_build(
    sandbox: SandboxMetadataBuilder,
) -> None:
    other = Artifact(
        name="other", version="1", filename="o.tar.gz", sha256="aa", url="file:///o", index="x"
    )
    assert sandbox.key(other) == ""


@pytest.mark.network
@pytest.mark.slow
def test_tensorflow_2_1_resolves_as_uv_resolves_it(tmp_path: Path) -> None:
    interpreter = next((p for p in find_interpreters() if p.endswith("python3.7")), None)
    if interpreter is None:
        pytest.skip("Python 3.7 is not installed")
    (tmp_path / "tf.in").write_text("tensorflow==2.1.*\n")
    uv = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate"]
    uv += ["--python", interpreter, "--only-binary", ":all:", "--no-binary", "gast", "tf.in"]
    judge = subprocess.run(uv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    own = [sys.executable, "-m", "stackgen", "resolve", "tensorflow==2.1.*", "--python", "3.7"]
    own += ["--allow-build", "gast", "--one"]
    done = subprocess.run(own, capture_output=True, text=True, check=True).stdout
    pins = {tuple(line.split()[:2]) for line in done.splitlines() if line[:1].isalpha()}
    wanted = {tuple(line.split("==")) for line in judge.splitlines() if "==" in line}
    assert wanted <= pins
