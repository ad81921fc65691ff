"""What every executor shares: the command of an inspection, its environment, and its verdict."""

import re
from collections.abc import Mapping
from pathlib import Path

from stackgen.errors import MeasurementError
from stackgen.executors.programs import (
    failed_to_import,
    program_command,
    program_variables,
    without_secrets,
)
from stackgen.indicators.output import (
    Parsed,
    parse_output,
    refuse_impossible,
    without_document,
)
from stackgen.measure.retry_policy import AT_LIMIT, ending
from stackgen.values import Inspection, InspectionPlan, MachineId, Observation, Outcome

LOG_BYTES = 4096
WRONG_USAGE = 64  # how the harness exits when a parameter is wrong (EX_USAGE)

# glibc adapts these thresholds to a process's history, which shows up in timings (MEASUREMENT.md,
# 3). Fixed at what a long-lived process arrives at, they are the same for every stack.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "67108864"}
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
    """Return how many threads a plan asks for: the call's own parameter before the limit."""
    asked = dict(plan.call.arguments).get("threads", "auto")
    return plan.limits.threads if asked == "auto" else int(asked)


def indicator_command(
    plan: InspectionPlan, *, python: str, script_path: str, folder: str = "", project: str = ""
) -> tuple[str, ...]:
    """Return the command that runs a plan's indicator.

    ``python`` (the interpreter that sees the stack's packages), ``script_path``, the ``folder``
    that may be written and a program's ``project`` are given as the process will see them. The
    environment is fixed already, so Python needs no ``-I``, which would drop the hash seed.
    """
    program = plan.call.program
    if program is not None:
        return program_command(
            program,
            python=python,
            script_path=script_path,
            project=project or program.project,
            folder=folder,
        )
    arguments = {**dict(plan.call.arguments), "threads": str(thread_count(plan))}
    options = [part for name in sorted(arguments) for part in (f"--{name}", arguments[name])]
    loops = [] if plan.loops is None else ["--loops", str(plan.loops)]
    return (python, "-s", "-B", script_path, *options, "--samples", str(plan.samples), *loops)


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
        **(program_variables(program, settings) if program else {}),
        **dict(settings),
    }


def gpu_environment(gpus: str) -> dict[str, str]:
    """Return the variables that let a process see these GPUs (``Limits.gpus``) and no others.

    Without being asked for, none is seen, as in a container: the same command measures the same.
    """
    return {} if gpus == "all" else {"CUDA_VISIBLE_DEVICES": gpus}


def interpret(
    plan: InspectionPlan,
    machine_id: MachineId,
    *,
    exit_code: int | None,
    timed_out: bool,
    oom: bool,
    at_limit: bool = False,
    stdout: str,
    stderr: str,
    started_at: str,
    duration_s: float,
    unenforced: tuple[str, ...] = (),
) -> Inspection:
    """Turn how a process ended into an inspection; no fault of a stack raises.

    ``exit_code`` is negative, or above 128, for a signal, and None where the process was lost;
    ``oom`` is whether the system says that it was killed for its memory, and ``at_limit`` whether
    that was by a limit of ours; ``started_at`` is ISO 8601 in UTC; ``unenforced`` names the
    limits that could not be set.
    """
    verdict = _verdict(
        plan,
        exit_code,
        timed_out=timed_out,
        oom=oom,
        at_limit=at_limit,
        stdout=stdout,
        stderr=stderr,
        lasted_s=duration_s,
    )
    said = (stderr, without_document(stdout))
    if plan.call.program is not None:  # why a command ended is the last thing that it tells
        said = (without_document(stdout), stderr)
    log = "\n".join(part for part in (*said, verdict.reason) if part)
    if plan.call.program is not None:
        log = without_secrets(log, plan.call.program)
    return inspection(
        plan,
        machine_id,
        outcome=verdict.outcome,
        observation=verdict.observation,
        log=log,
        started_at=started_at,
        duration_s=duration_s,
        unenforced=unenforced,
    )


def inspection(
    plan: InspectionPlan,
    machine_id: MachineId,
    *,
    outcome: Outcome,
    started_at: str,
    duration_s: float,
    log: str,
    observation: Observation | None = None,
    unenforced: tuple[str, ...] = (),
) -> Inspection:
    """Return the inspection of a plan that ended so, also where no process ever ran."""
    return Inspection(
        stack_id=plan.environment.stack.id,
        machine_id=machine_id,
        indicator_id=plan.call.id,
        campaign_id=plan.campaign_id,
        block=plan.block,
        position=plan.position,
        role=plan.role,
        outcome=outcome,
        observation=observation,
        started_at=started_at,
        duration_s=duration_s,
        log=log_tail(log),
        unenforced=unenforced,
    )


def log_tail(text: str, replace: Mapping[str, str] | None = None) -> str:
    """Return the last 4 KB of a log, with the user's home shortened to ``~``."""
    for private, public in (replace or {str(Path.home()): "~"}).items():
        text = text.replace(private, public) if len(private) > 1 else text
    return text.encode("utf-8", "replace")[-LOG_BYTES:].decode("utf-8", "ignore").strip("\n")


def _verdict(
    plan: InspectionPlan,
    exit_code: int | None,
    *,
    timed_out: bool,
    oom: bool,
    at_limit: bool,
    stdout: str,
    stderr: str,
    lasted_s: float,
) -> Parsed:
    """Decide: first by what the executor did, then by what the system did, then by what it said."""
    if timed_out:
        limit = f"stopped after its time limit of {plan.limits.timeout_s:g} s"
        return Parsed(outcome=Outcome.TIMEOUT, reason=limit)
    if exit_code is None:
        return Parsed(outcome=Outcome.ENGINE_LOST, reason="the process was lost")
    if oom or (exit_code and _NO_MEMORY.search(stderr[-LOG_BYTES:])):
        how = ending(exit_code) + (AT_LIMIT if at_limit else "")
        return Parsed(outcome=Outcome.OUT_OF_MEMORY, reason=f"out of memory ({how})")
    if exit_code and plan.call.program is not None:
        importing = exit_code > 0 and failed_to_import(stderr)
        outcome = Outcome.IMPORT_FAILED if importing else Outcome.CRASHED
        return Parsed(outcome=outcome, reason=ending(exit_code))
    if exit_code == WRONG_USAGE:
        return Parsed(outcome=Outcome.UNSUPPORTED, reason="the indicator refused its parameters")
    if exit_code:
        return Parsed(outcome=Outcome.CRASHED, reason=ending(exit_code))
    try:
        parsed = parse_output(stdout)
        if parsed.observation is not None:
            refuse_impossible(parsed.observation, lasted_s=lasted_s)
    except MeasurementError as error:
        return Parsed(outcome=Outcome.INVALID_OUTPUT, reason=f"{error.what} ({error.why})")
    return parsed
