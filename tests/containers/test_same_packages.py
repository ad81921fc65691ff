"""A stack is the same packages, file by file, whether it becomes a virtualenv or an image."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stackgen.errors import BuildError
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.targets import find_interpreters, probe
from stackgen.images.virtualenvs import VirtualenvBuilder
from stackgen.model.packages import Artifact
from stackgen.model.stacks import Base
from tests.containers.wheels import make_wheel, stack_of

pytestmark = pytest.mark.docker

# Runs in both. What an installer writes about itself is no part of a package: who installed it,
# that somebody asked for it, and from where; and the rows of RECORD that list this.
INVENTORY = """
import hashlib, importlib.metadata, json, os, sysconfig
site = sysconfig.get_path("purelib")
NOTES = {"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"}
def compared(path):
    folder, name = os.path.split(path)
    return not path.endswith(".pyc") and not (folder.endswith(".dist-info") and name in NOTES)
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
files = {
    os.path.relpath(os.path.join(folder, name), site): digest(os.path.join(folder, name))
    for folder, _, names in os.walk(site) for name in names if name != "RECORD"
}
found = list(importlib.metadata.distributions(path=[site]))
records = {
    d.metadata["Name"]: {
        # A script names its interpreter in its first line.
        str(f): f.hash and not str(f).startswith("../../../bin/") and f.hash.value
        for f in d.files if compared(str(f))
    }
    for d in found
}
print(json.dumps({
    "versions": {d.metadata["Name"]: d.version for d in found},
    "records": records,
    "files": {path: value for path, value in files.items() if compared(path)},
}))
"""


@pytest.fixture
def interpreter(base: Base) -> Base:
    """Return an interpreter of this machine with the minor version of the base's."""
    wanted = base.target.python.split(".")[:2]
    for path in find_interpreters():
        try:
            found = probe(path)
        except BuildError:
            continue
        if found.target.python.split(".")[:2] == wanted:
            return found
    pytest.skip(f"no Python {'.'.join(wanted)} on this machine, which the base has")


def awkward_wheels(folder: Path) -> list[tuple[Artifact, Path]]:
    """Return wheels that use every way in which a wheel may place its files."""
    tools = "[console_scripts]\nsay = tool:say\n"
    return [
        make_wheel(
            folder,
            "tool",
            {
                "tool.py": "def say(): print('said')\n",
                "tool-1.0.dist-info/entry_points.txt": tools,
                "tool-1.0.dist-info/licenses/LICENSE": "free\n",
                "tool-1.0.data/purelib/pure_part.py": "PURE = 1\n",
                "tool-1.0.data/platlib/plat_part.py": "PLAT = 1\n",
                "tool-1.0.data/data/share/tool/table.txt": "1 2 3\n",
                "tool-1.0.data/headers/tool.h": "#define TOOL 1\n",
                "tool-1.0.data/scripts/shout": "#!python\nprint('LOUD')\n",
            },
        ),
        make_wheel(
            folder,
            "Mixed_Case",
            {
                "space/one/__init__.py": "",
                "space/one/ünï.txt": "text\n",
                "space/one/broken.py": "def (:\n",
                "space/one/empty.dat": "",
                "mixed.pth": "import sys\n",
            },
            version="2.0.post1",
        ),
        make_wheel(folder, "neighbour", {"space/two/__init__.py": "TWO = 2\n"}, version="3!1.0rc1"),
    ]


def test_a_virtualenv_and_an_image_hold_the_same_files(
    builder: ImageBuilder, engine: Engine, base: Base, interpreter: Base, tmp_path: Path
) -> None:
    pairs = awkward_wheels(tmp_path)
    artifacts = [artifact for artifact, _ in pairs]
    files = {artifact.sha256: path for artifact, path in pairs}
    image = builder.build(stack_of(*artifacts, base=base), base, files)
    ran = engine.run(image.location, [image.python, "-c", INVENTORY])
    assert ran.exit_code == 0, ran.stderr
    stack = stack_of(*artifacts, base=interpreter)
    made = VirtualenvBuilder(root=tmp_path / "root").build(stack, interpreter, files)
    reported = subprocess.check_output([made.python, "-c", INVENTORY], text=True)
    in_image, in_virtualenv = _read(ran.stdout), _read(reported)
    assert in_image == in_virtualenv
    assert len(in_image["versions"]) == len(pairs)
    assert "space/two/__init__.py" in in_image["files"]


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
