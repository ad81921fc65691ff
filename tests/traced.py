"""Run stackgen, and print how a function was reached: python traced.py FILE FUNCTION ARGUMENT..."""

import json
import sys
from pathlib import Path
from types import FrameType

import stackgen

ROOT = Path(stackgen.__file__).parent
OVERHEAD = {
    "cli/__init__.py main",
    "cli/__init__.py _run",
    "cli/commands.py call",
}
"""Steps that every command takes: errors and signals, and what stands between typer and it."""


def own_frames(frame: FrameType | None) -> list[str]:
    """Return the functions of stackgen on the stack, the outermost first, each once in a row."""
    found: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if ROOT in path.parents:
            step = f"{path.relative_to(ROOT)} {frame.f_code.co_name}"
            if step not in OVERHEAD:
                found.append(step)
        frame = frame.f_back
    return found[::-1]


def main() -> None:
    """Trace one command."""
    file, function, *sys.argv[1:] = sys.argv[1:]
    paths: list[list[str]] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == function and code.co_filename.endswith(file):
            steps = own_frames(frame)
            if steps not in paths:
                paths.append(steps)

    from stackgen.cli import main as run

    sys.setprofile(profile)
    try:
        run()
    except SystemExit:
        sys.setprofile(None)
        print(json.dumps(paths), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
