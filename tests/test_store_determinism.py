"""The same wheel and target give the same bytes, whoever makes the layer, wherever and however."""

import contextlib
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackgen.images.layers import Layer
from stackgen.images.targets import find_interpreters
from stackgen.images.unpack import LayerTar, merge
from stackgen.storage.files import file_sha256
from tests.containers.wheels import make_wheel
from tests.store_parts import PROJECT

UNPRIVILEGED = 65534
MAKE = """
import os, subprocess, sys
from contextlib import contextmanager
from pathlib import Path
from stackgen.images.layer_store import LayerStore
from stackgen.images import bytecode
from tests.containers.wheels import a_base, artifact_of

store, wheel, python, jobs, umask = sys.argv[1:]
os.umask(int(umask, 8))

class Compiler:
    @contextmanager
    def compiling(self, base, staging):
        yield lambda: self.compile(staging)

    def compile(self, staging):
        text = Path(bytecode.__file__).read_text()
        command = [python, "-s", "-S", "-W", "ignore", "-c", text, str(staging), jobs]
        # Before Python 3.11, sets are written in the order of the hash seed: as for images, it is
        # fixed here; everything else is what the test says.
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})

artifact = artifact_of(Path(wheel))
version = subprocess.check_output([python, "-c", "import sys; print(sys.version.split()[0])"])
base = a_base(version=version.decode().strip())
layer = LayerStore(Path(store)).layers(base, [(artifact, Path(wheel))], Compiler())
print(layer[artifact.sha256].diff_id)
"""
SOURCES = {
    "many.py": "NAMES = {'x', 'y', 'z'}\ndef f(a, b=('numpy', 1.5)):\n    return a in NAMES, b\n",
    "words.py": "# -*- coding: utf-8 -*-\nWORDS = frozenset(['ä', 'ö', 'ü'])\n",
    "deep/er/mod.py": "import many\nX = [lambda: y for y in 'abc']\n",
    "Upper.py": "",
    "upper.py": "x = 1\n",
    **{f"pkg/part{n}.py": f"def f{n}(x):\n    return x + {n}\n" for n in range(150)},
    "pkg-1.0.dist-info/entry_points.txt": "[console_scripts]\npkg = many:f\n",
    "pkg-1.0.data/scripts/old": "#!python\nprint(1)\n",
    "pkg-1.0.data/headers/pkg.h": "#define PKG 1\n",
}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that any user may write."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def made(
    folder: Path,
    where: str,
    python: str = sys.executable,
    *,
    jobs: int = 2,
    umask: int = 0o022,
    user: int | None = None,
    runner: str = sys.executable,
    **environment: str,
) -> str:
    """Return the name of the layer that a process of that kind makes in a store of its own."""
    wheel = folder / "pkg-1.0-py3-none-any.whl"
    if not wheel.exists():
        make_wheel(folder, "pkg", SOURCES)
        wheel.chmod(0o644)
    command = [runner, "-c", MAKE, str(folder / where), str(wheel), python, str(jobs)]
    return subprocess.check_output(
        [*command, f"{umask:o}"], cwd=PROJECT, env=environment, user=user, text=True
    ).strip()


def test_neither_umask_nor_language_nor_time_zone_nor_place_nor_cpus_matter(
    open_folder: Path,
) -> None:
    (open_folder / "tmp").mkdir()
    plain = made(open_folder, "a", PYTHONHASHSEED="1")
    other = made(
        open_folder,
        "some/where/else with spaces/ü",
        jobs=7,
        umask=0o077,
        PYTHONHASHSEED="4711",
        TZ="Asia/Kathmandu",
        LC_ALL="tr_TR.UTF-8",
        LANG="C",
        TMPDIR=str(open_folder / "tmp"),
        HOME="/nonexistent",
        SOURCE_DATE_EPOCH="1",
        PYTHONOPTIMIZE="",
    )
    assert plain == other


