"""When a first run shows what: the timeline of `stackgen explore` with an empty knowledge base.

    PYTHONPATH=. python -m benchmarks.live.first_run [--] [options of explore]

Run it on a quiet machine, twice where wheels are not cached: the second one has a warm cache. It
takes the budget (ten minutes). Without an engine: DOCKER_HOST=unix:///nonexistent. To see builds
from warm wheels, remove the images beforehand (`stackgen images prune`, with `--images 0`).
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = ("tensorflow-cpu", "--budget", "10m")
MILESTONES = (
    ("plan", r"Plan: "),
    ("first stack ready", r"Ready \(1 of"),
    ("last stack ready", r"Ready \((\d+) of \1\)"),
    ("first block begins", r"measuring block 1,"),
    ("first estimates", r"First estimates"),
    ("first ranking", r"After 6 blocks"),
)
ALL = "ranking of all stacks"


def main(arguments: list[str]) -> int:
    """Print each line of progress with its time, then when each milestone was reached first."""
    options = [each for each in arguments if each != "--"] or list(DEFAULT)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "stackgen", "explore", *options]
        environ = {**os.environ, "STACKGEN_KB": str(Path(folder) / "kb.db")}
        start, seen, waited = time.monotonic(), dict[str, float](), 0
        with subprocess.Popen(
            command, env=environ, stdout=sys.stdout, stderr=subprocess.PIPE, text=True
        ) as run:
            for line in run.stderr or ():
                at = time.monotonic() - start
                print(f"{at:6.1f} s  {line}", end="", flush=True)
                waited += line.startswith("waiting: another")
                for name, words in MILESTONES:
                    if re.match(words, line):
                        seen.setdefault(name, at)
                if line.startswith("After ") and "last stack ready" in seen:
                    seen.setdefault(ALL, at)
    for name in (*(name for name, _ in MILESTONES), ALL):
        print(f"{name:24}{f'{seen[name]:6.1f} s' if name in seen else 'never'}")
    if waited:
        print(f"Another stackgen was waited for {waited} times: the times are not those of a run.")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
