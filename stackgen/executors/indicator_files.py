"""Read indicators from disk."""

from collections.abc import Iterable
from pathlib import Path

from stackgen.errors import UsageError
from stackgen.indicators import parse_indicator
from stackgen.values import Indicator

HARNESS = "harness.py"


def load_indicators(folder: Path, extra: Iterable[Path] = ()) -> tuple[Indicator, ...]:
    """Return the indicators below a folder, and further ones, sorted by name.

    Args:
        folder: ``pis``, with the harness and one folder per component.
        extra: files of the user's own; each is named after its file.

    Raises:
        UsageError: a file cannot be read, or is not an indicator.
    """
    harness = _text(folder / HARNESS)
    shipped = {
        path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.glob("*/*.py")
    }
    own = {path.stem: path for path in extra}
    return tuple(
        parse_indicator(_text(path), name=name, path=str(path.resolve()), harness_source=harness)
        for name, path in sorted({**shipped, **own}.items())
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the indicator {path}", why=str(error), fix="give the path of its .py file"
        ) from error
