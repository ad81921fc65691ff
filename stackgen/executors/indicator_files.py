"""Read indicators from disk."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from stackgen.errors import UsageError
from stackgen.indicators import parse_indicator
from stackgen.values import Indicator

HARNESS = "harness.py"
_SHARED = re.compile(r"^(?:import|from) (framework_\w+)", re.MULTILINE)


def load_indicators(folder: Path, extra: Iterable[Path] = ()) -> tuple[Indicator, ...]:
    """Return the indicators below a folder, and further ones, sorted by name.

    Args:
        folder: ``pis``, with the harness and one folder per component.
        extra: files of the user's own; each is named after its file.

    Raises:
        UsageError: a file cannot be read, or is not an indicator.
    """
    shipped = {
        path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.glob("*/*.py")
    }
    own = {path.stem: path for path in extra}
    read = cache(_text)
    return tuple(
        parse_indicator(
            _text(path),
            name=name,
            path=str(path.resolve()),
            harness_source="\n".join(read(each) for each in _runs_with(folder, path)),
        )
        for name, path in sorted({**shipped, **own}.items())
    )


def _runs_with(folder: Path, script: Path) -> list[Path]:
    """Return the files of the folder that a script runs with, the harness first."""
    shared: set[Path] = set()
    waiting = [script]
    while waiting:
        names = _SHARED.findall(_text(waiting.pop()))
        found = {path for name in names if (path := folder / f"{name}.py").is_file()} - shared
        shared |= found
        waiting += found
    return [folder / HARNESS, *sorted(shared)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the indicator {path}", why=str(error), fix="give the path of its .py file"
        ) from error
