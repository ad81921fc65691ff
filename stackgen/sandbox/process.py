"""Inspections as processes: command, environment, outcome, log. All executors use this."""

import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from stackgen.errors import MeasurementError
from stackgen.indicators.output import Parsed, parse_output, refuse_impossible, without_document
from stackgen.measure.retry_policy import AT_LIMIT, ending
from stackgen.model.identity import MachineId
from stackgen.model.inspections import Inspection, InspectionPlan, Observation, Outcome
from stackgen.model.stacks import Program
from stackgen.sandbox.supervised import CommandReply

# Programs: commands of the user

SCRATCH_BYTES = 1 << 30
"""Size of a program's scratch folder, in memory: checkpoints are large."""

_VARIABLE = "STACKGEN_ENV_"  # as in pis/program.py
_SHORTEST_SECRET = 4  # shorter values are switches, and parts of many words
_RAISED = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit))(?::|$)", re.MULTILINE)
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")


def without_secrets(text: str, program: Program) -> str:
    """Return a text with each value of a variable replaced by the variable's name."""
    found = [
        (part, name)
        for name, value in program.variables
        for part in dict.fromkeys((value, *value.splitlines(), repr(value)[1:-1]))
        if len(part) >= _SHORTEST_SECRET
    ]
    for part, name in sorted(found, key=lambda pair: -len(pair[0])):
        text = text.replace(part, f"${name}")
    return text


def failed_to_import(stderr: str) -> bool:
    """Return whether the last exception in a command's output is an ImportError."""
    raised = _RAISED.findall(stderr)
    return bool(raised) and raised[-1] in _IMPORT_ERRORS


def owner_of_closed(places: Sequence[Path]) -> tuple[Path, os.stat_result] | None:
    """Return the first file or folder that only its owner can read.

    Files of root inside of these folders are skipped: the program cannot need them.
    """
    for place in places:
        for path in (place, *_inside(place)):
            found = path.lstat()
            wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else 0)
            open_ = stat.S_ISLNK(found.st_mode) or found.st_mode & wanted == wanted
            if not open_ and (found.st_uid or path == place):
                return path, found
    return None


def _inside(place: Path) -> Iterable[Path]:
    for folder, names, files in os.walk(place):
        yield from (Path(folder, name) for name in (*names, *files))


def guarded(program: Program | None) -> tuple[str, ...]:
    """Return the user's folders that a program should not be able to write to."""
    return (program.project, *program.data) if program else ()


def writable(program: Program | None, found: Iterable[str]) -> tuple[str, ...]:
    """Return the limit that is not enforced where one of these folders is writable."""
    open_ = set(found) & set(guarded(program))
    return ("read-only project and data",) if open_ else ()


def mounted(program: Program, project: str) -> tuple[tuple[str, str], ...]:
    """Return (source, target) pairs of the folders that a container needs of this host."""
    pairs = [(program.project, project), *((each, each) for each in program.data)]
    return tuple((str(Path(source).resolve()), target) for source, target in pairs)


LOG_BYTES = 4096
_MESSAGE_CHARACTERS = 800
WRONG_USAGE = 64  # how the harness exits when a parameter is wrong (EX_USAGE)

# glibc adapts these thresholds while a process runs, which changes timings. Fixed at the values of
# a long-lived process, they are the same for every stack.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "67108864"}
PADDING = "STACKGEN_PADDING"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
_NO_MEMORY = re.compile(
    r"MemoryError|std::bad_alloc|can't allocate memory|not enough memory|ResourceExhausted"
    r"|OutOfMemoryError|Cannot allocate memory|Unable to allocate"
)


def thread_count(plan: InspectionPlan) -> int:
    """Return how many threads a plan requests: the call's own parameter before the limit."""
    threads = dict(plan.call.arguments).get("threads", "auto")
    return plan.limits.threads if threads == "auto" else int(threads)


def indicator_command(
    plan: InspectionPlan, *, python: str, script_path: str, folder: str = "", project: str = ""
) -> tuple[str, ...]:
    """Return the command that runs a plan's indicator.

    ``python`` (the interpreter that sees the stack's packages), ``script_path``, the ``folder``
    that may be written and a program's ``project`` are given as paths of the process. The
    environment is fixed already, so Python needs no ``-I``, which would drop the hash seed.
    """
    program = plan.call.program
    if program is not None:
        given = {
            "figure": program.figure,
            "check": program.check,
            "project": project or program.project,
            "folder": folder,
            "better": program.better,
        }
        options = [f"--{name}={value}" for name, value in given.items() if value]
        return (python, "-s", "-B", script_path, *options, "--", *program.command)
    arguments = {**dict(plan.call.arguments), "threads": str(thread_count(plan))}
    options = [part for name in sorted(arguments) for part in (f"--{name}", arguments[name])]
    loops = [] if plan.loops is None else ["--loops", str(plan.loops)]
    named = [plan.call.indicator.operation] if plan.call.indicator.operation else []
    samples = ["--samples", str(plan.samples)]
    return (python, "-s", "-B", script_path, *named, *options, *samples, *loops)


