"""Verify a lock with independent resolvers."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, canonicalize_version

from stackgen.campaign.backend import AdmitsPython, open_backend
from stackgen.campaign.candidates import read_lock_file
from stackgen.campaign.options import IndexOptions
from stackgen.campaign.targets import refuse_python
from stackgen.campaign.user_input import index_config
from stackgen.errors import UsageError
from stackgen.images.targets import probe
from stackgen.index import IndexConfig
from stackgen.index.config import address_with_credentials, uv_variables
from stackgen.locks.reading import admits_python, in_target
from stackgen.model.choices import ExecutorChoice
from stackgen.model.packages import LockedPackage, LockFile, Target
from stackgen.model.progress import Progress
from stackgen.model.reports.locks import Validation, Validity, Verification
from stackgen.model.stacks import Base, EnvironmentKind
from stackgen.provenance.validators import (
    PipTools,
    Uv,
    ValidationRequest,
    ValidationResult,
    Validator,
)
from stackgen.storage.paths import Paths

_OWN = re.compile(r"PIP_|UV_|PYTHON|VIRTUAL_ENV|CONDA_")
"""Variables that change the behaviour of a validator; indexes are set separately."""
_PYTHON = re.compile(r"(python)?3\.\d+")
# uv knows these by name, none newer; what fits an older glibc fits a newer one.
_GLIBCS = {17, 28, *range(31, 41)}
_PLATFORM = re.compile(r"manylinux_2_(\d+)_(x86_64|aarch64)|musllinux_1_\d+_(x86_64|aarch64)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedStack:
    """The pins of a lock on a target, and the requirements that it was made from.

    pins: (name, version) pairs, sorted.
    requirements: PEP 508 lines; empty where they are unknown.
    requirements_unknown: why they are unknown; "" where they are known.
    """

    pins: tuple[tuple[str, str], ...]
    requirements: tuple[str, ...]
    requirements_unknown: str

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the pins as requirements."""
        return tuple(f"{name}=={version}" for name, version in self.pins)


def verify(
    path: Path,
    index: IndexOptions,
    paths: Paths,
    environ: Mapping[str, str],
    progress: Progress,
    *,
    base: str,
) -> Verification:
    """Validate a lock with each validator.

    Args:
        path: of the lock.
        base: a base's name, an image, an interpreter or its version; "" means our own.

    Raises:
        UsageError: it is no lock, or there is no such base.
        BuildError: the base cannot be had.
    """
    lockfile = read_lock_file(path)
    found = _base(base, paths, progress, admits=partial(admits_python, lockfile))
    stack = stack_of(lockfile, found.target)
    config = index_config(index, environ)
    validations = []
    for validator in validators(found, config, environ, paths.cache / "validators"):
        progress.doing(f"validating with {validator.name}")
        validations.append(validate(validator, stack))
    return Verification(
        path=str(path),
        target=_target_text(found),
        pins=stack.lines,
        validations=tuple(validations),
        skipped=lockfile.skipped,
        superfluous_unknown=stack.requirements_unknown,
    )


def stack_of(lockfile: LockFile, target: Target) -> PinnedStack:
    """Narrow a lock to what it installs on a target.

    Raises:
        UsageError: it is for another Python, installs nothing there, or holds two versions of one
            package.
    """
    refuse_python(lockfile, target.python, "the base that it was to be verified for")
    packages = in_target(lockfile, target)
    if not packages:
        raise UsageError(
            f"{lockfile.path} installs nothing here",
            why=f"no package of it is for Python {target.python}",
            fix="name the target that it was made for: stackgen verify LOCK --base 3.X",
        )
    requirements = tuple(_requirements(lockfile, packages, target))
    unknown = "" if requirements else "the lock does not list the requirements it was made from"
    if lockfile.skipped:
        requirements, unknown = (), "a package that is on no index may require some of them"
    pins = tuple((each.name, each.version) for each in packages)
    return PinnedStack(pins=pins, requirements=requirements, requirements_unknown=unknown)


def _requirements(
    lockfile: LockFile, packages: Sequence[LockedPackage], target: Target
) -> Iterator[str]:
    """Yield the requirements of a target, and packages that the lock marks as direct."""
    named = set()
    for line in lockfile.requirements:
        wanted = Requirement(line)
        named.add(canonicalize_name(wanted.name))
        if wanted.url is None and _holds(wanted.marker, target):
            wanted.marker = None
            yield str(wanted)
    for package in packages:
        if package.direct and package.name not in named:
            extras = f"[{','.join(package.extras)}]" if package.extras else ""
            yield f"{package.name}{extras}"


def _holds(marker: Marker | None, target: Target) -> bool:
    return marker is None or marker.evaluate({**target.environment, "extra": ""})


def validate(validator: Validator, stack: PinnedStack) -> Validation:
    """Validate a stack: first all its pins, then the requirements with the pins as constraints."""
    result = validator.validate(ValidationRequest(requirements=stack.lines))
    reasons, missing = _conflicts(result, stack), _missing(result, stack)
    superfluous: tuple[str, ...] = ()
    if stack.requirements and result.pins is not None and not (reasons or missing):
        # Every pin that is required is installed: superfluous pins show only where the pins are
        # constraints.
        result = validator.validate(
            ValidationRequest(requirements=stack.requirements, constraints=stack.lines)
        )
        reasons, superfluous = _conflicts(result, stack), _superfluous(result, stack)
    if result.no_verdict:
        return Validation(
            validator=validator.name,
            validity=Validity.UNKNOWN,
            reasons=(result.no_verdict,),
            unreachable=result.unreachable,
        )
    fails = bool(reasons or missing or superfluous)
    return Validation(
        validator=validator.name,
        validity=Validity.FAILS if fails else Validity.HOLDS,
        reasons=reasons,
        missing=missing,
        superfluous=superfluous,
    )


