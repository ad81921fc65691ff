"""A source distribution becomes a wheel in a container, once; what it does there stays there."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stackgen.campaign.sdist_wheels import refuse_unbuildable
from stackgen.errors import BuildError, UsageError
from stackgen.images.bases import BaseBuilder
from stackgen.images.build import ImageBuilder
from stackgen.images.engine import Engine
from stackgen.images.layers import BUILT_LABEL
from stackgen.images.sdists import BuildLimits
from stackgen.model.packages import BUILT_HERE, Artifact
from stackgen.model.stacks import Base
from tests.containers.sdists import BACKEND, make_sdist, write_sdist
from tests.containers.source_bench import LIMITS, Bench
from tests.containers.wheels import make_wheel
from tests.laboratory import INDICATOR, WORK, Laboratory
from tests.store_parts import another_process, until

pytestmark = pytest.mark.docker


WITH_SETUPTOOLS = {
    "PKG-INFO": "Metadata-Version: 2.2\nName: demo\nVersion: 1.0\n",
    "setup.py": "from setuptools import setup\n"
    "setup(name='demo', version='1.0', py_modules=['demo'])\n",
    "demo.py": "X = 1\n",
}
WITH_BACKEND = {
    "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\n"
    "backend-path = ['.']\n",
    "backend.py": BACKEND.replace("{act}", "    return wheel(out)"),
}
COMPILER = """
summary = "Python 3.11 on Debian bookworm with a compiler"
python = "3.11"
packages = ["gcc", "libc6-dev", "linux-libc-dev", "python3-dev"]

[[from]]
debootstrap = "bookworm"
"""


@pytest.fixture
def bench(tmp_path: Path, engine: Engine, base: Base, builder: ImageBuilder) -> Bench:
    return Bench(root=tmp_path, engine=engine, base=base, images=builder)


def test_a_source_distribution_is_built_once_and_then_a_wheel_like_any_other(bench: Bench) -> None:
    make_sdist(bench.packages)
    wheel = bench.wheel()
    assert (wheel.filename, wheel.index) == ("demo-1.0-py3-none-any.whl", BUILT_HERE)
    assert bench.printed("demo.VALUE") == "1"
    assert bench.wheel() == wheel
    assert bench.builds == 1
    assert bench.containers() == []


def test_the_image_names_what_was_built_here(bench: Bench) -> None:
    make_wheel(bench.packages, "helper")
    make_sdist(bench.packages, "return wheel(out, requires=['helper'])", announced=["helper"])
    image = bench.engine.image(bench.environment().location)
    assert image is not None
    assert image.labels[BUILT_LABEL] == "demo==1.0"


def test_a_wheel_that_was_pruned_is_built_again_and_is_the_same(bench: Bench) -> None:
    make_sdist(bench.packages)
    _, files = bench.built()
    wheel = bench.wheel()
    files[wheel.sha256].unlink()
    assert bench.wheel() == wheel
    assert bench.builds == 2


def test_build_requirements_are_installed_and_those_of_the_backend_too(bench: Bench) -> None:
    make_wheel(bench.packages, "first", {"first.py": "NAME = 'first'\n"})
    make_wheel(bench.packages, "second", {"second.py": "NAME = 'second'\n"})
    act = "import first, second; return wheel(out, source='BY = %r' % (first.NAME + second.NAME))"
    hook = "def get_requires_for_build_wheel(config_settings=None):\n    return ['second>=1']\n"
    make_sdist(bench.packages, act, more=hook, requires=["first==1.0; python_version>'3'"])
    assert bench.printed("demo.BY") == "firstsecond"


def test_what_building_requires_may_have_to_be_built_itself(bench: Bench) -> None:
    make_sdist(bench.packages, "return wheel(out, 'tool', source='X = 7')", name="tool")
    act = "import tool; return wheel(out, source='X = %d' % tool.X)"
    make_sdist(bench.packages, act, requires=["tool"])
    assert bench.printed("demo.X") == "7"


def test_what_requires_itself_to_be_built_is_refused(bench: Bench) -> None:
    make_sdist(bench.packages, requires=["tool"])
    make_sdist(bench.packages, name="tool", requires=["demo"])
    assert "demo requires tool requires demo" in bench.refusal().why
    assert bench.builds == 0


def test_a_build_requirement_that_no_index_has_is_named(bench: Bench) -> None:
    make_sdist(bench.packages, requires=["nowhere>=3"])
    assert "nowhere" in bench.refusal().why


def test_a_failure_keeps_its_log_and_is_not_tried_again_unless_requested(bench: Bench) -> None:
    make_sdist(bench.packages, "print('so far so good'); raise RuntimeError('no such luck')")
    refusal = bench.refusal()
    assert "demo 1.0 cannot be built" in refusal.what
    assert "RuntimeError: no such luck" in refusal.why
    log = Path(refusal.fix.rpartition(" ")[2])
    assert "so far so good" in log.read_text()
    assert "remembered" in bench.refusal().why
    assert bench.builds == 1
    assert "remembered" not in bench.refusal(again=True).why
    assert bench.builds == 2


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("import time; time.sleep(99)", "it took longer than 0.05 minutes"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "MemoryError|memory|SIGKILL"),
        ("import os; os.abort()", "it was ended by SIGABRT"),
        ("return 'demo-1.0-py3-none-any.whl'", "names a wheel that it did not make"),
        ("return wheel(out, version='../../1.0')", "build backend failed|not named"),
    ],
)
def test_however_a_build_ends_the_reason_is_reported(bench: Bench, act: str, words: str) -> None:
    timeout_s = 3 if "sleep" in act else 30  # short for the one that must run into it
    bench.limits = BuildLimits(memory_bytes=128 << 20, timeout_s=timeout_s)
    make_sdist(bench.packages, act)
    with pytest.raises(BuildError, match=words):
        bench.built()
    assert bench.containers() == []


def test_a_build_that_needs_the_network_fails_with_the_reason(bench: Bench) -> None:
    make_sdist(bench.packages, "import socket; socket.create_connection(('example.org', 80), 5)")
    assert "building has no network" in bench.refusal().fix


def test_a_missing_compiler_is_named_with_the_way_to_one(bench: Bench) -> None:
    act = "import subprocess; subprocess.check_call(['x86_64-linux-gnu-gcc', '-c', 'a.c'])"
    make_sdist(bench.packages, act)
    refusal = bench.refusal()
    assert '"gcc"' in refusal.fix
    assert "STACKGEN_IMAGES" in refusal.fix


SPY = """
import os
def tried(act):
    try:
        act()
        return True
    except OSError:
        return False
