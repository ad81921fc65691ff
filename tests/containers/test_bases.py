"""Bases are defined in files, found in the engine, and refused with every reason."""

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stackgen.campaign.backend import bases as list_bases
from stackgen.campaign.backend import open_backend
from stackgen.errors import BuildError, EngineError, UsageError
from stackgen.images import bases
from stackgen.images.base_definitions import (
    BaseDefinition,
    FromDebian,
    FromRegistry,
    read_definition,
    read_definitions,
)
from stackgen.images.bases import BaseBuilder
from stackgen.images.engine import Engine, connect
from stackgen.model.choices import ExecutorChoice
from stackgen.model.progress import NullProgress
from stackgen.model.stacks import Base, EnvironmentKind, Readiness
from stackgen.storage.paths import Paths
from tests.containers.registry import open_registry

NOWHERE = f"127.0.0.1:9/base@sha256:{'0' * 64}"
DEBIAN = '[[from]]\ndebootstrap = "bookworm"\n'
PLAIN = f'summary = "x"\npython = "3.11"\n{DEBIAN}'


def defined(folder: Path, text: str, name: str = "mine") -> BaseDefinition:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_definition(path)


def tag_of(definition: BaseDefinition) -> str:
    (tag,) = [way.tag for way in definition.ways if isinstance(way, FromDebian)]
    return tag


