"""Which indicators there are, which of them a campaign runs, and under which limits."""

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import psutil

from stackgen.campaign.candidates import FRAMEWORKS
from stackgen.campaign.request import CampaignRequest
from stackgen.errors import UsageError
from stackgen.indicators.declaration import (
    Script,
    bind,
    find,
    has_table,
    is_called,
    parse_indicator,
    parse_table,
)
from stackgen.measure.cost import AtCount
from stackgen.model import toml
from stackgen.model.identity import IndicatorId
from stackgen.model.inspections import Indicator, IndicatorCall, Limits
from stackgen.model.reports.campaigns import Prices
from stackgen.storage.paths import shipped_folder

CONTROL = "python/pure"
DEFAULT = "matmul"
_LEFT_TO_OTHERS = 8  # one part in so many of the memory


def known_indicators(own: Iterable[Path] = ()) -> tuple[Indicator, ...]:
    """Return the indicators of stackgen, of installed packages, and of files of the user's own."""
    return load_indicators(shipped_folder("pis"), own, registered_modules())


def refuse_unknown_indicators(request: CampaignRequest) -> None:
    """Refuse a name that no indicator has, before an index is read or anything is built.

    Raises:
        UsageError: there is no such indicator, or a file of the user's own cannot be read.
    """
    wanted = request.measurement.indicators
    known = known_indicators([Path(each) for each in wanted if each.endswith(".py")])
    for name in wanted:
        if not name.endswith(".py") and not any(is_called(each.name, name) for each in known):
            find(known, name)  # which raises, and names what is like it


def indicator_calls(
    request: CampaignRequest, varied: tuple[str, ...], packages: frozenset[str]
) -> tuple[tuple[IndicatorCall, ...], IndicatorCall]:
    """Return the calls that the user wants to know, and the control.

    Args:
        varied: the packages that vary; they decide what a bare name means.
        packages: everything that stacks may contain.

    A bare name (``matmul``) means that of the framework which is varied.

    Raises:
        UsageError: there is no such indicator or parameter, or a value is not allowed.
    """
    component = component_of(varied, packages)
    wanted, program = request.measurement.indicators, request.measurement.program
    if component == "python" and not wanted and program is None:
        raise UsageError(
            "there is no indicator for these packages",
            why=f"stackgen measures {', '.join(FRAMEWORKS)} and numpy by itself",
            fix="say what to measure: --pi (stackgen pis lists them, or give your own file), or a "
            'command of yours: --pi-command "python train.py"',
        )
    if not wanted and program is None:
        wanted = (DEFAULT,)
    own = {Path(each).stem: Path(each) for each in wanted if each.endswith(".py")}
    known = known_indicators(own.values())
    measurable = {
        "torch" if each == "torch" else "tensorflow" for each in packages & set(FRAMEWORKS)
    }
    measurable |= packages & {"numpy"}
    threads = limits_of(request).threads
    calls = []
    if program is not None:
        arguments = (*program.arguments, ("threads", str(threads)))
        calls.append(replace(program, arguments=arguments))
    for name in wanted:
        indicator = _named(known, name, component)
        if indicator.component in {"tensorflow", "torch", "numpy"} - measurable:
            raise UsageError(
                f"{indicator.name} cannot run in these stacks",
                why=f"none of them contains {indicator.component}",
                fix=f'require it as well: stackgen explore ... "{indicator.component}"',
            )
        calls.append(bind(indicator, _given(indicator, request, threads)))
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


