"""`stackgen images build`, `list` and `show`: a lock in, an image that says what it is out."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stackgen.errors import EngineError
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.image_store import engine_images
from stackgen.model.stacks import Base
from tests.containers.locked import FORMATS, Images
from tests.containers.test_images import build, run
from tests.containers.wheels import make_wheel

pytestmark = pytest.mark.docker


@pytest.fixture
def images(base: Base, engine: Engine, tmp_path: Path) -> Iterator[Images]:  # noqa: ARG001
    """Return the command; what it built goes after the test."""
    before = set(engine.images("stackgen.stack"))
    images = Images(tmp_path)
    yield images
    named = {path.name for path in (tmp_path / "cache" / "layers" / "stacks").glob("*")}
    for image in engine_images(engine).images:
        if image.id not in before and image.labels["stackgen.stack"] in named:
            engine.api.remove_image(image.id, force=True)


def pairs_of(images: Images, *names: str, version: str = "1.0") -> list[Any]:
    return [make_wheel(images.wheels, name, version=version) for name in names]


def test_a_lock_is_built_once_and_then_found(images: Images, engine: Engine) -> None:
    lock = images.lock(pairs_of(images, "built_one", "built_two"))
    first = images.json("build", lock, "--base", "bookworm-py311", "--tag", "stackgen-test-mine:7")
    assert (first["existed"], first["packages"]) == (False, 2)
    assert first["layers_new"] in (2, 3)  # other stacks may have brought the virtualenv's
    reported = engine.run(
        "stackgen-test-mine:7", ["python", "-c", "import built_one; print('yes')"]
    )
    assert reported.stdout == "yes\n"
    again = images.json("build", lock)
    assert (again["existed"], again["layers_new"], again["new_bytes"]) == (True, 0, 0)
    assert again["image"]["image_id"] == first["image"]["image_id"]
    text = images.reported("build", lock)
    assert text.startswith("stackgen-test-mine:7: 2 packages on bookworm-py311\n")
    assert "all there: the engine had this image" in text


def test_every_lock_format_gives_the_same_image(images: Images) -> None:
    pairs = pairs_of(images, "alike_one", "alike_two")
    built = {name: images.json("build", images.lock(pairs, name)) for name in FORMATS}
    assert len({each["image"]["image_id"] for each in built.values()}) == 1


def test_a_further_stack_is_described_by_what_it_adds(images: Images) -> None:
    common = pairs_of(images, "shared_by_both")
    large = {"payload.txt": "x" * 50_000}  # by size alone it would lie below the common one
    for version in ("1.0", "2.0"):
        numpy = make_wheel(images.wheels, "numpy", large, version=version)
        found = images.json("build", images.lock([*common, numpy]))
    assert (found["layers_new"], found["existed"]) == (1, False)
    assert 50_000 < found["new_bytes"] < 65_000


def test_an_image_shows_its_lock_its_labels_and_who_shares_its_layers(images: Images) -> None:
    common = make_wheel(images.wheels, "shown_by_both", {"x.txt": "x" * 20_000})
    (one,), (two,) = (pairs_of(images, "shown", version=version) for version in ("1.0", "2.0"))
    images.reported("build", images.lock([common, one]))
    built = images.json("build", images.lock([common, two]), "--tag", "stackgen-test-shown")
    for name in ("stackgen-test-shown", built["image"]["image_id"], built["image"]["stack_id"][:9]):
        found = images.json("show", name)
        assert found["image"]["image_id"] == built["image"]["image_id"]
    assert [each["sha256"] for each in found["lock"]] == [two[0].sha256, common[0].sha256]
    labels = dict(found["labels"])
    assert labels["org.opencontainers.image.base.name"] == "bookworm-py311"
    assert re.fullmatch("sha256:[0-9a-f]{64}", labels["org.opencontainers.image.base.digest"])
    assert labels["org.opencontainers.image.created"] == "1980-01-01T00:00:00Z"
    assert labels["stackgen.lock"]
    base, skeleton, shared, own = found["layers"][-4:]
    assert (base["of_base"], skeleton["of_base"]) == (True, False)
    assert (shared["wheels"], own["wheels"]) == ([common[0].filename], [two[0].filename])
    assert (shared["others"], own["others"]) == (1, 0)
    assert shared["size"] > 20_000
    text = images.reported("show", "stackgen-test-shown")
    assert f"shown==2.0 --hash=sha256:{two[0].sha256}" in text
    assert re.search(rf"its own +{re.escape(two[0].filename)}", text)


def test_the_list_reports_names_bases_packages_and_what_removal_would_free(images: Images) -> None:
    built = images.json(
        "build", images.lock(pairs_of(images, "listed_once")), "--tag", "stackgen-test-listed"
    )
    (line,) = (
        x for x in images.reported("list").splitlines() if x.startswith("stackgen-test-listed")
    )
    assert "bookworm-py311" in line
    assert "listed-once 1.0" in line
    listed = json.loads(images.reported("list", "--json"))
    (found,) = (x for x in listed if x["image_id"] == built["image"]["image_id"])
    assert 0 < found["own_bytes"] < 100_000 < found["size"]


def test_docker_history_names_the_wheel_of_each_layer(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pair = make_wheel(tmp_path, "historic")
    printed = engine.api.history(build(builder, base, [pair]).location)  # type: ignore[no-untyped-call]
    assert printed[0]["CreatedBy"].endswith(f": {pair[0].filename}")
    assert printed[-1]["CreatedBy"] == "base bookworm-py311"


def test_an_image_of_an_older_stackgen_is_used_as_it_is_and_says_less(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pair = make_wheel(tmp_path, "ancient")
    made = build(builder, base, [pair])
    labels = {"stackgen.packages": "", "stackgen.layers": ""}
    changes = "\n".join(f'LABEL {name}="{text}"' for name, text in labels.items())
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {made.location}\n{changes}\n", encoding="utf-8")
    tag = f"stackgen:{made.stack.id[:16]}"
    for line in engine.api.build(path=str(folder), tag=tag, decode=True, rm=True):
        assert "error" not in line
    again = build(builder, base, [pair])
    assert again.location != made.location
    assert run(engine, again, "import ancient; print(ancient.VERSION)") == "1.0\n"
    stored = engine_images(engine)
    old = next(each for each in stored.images if each.id == again.location)
    assert stored.state(old).own_bytes is None


def test_a_used_image_keeps_its_layers_young(
    builder: ImageBuilder, base: Base, tmp_path: Path
) -> None:
    pairs = [make_wheel(tmp_path, "kept_young")]
    build(builder, base, pairs)
    layers = list((tmp_path / "layers").glob("??/*.tar"))
    assert len(layers) == 2
    for layer in layers:
        os.utime(layer, (1, 1))
    build(builder, base, pairs)
    assert all(layer.stat().st_mtime > 1 for layer in layers)


def refusal(images: Images, *arguments: str | Path) -> tuple[int, str]:
    done = images.run(*arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_what_cannot_be_built_is_refused_with_what_to_do(images: Images) -> None:
    pair = make_wheel(images.wheels, "refused")
    lock = images.lock([pair])
    missing = images.root / "missing.txt"
    missing.write_text("refused==1.0\nnobody-has-it==3\n", encoding="utf-8")
    code, reported = refusal(images, "build", missing)
    assert (code, "nobody-has-it 3: no index has it" in reported) == (4, True)
    missing.write_text("refused==2.0\n", encoding="utf-8")
    assert "refused 2.0: no index has this version" in refusal(images, "build", missing)[1]
    other = lock.read_text(encoding="utf-8").replace(pair[0].sha256, "0" * 64)
    missing.write_text(other, encoding="utf-8")
    assert "the lock file admits other files of it" in refusal(images, "build", missing)[1]
    (images.wheels / "unbuilt-1.0.tar.gz").write_bytes(b"not looked into")
    missing.write_text("unbuilt==1.0\n", encoding="utf-8")
    assert "no wheel, only a source distribution" in refusal(images, "build", missing)[1]
    missing.write_text("refused==1.0\n-e .\n", encoding="utf-8")
    assert refusal(images, "build", missing)[0] == 2
    assert refusal(images, "build", lock, "--tag", "Not A Name")[0] == 2
    code, reported = refusal(images, "build", lock, "--base", "no-such-base")
    assert (code, "there is no base no-such-base" in reported) == (2, True)


def test_a_base_may_be_named_by_its_python(images: Images) -> None:
    lock = images.lock(pairs_of(images, "by_version"))
    assert images.json("build", lock, "--base", "3.11")["image"]["base"] == "bookworm-py311"
    code, reported = refusal(images, "build", lock, "--base", "3.99")
    assert (code, "there is no base with Python 3.99" in reported) == (2, True)
    assert "bookworm-py311 has Python 3.11" in reported


def test_a_lock_for_another_python_is_refused(images: Images) -> None:
    lock = images.root / "uv.lock"
    text = FORMATS["uv.lock"]([make_wheel(images.wheels, "elsewhere")])
    lock.write_text(text.replace(">=3.8", ">=3.12"), encoding="utf-8")
    code, reported = refusal(images, "build", lock)
    assert code == 2
    assert "is for Python >=3.12" in reported
    assert "--base" in reported


def test_an_image_that_is_not_there_is_refused(images: Images) -> None:
    code, reported = refusal(images, "show", "no-such-image")
    assert code == 2
    assert "stackgen images list" in reported
    lock = images.lock(pairs_of(images, "shown"))
    assert f"stackgen images build {lock}" in refusal(images, "show", lock)[1]
    images.reported("build", lock, "--tag", "stackgen-test-shown:3")
    assert "there is stackgen-test-shown:3" in refusal(images, "show", "stackgen-test-shown")[1]


def test_a_name_that_the_engine_does_not_take_is_explained(
    builder: ImageBuilder, base: Base, tmp_path: Path
) -> None:
    made = build(builder, base, [make_wheel(tmp_path, "misnamed")])
    with pytest.raises(EngineError, match="does not give an image the name"):
        builder.tag(made.location, "a b")