def process_environment(
    plan: InspectionPlan,
    *,
    harness_folder: str = "",
    path: str = "/usr/bin:/bin",
    home: str = "/tmp",  # noqa: S108 - inside a container, where nothing else can be written
) -> dict[str, str]:
    """Return every environment variable of an inspection; nothing of the user's gets in.

    ``harness_folder`` is where ``harness.py`` lies, for indicators from outside of ``pis``;
    ``home`` is a folder that may be written and is thrown away. The stack's settings come last:
    what the user varies wins over a default of ours.
    """
    threads = str(thread_count(plan))
    settings, program = plan.environment.stack.settings, plan.call.program
    variables = program.variables if program else ()
    return {
        "PATH": path,
        "HOME": home,
        "TMPDIR": home,
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONPATH": harness_folder} if harness_folder else {}),
        **_MALLOC,
        **dict.fromkeys(THREAD_VARIABLES, threads),
        **({PADDING: "x" * plan.limits.padding} if plan.limits.padding else {}),
        # Settings of the stack take precedence; ``pis/program.py`` removes the prefix.
        **{_VARIABLE + name: value for name, value in variables if name not in dict(settings)},
        **dict(settings),
    }


def gpu_environment(gpus: str) -> dict[str, str]:
    """Return the variables that make only these GPUs (``Limits.gpus``) visible.

    Without a request, no GPU is visible, as in a container.
    """
    return {} if gpus == "all" else {"CUDA_VISIBLE_DEVICES": gpus}


@dataclass(frozen=True, slots=True)
class Begun:
    """A plan that an executor has begun to run, from which its inspection is made.

    started_at: ISO 8601 in UTC. start_s: the same on the monotonic clock.
    """

    plan: InspectionPlan
    machine_id: MachineId
    started_at: str
    start_s: float

    @classmethod
    def now(cls, plan: InspectionPlan, machine_id: MachineId) -> "Begun":
        """Return a plan that begins now."""
        started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return cls(plan, machine_id, started_at, time.monotonic())

    def ended(self, reply: CommandReply, unenforced: tuple[str, ...] = ()) -> Inspection:
        """Return the inspection of a process that ended; no fault of a stack raises.

        Args:
            reply: exit code (negative, or above 128, for a signal) and output.
            unenforced: names of the limits that could not be set.
        """
        duration_s, program = time.monotonic() - self.start_s, self.plan.call.program
        verdict = _verdict(self.plan, reply, duration_s)
        outputs = (reply.stderr, without_document(reply.stdout))
        if program is not None:  # the reason of its end is at the end of stderr
            outputs = (without_document(reply.stdout), reply.stderr)
        log = "\n".join(part for part in (*outputs, verdict.reason) if part)
        if program is not None:
            log = without_secrets(log, program)
        return self.inspection(
            verdict.outcome, log, observation=verdict.observation, unenforced=unenforced
        )

    def inspection(
        self,
        outcome: Outcome,
        log: str,
        *,
        observation: Observation | None = None,
        unenforced: tuple[str, ...] = (),
    ) -> Inspection:
        """Return the inspection with an outcome, also where no process ran."""
        plan = self.plan
        return Inspection(
            stack_id=plan.environment.stack.id,
            machine_id=self.machine_id,
            indicator_id=plan.call.id,
            campaign_id=plan.campaign_id,
            block=plan.block,
            position=plan.position,
            role=plan.role,
            outcome=outcome,
            observation=observation,
            started_at=self.started_at,
            duration_s=time.monotonic() - self.start_s,
            log=log_tail(log),
            unenforced=unenforced,
        )


def failure_message(output: str, exit_code: int) -> str:
    """Return why a tool failed: the end of its output, and its exit code or signal."""
    return "\n".join(filter(None, (output.strip()[-_MESSAGE_CHARACTERS:], ending(exit_code))))


def log_tail(text: str) -> str:
    """Return the last 4 KB of a log, with the user's home shortened to ``~``."""
    home = str(Path.home())
    text = text.replace(home, "~") if len(home) > 1 else text
    return text.encode("utf-8", "replace")[-LOG_BYTES:].decode("utf-8", "ignore").strip("\n")


def _verdict(plan: InspectionPlan, reply: CommandReply, duration_s: float) -> Parsed:
    """Decide by the executor's limits, then by the exit code, then by the output."""
    code = reply.exit_code
    if reply.timed_out:
        limit = f"stopped after its time limit of {plan.limits.timeout_s:g} s"
        return Parsed(outcome=Outcome.TIMEOUT, reason=limit)
    if reply.oom or (code and _NO_MEMORY.search(reply.stderr[-LOG_BYTES:])):
        how = ending(code) + (AT_LIMIT if reply.at_limit else "")
        return Parsed(outcome=Outcome.OUT_OF_MEMORY, reason=f"out of memory ({how})")
    if code and plan.call.program is not None:
        importing = code > 0 and failed_to_import(reply.stderr)
        outcome = Outcome.IMPORT_FAILED if importing else Outcome.CRASHED
        return Parsed(outcome=outcome, reason=ending(code))
    if code == WRONG_USAGE:
        return Parsed(outcome=Outcome.UNSUPPORTED, reason="the indicator refused its parameters")
    if code:
        return Parsed(outcome=Outcome.CRASHED, reason=ending(code))
    try:
        parsed = parse_output(reply.stdout)
        if parsed.observation is not None:
            refuse_impossible(parsed.observation, lasted_s=duration_s)
    except MeasurementError as error:
        return Parsed(outcome=Outcome.INVALID_OUTPUT, reason=f"{error.what} ({error.why})")
    return parsed
