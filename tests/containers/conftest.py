"""A real engine, and a base in it; what cannot be had is a reason to skip."""

import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from docker import errors as docker_errors

from stackgen.errors import BuildError, EngineError
from stackgen.images.bases import BaseBuilder
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine, connect
from stackgen.images.layer_store import LayerStore
from stackgen.model.stacks import Base, Environment


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

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.built: set[str] = set()

    def build(self, *args: Any, **options: Any) -> Environment:
        environment = super().build(*args, **options)
        self.built.add(environment.location)
        return environment


@pytest.fixture
def builder(engine: Engine, store: LayerStore, tmp_path: Path) -> Iterator[ImageBuilder]:
    """Return a builder whose images are gone after the test."""
    builder = TidyBuilder(engine, store, tmp_path / "engines.json")
    yield builder
    left, builder.built = builder.built, set()
    while left:  # an image that another one was made from goes after it
        retained = {image_id for image_id in left if not _removed(engine, image_id)}
        assert retained < left, f"the engine does not remove {retained}"
        left = retained


def _removed(engine: Engine, image_id: str) -> bool:
    try:
        engine.api.remove_image(image_id, force=True)
    except docker_errors.ImageNotFound:
        return True
    except docker_errors.APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise
        return False
    return True
