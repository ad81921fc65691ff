"""Building an image takes the call path that CONTRIBUTING.md documents."""

import os
from pathlib import Path

import pytest

from stackgen.images.engine import Engine
from stackgen.model.stacks import Base
from tests.local_index import Published, publish
from tests.test_call_paths import PATHS, traced

pytestmark = pytest.mark.docker


def test_building_an_image_takes_its_path(tmp_path: Path, base: Base, engine: Engine) -> None:
    index = publish(tmp_path, {"speedy": {"1.0": Published()}})
    (tmp_path / "requirements.txt").write_text("speedy==1.0\n")
    words = ("images", "build", str(tmp_path / "requirements.txt"), "--tag", "call-path")
    environ = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}
    try:
        ways = traced("images build", *words, "--base", base.name, environ=environ)
    finally:
        image = engine.image("call-path:latest")
        if image is not None:
            engine.api.remove_image(image.id, force=True)
    assert PATHS["images build"] in ways
