"""Do uv and pip say what we say? Versions pinned at random, in several closures and Pythons.

python benchmarks/agreement.py [--choices N] [--seed S] [--offline-validator] [--offline]

Each closure is resolved once per Python. Then versions of two or three of its packages are pinned
at random, and three things are compared: whether uv finds a stack with these pins where we do;
whether uv takes our newest completion, given as pins, unchanged; and what ``pip check`` says of it,
installed as bare metadata. Exit code 1: no known difference explains some disagreement.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_version
from uv import find_uv_bin

from stackgen.commands.verify import validator_environment
from stackgen.errors import ResolutionError
from stackgen.images.targets import find_interpreters, probe
from stackgen.index import IndexConfig, PackageIndex, load_config
from stackgen.index.closure import resolve
from stackgen.index.config import uv_variables
from stackgen.model.packages import Lock, Release, Target
from stackgen.model.stacks import Base
from stackgen.provenance.validators import Uv, ValidationRequest, ValidationResult, Validator
from stackgen.resolve.dependencies import base_name
from stackgen.resolve.requirements import parse_requirements
from stackgen.resolve.space import Space
from stackgen.storage.paths import find_paths

CLOSURES = (
    ("tensorflow>=2.7", "numpy"),
    ("torch", "numpy"),
    ("scikit-learn", "pandas[performance]"),
    ("transformers[torch]",),
    ("dask[dataframe]", "xarray"),
)
PYTHONS = ("3.9", "3.11", "3.12")
_TRIES = 20

Pins = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One closure on one Python, resolved.

    names: of packages with several versions, any of which may be pinned.
    always: packages that every stack of the space holds.
    """

    requirements: tuple[str, ...]
    base: Base
    space: Space
    names: tuple[str, ...]
    always: frozenset[str]

    def __str__(self) -> str:
        return f"{', '.join(self.requirements)} on Python {self.base.target.python_minor}"

    def newest(self, pins: Pins) -> Lock | None:
        """Return our newest stack with these pins; ``==2.1`` admits 2.1+cpu, too, as in PEP 440."""
        return self.space.newest({name: tuple(self._meant(name, v)) for name, v in pins})

    def _meant(self, name: str, version: str) -> Iterator[str]:
        every = (each.version for each in self.space.universe.releases[name])
        return SpecifierSet(f"=={version}", prereleases=True).filter(every)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A different result of a validator; ``cause`` names the known difference for it, or ""."""

    case: str
    pins: Pins
    what: str
    cause: str = ""

    def __str__(self) -> str:
        pins = ", ".join(f"{name} {version}" for name, version in self.pins)
        return f"{self.case}: {pins}\n    {self.what}\n    cause: {self.cause or 'UNKNOWN'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found for one choice; seconds of ours, of uv's verdict, and of pip's check."""

    satisfiable: bool
    disagreements: tuple[Disagreement, ...]
    ours_s: float
    uv_s: float
    pip_s: float | None = None


# Choices.


def space_of(index: PackageIndex, requirements: Sequence[str], target: Target) -> Space:
    """Resolve a closure; the only place that knows how."""
    return resolve(index, parse_requirements(*requirements), target)


def case_of(index: PackageIndex, requirements: tuple[str, ...], base: Base) -> Case:
    """Resolve a closure on a Python, and find what can be pinned."""
    space = space_of(index, requirements, base.target)
    names = tuple(name for name in space.packages if len(space.versions(name)) > 1)
    always = frozenset(name for name in names if space.newest({name: ()}) is None)
    return Case(requirements=requirements, base=base, space=space, names=names, always=always)


