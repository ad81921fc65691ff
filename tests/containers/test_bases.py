"""Bases are defined in files, found in the engine, and refused with every reason."""

import re
from pathlib import Path

import pytest

from stackgen.builders import debootstrap
from stackgen.builders.bases import BaseBuilder, read_definitions
from stackgen.builders.engine import Engine, connect
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.values import Base, Kind


def test_three_pythons_on_three_debians_are_defined() -> None:
    found = {definition.name: definition for definition in read_definitions()}
    assert {"bullseye-py39", "bookworm-py311", "trixie-py313"} <= found.keys()
    for name, definition in found.items():
        assert name == f"{definition.suite}-py{definition.python.replace('.', '')}"
        assert definition.reference == f"python:{definition.python}-slim-{definition.suite}"


def test_a_definition_that_lacks_a_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('summary = "x"\n')
    with pytest.raises(UsageError, match=r"odd\.toml"):
        read_definitions(tmp_path)


def test_what_a_base_is_made_of_is_in_its_tag(tmp_path: Path) -> None:
    (shipped, *_) = read_definitions()
    text = (Path(__file__).parents[2] / "images" / f"{shipped.name}.toml").read_text()
    changed = re.sub(r"^packages = .*$", 'packages = ["libblas3"]', text, flags=re.MULTILINE)
    (tmp_path / f"{shipped.name}.toml").write_text(changed)
    (other,) = read_definitions(tmp_path)
    assert other.packages == ("libblas3",)
    assert other.tag != shipped.tag


@pytest.mark.parametrize(
    "host", ["unix:///nowhere.sock", "tcp://127.0.0.1:9", "nonsense", "tcp://localhost:99999"]
)
def test_an_engine_that_does_not_answer_is_explained(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(EngineError, match="no container engine answers"):
        connect()


def test_without_debootstrap_a_base_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="debootstrap is not installed"):
        debootstrap.root_archive("bookworm", (), archive=tmp_path / "a", progress=lambda _: None)


def test_a_failed_debootstrap_is_quoted_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "debootstrap"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho E: no such suite\nmkdir -p $4/proc\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    archive = tmp_path / "out" / "root.tar.gz"
    with pytest.raises(BuildError, match="E: no such suite"):
        debootstrap.root_archive("bookworm", (), archive=archive, progress=lambda _: None)
    assert not list(archive.parent.iterdir())


@pytest.mark.docker
def test_a_base_is_what_its_own_interpreter_says(base: Base) -> None:
    assert base.kind is Kind.DOCKER
    assert base.reference.startswith("sha256:")
    assert base.facts.python.startswith("CPython 3.11.")
    assert base.facts.libc == "glibc 2.36"
    assert "cp311-cp311-manylinux_2_36_x86_64" in base.target.tags or "x86_64" not in str(
        base.target.tags
    )


@pytest.mark.docker
def test_any_image_of_the_engine_can_be_a_base(engine: Engine, cache: Path, base: Base) -> None:
    engine.api.tag(base.reference, "stackgen-test", "mine")
    try:
        found = BaseBuilder(engine, cache).ready("stackgen-test:mine")
    finally:
        engine.api.remove_image("stackgen-test:mine")
    assert found is not None
    assert (found.reference, found.facts) == (base.reference, base.facts)
    assert found.python == base.python


@pytest.mark.docker
def test_an_image_that_nobody_has_is_refused_within_seconds(engine: Engine, cache: Path) -> None:
    builder = BaseBuilder(engine, cache)
    assert builder.ready("stackgen-test:no-such-image") is None
    with pytest.raises(BuildError, match="registry: "):
        builder.make("stackgen-test:no-such-image", lambda _: None)
