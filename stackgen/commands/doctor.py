"""Doctor: what works here, and what to do about what does not."""

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stackgen.campaign.options import IndexOptions
from stackgen.errors import StackgenError, StorageError
from stackgen.images.targets import find_interpreters
from stackgen.index import PackageIndex
from stackgen.model.reports.local import Check
from stackgen.storage.files import free_bytes
from stackgen.storage.paths import Paths

if TYPE_CHECKING:
    from stackgen.images.bases import BaseBuilder

DISK_SPACE_BYTES = 20e9
"""A few TensorFlow stacks fit into this."""


def doctor(index: IndexOptions, paths: Paths, environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Look at everything that stackgen relies on; nothing is changed."""
    checks: Sequence[Callable[[], Iterator[Check]]] = (
        _python,
        _interpreters,
        lambda: _engine_and_bases(paths),
        lambda: _index(index, paths, environ),
        lambda: _certificates(environ),
        _cores,
        lambda: _disk(paths),
        lambda: _knowledge(paths),
        lambda: _isolation(paths),
    )
    return tuple(check for part in checks for check in _results(part, paths))


def _results(part: Callable[[], Iterator[Check]], paths: Paths) -> Iterator[Check]:
    """Yield checks; a fix only where one is needed, and a full or locked disk as one, too."""
    try:
        for check in part():
            yield replace(check, fix="" if check.passed else check.fix)
    except OSError as error:
        fix = f"make {paths.cache} writable, or set STACKGEN_CACHE to another folder"
        found = f"{paths.cache}: {error.strerror or error}"
        yield Check(name="Cache", passed=False, found=found, fix=fix, essential=True)
    except StorageError as error:
        found = f"{error.what}: {error.why}"
        yield Check(name="Cache", passed=False, found=found, fix=error.fix, essential=True)


def _python() -> Iterator[Check]:
    uv = importlib.metadata.version("uv")
    found = f"{sys.version.split()[0]} at {sys.executable}; uv {uv}"
    yield Check(name="Python", passed=True, found=found, essential=True)


def _interpreters() -> Iterator[Check]:
    found = find_interpreters()
    yield Check(
        name="Interpreters",
        passed=bool(found),
        found=", ".join(Path(each).name for each in found) or "none besides ours",
        fix="install another Python to explore other targets with --base 3.X",
    )


def _engine_and_bases(paths: Paths) -> Iterator[Check]:
    from stackgen.campaign.backend import needed_engine
    from stackgen.images.bases import BaseBuilder

    try:
        engine = needed_engine()
    except StackgenError as error:
        found = f"none answers ({error.why.splitlines()[0]}); virtualenvs are used"
        yield Check(name="Container engine", passed=False, found=found, fix=error.fix)
        return
    facts = engine.facts
    found = f"version {facts.version}, {facts.storage_driver}, {facts.cpus} CPUs"
    yield Check(name="Container engine", passed=True, found=found)
    bases = BaseBuilder(engine=engine, cache=paths.cache / "bases")
    try:
        names = [each.name for each in bases.definitions()]
    except StackgenError as error:
        names = []
        yield Check(name="Bases", passed=False, found=error.what, fix=error.fix)
    yield from (_base(bases, name) for name in names)
    engine.close()


def _base(bases: "BaseBuilder", name: str) -> Check:
    try:
        ready = bases.ready(name) is not None
        possible = ready or bases.possible(name)
        found = "ready" if ready else "can be made" if possible else "cannot be made here"
    except StackgenError as error:
        return Check(name=f"Base {name}", passed=False, found=error.what, fix=error.fix)
    fix = f"see what is in its way: stackgen images bases {name}"
    return Check(name=f"Base {name}", passed=possible, found=found, fix=fix)


def _index(given: IndexOptions, paths: Paths, environ: Mapping[str, str]) -> Iterator[Check]:
    from stackgen.campaign.user_input import index_config

    try:
        config = index_config(given, environ)
        with PackageIndex(config, paths.cache) as index:
            count = len(index.candidates("numpy"))
        names = ", ".join(each.name for each in config.indexes)
        found = f"{names}; numpy has {count} files"
        yield Check(name="Package index", passed=True, found=found, essential=True)
    except StackgenError as error:
        yield Check(
            name="Package index", passed=False, found=error.what, fix=error.fix, essential=True
        )


def _certificates(environ: Mapping[str, str]) -> Iterator[Check]:
    names = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
    named = [(name, environ[name]) for name in names if environ.get(name)]
    broken = [name for name, path in named if not Path(path).exists()]
    yield Check(
        name="Certificates",
        passed=not broken,
        found=", ".join(name for name, _ in named) or "the system's own",
        fix=f"{', '.join(broken)} names a file that does not exist",
    )


def _cores() -> Iterator[Check]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = psutil.getloadavg()[0]
    calm = load < 0.5 * (usable or 1)
    yield Check(
        name="Cores",
        passed=calm,
        found=f"{usable} usable, load {load:.1f}",
        fix="other programs are busy: measuring takes more blocks; stop them for sharper results",
    )


def _disk(paths: Paths) -> Iterator[Check]:
    free = free_bytes(paths.cache)
    yield Check(
        name="Disk",
        passed=free > DISK_SPACE_BYTES,
        found=f"{free / 1e9:.0f} GB free in {paths.cache}",
        fix="TensorFlow stacks take gigabytes: set STACKGEN_CACHE to a larger disk",
    )


def _knowledge(paths: Paths) -> Iterator[Check]:
    from stackgen.knowledge.database import open_database

    try:
        with open_database(paths.knowledge) as database:
            stats = database.stats()
        count = sum(count for _, count in stats.inspections)
        found = f"{paths.knowledge}: {stats.stacks} stacks, {count} inspections"
        yield Check(name="Knowledge base", passed=True, found=found, essential=True)
    except StackgenError as error:
        yield Check(
            name="Knowledge base", passed=False, found=error.why, fix=error.fix, essential=True
        )


def _isolation(paths: Paths) -> Iterator[Check]:
    from stackgen.executors.virtualenv import unenforced_limits

    missing = unenforced_limits(paths.cache / "scratch")
    yield Check(
        name="Isolation",
        passed=not missing,
        found=f"virtualenvs run without: {', '.join(missing)}"
        if missing
        else "virtualenvs run without network and cannot be changed by what runs in them",
        fix="run as an ordinary user and allow user namespaces; containers need neither",
    )