def choices(case: Case, generator: random.Random, wanted: int) -> tuple[Pins, ...]:
    """Return different choices of two or three pins, as many as wanted if there are so many.

    Any version of the closure may come, also one that no stack can hold. Most random pins go
    together, so half of the choices are drawn until we find them contradictory, and a quarter
    until we find them satisfiable; what uv says of either has no part in it.
    """
    found: dict[Pins, None] = {}
    for _ in range(_TRIES * wanted):
        if len(found) == wanted:
            break
        sought = generator.choice((False, False, True, None))
        for _ in range(_TRIES):
            pins = _pins(case, generator)
            if sought is None or (case.newest(pins) is not None) == sought:
                found[pins] = None
                break
    return tuple(found)


def _pins(case: Case, generator: random.Random) -> Pins:
    """Return random versions of two or three packages, one of which requires the next, if any."""
    universe = case.space.universe
    first = generator.choice(case.names)
    needs = {base_name(need.package) for each in universe.needs[first] for need in each}
    near = sorted(needs & set(case.names)) or case.names
    others = generator.sample(case.names, min(2, len(case.names)))
    names = dict.fromkeys([first, generator.choice(near), *others])
    chosen = list(names)[: generator.choice((2, 3))]
    return tuple(
        sorted((name, generator.choice(universe.releases[name]).version) for name in chosen)
    )


# Validators.


def uv_validator(base: Base, config: IndexConfig, folder: Path, *, offline: bool) -> Uv:
    """Return uv, which asks the index for each page and each metadata once."""
    file = folder / "uv.toml"
    # An old-fashioned index says nothing of how long its pages are good for, so that uv would
    # load all of them for each of a thousand questions.
    retained = 'cache-control = { api = "max-age=86400", files = "max-age=31536000, immutable" }'
    *first, last = [each.url for each in config.indexes]
    entries = [f'[[index]]\nurl = "{url}"\n{retained}\n' for url in first]
    entries += [f'[[index]]\nurl = "{last}"\ndefault = true\n{retained}\n']
    file.write_text("".join(entries), encoding="utf-8")
    variables = uv_variables(config)
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_NO_CONFIG"):
        variables.pop(name, None)
    variables |= {"UV_CONFIG_FILE": str(file), **({"UV_OFFLINE": "1"} if offline else {})}
    environ = validator_environment(os.environ) | variables
    return Uv(python=base.python, environ=environ, cache=folder)