def test_every_python_that_matters_has_a_base() -> None:
    found = {each.name: each for each in read_definitions()}
    pythons = {
        "py37": "3.7",
        "bullseye-py39": "3.9",
        "bookworm-py311": "3.11",
        "trixie-py313": "3.13",
        "py314": "3.14",
    }
    assert {name: each.python for name, each in found.items()} == pythons
    for each in found.values():
        kinds = [type(way) for way in each.ways]
        assert kinds == [FromRegistry, FromDebian], each.name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("summary = ", "Invalid value"),
        (PLAIN.replace('summary = "x"', ""), "it lacks summary"),
        (PLAIN.replace("3.11", "3"), "python = '3', which should be a minor version"),
        (PLAIN.replace("3.11", "3.6"), "a minor version of 3.7 or newer"),
        (PLAIN.replace("summary", "sumary"), "unknown key 'sumary'; did you mean summary?"),
        (f"{PLAIN}suite = 1", "unknown key 'suite' in a [[from]]; known here: debootstrap, folder"),
        ('summary = "x"\npython = "3.11"', "it has no [[from]]"),
        (PLAIN.replace("[[from]]", "[from]"), "it has no [[from]]"),
        (PLAIN.replace("debootstrap", "interpreter"), "must have either registry or debootstrap"),
        (PLAIN.replace('"bookworm"', '"../etc"'), "should be the name of a Debian suite"),
        (PLAIN.replace('"bookworm"', "12"), "should be the name of a Debian suite"),
        (f'{PLAIN}folder = "/opt/py"', "folder = '/opt/py', which should be a version"),
        (f'{PLAIN}folder = "3.7"', "folder = '3.7', but python = '3.11'"),
        (f"{PLAIN}packages = ['-o evil']", "'-o evil', which no Debian package is called"),
        (f"{PLAIN}packages = 'one'", "should be a list"),
        (f'user = "a b"\n{PLAIN}', "user = 'a b', which should be a name, or numbers"),
        (f'{PLAIN}interpreter = "python3"', "should be a path inside"),
        (f'{PLAIN}[[from]]\nregistry = "python:3.11-slim"', "a tag names other bytes tomorrow"),
        (f'packages = ["a1"]\n{PLAIN}[[from]]\nregistry = "{NOWHERE}"', "leave one of both out"),
    ],
)
def test_a_mistake_in_a_definition_is_named_with_its_file(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        defined(tmp_path, text)
    assert "mine.toml is wrong" in caught.value.what
    assert why in caught.value.why
    assert str(tmp_path / "mine.toml") in caught.value.fix


def test_a_definition_that_cannot_be_read_is_not_called_wrong(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").mkdir()
    with pytest.raises(UsageError, match="cannot read the base definition"):
        read_definition(tmp_path / "mine.toml")


def test_a_file_name_that_cannot_be_a_tag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be of a-z"):
        defined(tmp_path, PLAIN, name="My Base")


def test_what_a_base_is_made_of_is_in_its_tag(tmp_path: Path) -> None:
    texts = (
        *(PLAIN, PLAIN.replace("bookworm", "trixie"), f'user = "1000"\n{PLAIN}'),
        *(f'{PLAIN}packages = ["libblas3"]', f'{PLAIN}folder = "3.11"'),
    )
    assert len({tag_of(defined(tmp_path, text)) for text in texts}) == len(texts)
    again = PLAIN.replace('"x"', '"other words"')
    assert tag_of(defined(tmp_path, again)) == tag_of(defined(tmp_path, PLAIN))


def test_a_folder_of_ones_own_adds_bases_and_replaces_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined(tmp_path, PLAIN, name="mine")
    defined(tmp_path, PLAIN.replace('"x"', '"my 3.9"'), name="bullseye-py39")
    monkeypatch.setenv("STACKGEN_IMAGES", str(tmp_path))
    found = {each.name: each.summary for each in read_definitions()}
    assert found.keys() >= {"mine", "py37"}
    assert found["bullseye-py39"] == "my 3.9"
    monkeypatch.setenv("STACKGEN_IMAGES", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="is no folder"):
        read_definitions()


@pytest.mark.parametrize(
    "host", ["unix:///nowhere.sock", "tcp://127.0.0.1:9", "nonsense", "tcp://localhost:99999"]
)
def test_an_engine_that_does_not_answer_is_explained(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(EngineError, match="no container engine answers"):
        connect()


def test_without_an_engine_bases_are_listed_and_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    paths = Paths(cache=tmp_path, knowledge=tmp_path / "kb.db")
    listed = list_bases([], make=False, paths=paths, progress=NullProgress())
    assert {each.name for each in listed.bases} == {each.name for each in read_definitions()}
    assert {each.state for each in listed.bases} == {Readiness.UNKNOWN}
    assert all("no such file" in each.why for each in listed.bases)
    with pytest.raises(EngineError, match="no container engine answers"):
        list_bases(["py37"], make=True, paths=paths, progress=NullProgress())
    with pytest.raises(UsageError, match="there is no base py38"):
        list_bases(["py38"], make=False, paths=paths, progress=NullProgress())


def test_a_base_that_is_an_image_needs_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    paths = Paths(cache=tmp_path, knowledge=tmp_path / "kb.db")
    opened = open_backend(ExecutorChoice.AUTO, "py37", paths, NullProgress())
    with pytest.raises(EngineError, match="no container engine answers"), opened:
        pass


def bootstrapped(folder: Path, suite: str = "bookworm") -> None:
    archive = folder / "out" / "root.tar.gz"
    bases.root_archive(suite, ["libblas3"], archive=archive, progress=lambda _: None)


def test_without_debootstrap_a_base_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="debootstrap is not installed"):
        bootstrapped(tmp_path)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that stands for debootstrap; what it does is up to the test."""
    tool = tmp_path / "bin" / "debootstrap"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nmkdir -p $4/etc; echo $4 $3 > $4/etc/made\n")
    tool.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "bookworm").touch()
    monkeypatch.setenv("DEBOOTSTRAP_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tool


@pytest.mark.usefixtures("tool")
def test_a_suite_that_debootstrap_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="knows no suite bookwurm"):
        bootstrapped(tmp_path, suite="bookwurm")


@pytest.mark.usefixtures("tool")
def test_without_root_that_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BuildError, match="debootstrap needs root"):
        bootstrapped(tmp_path)


@pytest.mark.parametrize(
    ("printed", "fix"),
    [
        ("E: no such mirror", "install debootstrap and run as root"),
        ("E: Couldn't find these debs: libblas3", "this suite has no such packages"),
    ],
)
def test_a_failed_debootstrap_is_quoted_and_leaves_nothing(
    tmp_path: Path, tool: Path, printed: str, fix: str
) -> None:
    tool.write_text(f'#!/bin/sh\necho I: fine\necho "{printed}"\nmkdir -p $4/proc\nexit 1\n')
    with pytest.raises(BuildError, match=printed) as caught:
        bootstrapped(tmp_path)
    assert "I: fine" not in caught.value.why
    assert fix in caught.value.fix
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.usefixtures("tool")
def test_a_debian_is_packed_after_it_was_finished(tmp_path: Path) -> None:
    archive = tmp_path / "root.tar.gz"

    def finish(root: Path) -> None:
        (root / "etc" / "finished").touch()

    bases.root_archive("bookworm", [], archive=archive, progress=lambda _: None, finish=finish)
    with tarfile.open(archive) as packed:
        assert {"./etc/made", "./etc/finished"} <= set(packed.getnames())


def test_an_interpreter_that_is_not_here_is_named() -> None:
    with pytest.raises(BuildError, match=r"there is no folder with Python 3\.99") as caught:
        bases.find_folder("3.99")
    assert "pyenv install 3.99" in caught.value.fix


@pytest.fixture
def paths(cache: Path) -> Paths:
    """Return the user's folders: what bases were probed and made from is kept there."""
    return Paths(cache=cache.parent, knowledge=cache.parent / "none.db")


@contextmanager
def exported(engine: Engine, base: Base, archive: Path) -> Iterator[None]:
    """Write the root of a base as a tar."""
    container = engine.api.create_container(base.reference, command=["none"])["Id"]
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with archive.open("wb") as file:
            for chunk in engine.api.export(container):
                file.write(chunk)
        yield
    finally:
        engine.api.remove_container(container, force=True)


@pytest.mark.docker
def test_a_base_is_what_its_own_interpreter_says(base: Base) -> None:
    assert base.kind is EnvironmentKind.DOCKER
    assert base.reference.startswith("sha256:")
    assert base.facts.python.startswith("CPython 3.11.")
    assert base.facts.libc == "glibc 2.36"
    assert "cp311-cp311-manylinux_2_36_x86_64" in base.target.tags or "x86_64" not in str(
        base.target.tags
    )


@pytest.mark.docker
def test_a_base_that_is_there_is_listed_with_what_it_is(base: Base, paths: Paths) -> None:
    report = list_bases(["bookworm-py311"], make=True, paths=paths, progress=NullProgress())
    (entry,) = report.bases
    assert (report.made, report.failed, report.exit_code) == ((), (), 0)
    assert entry.state is Readiness.READY
    assert entry.content is not None
    assert entry.content.image_id == base.reference
    assert (entry.content.python, entry.content.libc) == (base.facts.python, "glibc 2.36")
    assert entry.content.tags == len(base.target.tags)
    assert entry.content.size > 50e6
    assert entry.content.origin in entry.ways


@pytest.mark.docker
def test_any_image_of_the_engine_can_be_a_base(engine: Engine, cache: Path, base: Base) -> None:
    engine.api.tag(base.reference, "stackgen-test", "mine")
    try:
        found = BaseBuilder(engine, cache).ready("stackgen-test:mine")
    finally:
        engine.api.remove_image("stackgen-test:mine")
    assert found is not None
    assert (found.reference, found.facts) == (base.reference, base.facts)
    assert found.python == base.python


@pytest.mark.docker
def test_an_image_that_no_registry_has_is_refused_within_seconds(
    engine: Engine, cache: Path
) -> None:
    builder = BaseBuilder(engine, cache)
    assert builder.ready("stackgen-test:no-such-image") is None
    with pytest.raises(BuildError, match="registry image stackgen-test:no-such-image: "):
        builder.make("stackgen-test:no-such-image", lambda _: None)


@pytest.mark.docker
def test_an_image_is_pulled_by_its_digest_and_never_another_one(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    if not os.environ.get("DOCKER_HOST", "unix://").startswith("unix://"):
        pytest.skip("the engine is on another machine and does not reach our loopback")
    with open_registry() as registry:
        pinned = registry.publish(engine, base.reference, tmp_path)
        text = f'summary = "x"\npython = "3.11"\n[[from]]\nregistry = "{pinned}"\n'
        mine = defined(tmp_path, f'{text}interpreter = "{base.python}"\n')
        builder = BaseBuilder(engine, tmp_path, known=(mine,))
        assert builder.ready("mine") is None
        assert builder.possible("mine")
        kind, manifest = registry.parts[pinned.partition("@")[2]]
        assert isinstance(manifest, bytes)
        registry.parts[pinned.partition("@")[2]] = (kind, manifest + b" ")
        with pytest.raises(BuildError, match="digest"):
            builder.make("mine", lambda _: None)
        assert builder.ready("mine") is None
        registry.parts[pinned.partition("@")[2]] = (kind, manifest)
        try:
            made = builder.make("mine", lambda _: None)
            stored = engine.image(pinned)
        finally:
            engine.api.remove_image(pinned)
    assert stored is not None
    assert stored.labels == {"stackgen.test": "pulled"}
    assert (made.reference, made.facts) == (stored.id, base.facts)


@pytest.mark.docker
def test_ways_that_lead_nowhere_are_passed_over_and_the_user_is_set(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    way = f'[[from]]\ndebootstrap = "bookworm"\ninterpreter = "{base.python}"\n'
    nowhere = '[[from]]\ndebootstrap = "bookwurm"\n'
    text = f'summary = "x"\npython = "3.11"\nuser = "1000:1000"\n{nowhere}{way}'
    mine = defined(tmp_path, text)
    builder = BaseBuilder(engine, tmp_path, known=(mine,))
    tag = [each.tag for each in mine.ways if isinstance(each, FromDebian)][1]
    killed = tmp_path / "bases" / "stackgen-base-abc" / "root"
    killed.mkdir(parents=True)
    with exported(engine, base, tmp_path / "bases" / f"{tag.partition(':')[2]}.tar.gz"):
        made = builder.make("mine", lambda _: None)
    try:
        stored = builder.engine_base("mine")
        printed = engine.api.inspect_image(tag)  # type: ignore[no-untyped-call]
    finally:
        engine.api.remove_image(tag)
    assert made.facts == base.facts
    assert stored is not None
    assert stored.origin == "debootstrap bookworm"
    assert printed["Config"]["User"] == "1000:1000"
    assert not killed.parent.exists()


@pytest.mark.docker
def test_where_no_way_leads_anywhere_each_refusal_is_reported(
    engine: Engine, tmp_path: Path
) -> None:
    wrong = '[[from]]\ndebootstrap = "bookwurm"\n'
    mine = defined(
        tmp_path,
        f'summary = "x"\npython = "3.99"\n[[from]]\nregistry = "{NOWHERE}"\n{wrong}',
    )
    builder = BaseBuilder(engine, tmp_path, known=(mine,))
    assert not builder.possible("mine")
    with pytest.raises(BuildError, match=r"registry image 127\.0\.0\.1:9/base@sha256:0") as caught:
        builder.make("mine", lambda _: None)
    assert "debootstrap bookwurm: debootstrap " in caught.value.why
    assert caught.value.why == builder.obstacle("mine")


@pytest.mark.docker
def test_a_base_that_holds_another_python_is_refused(
    engine: Engine, base: Base, tmp_path: Path
) -> None:
    mine = defined(tmp_path, PLAIN.replace("3.11", "3.10") + f'interpreter = "{base.python}"\n')
    tag = tag_of(mine)
    engine.api.tag(base.reference, tag)
    try:
        with pytest.raises(BuildError, match=r"holds Python 3\.11\n  why: .*says 3\.10"):
            BaseBuilder(engine, tmp_path, known=(mine,)).ready("mine")
    finally:
        engine.api.remove_image(tag)


@pytest.fixture
def root(engine: Engine, base: Base, tmp_path: Path) -> Iterator[Path]:
    """Return the unpacked root of bookworm, into which an interpreter can be copied."""
    if os.geteuid() != 0:
        pytest.skip("only root may enter a root that it unpacked")
    if "debian 12" not in base.facts.distribution:
        pytest.skip(f"the base is {base.facts.distribution}, not bookworm")
    root = tmp_path / "root"
    with exported(engine, base, tmp_path / "root.tar"), tarfile.open(tmp_path / "root.tar") as tar:
        needed = (each for each in tar if not each.name.startswith(("usr/share/", "var/")))
        tar.extractall(root, members=needed, filter="tar")
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.docker
def test_a_library_that_the_base_lacks_is_named_with_its_module(root: Path) -> None:
    try:
        interpreter = bases.find_folder("3.7")
    except BuildError as error:
        pytest.skip(error.what)
    (library,) = root.glob("usr/lib/*/libsqlite3.so.0")
    for each in library.parent.glob("libsqlite3.so*"):
        each.unlink()
    with pytest.raises(BuildError, match=r"_sqlite3: libsqlite3\.so\.0") as caught:
        bases.copy_folder(interpreter, root)
    assert "Debian packages" in caught.value.fix


MODULES = """
import bz2, ctypes, curses, hashlib, json, lzma, os, readline, sqlite3, ssl, sys, uuid, zlib
ctypes.CDLL(None).getpid
sqlite3.connect(":memory:").execute("select 1")
ssl.create_default_context()
found = [path for path in sys.path if not path.startswith("/opt/python")]
print(json.dumps({"prefix": sys.prefix, "compiled": os.path.exists(ssl.__cached__),
                  "site": os.listdir("/opt/python/lib/python3.7/site-packages"),
                  "elsewhere": [path for path in found if os.path.exists(path)]}))
"""


@pytest.mark.docker
def test_python_3_7_comes_with_its_whole_library(engine: Engine, cache: Path) -> None:
    try:
        found = BaseBuilder(engine, cache).make("py37", lambda _: None)
    except BuildError as error:
        pytest.skip(f"no base: {error.why}")
    assert found.target.python_minor == "3.7"
    assert found.target.tags[0].startswith("cp37-cp37m-")
    if found.python != "/opt/python/bin/python3":
        pytest.skip("it comes from a registry here, nothing is copied")
    ran = engine.run(found.reference, [found.python, "-I", "-c", MODULES])
    assert ran.stderr == ""
    reported = json.loads(ran.stdout)
    assert reported == {"prefix": "/opt/python", "compiled": True, "site": [], "elsewhere": []}


@pytest.mark.docker
@pytest.mark.slow
def test_a_blas_of_the_system_is_a_fact_of_its_base(
    engine: Engine, cache: Path, tmp_path: Path
) -> None:
    if bases.debootstrap_obstacle():
        pytest.skip(bases.debootstrap_obstacle())
    mine = defined(tmp_path, f'packages = ["libopenblas0-pthread"]\n{PLAIN}', name="openblas")
    try:
        made = BaseBuilder(engine, cache, known=(mine,)).make("openblas", lambda _: None)
    finally:
        if engine.image(tag_of(mine)):
            engine.api.remove_image(tag_of(mine))
    assert [name for name, _ in made.facts.system_packages] == ["libopenblas0-pthread"]
