"""What commands about images say where no container engine answers."""

import json
from pathlib import Path

import pytest

from tests.containers.locked import Images


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    return Images(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", "mine"),
        ("build", "requirements.txt"),
        ("export", "mine", "--oci", "folder"),
        ("bases", "--make"),
        ("prune", "--images", "3"),
    ],
)
def test_only_what_these_commands_can_do_is_proposed(
    images: Images, arguments: tuple[str, ...]
) -> None:
    (images.root / "requirements.txt").write_text("speedy==1.0\n", encoding="utf-8")
    done = images.run(*arguments)
    assert done.returncode == 5, done.stderr
    assert "no container engine answers" in done.stderr
    assert "DOCKER_HOST" in done.stderr
    assert "--executor" not in done.stderr  # none of them knows that option


def test_that_there_are_no_images_is_not_claimed(images: Images) -> None:
    reported = images.reported()
    assert "Images of stacks are not known: no container engine answers (no such file" in reported
    assert "No images" not in reported
    assert "no such file" in json.loads(images.reported("--json"))["no_engine"]
