"""The oldest and the newest Python, from one lock to an image, by the command line."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackgen.images.engine import Engine
from stackgen.images.layers import STACK_LABEL, STACK_PYTHON
from stackgen.storage.paths import shipped_folder
from tests.test_pis_numpy import CALLS, computed

pytestmark = [pytest.mark.docker, pytest.mark.network]
# What came later than TensorFlow 1 and breaks it, and what has no wheel in the version it asks for.
KNOWN = ("protobuf<3.21", "--override", "gast==0.3.3")
MULTIPLY = """
import sys
import tensorflow as tf
tf = tf.compat.v1
with tf.Session() as session:
    product = session.run(tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]))
print("%d.%d" % sys.version_info[:2], tf.VERSION, product[0][0])
"""


def stackgen(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stackgen", *arguments],
        env={key: value for key, value in os.environ.items() if key != "STACKGEN_KB"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


@contextlib.contextmanager
def image(engine: Engine, folder: Path, base: str, *wanted: str) -> Iterator[str]:
    """Resolve, build an image on a base and yield its tag; skip where the base cannot be made."""
    made = json.loads(stackgen("images", "bases", base, "--make", "--json", check=False))
    (entry,) = made["bases"]
    if entry["state"] != "ready":
        pytest.skip(f"the base {base} {entry['state']}: {entry['why']}")
    lock = folder / "requirements.txt"
    chosen = (*wanted, "--base", base, "--one", "--format", "requirements", "--hashes")
    lock.write_text(stackgen("resolve", *chosen))
    tag = f"stackgen-test:{base}-{wanted[0].replace('=', '-')}"
    before = engine.images(STACK_LABEL)
    stackgen("images", "build", str(lock), "--base", base, "--tag", tag)
    built = engine.image(tag)
    assert built is not None
    try:
        yield tag
    finally:
        engine.api.remove_image(tag if built.id in before else built.id, force=True)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.13.2", "1.15.5"])
def test_tensorflow_1_multiplies_on_python_3_7(
    engine: Engine, tmp_path: Path, version: str
) -> None:
    with image(engine, tmp_path, "py37", f"tensorflow=={version}", *KNOWN) as tag:
        ran = engine.run(tag, [STACK_PYTHON, "-W", "ignore", "-c", MULTIPLY])
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.split() == ["3.7", version, "11.0"]


def test_indicators_compute_on_python_3_14_what_they_compute_beside_us(
    engine: Engine, tmp_path: Path
) -> None:
    pis = shipped_folder("pis").resolve()
    with image(engine, tmp_path, "py314", "numpy") as tag:
        mounted = ["docker", "run", "--rm", "--network", "none", "--volume", f"{pis}:{pis}:ro"]
        found = computed([*mounted, tag, STACK_PYTHON], CALLS)
    for call, expected in computed([sys.executable], CALLS).items():
        assert found[call]["outcome"] == expected["outcome"] == "ok", found[call]["reason"]
        assert found[call]["circumstances"]["python"].startswith("CPython 3.14.")
        tolerance = expected["circumstances"]["checksum_tolerance"]
        ours = expected["checksum"]
        same = None if ours is None else pytest.approx(ours, rel=tolerance, abs=0)
        assert (found[call]["work"], found[call]["checksum"]) == (expected["work"], same), call