places = ["/", "/etc", "/usr/lib", "/opt/stack", "/opt/stack/bin", "/sdist", "/root", "/home"]
places = [each for each in places if tried(lambda: open(each + "/mine", "w"))]
sdist = tried(lambda: open("/sdist/source.tar.gz", "ab"))
status = open("/proc/self/status").read()
powers = status.split("CapEff:")[1].split()[0]
net = [each for each in os.listdir("/sys/class/net") if each != "lo"]
seen = [places, sdist, os.getuid(), int(powers, 16), "NoNewPrivs:\\t1" in status, net]
return wheel(out, source="SEEN = %r" % seen)
"""


def test_a_build_runs_unprivileged_and_can_write_in_its_own_folders_alone(bench: Bench) -> None:
    make_sdist(bench.packages, SPY)
    assert bench.printed("demo.SEEN") == "[[], False, 65534, 0, True, []]"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("return wheel(out, requires=['other>=2'])", "requires other>=2, which was not announced"),
        ("return wheel(out, requires=[])", "does not require helper>=1, as announced"),
        ("return wheel(out, 'other', requires=['helper>=1'])", "other"),
        ("return wheel(out, version='2.0', stated='2.0')", "not a wheel of demo 1.0"),
        ("return wheel(out, stated='1.1')", "of 1.1, not a wheel of demo 1.0"),
        (
            "return wheel(out, requires=['helper >= 1'], tag='cp27-cp27m-win32')",
            "this Python and system do not take",
        ),
        ("return wheel(out, requires=['helper>=1'], recorded='?')", "RECORD"),
        ("return wheel(out, requires=['>>>'])", "no usable wheel"),
    ],
)
def test_a_wheel_that_is_not_what_was_announced_is_refused(
    bench: Bench, act: str, words: str
) -> None:
    make_wheel(bench.packages, "helper")
    make_sdist(bench.packages, act, announced=["helper>=1"])
    with pytest.raises(BuildError, match=words):
        bench.built()


def test_requirements_that_mean_the_same_are_the_same(bench: Bench) -> None:
    make_wheel(bench.packages, "helper")
    stated = """["Helper (>=1)", "other; python_version < '3'", 'more; extra == "Some_Extra"']"""
    announced = ["helper>=1", "more ; extra == 'some-extra'"]
    make_sdist(bench.packages, f"return wheel(out, requires={stated})", announced=announced)
    assert bench.wheel().index == BUILT_HERE


def test_the_same_sources_give_the_same_wheel_wherever_they_are_built(
    bench: Bench, tmp_path: Path
) -> None:
    act = "return wheel(out, source='SET = %r' % sorted({hash(x) for x in 'abc'}))"
    other = replace(bench, root=tmp_path / "elsewhere")
    other.root.mkdir()
    wheels = []
    for each in (bench, other):
        make_sdist(each.packages, act)
        wheels.append(each.wheel())
    assert wheels[0].sha256 == wheels[1].sha256
    assert bench.builds == other.builds == 1


def test_two_at_once_build_it_once(bench: Bench) -> None:
    make_sdist(bench.packages, "import time; time.sleep(1); return wheel(out)")
    found: list[Artifact] = []
    both = [threading.Thread(target=lambda: found.append(bench.wheel())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [each.index for each in found] == [BUILT_HERE] * 2
    assert bench.builds == 1


ANOTHER = """
import sys
from pathlib import Path
from stackgen.images.layer_store import LayerStore
from stackgen.images.bases import BaseBuilder
from stackgen.images.engine import connect
from stackgen.images.build import ImageBuilder
from tests.containers.source_bench import Bench

