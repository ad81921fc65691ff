"""Coverage-guided fuzzing of everything that reads text of others: locks, indexes, exports.

``uv run --no-project --with atheris --with-editable . python -m tools.fuzz CORPUS
-max_total_time=1800`` adds what reaches new code to the folder CORPUS, and goes on with that the
next time. CORPUS is begun with files of SEEDS (``--seeds FOLDER``, may be repeated). A traceback or
an input of more than 20 seconds ends the run, with the input in a file beside CORPUS.

The first byte of an input chooses the parser (``TARGETS``), and the rest is its text.
"""

import gc
import hashlib
import importlib
import io
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType

from stackgen.errors import StackgenError
from stackgen.index import metadata, pages
from stackgen.indicators.declaration import Script, parse_indicator
from stackgen.indicators.output import parse_output
from stackgen.knowledge.database import Database, open_database
from stackgen.locks.editing import write_lock
from stackgen.locks.reading import decode_text, read_lock
from stackgen.locks.requirement_files import read_requirements_file
from stackgen.locks.sources import read_sources
from stackgen.model.packages import Artifact, LockChange
from stackgen.provenance.vulnerabilities import UnclearRecordError, affected

_URL = "https://index.example/simple/numpy/"
_WHEEL = "numpy-2.1.3-py3-none-any.whl"
_CHANGE = LockChange(
    name="numpy",
    version="2.1.3",
    artifacts=(
        Artifact(
            name="numpy",
            version="2.1.3",
            filename=_WHEEL,
            sha256="a" * 64,
            url=f"{_URL}{_WHEEL}",
            index="https://index.example/simple/",
        ),
    ),
    requires_dist=("six",),
)


def _text(content: bytes) -> str:
    with suppress(ValueError):
        decode_text(content)
    return content.decode("utf-8", "replace")


def _lock(path: str) -> Callable[[bytes], object]:
    """Return what reads a lock with the file beside it, then its sources, and changes it."""

    def run(content: bytes) -> None:
        text, _, companion = _text(content).partition("\0")
        with suppress(StackgenError):
            read_sources(text, path=path)
        lockfile = read_lock(text, path=path, companion=companion or None, partial=True)
        named = [each.name for each in lockfile.packages[:1]]
        for name in (*named, "numpy"):
            change = LockChange(name=name, version="2.1.3", artifacts=_CHANGE.artifacts)
            with suppress(StackgenError):
                write_lock(text, lockfile, [change if name in named else _CHANGE])

    return run


def _requirements(path: str) -> Callable[[bytes], object]:
    def missing(name: str) -> str:
        raise FileNotFoundError(name)

    return lambda content: read_requirements_file(
        _text(content), path=path, read=missing, environ={}, groups=("dev",)
    )


def _osv(content: bytes) -> None:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return
    with suppress(UnclearRecordError):
        affected(record, "numpy", "1.26.4")


def _page(content: bytes) -> None:
    with suppress(ValueError):  # documented; so are those of metadata
        pages.parse_json(content, url=_URL, name="numpy", index=_URL)


def _metadata(content: bytes) -> None:
    with suppress(metadata.UnusableMetadataError):
        metadata.parse_metadata(content, name="numpy")
    with suppress(metadata.UnusableMetadataError):
        metadata.read_wheel(io.BytesIO(content), name="numpy")


def _sdist(content: bytes) -> None:
    for filename in ("numpy-1.0.tar.gz", "numpy-1.0.zip"):
        with suppress(metadata.UnusableMetadataError):
            metadata.read_sdist(io.BytesIO(content), filename=filename, name="numpy")


class _Knowledge:
    """Imports into an empty knowledge base, which is made anew after each success."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._database = self._empty()

    def _empty(self) -> Database:
        path = Path(self._folder.name) / "stackgen.db"
        for each in path.parent.iterdir():
            each.unlink()
        return open_database(path)

    def __call__(self, content: bytes) -> None:
        self._database.import_lines(io.BytesIO(content), Path("export.jsonl"))
        self._database.close()
        self._database = self._empty()


_LOCKS = (
    "Pipfile.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "pylock.toml",
    "requirements.txt",
    "conda-lock.yml",
    "pixi.lock",
)
TARGETS: dict[str, Callable[[bytes], object]] = {
    **{name: _lock(name) for name in _LOCKS},
    **{
        name: _requirements(name)
        for name in ("requirements.in", "pyproject.toml", "Pipfile", "setup.cfg")
    },
    ".jsonl": _Knowledge(),
    ".json": _page,
    ".html": lambda content: pages.parse_html(
        content.decode("utf-8", "replace"), url=_URL, name="numpy", index=_URL
    ),
    "METADATA": _metadata,
    "PKG-INFO": _sdist,
    ".osv": _osv,
    ".py": lambda content: parse_indicator(
        Script(text=_text(content), path="own.py", harness="COMMON = {}", own=True), "own"
    ),
    ".out": lambda content: parse_output(content.decode("utf-8", "replace")),
}
_ORDER = tuple(TARGETS)


def check(content: bytes) -> None:
    """Run one input; only a documented refusal may end it."""
    if not content:
        return
    with suppress(StackgenError):
        TARGETS[_ORDER[content[0] % len(_ORDER)]](content[1:])


def _begin(corpus: Path, seeds: list[Path]) -> None:
    """Put files that a parser of ours reads into the corpus."""
    corpus.mkdir(parents=True, exist_ok=True)
    for path in (each for folder in seeds for each in sorted(folder.rglob("*"))):
        number = next((n for n, kind in enumerate(_ORDER) if path.name.endswith(kind)), None)
        if number is None or not path.is_file() or path.stat().st_size > 200_000:
            continue
        content = bytes([number]) + path.read_bytes()
        (corpus / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def main() -> None:
    """Fuzz until a time that libFuzzer's options give."""
    atheris = importlib.import_module("atheris")
    seeds, others = [], [sys.argv[0]]
    arguments = iter(sys.argv[1:])
    for each in arguments:
        if each == "--seeds":
            seeds.append(Path(next(arguments)))
        else:
            others.append(each)
    _begin(Path(next(each for each in others[1:] if not each.startswith("-"))), seeds)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and str(each.__module__).startswith("stackgen"):
            atheris.instrument_func(each)
    atheris.Setup([*others, "-timeout=20", "-max_len=20000"], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
