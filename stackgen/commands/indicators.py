"""Measure an indicator here and now, in an interpreter as it is; only the report remains."""

import itertools
import math
import os
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from stackgen import interrupts
from stackgen.campaign.host import Host
from stackgen.campaign.indicators import known_indicators, limits
from stackgen.commands.options import DEFAULT_SAMPLES, LocalRunOptions
from stackgen.errors import UsageError
from stackgen.executors.local import LocalExecutor, passed_variables
from stackgen.executors.machine import any_gpu, find_gpus, this_host, this_machine
from stackgen.images.targets import Probe, facts_from_probe, run_probe
from stackgen.indicators.declaration import bind, find
from stackgen.measure.figures import figures
from stackgen.model.identity import CampaignId
from stackgen.model.inspections import Indicator, IndicatorCall, Inspection, InspectionPlan
from stackgen.model.packages import Lock
from stackgen.model.progress import Progress
from stackgen.model.reports.local import LocalReport, LocalResult
from stackgen.model.stacks import Environment, EnvironmentKind, Stack
from stackgen.storage.files import file_sha256
from stackgen.storage.paths import Paths

MOST_CALLS = 300
_CAMPAIGN = CampaignId("here")  # no campaign: nothing of it goes into a knowledge base


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunRequest:
    """What ``stackgen pi run`` measures.

    indicator: its name, or the path of a file of the user's own.
    parameters: names with the values of each; every combination is measured.
    """

    indicator: str
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    options: LocalRunOptions = LocalRunOptions()


def measure_locally(
    request: LocalRunRequest, paths: Paths, environ: Mapping[str, str], progress: Progress
) -> LocalReport:
    """Measure every combination of parameters, each in fresh processes in random order.

    Ctrl-C ends it with what was measured so far.

    Raises:
        UsageError: there is no such indicator, parameter or interpreter, or too many combinations.
        BuildError: the interpreter does not run.
        StorageError: the scratch folder cannot be written.
    """
    indicator = find_indicator(request.indicator)
    calls = calls_of(indicator, request.parameters)
    python = _interpreter(request.options.python, environ)
    found = run_probe(python)
    machine = this_machine()
    options = request.options
    options = replace(options, gpus=gpus_seen(options.gpus, present=any_gpu(find_gpus())))
    report = LocalReport(
        indicator=indicator,
        script_sha256=file_sha256(Path(indicator.path)),
        python=python,
        python_version=f"{found.implementation} {found.version}",
        machine=machine,
        host=this_host(),
        results=(),
        varied=tuple(name for name, values in request.parameters if len(set(values)) > 1),
        variables=tuple(passed_variables(environ)),
        traces=str(options.trace.absolute()) if options.trace else "",
        began_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    )
    scratch = paths.cache / "scratch"
    executor = LocalExecutor(machine=machine, scratch=scratch, environ=environ, trace=options.trace)
    with closing(executor):
        session = _PiSession(
            executor=executor,
            environment=_environment(python, found),
            host=Host(cache=paths.cache),
            options=options,
            progress=progress,
        )
        try:
            session.run(calls)
            interrupted = False
        except KeyboardInterrupt:
            interrupts.refuse_second()
            interrupted = True
    return replace(report, results=session.results(calls), interrupted=interrupted)


def find_indicator(name: str) -> Indicator:
    """Return an indicator by its name, or the user's own where a ``.py`` file is named.

    Raises:
        UsageError: there is none, or the file is not one.
    """
    if not name.endswith(".py"):
        return find(known_indicators(), name)
    path = Path(name).resolve()
    return next(each for each in known_indicators([path]) if each.path == str(path))


