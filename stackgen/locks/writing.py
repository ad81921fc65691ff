"""Write a lock for other tools to install from. Equal locks give equal bytes."""

from collections.abc import Iterator
from datetime import datetime, timezone

from packaging.pylock import Pylock

from stackgen.errors import UsageError
from stackgen.locks.fields import parse_toml
from stackgen.locks.toml_text import quoted
from stackgen.model.files import DIRECT
from stackgen.model.packages import Artifact, Lock, Target

# What of a target's environment a wheel's choice depends on, besides its Python.
_PLATFORM = ("implementation_name", "platform_machine", "sys_platform")


def write_requirements(lock: Lock, *, hashes: bool) -> str:
    """Return a requirements.txt, which pip takes with ``--require-hashes`` where it has hashes.

    What the user named by its address is named by it again: no index would have it.

    Raises:
        UsageError: hashes are wanted, and an artifact has none.
    """
    return "".join(_requirement(artifact, hashes=hashes) for artifact in lock.artifacts)


def _requirement(artifact: Artifact, *, hashes: bool) -> str:
    pin = f"{artifact.name}=={artifact.version}"
    if artifact.index == DIRECT:
        pin = f"{artifact.name} @ {artifact.url}"
    if not hashes:
        return f"{pin}\n"
    return f"{pin} \\\n    --hash=sha256:{_digest(artifact)}\n"


def write_pylock(lock: Lock, target: Target) -> str:
    """Return a pylock.toml (PEP 751) for this target's Python and platform.

    Raises:
        UsageError: an artifact has no hash, which the format demands.
    """
    entries = [line for a in lock.artifacts for line in _entry(a)] or ["packages = []"]
    text = "\n".join([*_head(target), *entries, ""])
    Pylock.from_dict(parse_toml(text))  # the format's own reader is the judge; it raises our bugs
    return text


def _head(target: Target) -> Iterator[str]:
    python = f"python_version == '{target.python_minor}'"
    environment = target.environment
    stated = [f"{key} == '{environment[key]}'" for key in _PLATFORM if key in environment]
    yield 'lock-version = "1.0"'
    yield f"environments = [{quoted(' and '.join([python, *stated]))}]"
    yield f'requires-python = "=={target.python_minor}.*"'
    yield 'created-by = "stackgen"'


def _entry(artifact: Artifact) -> Iterator[str]:
    yield from ("", "[[packages]]", f"name = {quoted(artifact.name)}")
    yield f"version = {quoted(artifact.version)}"
    yield from ("", "[[packages.wheels]]" if artifact.is_wheel else "[packages.sdist]")
    yield f"name = {quoted(artifact.filename)}"
    if uploaded := utc_time(artifact.uploaded):
        yield f"upload-time = {uploaded}"
    yield f"url = {quoted(artifact.url)}"
    if artifact.size is not None:
        yield f"size = {artifact.size}"
    yield f"hashes = {{ sha256 = {quoted(_digest(artifact))} }}"


def _digest(artifact: Artifact) -> str:
    if not artifact.sha256:
        raise UsageError(
            f"{artifact.name} {artifact.version} cannot be written with a hash",
            why="the index that it came from states none",
            fix="write the lock without hashes",
        )
    return artifact.sha256


def utc_time(uploaded: str | None) -> str:
    """Return an upload time as a TOML date; "" where it is absent or no such time."""
    try:
        # Python 3.10 reads neither a Z nor an odd number of decimals.
        whole, _, _ = (uploaded or "").replace("Z", "").replace("+00:00", "").partition(".")
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return ""
    return moment.replace(tzinfo=moment.tzinfo or timezone.utc).isoformat().replace("+00:00", "Z")
