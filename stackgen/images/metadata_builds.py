"""Metadata of source distributions that declare none, built in the sandbox of this host.

The package's own code runs (PEP 517, ``prepare_metadata_for_build_wheel``; an old setup.py through
setuptools), so only where the user allows it, without network, and with one writable folder. What
it needs to be built is installed before, from wheels alone.
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackgen.errors import BuildError
from stackgen.images import pep517
from stackgen.images.targets import find_interpreters, probe
from stackgen.index.metadata import (
    UnusableMetadataError,
    parse_headers,
    read_build_system,
    requirements,
)
from stackgen.model.packages import Artifact, BuildSystem, Metadata, Target
from stackgen.model.progress import Progress
from stackgen.sandbox.namespaces import ISOLATIONS, most_confined
from stackgen.sandbox.supervised import CommandNotStartedError, Request, SupervisorLostError

_LAYOUT = "1"  # of how metadata are built; a change builds them anew
_TIMEOUT_S = 300.0
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxMetadataBuilder:
    """Builds with an installed interpreter of the target's minor version.

    allowed: normalised names of packages whose code may run; ":all:" stands for every one.
    environ: lets uv find the build requirements in the configured indexes.
    scratch: takes temporary folders.
    """

    target: Target
    allowed: Collection[str]
    environ: Mapping[str, str]
    scratch: Path
    progress: Progress

    def key(self, artifact: Artifact) -> str:
        """Return what identifies a build; "" where none is allowed."""
        if not {artifact.name, ":all:"} & set(self.allowed):
            return ""
        return f"built {_LAYOUT} {self.target.python_minor} {self.target.platform}"

    def build(self, artifact: Artifact, file: Path) -> Metadata:
        """Return what a source distribution requires.

        Raises:
            UnusableMetadataError: it cannot be built; the message says why.
        """
        self.progress.doing(f"building the metadata of {artifact.name} {artifact.version}")
        python = self._interpreter()
        with file.open("rb") as archive:
            system = read_build_system(archive, filename=artifact.filename)
        with tempfile.TemporaryDirectory(prefix="stackgen-") as folder:
            own = self._environment(Path(folder) / "venv", python)
            self._install(own, system.requires)
            answer, text = self._run(own, file, system, complete=False)
            if answer.get("kind") == "requires":
                self._install(own, [str(each) for each in answer["requires"]])
                answer, text = self._run(own, file, system, complete=True)
        if answer.get("kind") != "wheel":
            raise UnusableMetadataError(str(answer.get("why", "it said nothing")))
        return requirements(parse_headers(text.encode(), name=artifact.name))

    def _interpreter(self) -> str:
        """Return an installed interpreter of the target's minor version.

        Raises:
            UnusableMetadataError: there is none.
        """
        for each in find_interpreters():
            with contextlib.suppress(BuildError):
                if probe(each).target.python_minor == self.target.python_minor:
                    return each
        raise UnusableMetadataError(
            f"Python {self.target.python_minor}, for which it is built, is not installed here"
        )

    def _environment(self, folder: Path, python: str) -> Path:
        self._uv("venv", "--quiet", "--python", python, str(folder))
        return folder / "bin" / "python"

    def _install(self, python: Path, lines: Collection[str]) -> None:
        if lines:
            options = ("--quiet", "--python", str(python), "--only-binary", ":all:")
            self._uv("pip", "install", *options, *sorted(lines))

    def _uv(self, *arguments: str) -> None:
        import uv

        environ = {**self.environ, "PATH": os.environ.get("PATH", os.defpath)}
        environ |= {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(self.scratch / "uv")}
        try:
            done = subprocess.run(
                [uv.find_uv_bin(), *arguments],
                env=environ,
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise UnusableMetadataError("installing what building it requires took long") from error
        if done.returncode:
            why = " ".join(done.stderr.split())[:_SHOWN]
            raise UnusableMetadataError(f"what building it requires cannot be had: {why}")

    def _run(
        self, python: Path, file: Path, system: BuildSystem, *, complete: bool
    ) -> tuple[dict[str, Any], str]:
        """Return the answer of the build, and the METADATA that it made."""
        try:
            supervisor, isolation = most_confined(self.scratch / "sandbox", ISOLATIONS)
            with contextlib.closing(supervisor):
                if "--mount" not in isolation or not supervisor.network_is_out_of_reach:
                    raise UnusableMetadataError(
                        "its code would run, and this host cannot confine it (user namespaces)"
                    )
                folder = str(supervisor.folder)
                reply = supervisor.run(_request(python, file, system, folder, complete=complete))
        except (SupervisorLostError, CommandNotStartedError) as error:
            raise UnusableMetadataError(f"its build did not start: {error}") from error
        if reply.timed_out:
            raise UnusableMetadataError("its build took too long")
        line, _, text = reply.stdout.partition("\n")
        try:
            answer = json.loads(line)
        except json.JSONDecodeError as error:
            why = " ".join(reply.stderr.split())[-_SHOWN:]
            raise UnusableMetadataError(f"its build failed: {why}") from error
        if answer.get("kind") == "failed":
            last = " ".join(reply.stderr.split())[-_SHOWN:]
            raise UnusableMetadataError(f"{answer.get('why')}: {last}")
        return answer, text


def _request(
    python: Path, file: Path, system: BuildSystem, folder: str, *, complete: bool
) -> Request:
    text = Path(pep517.__file__).read_text(encoding="utf-8")
    order = {
        "sdist": str(file),
        "sources": f"{folder}/sources",
        "out": f"{folder}/out",
        "answer": f"{folder}/answer.json",
        "backend": system.backend,
        "backend_path": system.backend_path,
        "complete": complete,
        "metadata": True,
        "timeout_s": _TIMEOUT_S,
        "text": text,
    }
    environment = {
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/scratch",
        "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
    }
    return Request(
        command=(str(python), "-s", "-c", text, json.dumps(order)),
        environment=environment,
        folder=folder,
        timeout_s=_TIMEOUT_S,
    )
