"""Independent resolvers, uv and pip-tools, as validators of a lock; each runs in its own process.

``commands/verify.py`` draws the conclusions. Index URLs are passed to both tools in environment
variables only, because every user of the machine can read a command line.
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
"""Limit of a validator's disk space per request; one that downloads whole wheels exceeds it."""
_STEP_S = 0.2
_LINES, _COLUMNS = 6, 300
_LOG = "pip.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRequest:
    """Requirements to resolve together.

    requirements: PEP 508 lines.
    constraints: ``name==version`` lines that limit versions and require nothing.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """Result of a validator.

    pins: its resolution as sorted (name, version) pairs; None without one.
    refusal: its message where the requirements have no resolution.
    no_verdict: why it has no result.
    unreachable: it has no result because the package index did not answer.
    """

    pins: tuple[tuple[str, str], ...] | None = None
    refusal: tuple[str, ...] = ()
    no_verdict: str = ""
    unreachable: bool = False


class Validator(Protocol):
    """An independent resolver."""

    @property
    def name(self) -> str:
        """Return its name and version."""

    def validate(self, request: ValidationRequest) -> ValidationResult:
        """Resolve the requirements; a tool that is missing or fails is a result without verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """``uv pip compile``, wheels only.

    python: the interpreter that is the target, unless another one is stated.
    stated: Python version and platform (uv's name) of a target without a local interpreter.
    environ: all environment variables of its process.
    cache: folder of its cache.
    no_index: use folders and pages of links only; uv has no variable for that.
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

    def validate(self, request: ValidationRequest) -> ValidationResult:
        """Resolve with uv."""
        try:
            import uv

            command = [uv.find_uv_bin(), "pip", "compile", "requirements.in"]
        except (ImportError, FileNotFoundError):
            return ValidationResult(no_verdict="it is not installed")
        command += ["--python", self.python, *_constraint_options(request)]
        if self.stated:
            version, platform = self.stated
            command += ["--python-version", version, "--python-platform", platform]
        command += ["--no-index"] if self.no_index else []
        command += ["--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
        command += ["--no-progress", "--color", "never"]
        own = {"UV_CACHE_DIR": str(self.cache / "uv"), "UV_PYTHON_DOWNLOADS": "never"}
        return _result(_run(command, request, {**self.environ, **own}), _uv_failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipTools:
    """``pip-compile``, wheels only, for the interpreter that runs stackgen.

    environ, cache: as for ``Uv``.
    """

    environ: Mapping[str, str]
    cache: Path

    @property
    def name(self) -> str:
        """Return its name and version."""
        return _named("pip-tools")

    def validate(self, request: ValidationRequest) -> ValidationResult:
        """Resolve with pip-tools."""
        if self.name == "pip-tools":
            return ValidationResult(no_verdict="it is not installed")
        command = [sys.executable, "-m", "piptools", "compile", "requirements.in"]
        command += ["--no-config", "--no-header", "--no-annotate", "--strip-extras", "--quiet"]
        command += ["--allow-unsafe", "--no-emit-index-url", "--no-emit-trusted-host"]
        command += ["--no-emit-find-links", "--no-emit-options", "--output-file", "-"]
        command += ["--cache-dir", str(self.cache / "pip-tools"), *_constraint_options(request)]
        # Without fast-deps, an index that offers no metadata makes pip load every wheel whole:
        # for a TensorFlow lock that was 795 MB in place of 28 MB.
        options = f"--only-binary :all: --use-feature=fast-deps --no-input --log {_LOG}"
        command += ["--pip-args", options]
        own = {"PIP_CACHE_DIR": str(self.cache / "pip")}
        return _result(_run(command, request, {**self.environ, **own}), _pip_tools_failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessOutput:
    """Output of a process.

    log: pip's log file, the only place where it says why it ignores a page.
    stopped: why stackgen ended the process; "" where it ended by itself.
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


def _constraint_options(request: ValidationRequest) -> Sequence[str]:
    return ("--constraint", "constraints.txt") if request.constraints else ()


def _run(
    command: Sequence[str], request: ValidationRequest, environ: Mapping[str, str]
) -> _ProcessOutput:
    """Run a tool in a temporary folder, within its limits of time and disk space."""
    with tempfile.TemporaryDirectory(prefix="stackgen-validator-") as made:
        folder = Path(made)
        (folder / "requirements.in").write_text(_text(request.requirements), encoding="utf-8")
        (folder / "constraints.txt").write_text(_text(request.constraints), encoding="utf-8")
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
                return replace(_wait(process, folder), log=_read(folder / _LOG))
            finally:
                process.kill()