def limits(threads: int, gpus: str = "", *, among: Sequence[int] = (), padding: int = 0) -> Limits:
    """Return what every inspection may use: by default all cores but one, the last ones, no GPU.

    Args:
        threads: how many; 0 takes all CPUs but one, or all that are given.
        among: CPUs that were set aside for it; the last ones of them are taken.
        padding: bytes that are added to its environment block.

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
        padding=padding,
    )


def limits_of(request: CampaignRequest) -> Limits:
    """Return what every inspection of a campaign may use."""
    given = request.processors
    return limits(given.threads, given.gpus, among=given.measure_cpus, padding=request.padding)


def usable_cpus() -> list[int]:
    """Return the numbers of the CPUs that this machine has for us."""
    if _can_be_bound():
        return sorted(psutil.Process().cpu_affinity())
    return list(range(psutil.cpu_count() or 1))


def _can_be_bound() -> bool:
    return hasattr(psutil.Process, "cpu_affinity")


def _given(indicator: Indicator, request: CampaignRequest, threads: int) -> dict[str, str]:
    """Return the parameters given that this indicator has; with one indicator, all of them."""
    names = {each.name for each in indicator.parameters}
    alone = len(request.measurement.indicators) <= 1
    given = {
        name: value for name, value in request.measurement.parameters if alone or name in names
    }
    return _threads_of(indicator, threads) | given


def _threads_of(indicator: Indicator, threads: int) -> dict[str, str]:
    takes = any(each.name == "threads" for each in indicator.parameters)
    return {"threads": str(threads)} if takes else {}


# Prices that the user gave, and numbers of CPUs that they are for

_EXAMPLE = "as in: [per_hour] and below it lines like 2 = 0.084"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """The calls of a campaign with what is metered of them.

    counts: one for each call that is measured on a given number of CPUs.
    limits: of these calls.
    per_hour: price of what each call runs on; empty where no prices were given.
    """

    calls: tuple[IndicatorCall, ...]
    counts: tuple[AtCount, ...] = ()
    limits: Mapping[IndicatorId, Limits] = field(default_factory=dict)
    per_hour: Mapping[IndicatorId, float] = field(default_factory=dict)
    currency: str = ""


def metered(
    request: CampaignRequest, calls: Sequence[IndicatorCall], usable: Sequence[int]
) -> Metered:
    """Return the calls, one for each number of CPUs where ``--cpus`` was given, and their prices.

    Args:
        usable: numbers of the CPUs that this machine has for us.

    Raises:
        UsageError: there are not so many CPUs, prices cannot be read, or one is missing.
    """
    prices = read_prices(request, len(usable))
    if not request.scaling.cpus:
        price = _price(prices, len(usable)) if prices else None
        return Metered(
            calls=tuple(calls),
            per_hour={} if price is None else {call.id: price for call in calls},
            currency=prices.currency if prices else "",
        )
    usable = request.processors.measure_cpus or usable
    _refuse_counts(request, usable)
    allowed = limits_of(request)
    counts = tuple(
        AtCount(
            call=_with_threads(call, count),
            indicator=_without_threads(call).label,
            cpus=count,
            price=_price(prices, count) if prices else float(count),
        )
        for call in calls
        for count in request.scaling.cpus
    )
    return Metered(
        calls=tuple(each.call for each in counts),
        counts=counts,
        limits={
            each.call.id: replace(allowed, threads=each.cpus, cpus=tuple(usable[-each.cpus :]))
            for each in counts
        },
        per_hour={each.call.id: each.price for each in counts} if prices else {},
        currency=prices.currency if prices else "",
    )


def read_prices(request: CampaignRequest, machine_cpus: int) -> Prices | None:
    """Return the prices that were given, None where none were.

    Raises:
        UsageError: the file is not there, or is none of prices.
    """
    if request.cost.price_per_hour is not None:
        return Prices(machine_cpus=machine_cpus, whole=request.cost.price_per_hour)
    if request.cost.prices is None:
        return None
    try:
        document = toml.loads(request.cost.prices.read_text(encoding="utf-8"))
        by_cpus = _by_cpus(document)
        currency = document.get("currency", "")
        if not isinstance(currency, str):
            raise ValueError("currency is a text")
    except (OSError, ValueError) as error:  # what is no TOML is a ValueError, too
        raise UsageError(
            f"cannot read prices from {request.cost.prices}",
            why=getattr(error, "strerror", None) or str(error),
            fix=f"give a TOML file with the price per hour by number of CPUs, {_EXAMPLE}",
        ) from error
    return Prices(machine_cpus=machine_cpus, by_cpus=by_cpus, currency=currency)


def _by_cpus(document: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    rows = document.get("per_hour")
    if unknown := sorted(document.keys() - {"per_hour", "currency"}):
        raise ValueError(f"it has {unknown[0]}, which means nothing here")
    if not isinstance(rows, dict) or not rows:
        raise ValueError("it has no table [per_hour] of numbers of CPUs and prices")
    for count, price in rows.items():
        if not count.isascii() or not count.isdigit() or int(count) < 1:
            raise ValueError(f"{count} is no number of CPUs")
        number = isinstance(price, int | float) and not isinstance(price, bool)
        if not number or not 0 < price < math.inf:
            raise ValueError(f"{price!r} is no price above zero")
    return tuple(sorted((int(count), float(price)) for count, price in rows.items()))


def _price(prices: Prices, cpus: int) -> float:
    found = prices.per_hour(cpus)
    if found is None:
        known = ", ".join(str(count) for count, _ in prices.by_cpus)
        raise UsageError(
            f"the prices have none for {cpus} CPUs",
            why=f"they have one for {known}; what several CPUs cost is not guessed from others",
            fix=f"add a line to [per_hour]: {cpus} = PRICE; or measure others with --cpus",
        )
    return found


def _refuse_counts(request: CampaignRequest, usable: Sequence[int]) -> None:
    most = max(request.scaling.cpus)
    who = "--measure-cpus names" if request.processors.measure_cpus else "this process may use"
    if most > len(usable):
        raise UsageError(
            f"stacks cannot be measured on {most} CPUs",
            why=f"{who} {len(usable)}",
            fix=f"give no more than these, as in: --cpus {_example(len(usable))}",
        )
    if request.processors.threads or "threads" in dict(request.measurement.parameters):
        raise UsageError(
            "--cpus sets the number of threads by itself",
            why="each number of CPUs is measured with as many threads",
            fix="leave out --threads and --param threads=..., or --cpus",
        )


def _example(most: int) -> str:
    powers = {1 << power for power in range(most.bit_length() - 1)}
    return ",".join(str(count) for count in sorted({most, *powers}))


def _with_threads(call: IndicatorCall, count: int) -> IndicatorCall:
    arguments = {**dict(call.arguments), "threads": str(count)}
    return replace(call, arguments=tuple(sorted(arguments.items())))


def _without_threads(call: IndicatorCall) -> IndicatorCall:
    return replace(call, arguments=tuple(p for p in call.arguments if p[0] != "threads"))


# Which indicators there are: files below a folder, of packages, of the user

HARNESS = "harness.py"
ENTRY_POINTS = "stackgen.indicators"
"""Group of the entry points by which packages register modules that declare indicators."""

_SHARED_MODULE = re.compile(r"^(?:import|from) (framework_\w+)", re.MULTILINE)
_COMPONENT = re.compile(r"['\"]component['\"]: ['\"](\w+)['\"]")


def load_indicators(
    folder: Path, extra: Iterable[Path] = (), registered: Iterable[tuple[str, Path]] = ()
) -> tuple[Indicator, ...]:
    """Return the indicators below a folder, and further ones, sorted by name.

    Args:
        folder: ``pis``, with the harness and one folder per component.
        extra: files of the user's own; each is named after its file.
        registered: modules of the user's packages, each with the name of its entry point.

    Raises:
        UsageError: a file cannot be read, is not an indicator, or has the name of another one.
    """
    found: dict[str, Indicator] = {}
    for path in sorted(folder.glob("*/*.py")):
        found |= _distinct(_declared(folder, path, path.parent.name), found)
    for name, path in registered:
        found |= _distinct(_declared(folder, path, name, own=True), found)
    for path in extra:  # one that is called like ours is taken for it
        if has_table(_read_script(path)):
            raise UsageError(
                f"{path} declares several indicators",
                why="a file that is given by its path is one indicator: INDICATOR = {...}",
                fix="give each one a file, or register the module as a package's entry point "
                f"({ENTRY_POINTS}; docs/indicators.md)",
            )
        found[path.stem] = parse_indicator(_script(folder, path, own=True), path.stem)
    return tuple(found[name] for name in sorted(found))


def registered_modules() -> tuple[tuple[str, Path], ...]:
    """Return name and file of each module that an installed package registers, sorted by name.

    Nothing is imported: indicators are read.

    Raises:
        UsageError: an entry point names no module with a source file.
    """
    found = {}
    for each in entry_points(group=ENTRY_POINTS):
        path = _source_of(each.module)
        if path is None:
            raise UsageError(
                f"the entry point {each.name} = {each.value} of {ENTRY_POINTS} has no source file",
                why="indicators are read from the module's file, which is copied to each stack",
                fix="name a module of Python source, or remove the package that registers it",
            )
        found[each.name] = path
    return tuple(sorted(found.items()))


def _source_of(module: str) -> Path | None:
    """Return the file of a module without importing it or the packages above it."""
    places: Sequence[str] | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        specs = (finder.find_spec(name, places) for finder in sys.meta_path)
        spec = next((each for each in specs if each is not None), None)
        if spec is None:
            return None
        places = spec.submodule_search_locations or []
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _distinct(
    indicators: Iterable[Indicator], known: Mapping[str, Indicator]
) -> dict[str, Indicator]:
    """Return indicators by name, none of which is known already."""
    found = {each.name: each for each in indicators}
    for name in found.keys() & known.keys():
        raise UsageError(
            f"two indicators are called {name}",
            why=f"one is in {known[name].path}, the other one in {found[name].path}",
            fix=f"give one of them, or its entry point ({ENTRY_POINTS}), another name",
        )
    return found


def _declared(folder: Path, path: Path, group: str, *, own: bool = False) -> tuple[Indicator, ...]:
    """Return the indicators of a module, whose names begin with the group."""
    script = _script(folder, path, own=own)
    if has_table(script.text):
        return parse_table(script, group)
    return (parse_indicator(script, group if own else f"{group}/{path.stem}"),)


def _script(folder: Path, path: Path, *, own: bool) -> Script:
    harness, *shared = _runs_with(folder, path)
    return Script(
        text=_read_script(path),
        path=str(path.resolve()),
        harness=_read_script(harness),
        shared="".join(f"\n{_read_script(each)}" for each in shared),
        own=own,
    )


def _runs_with(folder: Path, script: Path) -> list[Path]:
    """Return the files of the folder that a script runs with, the harness first.

    Of a table, the harness imports the file of the component.
    """
    shared: set[Path] = set()
    waiting = [script]
    while waiting:
        text = _read_script(waiting.pop())
        names = _SHARED_MODULE.findall(text)
        if has_table(text):
            names += [f"framework_{each}" for each in _COMPONENT.findall(text)]
        found = {path for name in names if (path := folder / f"{name}.py").is_file()} - shared
        shared |= found
        waiting += found
    return [folder / HARNESS, *sorted(shared)]


def _read_script(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the indicator {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="give the path of its .py file",
        ) from error
