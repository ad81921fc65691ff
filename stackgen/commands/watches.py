"""Init: a watch for ``nightly`` from the lock of a folder, written into ``stackgen.toml``."""

from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from stackgen.campaign.candidates import FRAMEWORKS, read_lock_file
from stackgen.campaign.indicators import component_of
from stackgen.errors import StackgenError, StorageError, UsageError
from stackgen.indicators.families import DEFAULTS
from stackgen.model import toml
from stackgen.nightly.watch import Watch, read_watches, watch_table
from stackgen.resolve.dependencies import parse_requirement
from stackgen.storage.files import atomic_write_text

CONFIG = "stackgen.toml"
_LOCKS = (
    "Pipfile.lock", "poetry.lock", "uv.lock", "pdm.lock", "pylock.toml", "requirements.txt",
)  # fmt: skip
_MEASURABLE = (*FRAMEWORKS, "numpy")
_BESIDE = tuple(each for each in DEFAULTS["numpy"] if not each.endswith("/matmul"))


def proposed(folder: Path, name: str, requirements: tuple[str, ...], *, needed: bool) -> Watch:
    """Return a watch of some requirements, or of what a lock has that indicators measure.

    Args:
        folder: where the lock is looked for.
        name: of the watch.
        requirements: what is watched; empty means what a lock has.
        needed: whether a lock has to be there then.

    Raises:
        UsageError: there is no lock, or nothing in it can be measured.
    """
    if requirements:
        own = [str(canonicalize_name(parse_requirement(each).name)) for each in requirements]
        return Watch(name=name, requirements=requirements, indicators=_indicators(own))
    for path in (folder / each for each in _LOCKS):
        try:
            packages = read_lock_file(path).packages if path.is_file() else ()
        except StackgenError:
            if needed:
                raise
            continue
        names = {str(canonicalize_name(each.name)) for each in packages}
        found = [each for each in _MEASURABLE if each in names]
        if found:
            return Watch(
                name=name,
                requirements=(found[0],),
                vary=tuple(found[1:]),
                indicators=_indicators(found),
            )
    if needed:
        raise UsageError(
            "there is nothing to watch",
            why=f"no lock of {folder} names {', '.join(_MEASURABLE[:-1])} or {_MEASURABLE[-1]}",
            fix="name it, as in: stackgen init numpy --yes",
        )
    return Watch(name=name, requirements=("numpy",), indicators=_indicators(["numpy"]))


def _indicators(names: Iterable[str]) -> tuple[str, ...]:
    """Return what a watch of some packages measures: several families, as releases differ in few.

    NumPy beside a framework adds what that does not measure of it.
    """
    every = frozenset(names)
    component = component_of((), every)
    found = DEFAULTS.get(component, ())
    return found if component == "numpy" or "numpy" not in every else (*found, *_BESIDE)


def add_watch(folder: Path, watch: Watch) -> Path:
    """Add a table to the configuration of a folder; return the file.

    Raises:
        UsageError: it has a watch of that name, or cannot be read.
        StorageError: it cannot be written.
    """
    path, text = folder / CONFIG, ""
    try:
        text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
        known = toml.loads(text)
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise UsageError(
            f"cannot read {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="mend the file, or work in another folder",
        ) from error
    if any(each.name == watch.name for each in read_watches(known, path)):
        raise UsageError(
            f"{path} has a watch {watch.name}",
            why="its table would come twice",
            fix="choose another name with --name, or edit the table",
        )
    added = f"{text.rstrip()}\n\n" if text.strip() else ""
    whole = added + watch_table(watch)
    read_watches(toml.loads(whole), path)  # refuses what a prompt was given
    try:
        atomic_write_text(path.resolve(), whole)  # a link stays one
    except OSError as error:
        raise StorageError(
            f"cannot write {path}",
            why=error.strerror or str(error),
            fix="make the folder writable",
        ) from error
    return path
