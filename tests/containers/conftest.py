"""A real engine, and a base in it; what cannot be had is a reason to skip."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import platformdirs
import pytest

from stackgen.artifacts.layers import LayerStore
from stackgen.builders.bases import BaseBuilder
from stackgen.builders.engine import Engine, connect
from stackgen.builders.images import ImageBuilder
from stackgen.errors import BuildError, EngineError
from stackgen.values import Base, Environment


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        found = connect()
    except EngineError as error:
        pytest.skip(f"no container engine: {error.why}")
    yield found
    found.close()


@pytest.fixture(scope="session")
def cache() -> Path:
    """Return the user's cache: a base takes a minute to make."""
    where = os.environ.get("STACKGEN_CACHE") or platformdirs.user_cache_dir("stackgen")
    return Path(where) / "bases"


@pytest.fixture(scope="session")
def base(engine: Engine, cache: Path) -> Base:
    try:
        return BaseBuilder(engine, cache).make("bookworm-py311", lambda _: None)
    except BuildError as error:
        pytest.skip(f"no base: {error.why}")


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(tmp_path / "layers")


class TidyBuilder(ImageBuilder):
    """Knows what it built: other people's images in the engine are not ours to remove."""

    built: ClassVar[set[str]] = set()

    def build(self, *args: Any, **options: Any) -> Environment:
        environment = super().build(*args, **options)
        self.built.add(environment.location)
        return environment


@pytest.fixture
def builder(engine: Engine, store: LayerStore, tmp_path: Path) -> Iterator[ImageBuilder]:
    """Return a builder whose images are gone after the test."""
    builder = TidyBuilder(engine, store, tmp_path / "engines.json")
    yield builder
    for image in builder.list_images():
        if image.id in builder.built:
            builder.remove(image.id)
