"""Read the requirements and the files that a command names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stackgen.campaign.options import (
    BaselineOptions,
    ComparisonOptions,
    GoalOptions,
    IndexOptions,
    IndicatorOptions,
    RequirementOptions,
    SourceOptions,
    VariationOptions,
)
from stackgen.errors import UsageError
from stackgen.index import IndexConfig, PackageIndex, load_config
from stackgen.index.config import uv_variables
from stackgen.locks import direct, reading, requirement_files
from stackgen.locks.fields import MalformedError
from stackgen.model.choices import Prereleases
from stackgen.model.goals import read_goals
from stackgen.model.packages import RequirementsFile, Target
from stackgen.model.progress import Progress
from stackgen.resolve.candidates import Policy, moment
from stackgen.resolve.dependencies import parse_requirement
from stackgen.resolve.requirements import Requirements, parse_requirements
from stackgen.storage.paths import Paths

if TYPE_CHECKING:
    from stackgen.campaign.request import MeasurementRequest, StackRequest
    from stackgen.model.inspections import IndicatorCall

_FILES = ("pyproject.toml", "Pipfile", "Pipfile.lock", "environment.yml", "setup.py", "setup.cfg")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInput:
    """What the requirements and files of a command say.

    requirements: what stacks must satisfy.
    index: which indexes are used; those that the files name come after the command line's.
    requires_python: a specifier, or "".
    left_out: what of the files no index can provide, in words.
    lock: the file of ``--from`` where that is a lock.
    project: the packages that come from it where it is none.
    """

    requirements: Requirements
    index: IndexOptions
    requires_python: str = ""
    left_out: tuple[str, ...] = ()
    lock: Path | None = None
    project: tuple[str, ...] = ()


def read_stacks(
    given: UserInput,
    *,
    variation: VariationOptions = VariationOptions(),
    baseline: BaselineOptions = BaselineOptions(),
) -> "StackRequest":
    """Return which stacks a campaign is about."""
    from stackgen.campaign.request import StackRequest

    return StackRequest(
        requirements=given.requirements,
        project=given.project,
        lock=given.lock,
        baseline_file=baseline.baseline,
        vary=variation.vary,
        fixed=baseline.fixed,
        settings=baseline.settings,
        granularity=variation.granularity,
        completion=variation.completion,
        left_out=given.left_out,
    )


def read_measurement(
    indicators: IndicatorOptions,
    comparison: ComparisonOptions = ComparisonOptions(),
    program: "IndicatorCall | None" = None,
    goals: GoalOptions = GoalOptions(),
) -> "MeasurementRequest":
    """Return what is measured, and how it is compared."""
    from stackgen.campaign.request import MeasurementRequest

    return MeasurementRequest(
        indicators=indicators.indicators,
        parameters=indicators.parameters,
        program=program,
        weights=comparison.weights,
        margin=comparison.margin,
        goals=read_goals(goals.goals, goals.limits),
    )


def read_user_input(
    given: RequirementOptions,
    sources: SourceOptions,
    index: IndexOptions,
    environ: Mapping[str, str],
    *,
    around: Path | None = None,
) -> UserInput:
    """Read the requirements and the files that were named.

    Args:
        around: a lock, or a file of a project whose packages are in every stack.

    Raises:
        UsageError: a file or a requirement cannot be read.
    """
    lock = around if around and _is_lock(around) else None
    paths = given.files if around is None or lock else (*given.files, around)
    if (given.extras or given.groups) and not paths:
        raise UsageError(
            "--extra and --group belong to a file",
            why="no file was given that could have extras or dependency groups",
            fix='give it with -r, or write the extra behind the name: "package[extra]"',
        )
    files = [_file(path, given, environ, alone=len(paths) == 1) for path in paths]
    named = parse_requirements(*(_line(each) for each in given.requirements))
    own = files[:-1] if around and not lock else files
    lines = [line for each in own for line in each.requirements]
    project = _project_requirements(named, files[len(own) :])
    limits = [line for each in files for line in each.constraints]
    for path in given.constraints:
        limits += _limits(path, environ)
    requirements = replace(
        named,
        requirements=(*named.requirements, *map(parse_requirement, lines), *project),
        constraints=tuple(map(parse_requirement, limits)),
        overrides=tuple(map(parse_requirement, given.overrides)),
        excluded=given.excluded,
        policy=_policy(given, sources, files),
    )
    return UserInput(
        requirements=requirements,
        index=_index(index, files),
        requires_python=",".join(filter(None, (each.requires_python for each in files))),
        left_out=tuple(note for each in files for note in each.skipped),
        lock=lock,
        project=_names(project, without=named.names),
    )


def _is_lock(path: Path) -> bool:
    """Return whether a file says all versions; what may not is read as what a project requires.

    Raises:
        UsageError: it cannot be read, or is a lock that is broken.
    """
    if path.name in ("pyproject.toml", "Pipfile"):
        return False
    text = _text(str(path))
    try:
        reading.read_lock(text, path=str(path))
    except UsageError:
        if path.suffix not in (".txt", ".in"):
            raise
        return False
    return True


def _project_requirements(
    given: Requirements, files: Sequence[RequirementsFile]
) -> tuple[Requirement, ...]:
    """Return what a project requires; for what is named besides, that alone says the versions."""
    requested = (parse_requirement(line) for file in files for line in file.requirements)
    found = []
    for each in requested:
        if str(canonicalize_name(each.name)) not in given.names:
            found.append(each)
        elif each.extras:
            found.append(parse_requirement(f"{each.name}[{','.join(sorted(each.extras))}]"))
    return tuple(found)


def _names(requirements: Iterable[Requirement], *, without: Iterable[str]) -> tuple[str, ...]:
    names = (str(canonicalize_name(each.name)) for each in requirements)
    return tuple(dict.fromkeys(name for name in names if name not in set(without)))


def index_config(given: IndexOptions, environ: Mapping[str, str]) -> IndexConfig:
    """Return which indexes are used: options first, then the user's configuration.

    Raises:
        UsageError: an address or a configuration file cannot be understood.
    """
    return load_config(
        environ=environ,
        index_url=given.index_url or None,
        extra_index_urls=given.extra_index_urls,
        find_links=given.find_links,
        compare=given.compared,
        no_index=given.no_index,
        offline=given.offline,
    )


def open_index(
    config: IndexConfig, policy: Policy, target: Target, paths: Paths, progress: Progress
) -> PackageIndex:
    """Open the indexes; metadata is built of the sources that the policy allows to be built."""
    builder = None
    if policy.allow_build:
        from stackgen.images.metadata_builds import SandboxMetadataBuilder  # slow to load

        builder = SandboxMetadataBuilder(
            target=target,
            allowed=policy.allow_build,
            environ=uv_variables(config),
            scratch=paths.cache,
            progress=progress,
        )
    return PackageIndex(config, paths.cache, builder=builder)


def beside_compared(request: Requirements, config: IndexConfig) -> Requirements:
    """Return a request that takes the files of compared indexes beside those of the others."""
    compared = frozenset(each.name for each in config.compared)
    return replace(request, policy=replace(request.policy, compared=compared))


def _policy(
    given: RequirementOptions, sources: SourceOptions, files: Sequence[RequirementsFile]
) -> Policy:
    allowed = any(each.index_options.prereleases for each in files)
    return Policy(
        prereleases=Prereleases.ALLOW if allowed else given.prereleases,
        newest_upload=_moment(given.exclude_newer),
        allow_build=frozenset(str(canonicalize_name(name)) for name in sources.allow_build),
    )


def _moment(text: str) -> str | None:
    if text and moment(text) is None:
        raise UsageError(
            f"cannot read the date {text!r}",
            why="it is no ISO 8601 date or moment",
            fix="write it as in: --exclude-newer 2024-06-30, or 2024-06-30T12:00:00Z",
        )
    return text or None


def _index(given: IndexOptions, files: Sequence[RequirementsFile]) -> IndexOptions:
    """Return the command line's own options, and those of the files after them."""
    options = [each.index_options for each in files]
    return replace(
        given,
        index_url=given.index_url or next((o.index_url for o in options if o.index_url), ""),
        extra_index_urls=(
            *given.extra_index_urls,
            *(url for each in options for url in each.extra_index_urls),
        ),
        find_links=(*given.find_links, *(url for each in options for url in each.find_links)),
        no_index=given.no_index or any(each.no_index for each in options),
    )


