"""Real virtualenvs, built by uv from wheels that are made here."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.builders.interpreters import find_interpreters, probe
from stackgen.builders.virtualenvs import VirtualenvBuilder
from stackgen.errors import BuildError, StorageError
from stackgen.values import Artifact, Base, Environment, Lock, Stack

BASE = probe(sys.executable)
LIST = (
    "import importlib.metadata as m; print(sorted((d.name, d.version) for d in m.distributions()))"
)


def wheel(folder: Path, name: str, version: str, source: str = "x = 1\n") -> Artifact:
    """Write a wheel with one module, and return its artifact."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in files.items()
    }
    record = "".join(f"{path},sha256={d},{len(files[path])}\n" for path, d in digests.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(member, text)
    return Artifact(
        name=name,
        version=version,
        filename=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        url=path.as_uri(),
        index="local",
    )


class Bench:
    """A folder for wheels, and one for what is built."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.root = folder / "wheels", folder / "root"
        self.wheels.mkdir()
        self.builder = VirtualenvBuilder(root=self.root)

    def stack(self, *artifacts: Artifact, base: Base = BASE) -> Stack:
        return Stack(lock=Lock(artifacts=artifacts), facts=base.facts)

    def build(self, stack: Stack, base: Base = BASE) -> Environment:
        paths = {a.sha256: self.wheels / a.filename for a in stack.lock.artifacts}
        return self.builder.build(stack, base, paths)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def said(environment: Environment, code: str) -> str:
    command = [environment.python, "-s", "-B", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_virtualenv_holds_exactly_what_its_lock_says(bench: Bench) -> None:
    stack = bench.stack(wheel(bench.wheels, "aa", "1.0"), wheel(bench.wheels, "bb", "2.0"))
    assert said(bench.build(stack), LIST) == "[('aa', '1.0'), ('bb', '2.0')]"


def test_no_package_at_all_is_a_stack_too(bench: Bench) -> None:
    assert said(bench.build(bench.stack()), LIST) == "[]"


def test_what_is_complete_is_reused_and_settings_share_it(bench: Bench) -> None:
    stack = bench.stack(wheel(bench.wheels, "aa", "1.0"))
    first = bench.build(stack)
    marked = Path(first.location, "marked-by-the-test")
    marked.touch()
    other = bench.build(replace(stack, settings=(("X", "1"),)))
    assert other.location == first.location
    assert marked.exists()
    assert other.stack.settings == (("X", "1"),)


def test_what_an_interrupted_build_left_is_built_anew(bench: Bench) -> None:
    stack = bench.stack(wheel(bench.wheels, "aa", "1.0"))
    environment = bench.build(stack)
    Path(environment.location, ".complete").unlink()
    rubbish = Path(environment.location, "half-written")
    rubbish.touch()
    assert said(bench.build(stack), LIST) == "[('aa', '1.0')]"
    assert not rubbish.exists()


def test_a_virtualenv_whose_interpreter_went_is_built_anew(bench: Bench) -> None:
    environment = bench.build(bench.stack())
    Path(environment.python).unlink()
    assert said(bench.build(bench.stack()), "print(1)") == "1"


def test_two_stacks_keep_their_own_versions(bench: Bench) -> None:
    old, new = (
        bench.build(bench.stack(wheel(bench.wheels, "aa", version, f"x = {version}\n")))
        for version in ("1.0", "2.0")
    )
    assert (said(old, "import aa; print(aa.x)"), said(new, "import aa; print(aa.x)")) == (
        *("1.0", "2.0"),
    )


def test_modules_come_compiled_and_from_one_store(bench: Bench) -> None:
    shared = wheel(bench.wheels, "aa", "1.0")
    stacks = [bench.stack(shared), bench.stack(shared, wheel(bench.wheels, "bb", "1.0"))]
    cached = [said(bench.build(stack), "import aa; print(aa.__cached__)") for stack in stacks]
    assert len({Path(path).stat().st_ino for path in cached}) == 1


def test_a_module_that_does_not_compile_spoils_nothing(bench: Bench) -> None:
    environment = bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0", "def broken(:\n")))
    assert said(environment, LIST) == "[('aa', '1.0')]"


def test_a_wheel_under_another_name_is_installed_all_the_same(bench: Bench) -> None:
    artifact = wheel(bench.wheels, "aa", "1.0")
    renamed = (bench.wheels / artifact.filename).rename(bench.wheels / artifact.sha256)
    built = bench.builder.build(bench.stack(artifact), BASE, {artifact.sha256: renamed})
    assert said(built, LIST) == "[('aa', '1.0')]"


def test_a_wheel_that_is_not_at_hand_is_named(bench: Bench) -> None:
    artifact = wheel(bench.wheels, "aa", "1.0")
    with pytest.raises(BuildError, match=r"aa-1\.0-py3-none-any\.whl is not at hand"):
        bench.builder.build(bench.stack(artifact), BASE, {})


def test_uvs_own_words_are_the_reason_of_a_failed_build(bench: Bench) -> None:
    artifact = wheel(bench.wheels, "aa", "1.0")
    (bench.wheels / artifact.filename).write_bytes(b"this is no zip file")
    with pytest.raises(BuildError, match=r"(?s)why: .*zip"):
        bench.build(bench.stack(artifact))
    assert not list(bench.root.glob("environments/*/.complete"))


def test_a_folder_that_cannot_be_written_is_said(bench: Bench) -> None:
    bench.root.write_text("a file stands in the way")
    with pytest.raises(StorageError, match="STACKGEN_CACHE"):
        bench.build(bench.stack())


@pytest.mark.slow
@pytest.mark.parametrize("python", find_interpreters())
def test_every_interpreter_found_gets_a_virtualenv(bench: Bench, python: str) -> None:
    base = probe(python)
    environment = bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0"), base=base), base)
    assert said(environment, "import aa; print(aa.x)") == "1"
