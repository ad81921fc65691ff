"""Record console sessions that the documentation shows.

``python -m tools.record tests/recorded/consoles/count.txt`` runs the commands (lines that begin
with ``$ ``) of that file again, one after the other in one empty folder, and writes what they
print in place of what the file held. Paths of the folder and of the home directory are shortened;
``tests/test_consoles.py`` compares the documentation with these files.
"""

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROMPT = "$ "
_PROGRESS = re.compile(r"^(?!error|  (?:why|fix)|       ).*\n?", re.MULTILINE)


def commands_of(text: str) -> list[str]:
    """Return the commands of a console session."""
    return [line.removeprefix(PROMPT) for line in text.splitlines() if line.startswith(PROMPT)]


def record(commands: list[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Run commands in a folder, and return the session: each with what it printed.

    Of a command that fails, standard error is shown, too; of others it holds the progress alone.
    """
    lines: list[str] = []
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + (_PROGRESS.sub("", done.stderr) if done.returncode else "")
        for place, name in ((folder, "~/demo"), (ROOT, "~/stackgen"), (Path.home(), "~")):
            output = output.replace(str(place), name)
        lines += [PROMPT + command, *output.rstrip("\n").splitlines()]
    return "\n".join([*lines, ""])


def main() -> None:
    """Record the sessions of the given files anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("session", nargs="+", type=Path)
    for path in parser.parse_args().session:
        with tempfile.TemporaryDirectory() as folder:
            text = record(commands_of(path.read_text("utf-8")), Path(folder), os.environ)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
