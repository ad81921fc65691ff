"""What is exported is read by other people's tools, and gives the same packages."""

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import errors as docker_errors

from stackgen.errors import EngineError, StorageError, UsageError
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.exports import appearing, write_layout
from stackgen.index import load_config
from stackgen.index.config import DEFAULT_NAME
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from tests.containers.locked import Images
from tests.containers.test_images import build, downloaded
from tests.containers.test_same_packages import INVENTORY, awkward_wheels
from tests.containers.wheels import make_wheel

pytestmark = pytest.mark.docker


@pytest.fixture
def image(engine: Engine) -> Iterator[str]:
    """Return an image of a few bytes; images of stacks are exported below, too."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as members:
        entry = tarfile.TarInfo("file")
        entry.size = 100_000
        members.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    changes = ["LABEL org.opencontainers.image.title=tiny", "LABEL other=1"]
    tag = f"stackgen-test-tiny:{os.getpid()}"
    engine.api.import_image_from_data(archive.getvalue(), tag, changes=changes)
    found = engine.image(tag)
    assert found is not None
    yield found.id
    engine.api.remove_image(found.id, force=True)


def skopeo(*arguments: str) -> str:
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed (apt-get install skopeo)")
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_blob_of_a_layout_has_the_digest_that_names_it(
    engine: Engine, image: str, tmp_path: Path
) -> None:
    size = write_layout(engine, image, tmp_path / "layout", name="mine")
    files = tree(tmp_path / "layout")
    assert size == sum(map(len, files.values()))
    blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
    for name, content in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    assert set(files) - set(blobs) == {"index.json", "oci-layout"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "mine"}
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'][7:]}"])
    named = {entry["digest"], manifest["config"]["digest"]}
    named |= {layer["digest"] for layer in manifest["layers"]}
    assert {f"blobs/sha256/{digest[7:]}" for digest in named} == set(blobs)
    assert manifest["config"]["digest"] == image
    assert manifest["annotations"] == {"org.opencontainers.image.title": "tiny"}


def test_a_folder_with_something_in_it_is_left_as_it_is(
    engine: Engine, image: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError, match="is there already"):
            write_layout(engine, image, folder, name="mine")
    (tmp_path / "empty").mkdir()
    write_layout(engine, image, tmp_path / "empty", name="mine")
    assert (tmp_path / "empty" / "oci-layout").exists()


class Wire:
    """The wire from a real engine, whose archive is changed on its way."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._get = engine.api.get_image
        self.cut_at: int | None = None
        self.zipped = False
        self.broken = False
        monkeypatch.setattr(engine.api, "get_image", self.get_image)

    def get_image(self, image: str) -> Iterator[bytes]:
        whole = b"".join(self._get(image))
        if self.cut_at is not None:
            yield whole[: self.cut_at]
            raise ConnectionResetError("the engine went away")
        yield self._rewritten(whole)

    def _rewritten(self, whole: bytes) -> bytes:
        out = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(whole)) as archive,
            tarfile.open(fileobj=out, mode="w") as other,
        ):
            for member in archive:
                source = archive.extractfile(member)
                content = source.read() if source else b""
                if member.name.endswith("layer.tar") and self.zipped:
                    content = gzip.compress(content, 1)
                if member.name.endswith("layer.tar") and self.broken:
                    content = content[:-1] + b"?"
                member.size = len(content) if source else 0
                other.addfile(member, io.BytesIO(content))
        return out.getvalue()


