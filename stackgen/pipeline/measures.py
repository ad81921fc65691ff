"""Which indicators a campaign runs, and under which limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from stackgen.errors import UsageError
from stackgen.executors.indicator_files import load_indicators
from stackgen.indicators import bind, find
from stackgen.pipeline.options import ExploreOptions
from stackgen.pipeline.selection import FRAMEWORKS
from stackgen.resources import folder
from stackgen.values import Indicator, IndicatorCall, IndicatorId, Limits

CONTROL = "python/pure"
DEFAULT = "matmul"
_LEFT_TO_OTHERS = 8  # one part in so many of the memory


def shipped_indicators() -> tuple[Indicator, ...]:
    """Return the indicators that travel with stackgen."""
    return load_indicators(folder("pis"))


def indicator_calls(
    options: ExploreOptions, varied: tuple[str, ...], packages: frozenset[str]
) -> tuple[tuple[IndicatorCall, ...], IndicatorCall]:
    """Return the calls that the user wants to know, and the control.

    Args:
        options: what was asked for.
        varied: the packages that vary; they decide what a bare name means.
        packages: everything that stacks may contain.

    A bare name (``matmul``) means that of the framework which is varied.

    Raises:
        UsageError: there is no such indicator or parameter, or a value is not allowed.
    """
    component = component_of(varied, packages)
    if component == "python" and not options.indicators and options.program is None:
        raise UsageError(
            "there is no indicator for these packages",
            why=f"stackgen measures {', '.join(FRAMEWORKS)} and numpy by itself",
            fix="say what to measure: --pi (stackgen pis lists them, or give your own file), or a "
            'command of yours: --pi-command "python train.py"',
        )
    wanted = options.indicators or ((DEFAULT,) if options.program is None else ())
    own = {Path(each).stem: Path(each) for each in wanted if each.endswith(".py")}
    known = load_indicators(folder("pis"), own.values())
    here = {"torch" if each == "torch" else "tensorflow" for each in packages & set(FRAMEWORKS)}
    here |= packages & {"numpy"}
    threads = limits(options.threads, among=options.measure_cpus).threads
    calls = [] if options.program is None else [_on(options.program, threads)]
    for name in wanted:
        indicator = _named(known, name, component)
        if indicator.component in {"tensorflow", "torch", "numpy"} - here:
            raise UsageError(
                f"{indicator.name} cannot run in these stacks",
                why=f"none of them contains {indicator.component}",
                fix=f'ask for it as well: stackgen explore ... "{indicator.component}"',
            )
        calls.append(bind(indicator, _given(indicator, options, threads)))
    found = find(known, CONTROL)
    control = bind(found, _threads_of(found, threads))
    if any(call.id == control.id for call in calls):
        raise UsageError(
            f"{CONTROL} is the control of every exploration",
            why="it runs as such anyway, and shows that a comparison of it would be of noise alone",
            fix="choose another indicator with --pi (stackgen pis lists them), or its work: "
            f"--pi {CONTROL} --param rounds=NUMBER",
        )
    return tuple(calls), control


def _named(known: Iterable[Indicator], name: str, component: str) -> Indicator:
    """Return an indicator; a file of the user's own may be called like one of ours."""
    if not name.endswith(".py"):
        return find(known, name, component)
    own = str(Path(name).resolve())
    found = next((each for each in known if each.path == own), None)
    if found is None:  # indicators are known by their files' names
        raise UsageError(
            f"several files are called {Path(name).name}",
            why="an indicator of your own is known by its file's name",
            fix="give one of them another name",
        )
    return found


def weights_of(
    given: Iterable[tuple[str, float]], calls: Sequence[IndicatorCall]
) -> Mapping[IndicatorId, float]:
    """Return the weight of each call whose indicator was given one.

    Args:
        given: weights by an indicator's name (``tensorflow/matmul``), the end of it (``matmul``),
            or a file of the user's own.
        calls: what is measured; all calls of one indicator share its weight.

    Raises:
        UsageError: what is given a weight is not measured, or could be several indicators.
    """
    found: dict[IndicatorId, float] = {}
    measured = sorted({call.indicator.name for call in calls})
    for name, weight in given:
        wanted = Path(name).stem if name.endswith(".py") else name
        meant = [each for each in measured if each == wanted]
        meant = meant or [each for each in measured if each.rpartition("/")[2] == wanted]
        if len(meant) != 1:
            several = f"it could be {' or '.join(meant)}" if meant else "it is not measured here"
            raise UsageError(
                f"cannot give {name} a weight",
                why=several,
                fix=f"name one of what is measured: {', '.join(measured)}",
            )
        found |= {call.id: weight for call in calls if call.indicator.name == meant[0]}
    return found


def component_of(varied: tuple[str, ...], packages: frozenset[str]) -> str:
    """Return whose speed is in question: the varied framework's, any framework's, or numpy's."""
    for name in (*varied, *sorted(packages)):
        if name in FRAMEWORKS:
            return "torch" if name == "torch" else "tensorflow"
    return "numpy" if "numpy" in packages else "python"


def limits(threads: int, gpus: str = "", *, among: Sequence[int] = ()) -> Limits:
    """Return what every inspection may use: by default all cores but one, the last ones, no GPU.

    Args:
        threads: how many; 0 takes all CPUs but one, or all that are given.
        gpus: which it sees.
        among: CPUs that were set aside for it; the last ones of them are taken.

    Of the memory, what the system and stackgen need is left, lest the kernel ends those instead.

    Source: MEASUREMENT.md, point 4 (contention changes rankings) and 5 (cpusets, no quotas).
    """
    cpus = sorted(among) or usable_cpus()
    count = threads or (len(among) or max(1, len(cpus) - 1))
    memory = psutil.virtual_memory().total
    return Limits(
        threads=count,
        cpus=tuple(cpus[-count:]) if _can_be_bound() else (),
        memory_bytes=memory - memory // _LEFT_TO_OTHERS,
        gpus=gpus,
    )


def usable_cpus() -> list[int]:
    """Return the numbers of the CPUs that this machine has for us."""
    if _can_be_bound():
        return sorted(psutil.Process().cpu_affinity())
    return list(range(psutil.cpu_count() or 1))


def _can_be_bound() -> bool:
    return hasattr(psutil.Process, "cpu_affinity")


def _given(indicator: Indicator, options: ExploreOptions, threads: int) -> dict[str, str]:
    """Return the parameters given that this indicator has; with one indicator, all of them."""
    names = {each.name for each in indicator.parameters}
    alone = len(options.indicators) <= 1
    given = {name: value for name, value in options.parameters if alone or name in names}
    return _threads_of(indicator, threads) | given


def _on(program: IndicatorCall, threads: int) -> IndicatorCall:
    return replace(program, arguments=(*program.arguments, ("threads", str(threads))))


def _threads_of(indicator: Indicator, threads: int) -> dict[str, str]:
    known = any(each.name == "threads" for each in indicator.parameters)
    return {"threads": str(threads)} if known else {}
