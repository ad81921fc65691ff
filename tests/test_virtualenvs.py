"""Real virtualenvs, made by virtualenv and uv, filled by uv with wheels that are made here."""

import base64
import contextlib
import hashlib
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.errors import BuildError, StorageError
from stackgen.images.maintenance import check_virtualenvs
from stackgen.images.targets import probe
from stackgen.images.virtualenvs import VirtualenvBuilder, VirtualenvStore
from stackgen.model.packages import Artifact, Lock
from stackgen.model.stacks import Base, Environment, Stack
from tests.interpreters import each_python
from tests.store_parts import until

BASE = probe(sys.executable)
LIST = (
    "import importlib.metadata as m; print(sorted((d.name, d.version) for d in m.distributions()))"
)

DISK_SIZE = "12m"


def wheel(
    folder: Path,
    name: str,
    version: str,
    source: str | None = "x = 1\n",
    *,
    also: Mapping[str, str] | None = None,
) -> Artifact:
    """Write a wheel with one module (and what else it shall hold), and return its artifact."""
    info = f"{name}-{version}.dist-info"
    files = {
        **({} if source is None else {f"{name}.py": source}),
        **(also or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in files.items()
    }
    record = "".join(f"{path},sha256={d},{len(files[path])}\n" for path, d in digests.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    if path.exists():
        return artifact_at(path)
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return artifact_at(path)


def artifact_at(path: Path) -> Artifact:
    name, version = path.name.split("-")[:2]
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
        self.wheels.mkdir(exist_ok=True)
        self.builder = VirtualenvBuilder(root=self.root)

    def stack(self, *artifacts: Artifact, base: Base = BASE) -> Stack:
        return Stack(lock=Lock(artifacts=artifacts), facts=base.facts)

    def build(self, stack: Stack, base: Base = BASE) -> Environment:
        paths = {a.sha256: self.wheels / a.filename for a in stack.lock.artifacts}
        return self.builder.build(stack, base, paths)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def printed(environment: Environment, code: str) -> str:
    """Return what an environment prints; it has nothing to complain of."""
    command = [environment.python, "-s", "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


def made_by(environment: Environment) -> dict[str, str]:
    lines = Path(environment.location, "pyvenv.cfg").read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines)


def test_a_virtualenv_holds_exactly_what_its_lock_says(bench: Bench) -> None:
    stack = bench.stack(wheel(bench.wheels, "aa", "1.0"), wheel(bench.wheels, "bb", "2.0"))
    assert printed(bench.build(stack), LIST) == "[('aa', '1.0'), ('bb', '2.0')]"


def test_no_package_at_all_is_a_stack_too(bench: Bench) -> None:
    assert printed(bench.build(bench.stack()), LIST) == "[]"


def test_an_empty_virtualenv_has_nothing_in_it_that_an_image_has_not(bench: Bench) -> None:
    environment = bench.build(bench.stack())
    assert not [*Path(environment.location).glob("lib*/*/site-packages/*")]
    assert "virtualenv" in made_by(environment)


def test_nothing_of_the_user_is_read_or_written(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    settings = home / ".config" / "virtualenv" / "virtualenv.ini"
    settings.parent.mkdir(parents=True)
    settings.write_text("[virtualenv]\nsystem-site-packages = true\nprompt = mine\n")
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VIRTUALENV_SYSTEM_SITE_PACKAGES", "1")
    made = made_by(bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0"))))
    assert made["include-system-site-packages"] == "false"
    assert "prompt" not in made
    assert [path for path in home.rglob("*") if path.is_file()] == [settings]


def test_what_virtualenv_declines_uv_makes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (odd := tmp_path / "virtualenv:takes:no:colons").mkdir()
    bench = Bench(odd)
    environment = bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0")))
    assert "uv" in made_by(environment)
    assert printed(environment, LIST) == "[('aa', '1.0')]"
    assert not [*Path(environment.location).glob("lib*/*/site-packages/_virtualenv*")]
    assert capfd.readouterr() == ("", "")


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
    assert printed(bench.build(stack), LIST) == "[('aa', '1.0')]"
    assert not rubbish.exists()


def test_a_virtualenv_whose_interpreter_went_is_built_anew(bench: Bench) -> None:
    environment = bench.build(bench.stack())
    Path(environment.python).unlink()
    assert printed(bench.build(bench.stack()), "print(1)") == "1"


def test_two_stacks_keep_their_own_versions(bench: Bench) -> None:
    old, new = (
        bench.build(bench.stack(wheel(bench.wheels, "aa", version, f"x = {version}\n")))
        for version in ("1.0", "2.0")
    )
    assert (printed(old, "import aa; print(aa.x)"), printed(new, "import aa; print(aa.x)")) == (
        *("1.0", "2.0"),
    )


def test_modules_come_compiled_and_from_one_store(bench: Bench) -> None:
    shared = wheel(bench.wheels, "aa", "1.0")
    stacks = [bench.stack(shared), bench.stack(shared, wheel(bench.wheels, "bb", "1.0"))]
    cached = [printed(bench.build(stack), "import aa; print(aa.__cached__)") for stack in stacks]
    assert len({Path(path).stat().st_ino for path in cached}) == 1


BUILD = """
import sys
from pathlib import Path
from tests.test_virtualenvs import Bench, artifact_at
bench = Bench(Path(sys.argv[1]))
made = bench.build(bench.stack(artifact_at(bench.wheels / sys.argv[2])))
print(Path(made.location, ".complete").stat().st_ino)
"""


def test_bytecode_of_a_file_that_two_wheels_hold_is_of_the_one_that_lies_there(
    bench: Bench,
) -> None:
    shared = [
        wheel(bench.wheels, name, "1.0", also={"shared/__init__.py": f"WHO = {name!r}\n"})
        for name in ("aa", "bb")
    ]
    for lock in (shared, shared[:1], shared[1:], shared[::-1][:1]):
        environment = bench.build(bench.stack(*lock))
        (source,) = Path(environment.location).glob("lib/*/site-packages/shared/__init__.py")
        assert any(source.parent.glob("__pycache__/*.pyc"))
        who = printed(environment, "import shared; print(shared.WHO)")
        assert source.read_text() == f"WHO = {who!r}\n"
        assert who in {each.name for each in lock}


def test_bytecode_of_a_killed_build_is_swept_and_made_anew(bench: Bench, tmp_path: Path) -> None:
    # One module keeps the compiler busy for a second or more.
    artifact = wheel(bench.wheels, "aa", "1.0", "def f(x):\n    return [x, x + 1]\n" * 3_000)
    command = [sys.executable, "-c", BUILD, str(tmp_path), artifact.filename]
    builder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    half_made = ("root/bytecode/*/.part-*", "root/bytecode/*/.part-*/*/*.py")
    until(lambda: [*tmp_path.glob(half_made[1])] or builder.poll() is not None)
    builder.send_signal(signal.SIGKILL)
    _, complaint = builder.communicate()
    assert [*tmp_path.glob(half_made[0])], complaint
    environment = bench.build(bench.stack(artifact))
    assert not [*tmp_path.glob(half_made[0])]
    cached = printed(environment, "import aa; print(aa.__cached__)")
    (retained,) = tmp_path.glob("root/bytecode/*/*/__pycache__/*.pyc")
    assert Path(cached).samefile(retained)


def test_a_wheel_that_replaces_files_of_another_package_is_refused(bench: Bench) -> None:
    owned = wheel(bench.wheels, "aa", "1.0", also={"aa_/x.py": "", "aa/__init__.py": "x = 1\n"})
    same = wheel(bench.wheels, "bb", "1.0", also={"aa/__init__.py": "x = 1\n"})
    assert printed(bench.build(bench.stack(owned, same)), "import aa; print(aa.x)") == "1"
    other = wheel(bench.wheels, "cc", "1.0", also={"aa/__init__.py": "x = 2\n"})
    with pytest.raises(BuildError, match=r"cc 1\.0 would replace files of aa 1\.0") as refusal:
        bench.build(bench.stack(owned, other))
    assert "both hold aa/__init__.py, with different contents" in refusal.value.why


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, helpers end by themselves")
def test_no_compiling_process_outlives_a_killed_build(bench: Bench, tmp_path: Path) -> None:
    """The modules would keep it busy for a minute: what is gone at once was ended."""
    large = "def f(x):\n    return [x, x + 1]\n" * 20_000
    artifact = wheel(bench.wheels, "aa", "1.0", also={f"aa{n}.py": large for n in range(100)})
    command = [sys.executable, "-c", BUILD, str(tmp_path), artifact.filename]
    builder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until(lambda: [*tmp_path.glob("root/bytecode/*/.part-*/*/__pycache__/*.pyc*")])
    helpers = processes_that_mention(str(tmp_path / "root" / "bytecode"))
    assert len(helpers) > 1  # one forks those that compile
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    until(lambda: not helpers & processes_that_mention(str(tmp_path / "root" / "bytecode")))
    compiled = [*tmp_path.glob("root/bytecode/*/.part-*/*/__pycache__/*.pyc")]
    assert len(compiled) < 100  # they did not go on to the end


def processes_that_mention(text: str) -> set[int]:
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text in (place / "cmdline").read_bytes().decode(errors="replace"):
                found.add(int(place.name))
    return found


def test_a_module_that_does_not_compile_spoils_nothing(bench: Bench) -> None:
    environment = bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0", "def broken(:\n")))
    assert printed(environment, LIST) == "[('aa', '1.0')]"


def test_a_wheel_under_another_name_is_installed_all_the_same(bench: Bench) -> None:
    artifact = wheel(bench.wheels, "aa", "1.0")
    renamed = (bench.wheels / artifact.filename).rename(bench.wheels / artifact.sha256)
    built = bench.builder.build(bench.stack(artifact), BASE, {artifact.sha256: renamed})
    assert printed(built, LIST) == "[('aa', '1.0')]"


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


def test_what_uv_remembers_of_files_that_are_gone_is_forgotten(bench: Bench) -> None:
    stacks = [
        bench.stack(wheel(bench.wheels, "aa", "1.0"), *more)
        for more in ((), (wheel(bench.wheels, "bb", "1.0"),))
    ]
    bench.build(stacks[0])
    (unpacked,) = bench.root.glob("uv/archive-v*/*")
    shutil.rmtree(unpacked)
    assert printed(bench.build(stacks[1]), LIST) == "[('aa', '1.0'), ('bb', '1.0')]"


def test_two_processes_build_one_virtualenv_once(bench: Bench, tmp_path: Path) -> None:
    artifact = wheel(bench.wheels, "aa", "1.0", "def f(x):\n    return [x, x + 1]\n" * 2_000)
    command = [sys.executable, "-c", BUILD, str(tmp_path), artifact.filename]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    reported = [builder.communicate()[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert len(set(reported)) == 1  # the inode of its marker: nobody made it a second time
    assert len(list(bench.root.glob("bytecode/*/*"))) == 1


@pytest.mark.parametrize("megabytes", [7, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_full_disk_says_how_much_is_needed_and_leaves_what_there_was(
    bench: Bench, small_disk: Path, megabytes: int
) -> None:
    """Seven megabytes can be unpacked, and there is no room for their bytecode."""
    bench.builder = VirtualenvBuilder(root=small_disk / "root")
    small = bench.stack(wheel(bench.wheels, "aa", "1.0"))
    retained = bench.build(small)
    large = wheel(bench.wheels, "bb", "1.0", f"TEXT = '{'x' * (megabytes << 20)}'")
    with pytest.raises(StorageError, match=r"needs up to \d+ MiB") as refusal:
        bench.build(bench.stack(large))
    assert "prune" in refusal.value.fix
    assert printed(retained, LIST) == "[('aa', '1.0')]"
    store = VirtualenvStore(bench.builder.root)
    assert check_virtualenvs(store) == (1, ())
    assert len(store.virtualenvs()) == 1
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    assert printed(bench.build(bench.stack(large)), LIST) == "[('bb', '1.0')]"


@pytest.mark.slow
@pytest.mark.parametrize("python", each_python())
def test_every_interpreter_found_gets_a_virtualenv(bench: Bench, python: str) -> None:
    base = probe(python)
    environment = bench.build(bench.stack(wheel(bench.wheels, "aa", "1.0"), base=base), base)
    assert printed(environment, "import aa; print(aa.x)") == "1"
    assert "virtualenv" in made_by(environment)