def test_an_engine_that_goes_away_leaves_no_half_of_a_layout(
    engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Wire(engine, monkeypatch).cut_at = 5_000
    with pytest.raises(EngineError, match="does not hand out"):
        write_layout(engine, image, tmp_path / "out" / "layout", name="mine")
    assert list((tmp_path / "out").iterdir()) == []


def test_layers_that_an_engine_keeps_compressed_stay_so(
    engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Wire(engine, monkeypatch).zipped = True
    write_layout(engine, image, tmp_path / "layout", name="mine")
    files = tree(tmp_path / "layout")
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'][7:]}"])
    assert {layer["mediaType"].rpartition(".")[2] for layer in manifest["layers"]} == {"tar+gzip"}
    if shutil.which("skopeo"):
        skopeo("copy", f"oci:{tmp_path}/layout", f"docker-archive:{tmp_path}/copy.tar")


def test_a_layer_that_is_not_what_was_promised_is_refused(
    engine: Engine, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Wire(engine, monkeypatch).broken = True
    with pytest.raises(EngineError, match="not what was promised"):
        write_layout(engine, image, tmp_path / "layout", name="mine")
    assert not (tmp_path / "layout").exists()


@pytest.fixture(scope="module")
def exported(engine: Engine, base: Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the command, a lock, and what came of exporting it."""
    assert base.name == "bookworm-py311"
    images = Images(tmp_path_factory.mktemp("exported"))
    lock = images.lock([make_wheel(images.wheels, "exported")])
    reported = images.json("export", lock, "--oci", images.root / "layout")
    yield images, lock, reported
    engine.api.remove_image(reported["image_id"], force=True)


def test_a_lock_and_its_image_are_exported_as_the_same_bytes(exported: Any) -> None:
    images, _, reported = exported
    images.reported("export", reported["image_id"], "--oci", images.root / "again")
    assert tree(images.root / "again") == tree(images.root / "layout")
    assert reported["packages"] == 1


def test_what_cannot_be_exported_is_refused_with_what_to_do(exported: Any) -> None:
    images, lock, reported = exported
    image_id = reported["image_id"]
    for wrong in (["--oci", "a", "--dockerfile", "b"], [], ["--dockerfile", "x"]):
        done = images.run("export", image_id, *wrong)
        assert (done.returncode, "fix:" in done.stderr) == (2, True)
    done = images.run("export", lock, "--oci", images.root / "layout")
    assert (done.returncode, "is there already" in done.stderr) == (2, True)
    done = images.run("export", image_id, "--base", "py37", "--oci", "other")
    assert (done.returncode, "--base is for locks" in done.stderr) == (2, True)
    done = images.run("export", lock, "--oci", lock / "within" / "a-file")
    assert (done.returncode, "is no folder" in done.stderr) == (9, True)


@pytest.mark.parametrize("kind", ["--oci", "--dockerfile"])
def test_a_folder_that_cannot_be_had_is_refused_before_work_is_done(
    exported: Any, kind: str
) -> None:
    images, _, _ = exported
    lock = images.root / "unknown.txt"
    lock.write_text("nobody-has-it==1.0\n", encoding="utf-8")
    done = images.run("export", lock, kind, images.root / "layout")
    assert (done.returncode, "is there already" in done.stderr) == (2, True)


def test_the_refusal_on_a_full_disk_states_how_much_an_export_needs(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"about 242 MB are needed"):
        fill_the_disk(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def fill_the_disk(folder: Path) -> None:
    with appearing(folder, needed_bytes=242_000_000) as place:
        (place / "half").write_text("written", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_skopeo_reads_a_layout_and_copies_it_elsewhere(exported: Any, engine: Engine) -> None:
    images, _, exported_image = exported
    stored = engine.image(exported_image["image_id"])
    assert stored is not None
    where = f"oci:{images.root}/layout:{stored.labels['stackgen.stack'][:16]}"
    reported = json.loads(skopeo("inspect", where))
    assert reported["Labels"]["org.opencontainers.image.description"] == "exported==1.0"
    assert reported["Layers"] == list(stored.diff_ids)
    raw = json.loads(skopeo("inspect", "--raw", where))
    assert raw["annotations"]["org.opencontainers.image.base.name"] == "bookworm-py311"
    skopeo("copy", where, f"docker-archive:{images.root}/copy.tar:mine:1")
    with tarfile.open(images.root / "copy.tar") as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json") or io.BytesIO())
    assert manifest["Config"].startswith(stored.id.removeprefix("sha256:"))


def test_podman_pulls_a_layout(exported: Any) -> None:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed (apt-get install podman)")
    images, _, reported = exported
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:  # it wants short paths
        own = ["podman", "--root", f"{place}/root", "--runroot", f"{place}/run"]
        pulled = subprocess.run(
            [*own, "pull", "--quiet", f"oci:{images.root}/layout"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert pulled.returncode == 0, pulled.stderr
        assert pulled.stdout.split()[-1] == reported["image_id"].removeprefix("sha256:")
        subprocess.run([*own, "rmi", "--all", "--force"], capture_output=True, check=False)


def built_from(folder: Path, engine: Engine, base: Base, **arguments: str) -> str:
    """Build an exported Dockerfile on our base, which stands in for a registry's."""
    given = {"BASE": base.reference, "PYTHON": base.python, **arguments}
    tag = f"stackgen-test-dockerfile:{os.getpid()}"
    reported = []
    try:
        for line in engine.api.build(
            path=str(folder), tag=tag, buildargs=given, decode=True, rm=True, network_mode="host"
        ):
            reported.append(line.get("stream", ""))
            assert "error" not in line, "".join([*reported, str(line)])[-3000:]
    finally:
        for step in reversed(re.findall(r" ---> ([0-9a-f]{12})\n", "".join(reported))):
            image = engine.image(step)
            if image is not None and image.id != base.reference and not image.tags:
                with contextlib.suppress(docker_errors.APIError):  # the image needs it
                    engine.api.remove_image(image.id)
    found = engine.image(tag)
    assert found is not None
    return found.id


def inventory(engine: Engine, image: str) -> dict[str, Any]:
    ran = engine.run(image, ["/opt/stack/bin/python", "-c", INVENTORY])
    assert ran.exit_code == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def compare(
    images: Images, builder: ImageBuilder, engine: Engine, base: Base,
    pairs: list[tuple[Artifact, Path]], **arguments: str,
) -> Path:  # fmt: skip
    """Build a lock with stackgen and by its Dockerfile; return the folder that was exported."""
    folder = images.root / "exported"
    images.reported("export", images.lock(pairs), "--dockerfile", folder)
    if certificates := arguments.get("PIP_CERT"):
        shutil.copy(certificates, folder / "certificates.pem")
        arguments["PIP_CERT"] = "/context/certificates.pem"
    ours = build(builder, base, pairs).location
    theirs = built_from(folder, engine, base, **arguments)
    try:
        expected = inventory(engine, ours)
        assert inventory(engine, theirs) == expected
        assert len(expected["versions"]) == len(pairs)
        printed = json.dumps(engine.api.history(theirs))  # type: ignore[no-untyped-call]
        assert "PIP_" not in printed
        assert "/context" not in printed
    finally:
        engine.api.remove_image(theirs, force=True)
    return folder


@pytest.mark.slow
def test_a_dockerfile_gives_the_same_packages_from_wheels_beside_it(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    images = Images(tmp_path)
    pairs = awkward_wheels(images.wheels)
    folder = compare(images, builder, engine, base, pairs)
    assert sorted(path.name for path in (folder / "wheels").iterdir()) == sorted(
        artifact.filename for artifact, _ in pairs
    )
    for text in ((folder / name).read_text("utf-8") for name in ("Dockerfile", "requirements.txt")):
        assert "://" not in text
        assert str(tmp_path) not in text


@pytest.mark.network
@pytest.mark.slow
def test_a_dockerfile_gives_the_same_packages_from_an_index(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    images = Images(tmp_path, online=True)
    pairs = [downloaded(tmp_path, base, pin) for pin in ("numpy==2.0.2", "six==1.17.0")]
    config = load_config(environ=os.environ)
    own = [each.url for each in config.indexes if each.name != DEFAULT_NAME]
    arguments = {"PIP_CERT": config.ca_bundle} if config.ca_bundle else {}
    if config.indexes[0].name != DEFAULT_NAME:
        arguments["PIP_INDEX_URL"] = own[0]
    folder = compare(images, builder, engine, base, pairs, **arguments)
    text = (folder / "requirements.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in text.splitlines() if "==" in line] == [
        "numpy==2.0.2", "six==1.17.0",
    ]  # fmt: skip
    assert text.count("--hash=") == len(pairs)
    if config.indexes[0].name == DEFAULT_NAME:
        assert "://" not in text
