"""Reports on this machine: an indicator that ran in an interpreter as it is; what doctor found."""

from dataclasses import dataclass

from stackgen.model.inspections import Indicator, Inspection, Observation
from stackgen.model.stacks import Machine

INTERRUPTED, NOTHING_RAN = 130, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the processes of one call say together.

    Each time is that of one operation, in seconds: the median over the processes of what each
    process's samples give; where each process has but one sample, what these give together.

    spread: the largest less the smallest of the processes' medians, as a ratio of their median;
        None for one process.
    rate: FLOP or bytes (the indicator's unit) per second, at the median time.
    items_per_s: samples (images, sentences) per second, at the median time.
    peak_memory_bytes, device_memory_bytes: the most of any process.
    gpu_percent: how busy the GPU was, by its driver: the most of any process.
    facts: sorted (name, value) pairs that the indicator reports of its operation.
    figure: ``lower`` or ``higher``, the better ones, where an indicator reports a figure of its own
        in place of a time; what is called seconds is then that figure, or one over it (higher).
    """

    processes: int
    samples: int
    loops: int
    best_s: float
    mean_s: float
    std_s: float
    median_s: float
    p90_s: float
    p99_s: float
    spread: float | None = None
    rate: float | None = None
    items: int | None = None
    items_per_s: float | None = None
    peak_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    gpu_percent: int | None = None
    steady: bool = True
    facts: tuple[tuple[str, str], ...] = ()
    figure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """One call of an indicator, run in one process or several.

    arguments: sorted (parameter, value) pairs.
    figures: of the processes that ended well; None where none did.
    inspections: in the order in which they ran.
    """

    arguments: tuple[tuple[str, str], ...]
    figures: Figures | None
    inspections: tuple[Inspection, ...]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Return what the processes that ended well observed."""
        seen = (each.observation for each in self.inspections)
        return tuple(each for each in seen if each is not None)

    @property
    def failure(self) -> Inspection | None:
        """Return the first process that did not end well, or None."""
        return next((each for each in self.inspections if each.observation is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """What people call this host; none of it is a machine's identity, or goes into a database.

    name: of the host in its network.
    os_release: sorted (name, value) pairs of ``/etc/os-release``, names in lower case.
    platform: sorted (name, value) pairs as of ``uname``.
    memory_total_bytes, memory_available_bytes, memory_used_bytes: before anything ran.
    """

    name: str
    os_release: tuple[tuple[str, str], ...] = ()
    platform: tuple[tuple[str, str], ...] = ()
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    memory_used_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReport:
    """What ``stackgen pi run`` found, or what a knowledge base holds of one stack.

    python: the interpreter, as it was named; "" where it is not known.
    python_version: such as ``CPython 3.11.2``.
    script_sha256: of the indicator's file alone; "" where that is not known.
    varied: the parameters that were given several values, in the order given.
    variables: names of the user's variables that the processes saw.
    traces: the folder where traces were stored, or "".
    began_at: ISO 8601 in UTC.
    """

    indicator: Indicator
    script_sha256: str
    python: str
    python_version: str
    machine: Machine
    host: LocalHost
    results: tuple[LocalResult, ...]
    varied: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    traces: str = ""
    began_at: str = ""
    interrupted: bool = False

    @property
    def component_version(self) -> str:
        """Return the version of the measured component, "" where no process reported it."""
        seen = [each for result in self.results for each in result.observations]
        return dict(seen[0].circumstances).get("component_version", "") if seen else ""

    @property
    def exit_code(self) -> int:
        """Return 0 where anything was measured, 6 where nothing ran, 130 where we were stopped."""
        if self.interrupted:
            return INTERRUPTED
        return 0 if any(each.figures for each in self.results) else NOTHING_RAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that doctor looked at.

    fix: what to do where it did not pass; "" where it did.
    essential: nothing can be explored without it.
    """

    name: str
    passed: bool
    found: str
    fix: str = ""
    essential: bool = False