root, cache, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
engine = connect()
images = ImageBuilder(engine, LayerStore(root / "layers"), root / "engines.json")
base = BaseBuilder(engine, cache).ready(name)
Bench(root=root, engine=engine, base=base, images=images).built()
"""


def test_a_build_that_was_killed_is_begun_anew_and_leaves_nothing(
    bench: Bench, cache: Path
) -> None:
    make_sdist(bench.packages, "import time; time.sleep(3); return wheel(out)")
    with another_process(ANOTHER, bench.root, cache, bench.base.name) as other:
        until(bench.containers)
        other.kill()
    assert bench.wheel().index == BUILT_HERE
    assert bench.containers() == []
    assert not list(bench.root.rglob("*.work"))


def test_sources_without_a_build_system_need_setuptools(bench: Bench) -> None:
    info = "Metadata-Version: 2.2\nName: demo\nVersion: 1.0\n"
    write_sdist(bench.packages, {"PKG-INFO": info, "setup.py": ""}, name="demo")
    assert "setuptools" in bench.refusal().why


def test_without_containers_nothing_is_built(bench: Bench) -> None:
    make_sdist(bench.packages)
    with bench.sources() as sources:
        sdists = sources.index.candidates("demo")
        refuse_unbuildable(sdists, sources.sdists)
        with pytest.raises(UsageError, match="--executor docker"):
            refuse_unbuildable(sdists, None)


@pytest.fixture
def tidy(engine: Engine) -> Iterator[None]:
    """Remove the images that a command made of demo."""
    yield
    for version in ("1.0", "2.0"):
        for id_ in engine.images(f"org.opencontainers.image.description=demo=={version}"):
            engine.api.remove_image(id_, force=True)


@pytest.fixture
def explored(tmp_path: Path, tidy: None) -> Callable[..., str]:  # noqa: ARG001
    """Explore two releases of demo, of which the older one has no wheel; return what was said."""
    packages = tmp_path / "packages"
    make_sdist(packages, f"return wheel(out, source={WORK.format(size=900)!r})")
    make_wheel(packages, "demo", {"demo.py": WORK.format(size=900)}, version="2.0")
    (tmp_path / "work.py").write_text(INDICATOR.replace("speedy", "demo"))
    (tmp_path / "empty").mkdir()
    laboratory = Laboratory(root=tmp_path, index=(tmp_path / "empty").as_uri())

    def explore(*arguments: str) -> str:
        where = ("--find-links", str(packages))
        what = ("--pi", str(tmp_path / "work.py"), "--budget", "3s", "--stacks", "2")
        ran = laboratory.run("explore", "demo", "--no-index", *what, *where, *arguments)
        return ran.stdout + ran.stderr

    return explore


def test_an_exploration_builds_what_it_may_and_says_so(
    explored: Callable[..., str], base: Base
) -> None:
    where = ("--executor", "docker", "--base", base.name)
    assert "there is only one stack" in explored(*where)
    printed = explored(*where, "--allow-build", "demo")
    assert "demo 1.0 was built here from its sources" in printed
    assert "demo 1.0 (built here)  " in printed
    assert "demo 2.0  " in printed


@pytest.mark.usefixtures("tidy")
def test_a_lock_s_source_distributions_become_an_image_though_they_say_nothing(
    tmp_path: Path, base: Base
) -> None:
    """Nothing is resolved, so it need not be known what they require."""
    silent = {**WITH_BACKEND, "PKG-INFO": "Metadata-Version: 1.0\nName: demo\nVersion: 1.0\n"}
    path = write_sdist(tmp_path / "packages", silent, name="demo")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "requirements.txt").write_text(f"demo==1.0 --hash=sha256:{digest}\n")
    where = ("--base", base.name, "--no-index", "--find-links", str(path.parent))
    laboratory = Laboratory(root=tmp_path, index="")
    build = ("images", "build", str(tmp_path / "requirements.txt"), *where)
    assert "add --allow-build demo" in laboratory.run(*build).stderr
    ran = laboratory.run(*build, "--allow-build", "demo", "--json")
    assert ran.returncode == 0, ran.stderr
    assert "demo 1.0 was built here" in ran.stderr
    export = ("images", "export", str(tmp_path / "requirements.txt"), *where)
    written = laboratory.run(*export, "--allow-build", "demo", "--oci", str(tmp_path / "layout"))
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "layout" / "oci-layout").exists()
    refused = laboratory.run(*export, "--allow-build", "demo", "--dockerfile", str(tmp_path / "d"))
    assert (refused.returncode, "--oci" in refused.stderr) == (2, True)


def test_an_exploration_in_virtualenvs_builds_nothing(explored: Callable[..., str]) -> None:
    printed = explored("--executor", "virtualenv", "--allow-build", "demo")
    assert "demo 1.0 has no wheel here" in printed
    assert "fix: give --executor docker" in printed


@pytest.mark.network
@pytest.mark.slow
def test_setuptools_from_the_index_builds_the_same_wheel_twice(
    bench: Bench, tmp_path: Path
) -> None:
    other = replace(bench, root=tmp_path / "elsewhere")
    other.root.mkdir()
    wheels = []
    for each in (bench, other):
        each.environ = os.environ
        write_sdist(each.packages, WITH_SETUPTOOLS, name="demo")
        wheels.append(each.wheel())
    assert bench.printed("demo.X") == "1"
    assert wheels[0].sha256 == wheels[1].sha256


@pytest.mark.network
@pytest.mark.slow
def test_an_extension_in_c_is_built_on_a_base_with_a_compiler(
    bench: Bench, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """evdev is published as source distributions alone."""
    bench.environ = os.environ
    assert "evdev 1.9.3 cannot be built" in bench.refusal("evdev==1.9.3").what
    folder = bench.root / "bases"
    folder.mkdir()
    (folder / "compiler.toml").write_text(COMPILER)
    monkeypatch.setenv("STACKGEN_IMAGES", str(folder))
    bench.base = BaseBuilder(bench.engine, cache).make("compiler", lambda _: None)
    bench.limits = replace(LIMITS, memory_bytes=1 << 30, timeout_s=600)
    assert bench.printed("demo.ecodes.KEY_A", "evdev==1.9.3") == "30"
