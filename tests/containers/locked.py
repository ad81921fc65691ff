"""Locks of the same wheels in every format, in a folder with the wheels."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackgen.model.packages import Artifact
from tests.in_process import run_command

Pairs = Sequence[tuple[Artifact, Path]]
FORMATS = {
    "requirements.txt": lambda pairs: "".join(
        f"{a.name}=={a.version} --hash=sha256:{a.sha256}\n" for a, _ in pairs
    ),
    "Pipfile.lock": lambda pairs: json.dumps(
        {
            "_meta": {"hash": {"sha256": "0" * 64}, "pipfile-spec": 6, "requires": {}},
            "default": {
                a.name: {"version": f"=={a.version}", "hashes": [f"sha256:{a.sha256}"]}
                for a, _ in pairs
            },
            "develop": {},
        }
    ),
    "poetry.lock": lambda pairs: (
        "".join(
            f'[[package]]\nname = "{a.name}"\nversion = "{a.version}"\noptional = false\n'
            f'python-versions = "*"\ngroups = ["main"]\n'
            f'files = [{{file = "{a.filename}", hash = "sha256:{a.sha256}"}}]\n\n'
            for a, _ in pairs
        )
        + '[metadata]\nlock-version = "2.1"\npython-versions = "*"\ncontent-hash = "0"\n'
    ),
    "uv.lock": lambda pairs: (
        'version = 1\nrequires-python = ">=3.8"\n\n'
        '[[package]]\nname = "project"\nversion = "0"\nsource = { virtual = "." }\n\n'
        "dependencies = ["
        + ", ".join(f'{{ name = "{a.name}" }}' for a, _ in pairs)
        + "]\n\n"
        + "".join(
            f'[[package]]\nname = "{a.name}"\nversion = "{a.version}"\n'
            f'source = {{ registry = "nowhere" }}\n'
            f'wheels = [{{ url = "nowhere/{a.filename}", hash = "sha256:{a.sha256}" }}]\n\n'
            for a, _ in pairs
        )
    ),
    "pylock.toml": lambda pairs: (
        'lock-version = "1.0"\ncreated-by = "tests"\n'
        + "".join(
            f'[[packages]]\nname = "{a.name}"\nversion = "{a.version}"\n[[packages.wheels]]\n'
            f'name = "{a.filename}"\nurl = "nowhere/{a.filename}"\n'
            f'hashes = {{ sha256 = "{a.sha256}" }}\n'
            for a, _ in pairs
        )
    ),
}


@dataclass(frozen=True)
class Images:
    """Runs `stackgen images` with a cache of its own, on wheels that lie in a folder.

    online: ask the user's own indexes instead.
    """

    root: Path
    online: bool = False

    @property
    def wheels(self) -> Path:
        folder = self.root / "wheels"
        folder.mkdir(exist_ok=True)
        return folder

    def lock(self, pairs: Pairs, name: str = "requirements.txt") -> Path:
        path = self.root / name
        path.write_text(FORMATS[name](pairs), encoding="utf-8")
        return path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        own = {"STACKGEN_CACHE": str(self.root / "cache")}
        passed = dict(os.environ)
        if not self.online:
            own |= {
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.wheels),
                "PIP_CONFIG_FILE": os.devnull,
                "HOME": str(self.root),
            }
            retained = ("PATH", "DOCKER_HOST", "STACKGEN_TEST_LOCKS")
            passed = {key: os.environ[key] for key in retained if key in os.environ}
        return run_command(
            "images", *map(str, arguments), folder=self.root, environ={**passed, **own}
        )

    def reported(self, *arguments: str | Path) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.reported(*arguments, "--json"))
        return found