class PipCheck:
    """``pip check`` over stacks that are installed as bare metadata in one virtualenv."""

    def __init__(self, base: Base, folder: Path) -> None:
        self._base = base
        environment = folder / f"venv-{base.target.python}"
        command = [find_uv_bin(), "venv", "--quiet", "--clear", "--python", base.python]
        subprocess.run([*command, str(environment)], check=True)
        self._python = environment / "bin" / "python"
        self._site = next(environment.glob("lib/*/site-packages"))

    def complaints(self, releases: Iterable[Release]) -> tuple[str, ...]:
        """Return what pip has against a stack, line by line."""
        for old in self._site.glob("*.dist-info"):
            shutil.rmtree(old)
        for release in releases:
            self._install(release)
        # The interpreter's own pip: the newest pip does not run on every Python.
        command = [self._base.python, "-m", "pip", "--disable-pip-version-check"]
        command += ["--python", str(self._python), "check"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ()
        return tuple((done.stdout or done.stderr).strip().splitlines())

    def _install(self, release: Release) -> None:
        name = release.name.replace("-", "_")
        folder = self._site / f"{name}-{release.version}.dist-info"
        folder.mkdir()
        head = ["Metadata-Version: 2.1", f"Name: {release.name}", f"Version: {release.version}"]
        lines = [*head, *(f"Requires-Dist: {line}" for line in release.requires_dist), ""]
        (folder / "METADATA").write_text("\n".join(lines), encoding="utf-8")
        parts = release.artifact.filename.removesuffix(".whl").split("-")[-3:]
        tags = product(*(part.split(".") for part in parts))
        wheel = ["Wheel-Version: 1.0", *(f"Tag: {'-'.join(tag)}" for tag in tags), ""]
        (folder / "WHEEL").write_text("\n".join(wheel), encoding="utf-8")


# Comparison.


def outcome(case: Case, pins: Pins, uv: Validator, pip: PipCheck) -> Outcome:
    """Ask everybody about one choice."""
    start = time.perf_counter()
    lock = case.newest(pins)
    ours_s, start = time.perf_counter() - start, time.perf_counter()
    result = uv.validate(_request(case, pins))
    uv_s = time.perf_counter() - start
    if result.no_verdict:
        raise SystemExit(f"uv gives no verdict: {result.no_verdict}")
    found = list(_verdicts(case, pins, lock, result))
    pip_s = None
    if lock is not None:
        found += _accepted(case, pins, lock, uv)
        start = time.perf_counter()
        complaints = pip.complaints(_releases(case, lock))
        pip_s = time.perf_counter() - start
        found += [_disagreement(case, pins, f"pip check: {each}") for each in complaints]
    return Outcome(
        satisfiable=lock is not None,
        disagreements=tuple(found),
        ours_s=ours_s,
        uv_s=uv_s,
        pip_s=pip_s,
    )


def _request(case: Case, pins: Pins) -> ValidationRequest:
    """Return the question to uv: a pin requires a package only where every stack holds it.

    As a requirement, a pin would bring a package into stacks that do without it, which are no
    stacks of the space: it would be another question.
    """
    required = [f"{name}=={version}" for name, version in pins if name in case.always]
    bound = [f"{name}=={version}" for name, version in pins if name not in case.always]
    return ValidationRequest(requirements=(*case.requirements, *required), constraints=tuple(bound))


def _verdicts(
    case: Case, pins: Pins, lock: Lock | None, result: ValidationResult
) -> Iterator[Disagreement]:
    if lock is None and result.pins is not None:
        cause = _left_out(case, result.pins)
        yield _disagreement(case, pins, "we find no stack, uv does", cause)
    if lock is not None and result.pins is None:
        yield _disagreement(case, pins, f"we find a stack, uv does not: {' '.join(result.refusal)}")


def _accepted(case: Case, pins: Pins, lock: Lock, uv: Validator) -> Iterator[Disagreement]:
    whole = tuple(f"{name}=={version}" for name, version in lock.versions.items())
    result = uv.validate(ValidationRequest(requirements=(*case.requirements, *whole)))
    if result.pins is None:
        why = result.no_verdict or " ".join(result.refusal)
        yield _disagreement(case, pins, f"uv refuses our newest stack: {why}")
    elif differences := _differences(lock.versions, dict(result.pins)):
        yield _disagreement(case, pins, f"uv changes our newest stack: {'; '.join(differences)}")


def _differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    names = sorted(ours.keys() | theirs.keys())
    pairs = [(name, ours.get(name, "absent"), theirs.get(name, "absent")) for name in names]
    return tuple(
        f"{name} {a} / {b}"
        for name, a, b in pairs
        if canonicalize_version(a) != canonicalize_version(b)
    )


def _left_out(case: Case, theirs: Pins) -> str:
    """Return why we leave out a release that uv takes; "" where we take all of them, too."""
    universe = case.space.universe
    for name, version in theirs:
        known = {canonicalize_version(each.version) for each in universe.releases.get(name, ())}
        if canonicalize_version(version) in known:
            continue
        for each in universe.excluded.get(name, ()):
            if canonicalize_version(each.version) == canonicalize_version(version):
                return f"uv takes {name} {version}, which we leave out: {each.reason}"
    return ""


def _disagreement(case: Case, pins: Pins, what: str, cause: str = "") -> Disagreement:
    return Disagreement(case=str(case), pins=pins, what=what, cause=cause)


def _releases(case: Case, lock: Lock) -> Iterator[Release]:
    for name, version in lock.versions.items():
        releases = case.space.universe.releases[name]
        yield next(each for each in releases if each.version == version)


# The run.


def cases(
    index: PackageIndex, pythons: Sequence[str], closures: Collection[tuple[str, ...]]
) -> Iterator[Case]:
    """Yield every closure on every Python that is here; say which cannot be had."""
    probed = [probe(path) for path in find_interpreters()]
    by_minor = {each.target.python_minor: each for each in reversed(probed)}
    for minor in pythons:
        if minor not in by_minor:
            print(f"left out: Python {minor} is not installed here")
        for requirements in closures if minor in by_minor else ():
            start = time.perf_counter()
            try:
                case = case_of(index, requirements, by_minor[minor])
            except ResolutionError as error:
                print(f"left out: {', '.join(requirements)} on Python {minor}: {error.what}")
                continue
            took = time.perf_counter() - start
            if not case.space.exact:
                print(f"left out: {case}: the space is cut, and its verdicts are bounds")
                continue
            print(
                f"{case}: {case.space.count:.3g} stacks, {len(case.names)} packages, {took:.1f} s"
            )
            yield case


def report(found: Sequence[Outcome]) -> int:
    """Print the figures of all choices; return the exit code."""
    satisfiable = sum(each.satisfiable for each in found)
    disagreements = [each for one in found for each in one.disagreements]
    ours = statistics.median(each.ours_s for each in found)
    theirs = statistics.median(each.uv_s for each in found)
    checks = [each.pip_s for each in found if each.pip_s]
    unknown = sum(not each.cause for each in disagreements)
    print(f"choices               {len(found)}")
    print(f"satisfiable           {satisfiable}")
    print(f"not satisfiable       {len(found) - satisfiable}")
    print(f"stacks given whole    {len(checks)} to uv and to pip check")
    print(f"disagreements         {len(disagreements)}, {unknown} of unknown cause")
    print(f"ours, per choice      {ours * 1000:8.2f} ms (median)")
    print(
        f"uv, per choice        {theirs * 1000:8.2f} ms (median), {theirs / ours:,.0f} times ours"
    )
    if checks:
        print(f"pip check, per stack  {statistics.median(checks) * 1000:8.2f} ms (median)")
    return int(unknown > 0)


def run(
    wanted: int,
    seed: int,
    *,
    offline_validator: bool = False,
    offline: bool = False,
    pythons: Sequence[str] = PYTHONS,
    closures: Collection[tuple[str, ...]] = CLOSURES,
) -> list[Outcome]:
    """Compare as many choices as wanted, spread evenly over closures and Pythons."""
    config, cache = load_config(environ=os.environ, offline=offline), find_paths(os.environ).cache
    folder = cache / "validators"
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Outcome] = []
    with PackageIndex(config, cache) as index, tempfile.TemporaryDirectory() as scratch:
        every = list(cases(index, pythons, closures))
        checks = {each.base.python: PipCheck(each.base, Path(scratch)) for each in every}
        for number, case in enumerate(every):
            share = (wanted - len(found)) // (len(every) - number)
            uv = uv_validator(case.base, config, folder, offline=offline_validator)
            pip = checks[case.base.python]
            pinned = choices(case, random.Random(f"{seed} {case}"), share)
            local = [outcome(case, pins, uv, pip) for pins in pinned]
            satisfiable = sum(each.satisfiable for each in local)
            wrong = [each for one in local for each in one.disagreements]
            print(f"{case}: {len(local)} choices, {satisfiable} satisfiable")
            print(*wrong, sep="\n", end="\n" if wrong else "")
            found += local
    return found


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description="agreement with uv and pip")
    parser.add_argument("--choices", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--offline-validator", action="store_true", help="uv answers from its cache"
    )
    parser.add_argument("--offline", action="store_true", help="so do we")
    wanted = parser.parse_args()
    found = run(
        wanted.choices,
        wanted.seed,
        offline_validator=wanted.offline_validator,
        offline=wanted.offline,
    )
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