def test_the_user_does_not_matter(open_folder: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    python = next(filter(open_to_all, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("other users may run no Python here that can import stackgen")
    mine, theirs = (
        made(
            *(open_folder, str(user), python),
            runner=python,
            user=user,
            PYTHONPATH=sysconfig.get_path("purelib"),
            PYTHONDONTWRITEBYTECODE="1",
        )
        for user in (0, UNPRIVILEGED)
    )
    assert mine == theirs


def open_to_all(python: str) -> bool:
    """Return whether anybody may run this Python, and it finds what stackgen needs."""
    try:
        command = [python, "-c", "import stackgen.images.layer_store"]
        environment = {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            command,
            user=UNPRIVILEGED,
            cwd=PROJECT,
            env=environment,
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.mark.parametrize(
    "minor", ["3.7", *(pytest.param(m, marks=pytest.mark.thorough) for m in ("3.9", "3.13"))]
)
def test_bytecode_of_other_pythons_is_the_same_twice(open_folder: Path, minor: str) -> None:
    python = next((path for path in find_interpreters() if f"/{minor}." in path), None)
    if python is None:
        pytest.skip(f"there is no Python {minor} here")
    one = made(open_folder, "a", python, jobs=1)
    assert one == made(open_folder, "b", python, jobs=5, umask=0o077, TZ="Asia/Tokyo")


paths = st.lists(
    st.lists(st.sampled_from(["a", "B", "b", "é", "z.py", "a.b", "a-b"]), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
).map(lambda found: sorted({"/".join(each) for each in found}))


def written(path: Path, names: list[str]) -> Layer:
    """Write a layer of files that hold their names, but for those in place of a folder."""
    with path.with_suffix(".tar").open("wb") as file:
        tar = LayerTar(file)
        for name in names:
            with contextlib.suppress(ValueError):
                tar.add(name, name.encode())
        return tar.finish(path.with_suffix(".tar"))


# Names that plain headers hold, that need their prefix, and that need an extended header.
long_names = st.lists(
    st.text("ab-é", min_size=1, max_size=120), min_size=1, max_size=4, unique=True
).map("/".join)


@given(st.sets(long_names, max_size=5), st.booleans())
def test_others_read_from_a_layer_what_was_written(names: set[str], executable: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, kept = Path(folder, "one.tar"), []
        with path.open("wb") as file:
            tar = LayerTar(file)
            for name in sorted(names):
                with contextlib.suppress(ValueError):  # a folder has this name, or a file one above
                    tar.add(name, name.encode(), executable=executable)
                    kept.append(name)
            layer = tar.finish(path)
        assert layer.size == path.stat().st_size
        assert layer.diff_id == f"sha256:{file_sha256(path)}"
        with tarfile.open(path) as archive:
            found = archive.getmembers()
            for entry in found:
                file_or_none = archive.extractfile(entry) if entry.isreg() else None
                assert file_or_none is None or file_or_none.read() == entry.name.encode()
        files = [each for each in found if each.isreg()]
        assert [each.name for each in files] == kept
        assert {each.mode for each in files} <= {0o755 if executable else 0o644}
        order = [each.name for each in found]
        assert len(order) == len(set(order))
        for at, name in enumerate(order):
            above = name.rpartition("/")[0]
            assert not above or above in order[:at], "a folder comes before what is in it"


def joined(parts: list[Layer], path: Path) -> Layer:
    with path.open("wb") as file:
        tar = LayerTar(file)
        merge(parts, tar)
        return tar.finish(path)


def members(layer: Layer) -> set[str]:
    with tarfile.open(layer.path) as archive:
        return set(archive.getnames())


@given(st.lists(paths, min_size=1, max_size=4))
def test_a_merged_layer_holds_everything_once_in_whatever_order_its_parts_come(
    trees: list[list[str]],
) -> None:
    """Where folders alone are common to them, as between the wheels of one stack."""
    with tempfile.TemporaryDirectory() as folder:
        root, parts = Path(folder), []
        for number, names in enumerate(trees):
            own = [f"{name}.{number}" for name in names]
            parts.append(written(root / str(number), own))
        merged = [joined(order, root / "merged.tar") for order in (parts, parts[::-1])]
        with tarfile.open(root / "merged.tar") as archive:
            found = archive.getnames()
        assert sorted(found) == sorted(set(found))
        assert set(found) == set().union(*(members(part) for part in parts))
        assert merged[0].diff_id == merged[1].diff_id


def test_a_file_in_place_of_a_folder_takes_away_what_was_in_it_when_layers_are_merged(
    tmp_path: Path,
) -> None:
    trees = (["thing/of-one"], ["thing"], ["other", "thing/of-three"])
    parts = [written(tmp_path / str(number), names) for number, names in enumerate(trees)]
    two, three = (joined(parts[:count], tmp_path / f"first-{count}.tar") for count in (2, 3))
    assert members(two) == {"thing"}
    assert members(three) == {"other", "thing", "thing/of-three"}