def _conflicts(result: ValidationResult, stack: PinnedStack) -> tuple[str, ...]:
    """Return why a validator refuses the pins, or which versions it installs in their place."""
    if result.no_verdict:
        return ()
    if result.pins is None:
        return result.refusal or ("it gives no reason",)
    pinned = dict(stack.pins)
    return tuple(
        f"it would take {name} {version} for {pinned[name]}"
        for name, version in result.pins
        if name in pinned and canonicalize_version(version) != canonicalize_version(pinned[name])
    )


def _missing(result: ValidationResult, stack: PinnedStack) -> tuple[str, ...]:
    pinned = dict(stack.pins)
    return tuple(f"{name}=={v}" for name, v in result.pins or () if name not in pinned)


def _superfluous(result: ValidationResult, stack: PinnedStack) -> tuple[str, ...]:
    if result.pins is None:
        return ()
    needed = dict(result.pins)
    return tuple(f"{name}=={version}" for name, version in stack.pins if name not in needed)


def validators(
    base: Base, config: IndexConfig, environ: Mapping[str, str], cache: Path
) -> tuple[Validator, ...]:
    """Return the validators for a base; one that does not support it is ``Unavailable``."""
    own = validator_environment(environ)
    cache.mkdir(parents=True, exist_ok=True)
    return (
        _uv(base, config, own, cache),
        _pip_tools(base, {**own, **pip_variables(config)}, cache),
    )


def validator_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables without those that change a validator's result."""
    return {key: value for key, value in environ.items() if not _OWN.match(key)}


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A validator that does not support a base, and why."""

    name: str
    why: str

    def validate(self, request: ValidationRequest) -> ValidationResult:  # noqa: ARG002
        """Return why there is no result."""
        return ValidationResult(no_verdict=self.why)


def _uv(base: Base, config: IndexConfig, own: Mapping[str, str], cache: Path) -> Validator:
    interpreter = Uv(
        python=base.python,
        environ={**own, **uv_variables(config)},
        cache=cache,
        no_index=not config.indexes,
    )
    if base.kind is EnvironmentKind.VIRTUALENV:
        return interpreter
    platform = uv_platform(base.target)
    if not platform:
        return Unavailable(interpreter.name, f"it has no name for the platform of {base.name}")
    return replace(interpreter, python=sys.executable, stated=(base.target.python, platform))


def _pip_tools(base: Base, environ: Mapping[str, str], cache: Path) -> Validator:
    pip_tools = PipTools(environ=environ, cache=cache)
    ours = probe(sys.executable)
    if base.kind is EnvironmentKind.VIRTUALENV and base.python == ours.python:
        return pip_tools
    why = f"it resolves only for the Python that runs it, which is {ours.target.python}"
    return Unavailable(pip_tools.name, why)


def uv_platform(target: Target) -> str:
    """Return uv's name of a target's platform, the newest that it has; "" where it has none."""
    for tag in target.tags:
        found = _PLATFORM.fullmatch(tag.rpartition("-")[2])
        if found and found[3]:
            return f"{found[3]}-unknown-linux-musl"
        if found and int(found[1]) in _GLIBCS:
            return f"{found[2]}-manylinux_2_{found[1]}"
    return ""


def pip_variables(config: IndexConfig) -> dict[str, str]:
    """Return the environment that lets pip look where we look.

    pip takes the best version of all indexes, not that of the first one; of pins it matters little.
    It ignores an index without TLS unless its host is called trusted.
    """
    addresses = [address_with_credentials(each) for each in config.indexes]
    origins = [each.origin for each in (*config.indexes, *config.find_links)]
    found = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_DEFAULT_TIMEOUT": f"{config.read_timeout_s:.0f}",
        "PIP_RETRIES": "2",
        "PIP_INDEX_URL": "".join(addresses[:1]),
        "PIP_EXTRA_INDEX_URL": " ".join(addresses[1:]),
        "PIP_NO_INDEX": "" if addresses else "1",
        "PIP_FIND_LINKS": " ".join(address_with_credentials(each) for each in config.find_links),
        "PIP_TRUSTED_HOST": " ".join(host for scheme, host in origins if scheme == "http"),
        "PIP_CERT": config.ca_bundle or "",
    }
    return {key: value for key, value in found.items() if value}


def _target_text(base: Base) -> str:
    python = f"Python {base.target.python}"
    return python if base.kind is EnvironmentKind.VIRTUALENV else f"{base.name} ({python})"


def _base(name: str, paths: Paths, progress: Progress, *, admits: AdmitsPython) -> Base:
    """Return what was named; never another base in its place, which would be another question.

    Without a name it is our own interpreter or, where the lock is for another, one that fits.
    """
    interpreter = not name or _PYTHON.fullmatch(name) or Path(name).is_file()
    choice = ExecutorChoice.VIRTUALENV if interpreter else ExecutorChoice.DOCKER
    with open_backend(choice, name, paths, progress, admits=admits) as backend:
        return backend.base
