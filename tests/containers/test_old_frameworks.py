"""TensorFlow 1 runs on Python 3.7, from one lock to an image, by the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stackgen.images.engine import Engine
from stackgen.images.layers import STACK_LABEL, STACK_PYTHON

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.slow]
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


def stackgen(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stackgen", *arguments],
        env={key: value for key, value in os.environ.items() if key != "STACKGEN_KB"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["1.13.2", "1.15.5"])
def test_tensorflow_1_multiplies_on_python_3_7(
    engine: Engine, tmp_path: Path, version: str
) -> None:
    (entry,) = json.loads(stackgen("images", "bases", "py37", "--json"))["bases"]
    if entry["state"] not in ("ready", "can be made"):
        pytest.skip(f"the base py37 {entry['state']}: {entry['why']}")
    wanted = (f"tensorflow=={version}", *KNOWN, "--base", "py37")
    lock = tmp_path / "requirements.txt"
    lock.write_text(stackgen("resolve", *wanted, "--one", "--format", "requirements", "--hashes"))
    tag = f"stackgen-test:tensorflow-{version}"
    before = engine.images(STACK_LABEL)
    stackgen("images", "build", str(lock), "--base", "py37", "--tag", tag)
    built = engine.image(tag)
    assert built is not None
    try:
        ran = engine.run(tag, [STACK_PYTHON, "-W", "ignore", "-c", MULTIPLY])
    finally:
        engine.api.remove_image(tag if built.id in before else built.id, force=True)
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.split() == ["3.7", version, "11.0"]
