"""An image holds exactly its stack, a further one costs what differs, and no engine is lost."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.errors import BuildError, EngineError
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.image_store import engine_images
from stackgen.images.layer_store import LayerStore
from stackgen.images.layers import MAX_LAYERS
from stackgen.images.unpack import unpacked_size
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base, Environment, Stack
from tests.containers.wheels import artifact_of, make_wheel, stack_of

pytestmark = pytest.mark.docker
Pairs = list[tuple[Artifact, Path]]


def build(builder: ImageBuilder, base: Base, pairs: Pairs, *varied: str) -> Environment:
    stack = stack_of(*(artifact for artifact, _ in pairs), base=base)
    files = {artifact.sha256: path for artifact, path in pairs}
    return builder.build(stack, base, files, frozenset(varied))


def run(engine: Engine, environment: Environment, code: str) -> str:
    ran = engine.run(environment.location, [environment.python, "-c", code])
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


class Line:
    """The wire to a real engine, which counts what is sent and may refuse thin archives.

    picky: refuse them; silent: lose them without a word.
    """

    def __init__(
        self,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        *,
        picky: bool = False,
        silent: bool = False,
    ):
        self.sent: list[int] = []
        self.picky = picky
        self.silent = silent
        self._load = engine.api.load_image
        monkeypatch.setattr(engine.api, "load_image", self.load_image)

    def load_image(self, archive: Iterator[bytes]) -> Iterator[dict[str, str]]:
        everything = b"".join(archive)
        self.sent.append(len(everything))
        if self.picky and self._lacks_a_layer(everything):
            return iter([{"error": "open layer.tar: no such file or directory"}])
        if self.silent and self._lacks_a_layer(everything):
            return iter([])
        return iter(list(self._load(everything)))  # type: ignore[no-untyped-call]

    @staticmethod
    def _lacks_a_layer(everything: bytes) -> bool:
        with tarfile.open(fileobj=io.BytesIO(everything)) as archive:
            names = set(archive.getnames())
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            return not set(json.load(manifest)[0]["Layers"]) <= names


def test_a_stack_runs_in_its_image_and_sees_just_its_packages(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    tool = {"one-1.0.dist-info/entry_points.txt": "[console_scripts]\nsay = one:say\n"}
    source = {"one.py": "import two\ndef say(): print('said', two.VERSION)\n", **tool}
    pairs = [make_wheel(tmp_path, "one", source), make_wheel(tmp_path, "two", version="7.0")]
    environment = build(builder, base, pairs)
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    assert run(engine, environment, code).split() == ["one", "two"]
    ran = engine.run(environment.location, ["say"])
    assert ran.stdout == "said 7.0\n"


def test_path_files_work_as_in_any_virtualenv(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    files = {"one.pth": "import sys; sys.told = 'yes'\n"}
    environment = build(builder, base, [make_wheel(tmp_path, "one", files)])
    reported = run(engine, environment, "import sys; print(sys.told, sys.prefix)")
    assert reported.split() == ["yes", "/opt/stack"]


def test_the_image_holds_what_the_records_of_the_wheels_promise(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pairs = [make_wheel(tmp_path, name, {f"{name}_/__init__.py": "", f"{name}_/x.txt": "x"})
             for name in ("one", "two")]  # fmt: skip
    environment = build(builder, base, pairs)
    code = (
        "import importlib.metadata as m\n"
        "for d in m.distributions():\n"
        "    for f in d.files: assert f.locate().exists(), f; print(f.name)\n"
    )
    code = code.replace("assert f.locate().exists(), f; print(f.name)",
                        "print(f) if f.locate().exists() else 1/0")  # fmt: skip
    promised = set()
    for name in ("one", "two"):
        promised |= {f"{name}.py", f"{name}_/__init__.py", f"{name}_/x.txt"}
        promised |= {f"{name}-1.0.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD")}
    assert set(run(engine, environment, code).split()) == promised


def test_bytecode_in_the_image_is_used(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    environment = build(builder, base, [make_wheel(tmp_path, "one")])
    verbose = engine.run(environment.location, [environment.python, "-v", "-c", "import one"])
    assert "one.cpython-311.pyc matches" in verbose.stderr


def test_settings_of_a_stack_stand_in_its_environment(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pair = make_wheel(tmp_path, "one")
    stack = stack_of(pair[0], base=base, TF_ENABLE_ONEDNN_OPTS="0")
    environment = builder.build(stack, base, {pair[0].sha256: pair[1]})
    reported = run(engine, environment, "import os; print(os.environ['TF_ENABLE_ONEDNN_OPTS'])")
    assert reported == "0\n"


def test_a_second_stack_sends_only_the_layer_that_differs(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Line(engine, monkeypatch)
    large = {"payload.txt": "x" * 3_000_000}
    common = [make_wheel(tmp_path, "common", large), make_wheel(tmp_path, "other", large)]
    build(builder, base, [*common, make_wheel(tmp_path, "np")], "np")
    environment = build(builder, base, [*common, make_wheel(tmp_path, "np", version="2.0")], "np")
    assert line.sent[0] > 6_000_000
    assert line.sent[1] < 100_000
    assert run(engine, environment, "import np, common; print(np.VERSION)") == "2.0\n"


def test_a_stack_that_was_built_is_not_built_again(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [make_wheel(tmp_path, "built_once")]
    first = build(builder, base, pairs)
    line = Line(engine, monkeypatch)
    assert build(builder, base, pairs) == first
    assert line.sent == []


def test_another_base_of_the_same_facts_gets_an_image_of_its_own(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pairs = [make_wheel(tmp_path, "built_twice")]
    first = build(builder, base, pairs)
    container = engine.api.create_container(base.reference, ["/bin/true"])["Id"]
    try:
        engine.api.put_archive(container, "/etc", _tar_with("one-more", b"x"))
        other = engine.api.commit(container)["Id"]
    finally:
        engine.api.remove_container(container)
    try:
        second = build(builder, replace(base, reference=other), pairs)
        assert second.stack == first.stack
        assert run(engine, second, "print(open('/etc/one-more').read())") == "x\n"
        assert build(builder, base, pairs).location == first.location
        engine.api.remove_image(second.location, force=True)
    finally:
        engine.api.remove_image(other, force=True)


def _tar_with(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def test_the_same_stack_gets_the_same_image_from_another_store(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pairs = [make_wheel(tmp_path, "one", {"names.py": "A = {'x', 'y', 'z'}\n"})]
    first = build(builder, base, pairs).location
    engine.api.remove_image(first, force=True)
    other = ImageBuilder(engine, LayerStore(tmp_path / "2"), tmp_path / "engines.json")
    assert build(other, base, pairs).location == first


def test_a_layer_that_only_the_engine_has_is_made_again_where_it_lies_on_others(
    engine: Engine, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LayerStore(tmp_path / "layers", large_bytes=0)
    builder = ImageBuilder(engine, store, tmp_path / "engines.json")
    pair, below = make_wheel(tmp_path, "only_there"), make_wheel(tmp_path, "a_new_one_below")
    first = build(builder, base, [pair])
    assert pair[0].filename not in {item.name for item in store.items()}
    line = Line(engine, monkeypatch)
    second = build(builder, base, [pair, below])
    assert len(line.sent) == 1
    assert run(engine, second, "import only_there as one; print(one.VERSION)") == "1.0\n"
    for made in (first, second):
        engine.api.remove_image(made.location, force=True)
    assert build(builder, base, [pair]).location == first.location
    engine.api.remove_image(first.location, force=True)


def test_an_engine_that_refuses_thin_archives_gets_whole_ones_from_then_on(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Line(engine, monkeypatch, picky=True)
    environment = build(builder, base, [make_wheel(tmp_path, "refused_thin")])
    assert run(engine, environment, "import refused_thin as one; print(one.VERSION)") == "1.0\n"
    assert len(line.sent) == 2
    build(builder, base, [make_wheel(tmp_path, "refused_thin", version="2.0")])
    assert len(line.sent) == 3


def test_an_engine_that_refuses_everything_is_quoted_and_not_remembered(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = [{"error": "no space left on device"}]
    monkeypatch.setattr(engine.api, "load_image", lambda archive: iter(refusal[: len([*archive])]))
    with pytest.raises(EngineError, match="no space left on device"):
        build(builder, base, [make_wheel(tmp_path, "refused_always")])
    assert not builder.memory.exists()


def test_more_wheels_than_layers_still_fit(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pairs = [make_wheel(tmp_path, f"p{number}") for number in range(MAX_LAYERS + 5)]
    environment = build(builder, base, pairs)
    image = engine.image(environment.location)
    assert image is not None
    assert len(image.diff_ids) == MAX_LAYERS
    names = ", ".join(artifact.name for artifact, _ in pairs)
    assert run(engine, environment, f"import {names}; print(p0.VERSION)") == "1.0\n"


def test_an_image_says_what_it_is_and_when_it_was_used(
    builder: ImageBuilder, engine: Engine, base: Base, tmp_path: Path
) -> None:
    pairs = [[make_wheel(tmp_path, "one", version=version)] for version in ("1.0", "2.0", "3.0")]
    built = [build(builder, base, pair) for pair in pairs]
    build(builder, base, pairs[0])  # used again
    ours = {environment.location for environment in built}
    listed = [image for image in engine_images(engine).states() if image.image_id in ours]
    assert [image.packages for image in listed] == ["one==1.0", "one==3.0", "one==2.0"]
    assert listed[0].stack_id == built[0].stack.id


@pytest.mark.parametrize("missing", ["file", "wheel"])
def test_a_stack_without_a_wheel_is_refused_by_name(
    builder: ImageBuilder, base: Base, tmp_path: Path, missing: str
) -> None:
    artifact, path = make_wheel(tmp_path, "one")
    if missing == "wheel":
        artifact = Artifact(
            name="one", version="1.0", filename="one-1.0.tar.gz", sha256=artifact.sha256,
            url="", index="",
        )  # fmt: skip
    files = {artifact.sha256: path} if missing == "wheel" else {}
    with pytest.raises(BuildError, match=artifact.filename):
        builder.build(Stack(lock=stack_of(artifact, base=base).lock, facts=base.facts), base, files)


@pytest.mark.network
def test_two_numpys_cost_one_layer_each_and_multiply_matrices(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Line(engine, monkeypatch)
    large = make_wheel(tmp_path, "common", {"payload.txt": "x" * 200_000_000})
    for number, version in enumerate(("1.26.4", "2.0.2")):
        numpy = downloaded(tmp_path, base, f"numpy=={version}")
        environment = build(builder, base, [large, numpy], "numpy")
        code = "import numpy; print(numpy.__version__, (numpy.ones((9, 9)) @ numpy.ones(9)).sum())"
        assert run(engine, environment, code).split() == [version, "81.0"]
        unpacked = unpacked_size(numpy[1])
        if number:
            assert line.sent[number] < 1.3 * unpacked


def downloaded(folder: Path, base: Base, pin: str) -> tuple[Artifact, Path]:
    """Return a wheel from the configured index, as pip finds it for the base."""
    machine = base.target.environment["platform_machine"]
    where = folder / pin
    options = [f"--dest={where}", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    options += [f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_17", "_2_28")]
    command = [sys.executable, "-m", "pip", "download", "-q", *options, pin]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel of {pin}: {done.stderr[-200:]}")
    (path,) = where.glob("*.whl")
    return artifact_of(path), path


def test_an_engine_that_takes_a_thin_archive_and_loses_it_gets_the_whole_one(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Line(engine, monkeypatch, silent=True)
    environment = build(builder, base, [make_wheel(tmp_path, "lost_thin")])
    assert run(engine, environment, "import lost_thin; print('there')") == "there\n"
    thin, whole = line.sent
    assert thin < whole


@pytest.mark.parametrize("picky", [False, True])
def test_a_damaged_layer_is_made_anew_and_the_image_is_built(
    builder: ImageBuilder,
    engine: Engine,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    picky: bool,
) -> None:
    Line(engine, monkeypatch, picky=picky)
    one, two = make_wheel(tmp_path, f"hurt{picky}"), make_wheel(tmp_path, f"sound{picky}")
    build(builder, base, [one])
    store = LayerStore(tmp_path / "layers")
    (layer,) = (Path(each.path) for each in store.items() if each.name == one[0].filename)
    content = bytearray(layer.read_bytes())
    content[content.index(b"VERSION")] ^= 1
    layer.write_bytes(content)
    for image in builder.built:  # type: ignore[attr-defined]
        engine.api.remove_image(image, force=True)
    environment = build(builder, base, [one, two])
    reported = run(engine, environment, f"import hurt{picky} as one; print(one.VERSION)")
    assert reported == "1.0\n"


def test_a_wheel_that_replaces_files_of_another_package_is_refused(
    builder: ImageBuilder, base: Base, tmp_path: Path
) -> None:
    owned = make_wheel(tmp_path, "owned", {"owned/__init__.py": "x = 1\n"})
    other = make_wheel(tmp_path, "other", {"owned/__init__.py": "x = 2\n"})
    with pytest.raises(BuildError, match=r"other 1\.0 would replace files of owned 1\.0"):
        build(builder, base, [owned, other])
