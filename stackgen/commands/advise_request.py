"""What is to be advised on, and the command line that asks for it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stackgen.campaign.options import IndexOptions, IndicatorOptions, SourceOptions, TargetOptions
from stackgen.commands.options import AdviceOptions, MeasureOptions, VulnerabilityOptions
from stackgen.errors import UsageError
from stackgen.locks.direct import without_credentials
from stackgen.model.choices import AdviceType, AuditService, ExecutorChoice

ADVISE = "advise"
"""The kind of the campaigns that decide an advice (``stackgen.commands.advise_measure``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseRequest:
    """What is to be advised on, once the command line was read.

    path: of the lock file, or of an environment whose installed packages are the lock.
    new: another lock that is compared with it; None where versions are to be recommended.
    sources: of which packages metadata may be built.
    explain: down to raw samples.
    """

    path: Path
    new: Path | None = None
    environment: bool = False
    options: AdviceOptions = AdviceOptions()
    sources: SourceOptions = SourceOptions()
    index: IndexOptions = IndexOptions()
    vulnerabilities: VulnerabilityOptions = VulnerabilityOptions()
    measure: MeasureOptions = MeasureOptions()
    indicators: IndicatorOptions = IndicatorOptions()
    target: TargetOptions = TargetOptions()
    explain: bool = False

    def __post_init__(self) -> None:
        if self.options.kind is AdviceType.SECURITY and not self.vulnerabilities.requested:
            raise UsageError(
                "--type security has nothing to search for vulnerabilities",
                why="neither --osv nor --audit was given",
                fix="run: stackgen advise LOCK --type security --osv DIR",
            )
        latest = self.options.kind is AdviceType.LATEST
        if self.environment and (latest or self.measure.budget_s is not None):
            raise UsageError(
                "an environment can be advised on from what is known alone",
                why=f"{'--type latest resolves' if latest else '--measure installs'} a lock file",
                fix="write one first: PYTHON -m pip freeze > requirements.txt",
            )


def measure_command(request: AdviseRequest, admitting: str, base: str, minutes: int) -> str:
    """Return the command that measures what would decide, with all options of a request.

    admitting: an option that is needed beside those; "" for none. base: for --base, too.
    minutes: its budget.
    """
    options, risks, index = request.options, request.vulnerabilities, request.index
    executor = request.target.executor
    valued: list[tuple[str, Iterable[object]]] = [
        ("--python", [options.python]),
        ("--type", [options.kind.value] * (options.kind is not AdviceType.PERFORMANCE)),
        ("--allow-build", request.sources.allow_build),
        ("--osv", [risks.osv or ""]),
        ("--audit", [risks.audit.value] * (risks.audit is not AuditService.NONE)),
        ("--osv-url", [risks.osv_url]),
        ("--pi", request.indicators.indicators),
        ("--param", [f"{name}={value}" for name, value in request.indicators.parameters]),
        ("--base", [request.target.base or base]),
        ("--executor", [executor.value] * (executor is not ExecutorChoice.AUTO)),
        ("--index-url", [without_credentials(index.index_url)]),
        ("--extra-index-url", map(without_credentials, index.extra_index_urls)),
        ("--find-links", map(without_credentials, index.find_links)),
        ("--compare-index", map(without_credentials, index.compared)),
    ]
    flags = {
        "--allow-major": options.allow_major,
        "--allow-downgrade": options.allow_downgrade,
        "--allow-vulnerable": options.allow_vulnerable,
        "--no-index": index.no_index,
    }
    words = ["stackgen", "advise", str(request.path), *([str(request.new)] if request.new else [])]
    words += ["--measure", f"{minutes}m"]
    words += [word for each in options.only for word in ("--only", each)]
    words += [word for each in options.keep for word in ("--keep", each)]
    words += [flag for flag, given in flags.items() if given]
    words += [word for name, values in valued for v in values if v for word in (name, str(v))]
    return shlex.join([*words, *filter(None, [admitting])])
