"""One process that ran one indicator on one stack, from its plan to its result."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from stackgen.errors import MeasurementError
from stackgen.model.identity import (
    CampaignId,
    IndicatorId,
    InspectionId,
    MachineId,
    StackId,
    content_id,
)
from stackgen.model.stacks import PROGRAM, Environment, Program


class Outcome(str, Enum):
    """How an inspection ended. Everything but OK is knowledge too."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    DOWNLOAD_FAILED = "download_failed"
    HASH_MISMATCH = "hash_mismatch"
    BUILD_FAILED = "build_failed"
    IMPORT_FAILED = "import_failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INVALID_OUTPUT = "invalid_output"
    ENGINE_LOST = "engine_lost"

    @property
    def is_infrastructure(self) -> bool:
        """Return whether trying again may help; a package's own fault never goes away by itself."""
        return self in (Outcome.DOWNLOAD_FAILED, Outcome.ENGINE_LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter that an indicator declares.

    type: ``int``, ``float`` or ``str``.
    allowed: the values that it takes; empty where any value of the type will do.
    """

    name: str
    type: str
    default: str
    allowed: tuple[str, ...] = ()
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """A script that measures one thing, as it declares itself.

    name: such as ``tensorflow/matmul``: the folder below ``pis/``, and the row of its table.
    component: the package whose speed it shows (``tensorflow``, ``numpy``, ``python``).
    sha256: of the script and of all that it runs with, as recorded; no part of the identity.
    revision: of the script; it rises only when timings may change (docs/indicators.md).
    protocol: PROTOCOL_REVISION of the harness.
    own_sha256: of a user's own script, which is part of its identity; "" for those of stackgen.
    path: the script on this machine.
    operation: the row of the script's table, its first argument; "" of a script without a table.
    unit: of the work counted per second, such as ``FLOP`` or ``byte``; "" where time is all.
    one_shot: the operation can happen only once in a process (an import).
    """

    name: str
    component: str
    summary: str
    sha256: str
    path: str
    unit: str = ""
    one_shot: bool = False
    timeout_s: float = 300.0
    parameters: tuple[Parameter, ...] = ()
    revision: int = 1
    protocol: int = 1
    own_sha256: str = ""
    operation: str = ""

    def __post_init__(self) -> None:
        if self.revision < 1 or self.protocol < 1:
            raise ValueError("revision: whole numbers from 1 are expected, of the protocol as well")

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """Return what identifies it: name, both revisions, digest of a user's own script."""
        return self.name, self.revision, self.protocol, self.own_sha256


_USUAL = frozenset({"autocast", "device", "dtype", "layout", "mode", "passes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorCall:
    """An indicator with a value for each of its parameters.

    arguments: sorted (parameter, value) pairs, all of them, defaults included.
    program: the user's command where that is measured; the arguments identify it.
    """

    indicator: Indicator
    arguments: tuple[tuple[str, str], ...] = ()
    program: Program | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> IndicatorId:
        """Return the digest of identity and arguments: equal ids may be compared."""
        pairs = [list(pair) for pair in self.arguments]
        return IndicatorId(content_id("indicator", [*self.indicator.identity, pairs]))

    @property
    def label(self) -> str:
        """Return its name in reports: ``tensorflow/matmul size=512``, ``python train.py``.

        Parameters of nearly every indicator (dtype, device) are left out at their defaults.
        """
        if self.indicator.component == PROGRAM:
            return _command_label(dict(self.arguments))
        usual = {each.name: each.default for each in self.indicator.parameters}
        shown = [f"{k}={v}" for k, v in self.arguments if k not in _USUAL or usual.get(k) != v]
        return " ".join([self.indicator.name, *shown])


def _command_label(arguments: Mapping[str, str]) -> str:
    shown = [arguments["figure"]] if arguments.get("figure") else []
    shown += [f"threads={arguments['threads']}"] if "threads" in arguments else []
    return arguments.get("command", PROGRAM) + (f" ({', '.join(shown)})" if shown else "")


class Role(str, Enum):
    """What an inspection is for in its block."""

    BASELINE = "baseline"
    TWIN = "twin"  # the baseline once more: the A/A control
    CANDIDATE = "candidate"
    CALIBRATION = "calibration"  # outside of blocks: finds the number of loops, or tries an import
    SEARCH = "search"  # helped to choose what was compared afterwards, in blocks of their own


# How ids and knowledge bases spell roles and outcomes: frozen, whatever the members are called.
ROLE_CODES: Mapping[Role, str] = MappingProxyType(
    {
        Role.BASELINE: "baseline",
        Role.TWIN: "twin",
        Role.CANDIDATE: "candidate",
        Role.CALIBRATION: "calibration",
        Role.SEARCH: "search",
    }
)
OUTCOME_CODES: Mapping[Outcome, str] = MappingProxyType(
    {
        Outcome.OK: "ok",
        Outcome.UNSUPPORTED: "unsupported",
        Outcome.DOWNLOAD_FAILED: "download_failed",
        Outcome.HASH_MISMATCH: "hash_mismatch",
        Outcome.BUILD_FAILED: "build_failed",
        Outcome.IMPORT_FAILED: "import_failed",
        Outcome.CRASHED: "crashed",
        Outcome.TIMEOUT: "timeout",
        Outcome.OUT_OF_MEMORY: "out_of_memory",
        Outcome.INVALID_OUTPUT: "invalid_output",
        Outcome.ENGINE_LOST: "engine_lost",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an inspection may use.

    threads: given to the indicator and set in the variables of OpenMP, MKL and OpenBLAS.
    cpus: numbers of the CPUs that it may run on; empty means all.
    gpus: the GPUs that it sees: numbers or ids with commas between them, or "all"; "" means none.
    padding: bytes of a variable without meaning: the size of the environment block moves what a
        process has in memory, and so its speed (Mytkowicz et al. 2009).
    """

    threads: int
    cpus: tuple[int, ...] = ()
    timeout_s: float = 300.0
    memory_bytes: int | None = None
    gpus: str = ""
    padding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionPlan:
    """One process to be run.

    loops: operations per sample, or None to calibrate (and to report what was found).
    samples: how many are taken; fixed, since the minimum depends on it.
    block: number of the block within the campaign, from 1; 0 outside of blocks.
    position: place within the block, from 0.
    """

    environment: Environment
    call: IndicatorCall
    campaign_id: CampaignId
    limits: Limits
    block: int = 0
    position: int = 0
    role: Role = Role.CANDIDATE
    loops: int | None = None
    samples: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDistribution:
    """A distribution that the indicator's process had loaded when it ended.

    compiled: whether a shared library of it was loaded.
    """

    name: str
    version: str
    compiled: bool


IMAGE = "image"
"""The circumstance that names the image which a process ran in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an inspection yields.

    values_s: seconds per operation, shape (n,), n >= 1, in run order, without warm-ups.
    loops: operations per sample, at least 1.
    work: FLOP or bytes per operation (see the indicator's unit), or None.
    steady: whether the halves of the warm-up agreed in the end.
    checksum: of the operation's result, or None.
    circumstances: sorted (name, value) pairs read around the samples.
    """

    values_s: tuple[float, ...]
    loops: int
    work: float | None = None
    steady: bool = True
    checksum: float | None = None
    peak_memory_bytes: int | None = None
    circumstances: tuple[tuple[str, str], ...] = ()
    loaded: tuple[LoadedDistribution, ...] = ()

    def __post_init__(self) -> None:
        # The largest float, not infinity: an int may be larger than any float.
        largest = sys.float_info.max
        # Bound methods: a loop in Python would take a tenth of an import.
        positive = all(map((0.0).__lt__, self.values_s))
        if not (self.values_s and positive and all(map(largest.__ge__, self.values_s))):
            raise _unusable("values_s", "each value must be a positive, finite number of seconds")
        if self.loops < 1:
            raise _unusable("loops", "they are a positive number of operations per sample")
        if self.work is not None and not 0 <= self.work <= largest:
            raise _unusable("work", "it is a finite number, and not negative")
        if self.peak_memory_bytes is not None and self.peak_memory_bytes < 0:
            raise _unusable("peak_memory_bytes", "it is not negative")

    @property
    def best_s(self) -> float:
        """Return the fastest sample: the statistic that blocks compare (MEASUREMENT.md)."""
        return min(self.values_s)

    @property
    def gives_figure(self) -> bool:
        """Return whether the values are a figure of the indicator's own, in place of a time."""
        return any(name == "figure" and value for name, value in self.circumstances)


def _unusable(name: str, why: str) -> MeasurementError:
    return MeasurementError(
        f"unusable {name} of an observation",
        why=why,
        fix="run the indicator by hand and read its output (stackgen pis shows its path)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """How one planned process ended.

    started_at: ISO 8601 in UTC.
    log: the end of what the process printed.
    unenforced: limits that this executor could not set, in words.
    stated_id: of what a public export left parts out (log, limits, circumstances); "" elsewhere.
    """

    stack_id: StackId
    machine_id: MachineId
    indicator_id: IndicatorId
    campaign_id: CampaignId
    block: int
    position: int
    role: Role
    outcome: Outcome
    started_at: str
    duration_s: float
    observation: Observation | None = None
    log: str = ""
    unenforced: tuple[str, ...] = ()
    stated_id: str = ""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.observation is not None):
            raise ValueError("an inspection has an observation exactly when it is ok")
        if self.block < 0 or self.position < 0:
            raise ValueError("block and position are not negative")
        if not 0 <= self.duration_s <= sys.float_info.max:
            raise ValueError("duration_s is a finite number, and not negative")

    @property
    def id(self) -> InspectionId:
        """Return the digest of everything that was seen."""
        return InspectionId(self.stated_id or content_id("inspection", _content(self)))


def _content(inspection: Inspection) -> list[object]:
    """Return what an inspection's id is made of (see ``stackgen.model.identity``)."""
    seen = inspection.observation
    observation = seen and [
        list(seen.values_s),
        seen.loops,
        seen.work,
        seen.steady,
        seen.checksum,
        seen.peak_memory_bytes,
        [list(pair) for pair in seen.circumstances],
        [[each.name, each.version, each.compiled] for each in seen.loaded],
    ]
    return [
        inspection.stack_id,
        inspection.machine_id,
        inspection.indicator_id,
        inspection.campaign_id,
        inspection.block,
        inspection.position,
        ROLE_CODES[inspection.role],
        OUTCOME_CODES[inspection.outcome],
        inspection.started_at,
        inspection.duration_s,
        observation,
        inspection.log,
        list(inspection.unenforced),
    ]
