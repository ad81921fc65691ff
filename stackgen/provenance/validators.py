"""Ask uv and pip-tools, each in a process of its own, what they would install.

What follows from an answer is decided elsewhere. Where to look for packages reaches both tools by
their environment alone: a command line can be seen by every user of the machine.
"""

import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from stackgen.storage.files import occupied_bytes

LIMIT_S = 120.0
MOST_BYTES = 250_000_000
"""What a judge may keep on disk for one question; one that loads whole wheels passes it at once."""
_STEP_S = 0.2
_LINES, _COLUMNS = 6, 300
_LOG = "pip.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whether some requirements can be met together.

    requirements: PEP 508 lines.
    constraints: ``name==version`` lines that bind what is installed, and require nothing.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a judge said.

    pins: what it would install, (name, version) pairs sorted; None where it refuses or is silent.
    refusal: its own words.
    silence: why it gave no verdict.
    unreachable: it is silent since the package index did not answer.
    """

    pins: tuple[tuple[str, str], ...] | None = None
    refusal: tuple[str, ...] = ()
    silence: str = ""
    unreachable: bool = False


class Judge(Protocol):
    """An independent resolver."""

    @property
    def name(self) -> str:
        """Return its name and version."""

    def ask(self, question: Question) -> Answer:
        """Return what it says; that it cannot be asked is an answer, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """``uv pip compile``, wheels only.

    python: an interpreter, the one that is asked about unless another target is stated.
    stated: Python version and platform (by uv's name) of a target without an interpreter here.
    environ: every environment variable that it gets.
    cache: a folder for what it remembers.
    no_index: look into folders and pages of links alone; uv has no variable for that.
    """

    python: str
    environ: Mapping[str, str]
    cache: Path
    stated: tuple[str, str] | None = None
    no_index: bool = False

    @property
    def name(self) -> str:
        """Return its name and version."""
        return _named("uv")

    def ask(self, question: Question) -> Answer:
        """Return what uv says."""
        try:
            import uv

            command = [uv.find_uv_bin(), "pip", "compile", "requirements.in"]
        except (ImportError, FileNotFoundError):
            return Answer(silence="it is not installed here")
        command += ["--python", self.python, *_given(question)]
        if self.stated:
            version, platform = self.stated
            command += ["--python-version", version, "--python-platform", platform]
        command += ["--no-index"] if self.no_index else []
        command += ["--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
        command += ["--no-progress", "--color", "never"]
        own = {"UV_CACHE_DIR": str(self.cache / "uv"), "UV_PYTHON_DOWNLOADS": "never"}
        return _heard(_run(command, question, {**self.environ, **own}), _of_uv)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipTools:
    """``pip-compile``, wheels only, for the interpreter that runs stackgen.

    environ, cache: as in uv's case.
    """

    environ: Mapping[str, str]
    cache: Path

    @property
    def name(self) -> str:
        """Return its name and version."""
        return _named("pip-tools")

    def ask(self, question: Question) -> Answer:
        """Return what pip-tools says."""
        if self.name == "pip-tools":
            return Answer(silence="it is not installed here")
        command = [sys.executable, "-m", "piptools", "compile", "requirements.in"]
        command += ["--no-config", "--no-header", "--no-annotate", "--strip-extras", "--quiet"]
        command += ["--allow-unsafe", "--no-emit-index-url", "--no-emit-trusted-host"]
        command += ["--no-emit-find-links", "--no-emit-options", "--output-file", "-"]
        command += ["--cache-dir", str(self.cache / "pip-tools"), *_given(question)]
        # Without fast-deps, an index that offers no metadata makes pip load every wheel whole:
        # for a TensorFlow lock that was 795 MB in place of 28 MB.
        options = f"--only-binary :all: --use-feature=fast-deps --no-input --log {_LOG}"
        command += ["--pip-args", options]
        own = {"PIP_CACHE_DIR": str(self.cache / "pip")}
        return _heard(_run(command, question, {**self.environ, **own}), _of_pip_tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A process that ended; ``stopped`` says why where it was we who ended it.

    log: what pip tells nowhere else, such as why it passes over a page.
    """

    code: int = 0
    output: str = ""
    errors: str = ""
    log: str = ""
    stopped: str = ""


def _named(package: str) -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return f"{package} {importlib.metadata.version(package)}"
    return package


def _given(question: Question) -> Sequence[str]:
    return ("--constraint", "constraints.txt") if question.constraints else ()


def _run(command: Sequence[str], question: Question, environ: Mapping[str, str]) -> _Ran:
    """Run a tool in an empty folder, which holds what it loads, as long and as much as it may."""
    with tempfile.TemporaryDirectory(prefix="stackgen-judge-") as made:
        folder = Path(made)
        (folder / "requirements.in").write_text(_text(question.requirements), encoding="utf-8")
        (folder / "constraints.txt").write_text(_text(question.constraints), encoding="utf-8")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, "TMPDIR": made},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        with process:
            try:
                return replace(_watched(process, folder), log=_read(folder / _LOG))
            finally:
                process.kill()


def _watched(process: "subprocess.Popen[str]", folder: Path) -> _Ran:
    for _ in range(round(LIMIT_S / _STEP_S)):
        with suppress(subprocess.TimeoutExpired):
            output, errors = process.communicate(timeout=_STEP_S)
            return _Ran(code=process.returncode, output=output, errors=errors)
        if occupied_bytes(folder) > MOST_BYTES:
            return _Ran(
                stopped="the index offers no metadata apart from wheels, and it would load "
                f"more than {MOST_BYTES // 1_000_000} MB of those"
            )
    return _Ran(stopped=f"it came to no verdict within {LIMIT_S:.0f} s")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _heard(ran: _Ran, explain: Callable[[_Ran], Answer]) -> Answer:
    if ran.stopped:
        return Answer(silence=ran.stopped)
    if ran.code:
        return explain(ran)
    return Answer(pins=tuple(sorted(_pins(ran.output))))


def _pins(output: str) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        with suppress(InvalidRequirement):
            wanted = Requirement(line.partition(" #")[0])
            for each in wanted.specifier:
                yield str(canonicalize_name(wanted.name)), each.version


_UNREACHABLE = "the package index did not answer"
_REFUSED = "the package index refused the credentials"
_UV_NETWORK = re.compile(
    r"Request failed|Failed to fetch|error sending request|client error|timed out|operation timed"
)
_UV_CREDENTIALS = re.compile(r"40[13] (Unauthorized|Forbidden)|valid authentication credentials")
_UV_LEAD = re.compile(r"^\W*(?:(?:error|cause):\s*)?")  # older versions draw a tree


def _of_uv(ran: _Ran) -> Answer:
    """Return what uv means by its words after a failure."""
    errors = ran.errors
    if _UV_CREDENTIALS.search(errors):
        return Answer(silence=_REFUSED, unreachable=True)
    verdict = errors.partition("\nhint:")[0]
    words = [_UV_LEAD.sub("", line) for line in verdict.splitlines()]
    if "No solution found" in errors:
        return Answer(refusal=_essential(line for line in words if "No solution" not in line))
    if _UV_NETWORK.search(errors):
        return Answer(silence=_UNREACHABLE, unreachable=True)
    return Answer(silence=f"it failed: {next(iter(_essential(words)), 'it does not say why')}")


_PIP_NETWORK = re.compile(
    r"ConnectionError|ReadTimeout|ConnectTimeout|SSLError|ProtocolError|NetworkConnectionError"
)
_PIP_PASSED_OVER = re.compile(r"Could not fetch URL \S+: (?!404 )(.*)")
_PIP_CREDENTIALS = re.compile(r"\b40[137] ")
_PIP_SAID = re.compile(r"^\s*(?:ERROR|CRITICAL): (.*)")
_PIP_BEHIND = re.compile(r" -r \S+ \(line \d+\)(,| and)?| \(from -[rc] [^)]*\)|\(from versions:.*")
_PIP_CAUSE = re.compile(
    r"requirement=\w+\('(?P<wanted>[^']+)'\), parent=(?:None|\w+\('(?P<parent>[^']*)')"
)
_WHEEL = re.compile(r"([^/]+?)-([^/-]+)-[^/]*\.whl")


def _of_pip_tools(ran: _Ran) -> Answer:
    """Return what pip means; pip-tools lets its errors through as tracebacks.

    A page that it cannot have is to pip a package without versions, which is no verdict.
    """
    errors, passed_over = ran.errors, _PIP_PASSED_OVER.search(ran.log)
    refused = "ResolutionImpossible" in errors or "DistributionNotFound" in errors
    if passed_over and _PIP_CREDENTIALS.match(passed_over[1]):
        return Answer(silence=_REFUSED, unreachable=True)
    if passed_over or (not refused and _PIP_NETWORK.search(errors)):
        return Answer(silence=_UNREACHABLE, unreachable=True)
    said = [found[1] for line in errors.splitlines() if (found := _PIP_SAID.match(line))]
    words = _essential(
        [*(_PIP_BEHIND.sub("", each) for each in said if "yanked" not in each), *_causes(errors)]
    )
    if refused and words:
        return Answer(refusal=words)
    last = _essential(errors.strip().splitlines()[-1:])
    return Answer(silence=f"it failed: {next(iter((*words, *last)), 'it does not say why')}")


def _causes(errors: str) -> Iterator[str]:
    """Yield what pip found to exclude a pin, of all the requirements that it lists beside it."""
    _, _, told = errors.partition("ResolutionImpossible: [")
    listed = list(_PIP_CAUSE.finditer(told.partition("\n")[0]))
    pins = {each["wanted"] for each in listed if each["parent"] is None}
    for each in listed:
        wheel = _WHEEL.search(each["parent"] or "")
        if wheel and not any(_admits(each["wanted"], pin) for pin in pins):
            yield f"{wheel[1].replace('_', '-')} {wheel[2]} requires {each['wanted']}"


def _admits(wanted: str, pin: str) -> bool:
    with suppress(InvalidRequirement):
        version = next(iter(Requirement(pin).specifier)).version
        return Requirement(wanted).specifier.contains(version, prereleases=True)
    return True


_ADDRESS = re.compile(r"\S*://\S+")
_PATH = re.compile(r"(?<![\w.])/[\w.@+-]+(/[\w.@+-]*)+")


def _essential(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines that say something, without addresses and paths of this machine."""
    plain = (_PATH.sub("...", _ADDRESS.sub("...", line)).strip() for line in lines)
    found = list(dict.fromkeys(line for line in plain if line))
    cut = [each if len(each) <= _COLUMNS else f"{each[:_COLUMNS]}..." for each in found[:_LINES]]
    return (*cut, "...") if len(found) > _LINES else tuple(cut)