def _file(
    path: Path, given: RequirementOptions, environ: Mapping[str, str], *, alone: bool
) -> RequirementsFile:
    """Read a file; extras and groups are for those of several files that can have some."""
    return requirement_files.read_requirements_file(
        _text(str(path)),
        path=str(path),
        extras=given.extras if alone or path.suffix == ".toml" else (),
        groups=given.groups if alone or path.suffix == ".toml" or path.name == "Pipfile" else (),
        read=_text,
        environ=environ,
        folder=str(Path.cwd()),
    )


def _limits(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    text = _text(str(path))
    return requirement_files.constraints_in(
        text, path=str(path), read=_text, environ=environ, folder=str(Path.cwd())
    )


def _line(text: str) -> str:
    """Return a requirement as PEP 508 says it; a path of a wheel becomes ``name @ URL``.

    Raises:
        UsageError: it is a file that names requirements, or no such wheel.
    """
    if Path(text).name in _FILES or text.endswith((".txt", ".toml", ".in")):
        raise UsageError(
            f"{text} is a file, and a requirement was expected",
            why="files of requirements have an option of their own",
            fix=f"give it as in: -r {text} (a lock that explore starts from: --from {text})",
        )
    if not text.endswith(".whl") or "@" in text:
        return text
    try:
        found = direct.from_place(text, folder=str(Path.cwd()))
    except MalformedError as error:
        raise UsageError(
            f"cannot take {text}", why=str(error), fix="check the name of the wheel"
        ) from error
    assert isinstance(found, str)  # noqa: S101 # it ends as a wheel does
    return found


def _text(path: str) -> str:
    fix = "give the path of a requirements file, a pyproject.toml or a Pipfile"
    return read_user_file(Path(path), fix=fix)


def read_user_file(path: Path, *, fix: str) -> str:
    """Return the text of a user's file.

    Raises:
        UsageError: it cannot be read; ``fix`` says what helps.
    """
    try:
        return reading.decode_text(path.read_bytes())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}", why=why, fix=fix) from error