def _wait(process: "subprocess.Popen[str]", folder: Path) -> _ProcessOutput:
    for _ in range(round(LIMIT_S / _STEP_S)):
        with suppress(subprocess.TimeoutExpired):
            output, errors = process.communicate(timeout=_STEP_S)
            return _ProcessOutput(code=process.returncode, output=output, errors=errors)
        if occupied_bytes(folder) > MOST_BYTES:
            return _ProcessOutput(
                stopped="the index offers no metadata besides wheels, and it would load "
                f"more than {MOST_BYTES // 1_000_000} MB of those"
            )
    return _ProcessOutput(stopped=f"it came to no verdict within {LIMIT_S:.0f} s")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _result(
    done: _ProcessOutput, explain: Callable[[_ProcessOutput], ValidationResult]
) -> ValidationResult:
    if done.stopped:
        return ValidationResult(no_verdict=done.stopped)
    if done.code:
        return explain(done)
    return ValidationResult(pins=tuple(sorted(_pins(done.output))))


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


def _uv_failure(done: _ProcessOutput) -> ValidationResult:
    """Return the result of a failed uv process."""
    errors = done.errors
    if _UV_CREDENTIALS.search(errors):
        return ValidationResult(no_verdict=_REFUSED, unreachable=True)
    verdict = errors.partition("\nhint:")[0]
    words = [_UV_LEAD.sub("", line) for line in verdict.splitlines()]
    if "No solution found" in errors:
        return ValidationResult(
            refusal=_first_lines(line for line in words if "No solution" not in line)
        )
    if _UV_NETWORK.search(errors):
        return ValidationResult(no_verdict=_UNREACHABLE, unreachable=True)
    return ValidationResult(
        no_verdict=f"it failed: {next(iter(_first_lines(words)), 'it does not say why')}"
    )


_PIP_NETWORK = re.compile(
    r"ConnectionError|ReadTimeout|ConnectTimeout|SSLError|ProtocolError|NetworkConnectionError"
)
_PIP_PASSED_OVER = re.compile(r"Could not fetch URL \S+: (?!404 )(.*)")
_PIP_CREDENTIALS = re.compile(r"\b40[137] ")
_PIP_MESSAGE = re.compile(r"^\s*(?:ERROR|CRITICAL): (.*)")
_PIP_BEHIND = re.compile(r" -r \S+ \(line \d+\)(,| and)?| \(from -[rc] [^)]*\)|\(from versions:.*")
_PIP_CAUSE = re.compile(
    r"requirement=\w+\('(?P<wanted>[^']+)'\), parent=(?:None|\w+\('(?P<parent>[^']*)')"
)
_WHEEL = re.compile(r"([^/]+?)-([^/-]+)-[^/]*\.whl")


def _pip_tools_failure(done: _ProcessOutput) -> ValidationResult:
    """Return the result of a failed pip-tools process, which prints pip's errors as tracebacks.

    A page that pip cannot read counts as a package without versions: that is no verdict.
    """
    errors, passed_over = done.errors, _PIP_PASSED_OVER.search(done.log)
    refused = "ResolutionImpossible" in errors or "DistributionNotFound" in errors
    if passed_over and _PIP_CREDENTIALS.match(passed_over[1]):
        return ValidationResult(no_verdict=_REFUSED, unreachable=True)
    if passed_over or (not refused and _PIP_NETWORK.search(errors)):
        return ValidationResult(no_verdict=_UNREACHABLE, unreachable=True)
    messages = [found[1] for line in errors.splitlines() if (found := _PIP_MESSAGE.match(line))]
    words = _first_lines(
        [
            *(_PIP_BEHIND.sub("", each) for each in messages if "yanked" not in each),
            *_causes(errors),
        ]
    )
    if refused and words:
        return ValidationResult(refusal=words)
    last = _first_lines(errors.strip().splitlines()[-1:])
    return ValidationResult(
        no_verdict=f"it failed: {next(iter((*words, *last)), 'it does not say why')}"
    )


def _causes(errors: str) -> Iterator[str]:
    """Yield the requirements that exclude a pin, of all that pip lists."""
    _, _, report = errors.partition("ResolutionImpossible: [")
    listed = list(_PIP_CAUSE.finditer(report.partition("\n")[0]))
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


def _first_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines that are not empty, without URLs and local paths."""
    plain = (_PATH.sub("...", _ADDRESS.sub("...", line)).strip() for line in lines)
    found = list(dict.fromkeys(line for line in plain if line))
    cut = [each if len(each) <= _COLUMNS else f"{each[:_COLUMNS]}..." for each in found[:_LINES]]
    return (*cut, "...") if len(found) > _LINES else tuple(cut)