def calls_of(
    indicator: Indicator, parameters: Sequence[tuple[str, tuple[str, ...]]]
) -> tuple[IndicatorCall, ...]:
    """Return one call for each combination of values, those of the last parameter next to another.

    Raises:
        UsageError: a parameter or a value that it does not take, or too many combinations.
    """
    known = {each.name for each in indicator.parameters}
    unknown = [name for name, _ in parameters if name not in known]
    if unknown:
        raise UsageError(
            f"{indicator.name} has no parameter {unknown[0]!r}",
            why=f"it takes {', '.join(sorted(known))}",
            fix=f"see what each one means: stackgen pis {indicator.name}",
        )
    automatic = {"threads": {"auto": str(limits(0).threads)}}
    values = [
        tuple(dict.fromkeys(automatic.get(name, {}).get(each, each) for each in given))
        for name, given in parameters
    ]
    count = math.prod(map(len, values))
    if count > MOST_CALLS:
        raise UsageError(
            f"{count} combinations are too many",
            why=f"each one is a process of its own, and more than {MOST_CALLS} take hours",
            fix="name fewer values",
        )
    names = [name for name, _ in parameters]
    chosen = (dict(zip(names, each, strict=True)) for each in itertools.product(*values))
    threads = {"threads": automatic["threads"]["auto"]}
    return tuple(bind(indicator, threads | each) for each in chosen)


def gpus_seen(requested: str, *, present: bool) -> str:
    """Return which GPUs processes see: where there is none, a limit of memory holds as well."""
    return "" if requested == "all" and not present else requested


def _interpreter(requested: str, environ: Mapping[str, str]) -> str:
    """Return the path of an interpreter, links left alone: a virtualenv's python is one."""
    if not requested:
        return sys.executable
    path = Path(requested).expanduser()
    within = [path / "bin" / "python", path / "python"] if path.is_dir() else [path]
    found = next((str(each.absolute()) for each in within if os.access(each, os.X_OK)), None)
    if found is None and os.sep not in requested:
        found = shutil.which(requested, path=environ.get("PATH"))
    if found is None:
        raise UsageError(
            f"there is no interpreter {requested}",
            why="it is no program, no folder of a virtualenv, and no name on PATH",
            fix="give the path of its python, as in: --python ~/envs/mine/bin/python",
        )
    return found


def _environment(python: str, found: Probe) -> Environment:
    """Return the interpreter as an environment; which packages it has is not described."""
    stack = Stack(lock=Lock(artifacts=()), facts=facts_from_probe(found))
    return Environment(
        stack=stack, kind=EnvironmentKind.VIRTUALENV, location=found.prefix, python=python
    )


@dataclass(slots=True, kw_only=True)
class _PiSession:
    """The processes of one run."""

    executor: LocalExecutor
    environment: Environment
    host: Host
    options: LocalRunOptions
    progress: Progress
    seen: dict[str, list[Inspection]] = field(default_factory=dict)

    def run(self, calls: Sequence[IndicatorCall]) -> None:
        """Run each call in so many processes, each block of them in another order.

        What failed once is not run again: it would fail again.
        """
        shuffle = random.Random(self.options.seed)  # noqa: S311 # no secret
        for block in range(self.options.repeats):
            order = list(calls)
            shuffle.shuffle(order)
            for position, call in enumerate(order):
                ran = self.seen.setdefault(call.id, [])
                if any(each.observation is None for each in ran):
                    continue
                done = block * len(calls) + position
                total = self.options.repeats * len(calls)
                self.progress.doing(f"measuring {call.label}", done=done, total=total)
                plan = self._plan(call, block, position, ran)
                with self.host.measuring(self.progress):
                    ran.extend(self.executor.inspect([plan]))

    def results(self, calls: Sequence[IndicatorCall]) -> tuple[LocalResult, ...]:
        """Return what was seen of each call, in the order of the calls."""
        results = (
            LocalResult(arguments=call.arguments, figures=None, inspections=tuple(ran))
            for call in calls
            if (ran := self.seen.get(call.id))
        )
        return tuple(replace(each, figures=figures(each.observations)) for each in results)

    def _plan(
        self, call: IndicatorCall, block: int, position: int, ran: Sequence[Inspection]
    ) -> InspectionPlan:
        first = ran[0].observation if ran else None
        threads = int(dict(call.arguments).get("threads", "0"))
        allowed = limits(threads, self.options.gpus)
        factor = max(1.0, self.options.samples / DEFAULT_SAMPLES)
        return InspectionPlan(
            environment=self.environment,
            call=call,
            campaign_id=_CAMPAIGN,
            limits=replace(allowed, timeout_s=call.indicator.timeout_s * factor),
            block=block,
            position=position,
            loops=first.loops if first and not call.indicator.one_shot else None,
            samples=self.options.samples,
        )
